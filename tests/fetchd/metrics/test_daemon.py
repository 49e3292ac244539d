"""What the daemon counts of the lines it writes."""

from __future__ import annotations

from fetchd.metrics.daemon import DaemonMeters
from proxy_addons.audit import CallOutcome, FetchRecord, SearchRecord
from proxy_addons.policy.tallies import Report
from tests.proxy_addons.audit.kit import decision, event


def fetch(**changes: object) -> FetchRecord:
    values = {
        "tool": "web_fetch",
        "agent": "bot",
        "profile": "p",
        "policy": "p@1",
        "fetch_id": "f",
        "url": None,
    }
    return FetchRecord(**{**values, "outcome": CallOutcome.SUCCESS, **changes})  # type: ignore[arg-type]


def values(report: Report, name: str) -> dict[tuple[str, ...], object]:
    return {tuple(row[0]): row[1] for row in report[name]}


def test_calls_are_counted_by_tool_and_outcome() -> None:
    meters = DaemonMeters()
    meters.take(fetch(ms=1500.0, bytes=10, extraction="readability"))
    meters.take(fetch(outcome=CallOutcome.SOFT, ms=2.0))
    meters.take(fetch(tool="page_read", outcome=CallOutcome.HARD))
    meters.take(decision())
    meters.take(event())
    report = meters.report()
    assert values(report, "fetchd_tool_calls_total") == {
        ("web_fetch", "success"): 1, ("web_fetch", "soft"): 1, ("page_read", "hard"): 1,
    }  # fmt: skip
    assert values(report, "fetchd_tool_bytes_total") == {("web_fetch",): 10}
    assert values(report, "fetchd_extractions_total") == {("readability",): 1}
    ((labels, counts, total),) = report["fetchd_tool_seconds"]
    assert (labels, sum(counts), total) == (["web_fetch"], 2, 1.502)


def test_searches_are_counted_by_provider() -> None:
    meters = DaemonMeters()
    common = {"tool": "web_search", "agent": "bot", "profile": "p", "policy": "p@1", "fetch_id": "f"}
    for attempt, (provider, outcome) in enumerate(
        [("brave", CallOutcome.HARD), ("local", CallOutcome.SUCCESS)]
    ):
        meters.take(
            SearchRecord(**common, attempt=attempt + 1, provider=provider, outcome=outcome, ms=20.0)  # type: ignore[arg-type]
        )
    meters.take(SearchRecord(**common, attempt=0, outcome=CallOutcome.HARD))  # type: ignore[arg-type]
    meters.searched(CallOutcome.SUCCESS, 0.04)
    report = meters.report()
    assert values(report, "fetchd_searches_total") == {("brave", "hard"): 1, ("local", "success"): 1}
    assert [row[0] for row in report["fetchd_search_seconds"]] == [["brave"], ["local"]]
    assert values(report, "fetchd_tool_calls_total") == {("web_search", "success"): 1}


def test_when_the_authority_expires_and_what_runs() -> None:
    meters = DaemonMeters()
    meters.watch_authority("2029-03-03T00:00:00+00:00")
    report = meters.report()
    assert report["fetchd_ca_not_after_timestamp_seconds"] == [[[], 1867190400.0]]
    assert [len(row[0]) for row in report["fetchd_build_info"]] == [2]
