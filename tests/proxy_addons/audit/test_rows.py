"""Lines joined to rows, forwards and backwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from proxy_addons.audit import CallOutcome, FetchRecord, Outcome, PhaseTimes
from proxy_addons.audit import rows as rows_module
from proxy_addons.audit.reader import LogLine, parse_log_line, read_all
from proxy_addons.audit.rows import LineFilter, Row, RowJoiner, join_backward
from tests.proxy_addons.audit.kit import close, decision, event, open_log
from tests.proxy_addons.audit.test_record import SEARCH, WEB


def lines_of(directory: Path, *records: Any) -> list[LogLine]:
    log = open_log(directory)
    for record in records:
        log.append(record)
    log.close()
    return [line for line in read_all(directory) if line.text("event") != "opened"]


def forwards(lines: list[LogLine]) -> list[Row]:
    joiner = RowJoiner()
    return [*(row for line in lines for row in joiner.accept(line)), *joiner.flush()]


def backwards(lines: list[LogLine]) -> list[Row]:
    return list(join_backward(reversed(lines), RowJoiner()))[::-1]


type Join = Callable[[list[LogLine]], list[Row]]
BOTH = pytest.mark.parametrize("join", [forwards, backwards])


@BOTH
def test_a_hop_is_one_row_of_decision_and_close(tmp_path: Path, join: Join) -> None:
    lines = lines_of(
        tmp_path, decision(), close(3, status=200, decoded_bytes=9, wire_bytes=5, ms=PhaseTimes(total=1.5))
    )

    (row,) = join(lines)
    assert (row.method, row.target, row.verdict, row.rule) == ("GET", "https://example.com/a", "allowed", "")
    assert (row.status, row.bytes, row.ms, row.open, row.refused) == ("200", 9, 1.5, False, False)


@BOTH
def test_interleaved_hops_find_their_own_close(tmp_path: Path, join: Join) -> None:
    lines = lines_of(
        tmp_path,
        decision(url="https://a.example/"),
        decision(url="https://b.example/"),
        close(3, status=201),
        close(4, status=202),
    )

    assert {(row.target, row.status) for row in join(lines)} == {
        ("https://a.example/", "201"),
        ("https://b.example/", "202"),
    }


@BOTH
def test_a_hop_cut_under_way_shows_the_rule_that_cut_it(tmp_path: Path, join: Join) -> None:
    lines = lines_of(tmp_path, decision(), close(3, verdict=Outcome.REFUSED, rule="byte-cap"))

    (row,) = join(lines)
    assert (row.verdict, row.rule, row.refused) == ("refused", "byte-cap", True)


@BOTH
def test_a_refused_hop_an_open_one_a_fetch_and_an_event(tmp_path: Path, join: Join) -> None:
    fetch = FetchRecord(
        tool="web_fetch", agent="local", profile="default", policy="p1", fetch_id="f1",
        url="https://a.example/", outcome=CallOutcome.SOFT, failure="status", final_url="https://b.example/",
        status=404, bytes=12, ms=3.0,
    )  # fmt: skip
    lines = lines_of(
        tmp_path,
        decision(Outcome.REFUSED, rule="scheme", status=403),
        fetch,
        event("note", detail="words"),
        decision(would_refuse="host"),
    )

    assert [(r.kind, r.method, r.target, r.verdict, r.rule, r.status, r.open) for r in join(lines)] == [
        ("decision", "GET", "https://example.com/a", "refused", "scheme", "403", False),
        ("fetch", "web_fetch", "https://b.example/", "soft", "status", "404", False),
        ("event", "event", "gateway-0: note: words", "", "", "", False),
        ("decision", "GET", "https://example.com/a", "allowed", "host", "", True),
    ]


@BOTH
def test_a_close_line_without_its_decision_is_a_row_of_its_own(tmp_path: Path, join: Join) -> None:
    lines = lines_of(tmp_path, close(99, fetch_id="f9", hop=2))

    assert [row.target for row in join(lines)] == ["(hop 2 of f9)"]


def test_a_hop_shown_open_is_shown_again_whole_when_it_closes(tmp_path: Path) -> None:
    first, last, *_ = [
        line for line in lines_of(tmp_path, decision(), close(3)) if line.text("kind") != "checkpoint"
    ]
    joiner = RowJoiner()

    assert list(joiner.accept(first)) == []
    assert [row.open for row in joiner.flush()] == [True]
    assert [(row.target, row.open) for row in joiner.accept(last)] == [("https://example.com/a", False)]


def test_what_the_joiner_holds_back_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_module, "MAX_WAITING", 2)
    lines = [line for line in lines_of(tmp_path, *[decision()] * 5) if line.text("kind") == "decision"]
    joiner = RowJoiner()

    assert [len(list(joiner.accept(line))) for line in lines] == [0, 0, 1, 1, 1]


@pytest.mark.parametrize(
    "raw", [b"", b"no", b"{}", b'{"kind":7}', b'{"kind":"close"}', b'{"kind":"decision"}']
)
@BOTH
def test_lines_that_are_not_ours_make_rows_all_the_same(raw: bytes, join: Join) -> None:
    assert len(join([parse_log_line("gateway-0", raw)])) == 1


FILTERS = {
    "everything": (LineFilter(), {"a", "b"}),
    "one agent": (LineFilter(agent="a"), {"a"}),
    "refused ones": (LineFilter(refused=True), {"b"}),
    "refused ones of an agent that has none": (LineFilter("a", True), set()),
}


@pytest.mark.parametrize("case", FILTERS)
def test_lines_and_rows_are_filtered_alike(tmp_path: Path, case: str) -> None:
    wanted, agents = FILTERS[case]
    lines = lines_of(tmp_path, decision(agent="a"), decision(Outcome.REFUSED, agent="b"), close(3, agent="a"))

    assert {row.agent for row in forwards(lines) if wanted.wants_row(row)} == agents
    assert {line.text("agent") for line in lines if wanted.wants_line(line)} - {None} == agents


@BOTH
@pytest.mark.parametrize(
    ("facts", "shown"),
    [
        pytest.param({"rows": 3}, ("local, 3 rows", "success", ""), id="found"),
        pytest.param(
            {"rows": 1, "dropped": 2}, ("local, 1 row, 2 dropped", "success", ""), id="some dropped"
        ),
        pytest.param(
            {"rows": 0, "dropped": 0, "query": "a query"},
            ("local, 0 rows: a query", "success", ""),
            id="its query logged",
        ),
        pytest.param(
            {"outcome": CallOutcome.HARD, "failure": "Transport"},
            ("local", "hard", "Transport"),
            id="failed",
        ),
        pytest.param(
            {"provider": None, "outcome": CallOutcome.HARD, "failure": "InvalidArguments"},
            ("no provider asked", "hard", "InvalidArguments"),
            id="nobody asked",
        ),
    ],
)
def test_a_search_is_a_row(tmp_path: Path, join: Join, facts: dict[str, Any], shown: tuple[str, ...]) -> None:
    (row,) = join(lines_of(tmp_path, replace(SEARCH, **{"provider": "local", "ms": 2.0, **facts})))

    assert (row.kind, row.method, row.ms) == ("search", "web_search", 2.0)
    assert (row.target, row.verdict, row.rule) == shown
    assert row.refused == (row.verdict == "hard")


@BOTH
@pytest.mark.parametrize(
    ("facts", "shown"),
    [
        pytest.param({}, "anthropic messages", id="nothing said"),
        pytest.param(
            {
                "narrowed": True,
                "calls": [("web_search", None, True)],
                "citations": [("https://a.example/?q", True)],
            },
            "anthropic messages, narrowed, 1 call of web tools, 1 cited",
            id="a search",
        ),
        pytest.param(
            {
                "calls": [("web_search", "unavailable", True), ("web_fetch", None, False)],
                "citations": [("https://a.example/", True), ("https://b.example/", False)],
                "paused": True,
            },
            "anthropic messages, 2 calls of web tools, failed: unavailable, 2 cited (1 outside the profile), paused",
            id="a failed one, a leak and a pause",
        ),
    ],
)
def test_what_a_vendor_said_is_a_row(tmp_path: Path, join: Join, facts: dict[str, Any], shown: str) -> None:
    (row,) = join(lines_of(tmp_path, replace(WEB, **facts)))

    assert (row.kind, row.method, row.agent, row.target) == ("web", "web", "bot", shown)
