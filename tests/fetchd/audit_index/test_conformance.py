"""Both indexes answer alike, whatever is asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fetchd.audit_index.interface import (
    OPEN,
    SLOT,
    STOPPED,
    WOULD_REFUSE,
    AuditIndex,
    Cursor,
    Filter,
    Name,
    Row,
)
from fetchd.audit_index.memory import MemoryAuditIndex
from fetchd.audit_index.queries import Query, Wanted, select_rows
from fetchd.audit_index.reading import SqliteAuditIndex
from tests.fetchd.audit_index.kit import SECOND, START, fill, fill_memory, foreign, reading, write_log

ODD = [
    {"kind": "search", "seq": 1, "time": "2026-01-01T00:01:00.000000Z", "agent": "bot", "outcome": "success",
     "host": "API.search.example", "provider": "p", "ms": 12, "fetch_id": "f1x"},
    {"kind": "vendor", "seq": 2, "time": "x", "url": "https://v.example/", "ms": 1e400, "status": 10**30},
    "not json", "[1]", "{}", '{"kind":7,"agent":{},"seq":"a","time":9}',
    '{"kind":"\\ud800","seq":9223372036854775808,"agent":"\\ud800\\u0000","url":"https://\\udfff/","bytes":-1e400}',
    {"kind": "decision", "seq": 3, "time": "0001-01-01T00:00:00Z", "verdict": "allowed", "fetch_id": "f1"},
    {"kind": "decision", "seq": 3, "time": "9999-12-31T23:59:59Z", "verdict": "refused", "fetch_id": "f1"},
    {"kind": "close", "seq": 4, "decision": 3, "verdict": "allowed", "fetch_id": "f1"},
    {"kind": "close", "seq": 5, "decision": 3, "verdict": "allowed", "fetch_id": "f1"},
    {"kind": "checkpoint", "seq": 6},
]  # fmt: skip


LATE = [
    {"kind": "run", "seq": number, "agent": "bot" if number % 2 else "other", "outcome": "soft" if number % 3 else "",
     "time": f"2026-01-01T{number * 7 // 60:02d}:{number * 7 % 60:02d}:59.999999Z"}
    for number in range(34)
]  # fmt: skip
"""Over four hours, up to the last microsecond of minutes."""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SqliteAuditIndex, MemoryAuditIndex]]:
    folder = tmp_path_factory.mktemp("log")
    write_log(folder / "audit")
    foreign(folder / "audit", ODD)
    foreign(folder / "audit", LATE, "odd-late")
    fill(folder / "audit", folder / "index.db")
    with reading(folder / "index.db") as real:
        yield real, fill_memory(folder / "audit")


@pytest.fixture(scope="module", params=["real", "memory"])
def index(request: pytest.FixtureRequest, both: tuple[SqliteAuditIndex, MemoryAuditIndex]) -> AuditIndex:
    return both[request.param == "memory"]


def bare(rows: Sequence[Row]) -> list[tuple[str, str, str, str, str]]:
    return [
        (row.fetch_id, row.kind, row.verdict, row.rule, row.host)
        for row in rows
        if not row.chain.startswith("odd")
    ]


async def test_a_hop_is_one_row_of_its_two_lines(index: AuditIndex) -> None:
    (row,) = await index.find(Filter(fetch_id="f3", kind="hop"))

    assert (row.chain, row.kind, row.agent, row.method) == ("gateway-0", "hop", "bot", "GET")
    assert (row.host, row.target) == ("h0.a.example", "https://h0.a.example/p")
    assert (row.verdict, row.rule, row.status, row.bytes, row.ms) == ("allowed", "", 200, 1_000, 25.5)


@pytest.mark.parametrize(
    ("wanted", "rows"),
    [
        (Filter(fetch_id="g1"), [("g1", "hop", "refused", "host", "evil.example")]),
        (Filter(rule="byte-cap"), [("g2", "hop", "refused", "byte-cap", "a.example")]),
        (Filter(verdict=WOULD_REFUSE), [("g3", "hop", WOULD_REFUSE, "method", "a.example")]),
        (Filter(verdict=STOPPED, agent="bot", kind="fetch"), [
            ("fhard", "fetch", "hard", "x", "a.example"), ("fsoft", "fetch", "soft", "x", "a.example"),
        ]),
        (Filter(verdict=STOPPED, agent="bot", rule="host"), [("g1", "hop", "refused", "host", "evil.example")]),
        (Filter(verdict=OPEN, agent="bot"), [("g4", "hop", OPEN, "", "a.example")]),
        (Filter(rule="parse"), [("g5", "hop", "refused", "parse", "")]),
        (Filter(fetch_id="lost"), [("lost", "hop", "allowed", "", "")]),
        (Filter(host="evil.example"), [("g1", "hop", "refused", "host", "evil.example")]),
        (Filter(host="*.evil.example"), []),
        (Filter(host="h1.a.example", until=START + 60 * SECOND), [("f1", "hop", "allowed", "", "h1.a.example")]),
        (Filter(agent="nobody"), []),
        (Filter(host="*.nowhere"), []),
        (Filter(kind="search"), []),
        (Filter(fetch_id="f\U0010ffff"), []),
    ],
)  # fmt: skip
async def test_filters_let_through_what_they_say(
    index: AuditIndex, wanted: Filter, rows: list[object]
) -> None:
    assert bare(await index.find(wanted)) == rows


async def test_a_domain_stands_for_the_hosts_below_it(index: AuditIndex) -> None:
    assert {row.host for row in await index.find(Filter(host="*.a.example"))} == {
        "h0.a.example", "h1.a.example", "h2.a.example",
    }  # fmt: skip


async def test_kinds_that_are_not_known_here_are_rows_too(index: AuditIndex) -> None:
    (row,) = await index.find(Filter(kind="search"))
    assert (row.agent, row.host, row.verdict, row.ms) == ("bot", "api.search.example", "success", 12.0)
    (row,) = await index.find(Filter(kind="vendor"))
    assert (row.host, row.ms, row.status) == ("v.example", None, 2**63 - 1)


async def test_pages_follow_each_other_and_miss_nothing(index: AuditIndex) -> None:
    every = await index.find(Filter(), limit=1_000)
    paged: list[Row] = []
    before: Cursor | None = None
    while rows := await index.find(Filter(), before=before, limit=3):
        paged += rows
        before = rows[-1].cursor
    assert paged == list(every)
    assert [row.time for row in every] == sorted((row.time for row in every), reverse=True)


async def test_counts_by_time_add_up(index: AuditIndex) -> None:
    every = await index.find(Filter(agent="bot"), limit=1_000)
    counts = await index.tally(Filter(agent="bot"), SLOT)
    assert sum(one.rows for one in counts) == len(every)
    assert {one.start % SLOT for one in counts} == {0}


async def test_values_that_occur_can_be_listed(index: AuditIndex) -> None:
    assert [one for one in await index.names(Name.RULE) if one != "x"] == [
        "byte-cap",
        "host",
        "method",
        "parse",
    ]
    assert {"bot", "other"} <= set(await index.names(Name.AGENT))
    assert len(await index.names(Name.HOST, 2)) == 2


async def test_the_lines_of_a_fetch_are_found(index: AuditIndex) -> None:
    places = await index.places("f1")
    assert [(one.chain, one.file) for one in places if not one.chain.startswith("odd")] == [
        ("gateway-0", 1)
    ] * 2
    assert await index.places("nothing") == []
    (row,) = await index.find(Filter(fetch_id="f1", kind="hop", agent="bot"))
    assert await index.line_places(row.chain, row.seq) == [
        one for one in places if not one.chain.startswith("odd")
    ]
    assert await index.line_places("nothing", 1) == await index.line_places("gateway-0", 2**62) == []


@pytest.mark.parametrize(
    ("since", "until", "most"),
    [
        pytest.param(None, None, True, id="all of it"),
        pytest.param(START, None, True, id="the greater part: a line is of the year 9999"),
        pytest.param(None, START + 3_600 * SECOND, False, id="the lesser part"),
        pytest.param(START, START + 3_600 * SECOND, False, id="an hour"),
        pytest.param(-(10**18), 10**18, True, id="more than there is"),
    ],
)
async def test_hosts_are_counted_one_by_one_where_most_rows_count(
    both: tuple[SqliteAuditIndex, MemoryAuditIndex],
    monkeypatch: pytest.MonkeyPatch,
    since: int | None,
    until: int | None,
    most: bool,
) -> None:
    """Then nothing has to be sorted. Either way the answer is the same (see below)."""
    walked = []

    def select(wanted: Wanted, all_times: str) -> Query:
        walked.append(all_times)
        return select_rows(wanted, all_times=all_times)

    monkeypatch.setattr("fetchd.audit_index.reading.select_rows", select)
    wanted = Filter(since=since, until=until)
    assert await both[0].top_hosts(wanted, 1_000)
    assert walked == ["by_host" if most else "by_time"]


STEPS = [1, SLOT, 5 * SLOT, 60 * SLOT, 180 * SLOT, 1440 * SLOT]
words = st.sampled_from(
    ["", "bot", "other", "refused", "allowed", STOPPED, OPEN, WOULD_REFUSE, "host", "hop", "fetch", "x"]
)
near = st.none() | st.integers(START - 7_200 * SECOND, START + 15_000 * SECOND)
filters = st.builds(
    Filter,
    agent=words,
    host=st.sampled_from(["", "a.example", "*.a.example", "*.example", "*.", "h1.a.example"]),
    verdict=words,
    rule=words,
    kind=words,
    fetch_id=st.sampled_from(["", "f", "f1", "g", "lost", "\x00"]),
    since=near,
    until=near,
)
plain = st.builds(Filter, agent=st.sampled_from(["", "bot", "other"]), since=near, until=near)
far = st.none() | st.integers(-(2**63), 2**63 - 1)
odd = st.builds(Filter, agent=st.text(), host=st.text(), fetch_id=st.text(), since=far)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(wanted=plain | filters | odd, step=st.sampled_from(STEPS), limit=st.integers(0, 50))
async def test_both_say_the_same(
    both: tuple[SqliteAuditIndex, MemoryAuditIndex], wanted: Filter, step: int, limit: int
) -> None:
    real, memory = both

    def shown(rows: Sequence[Row]) -> list[tuple[object, ...]]:
        return [(row.chain, row.seq, row.time, row.verdict, row.rule, row.target, row.detail) for row in rows]

    assert sorted(shown(await real.find(wanted, limit=1_000))) == sorted(
        shown(await memory.find(wanted, limit=1_000))
    )
    assert list(await real.tally(wanted, step)) == list(await memory.tally(wanted, step))
    real_hosts, hosts = await real.top_hosts(wanted, 1_000), await memory.top_hosts(wanted, 1_000)
    assert sorted(real_hosts, key=repr) == sorted(hosts, key=repr)
    assert len(await real.find(wanted, limit=limit)) == min(
        limit, len(await memory.find(wanted, limit=1_000))
    )
    assert (await real.status()).rows == (await memory.status()).rows
