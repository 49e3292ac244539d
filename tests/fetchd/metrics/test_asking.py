"""What is counted of `ask`: each completion by who gave it, each run by how it ended, and no vendor's own words."""

from __future__ import annotations

import pytest

from fetchd.metrics.daemon import DaemonMeters
from proxy_addons.audit import AskRecord, CallOutcome
from tests.fetchd.metrics.test_daemon import values


def line(step: int = 1, **changes: object) -> AskRecord:
    common: dict[str, object] = {
        "run_id": "r",
        "agent": "bot",
        "profile": "p",
        "policy": "p@1",
        "step": step,
        "provider": "anthropic",
        "model": "m",
        "search": True,
        "fetch": False,
        "outcome": CallOutcome.SUCCESS,
        "ms": 1500.0,
    }
    return AskRecord(**{**common, **changes})  # type: ignore[arg-type]


def test_a_run_is_a_call_of_the_tool_and_its_completions_are_counted_by_provider() -> None:
    meters = DaemonMeters()
    tools = ["web_search", "web_search", "web_search:unavailable", "web_fetch:a:b"]
    counters = {"input_tokens": 100, "output_tokens": 20, "server_tool_requests": 3}
    meters.take(line(tools=tools, dropped=2, outside=1, **counters))
    meters.take(line(2, provider="openai", dropped=0, outside=0))
    meters.take(line(0, provider="openai", stop="done", ms=3000.0, tools=tools, **counters))
    report = meters.report()
    assert values(report, "fetchd_tool_calls_total") == {("ask", "success"): 1}
    assert report["fetchd_tool_seconds"][0][-1] == 3.0
    assert values(report, "fetchd_ask_runs_total") == {("openai", "done"): 1}
    assert values(report, "fetchd_ask_completions_total") == {
        ("anthropic", "answered"): 1, ("openai", "answered"): 1,
    }  # fmt: skip
    assert [row[0] for row in report["fetchd_ask_completion_seconds"]] == [["anthropic"], ["openai"]]
    # The sums of the run's own line are not counted once more, and what is not reported is not counted as 0.
    assert values(report, "fetchd_ask_tokens_total") == {("anthropic", "in"): 100, ("anthropic", "out"): 20}
    assert values(report, "fetchd_ask_web_requests_total") == {("anthropic",): 3}
    assert values(report, "fetchd_ask_web_tool_calls_total") == {
        ("anthropic", "web_search", "ran"): 2,
        ("anthropic", "web_search", "failed"): 1,
        ("anthropic", "web_fetch", "failed"): 1,
    }
    assert values(report, "fetchd_ask_outside_total") == {
        ("anthropic", "row"): 2,
        ("anthropic", "citation"): 1,
    }


@pytest.mark.parametrize(
    ("failure", "outcome"),
    [
        ("unreachable", "unreachable"),
        ("bad_answer", "bad_answer"),
        ("timed_out", "timed_out"),
        ("aborted", "aborted"),
        ("overloaded_error", "refused"),
        ("529", "refused"),
        ("what a stranger \x1b[2J wrote", "refused"),
    ],
)
def test_a_failure_is_counted_by_its_kind(failure: str, outcome: str) -> None:
    meters = DaemonMeters()
    meters.take(line(outcome=CallOutcome.HARD, failure=failure))
    assert values(meters.report(), "fetchd_ask_completions_total") == {("anthropic", outcome): 1}
