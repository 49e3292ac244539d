"""One fetch out of many chains: which lines are its own, in which order, and how it ended."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from proxy_addons.audit import AuditLog, CallOutcome, FetchRecord, Outcome
from proxy_addons.audit.story import MAX_FETCHES, MAX_LINES, Story, find_fetches, find_newest
from tests.proxy_addons.audit.kit import Clock, close, decision, event, open_log, series_paths
from tests.proxy_addons.audit.test_record import SEARCH


def fetch_line(**changes: Any) -> FetchRecord:
    values: dict[str, Any] = {
        "tool": "web_fetch",
        "agent": "local",
        "profile": "default",
        "policy": "default@p1",
        "fetch_id": "f1",
        "url": "https://example.com/a",
        "outcome": CallOutcome.SUCCESS,
    }
    return FetchRecord(**values | changes)


class Chains:
    """Several chains in one directory, with one clock, so that the order of writing is that of time."""

    def __init__(self, directory: Path) -> None:
        self.directory, self._clock = directory, Clock()
        self._logs: dict[str, AuditLog] = {}

    def __getitem__(self, series: str) -> AuditLog:
        if series not in self._logs:
            self._logs[series] = open_log(self.directory, series, clock=self._clock)
        return self._logs[series]

    def hop(self, series: str, fetch_id: str, number: int, ending: dict[str, Any] | None) -> None:
        """An allowed hop; ending: what its close line says, None for none."""
        seq = self[series].append(decision(fetch_id=fetch_id, hop=number))
        if ending is not None:
            self[series].append(close(seq, fetch_id=fetch_id, hop=number, **ending))

    def end(self) -> Path:
        for log in self._logs.values():
            log.close()
        return self.directory


@pytest.fixture
def chains(tmp_path: Path) -> Chains:
    return Chains(tmp_path / "audit")


def story(directory: Path, prefix: str) -> Story:
    (found,) = find_fetches(directory, prefix).stories
    return found


def test_hops_of_one_fetch_come_from_every_chain_in_their_order(chains: Chains) -> None:
    chains.hop("gateway-1", "f1", 0, {"status": 302})
    chains.hop("gateway-0", "f2", 0, {})
    chains.hop("gateway-0", "f1", 1, {"status": 200})
    chains["daemon"].append(fetch_line())
    found = story(chains.end(), "f1")

    assert [hop.first.number("hop") for hop in found.hops] == [0, 1]
    assert [hop.last.number("status") for hop in found.hops] == [302, 200]
    assert [line.chain for line in found.lines] == [
        "gateway-1",
        "gateway-1",
        "gateway-0",
        "gateway-0",
        "daemon",
    ]
    assert found.fetch is not None
    assert (found.outcome, found.rule, found.stopped) == ("success", None, None)


@pytest.mark.parametrize(
    ("write", "outcome", "rule"),
    [
        pytest.param(
            lambda c: c["gateway-0"].append(decision(Outcome.REFUSED, rule="host", detail="no")),
            "refused", "host", id="refused at once",
        ),
        pytest.param(
            lambda c: c.hop("gateway-0", "f1", 0, {"verdict": Outcome.REFUSED, "rule": "byte-cap"}),
            "refused", "byte-cap", id="cut off under way",
        ),
        pytest.param(lambda c: c.hop("gateway-0", "f1", 0, {}), "allowed", None, id="let through"),
        pytest.param(lambda c: c.hop("gateway-0", "f1", 0, None), "open", None, id="its end is not written"),
        pytest.param(
            lambda c: c["daemon"].append(fetch_line(outcome=CallOutcome.HARD, rule="port", failure="x")),
            "hard", "port", id="refused by the daemon before any hop",
        ),
        pytest.param(
            lambda c: (c.hop("gateway-0", "f1", 0, {}), c["daemon"].append(fetch_line(outcome=CallOutcome.SOFT))),
            "soft", None, id="fetched, and no page for it",
        ),
        pytest.param(
            lambda c: c["gateway-0"].append(close(77)), "allowed", None, id="a close line whose decision is gone"
        ),
    ],
)  # fmt: skip
def test_how_it_ended(chains: Chains, write: Any, outcome: str, rule: str | None) -> None:
    write(chains)
    found = story(chains.end(), "f1")

    assert (found.outcome, found.rule) == (outcome, rule)


def test_an_id_may_be_cut_short_while_it_names_one_fetch(chains: Chains) -> None:
    for fetch_id in ("ab1", "ab2", "b"):
        chains.hop("gateway-0", fetch_id, 0, {})
    directory = chains.end()

    assert story(directory, "ab1").fetch_id == "ab1"
    assert [one.fetch_id for one in find_fetches(directory, "ab").stories] == ["ab1", "ab2"]
    assert find_fetches(directory, "c").stories == ()


def test_a_whole_id_is_not_doubted_for_a_longer_one(chains: Chains) -> None:
    for fetch_id in ("abc", "ab"):
        chains.hop("gateway-0", fetch_id, 0, {})

    assert story(chains.end(), "ab").fetch_id == "ab"


@pytest.mark.parametrize("count", [MAX_FETCHES, MAX_FETCHES + 1])
def test_so_many_fetches_are_held_and_no_more(chains: Chains, count: int) -> None:
    for number in range(count):
        chains.hop("gateway-0", f"x{number}", 0, {})
    found = find_fetches(chains.end(), "x")

    assert (len(found.stories), found.more) == (MAX_FETCHES, count > MAX_FETCHES)


def test_a_whole_id_is_found_behind_more_than_are_held(chains: Chains) -> None:
    for number in range(MAX_FETCHES + 1):
        chains.hop("gateway-0", f"x{number}", 0, {})
    chains.hop("gateway-0", "x", 0, {})

    assert story(chains.end(), "x").fetch_id == "x"


@pytest.mark.parametrize("count", [MAX_LINES, MAX_LINES + 1])
def test_so_many_lines_of_a_fetch_are_held_and_no_more(chains: Chains, count: int) -> None:
    for number in range(count):
        chains["gateway-0"].append(decision(hop=number))
    found = story(chains.end(), "f1")

    assert (len(found.lines), found.omitted) == (MAX_LINES, count - MAX_LINES)


def test_an_id_elsewhere_in_a_line_is_not_its_id(chains: Chains) -> None:
    chains["gateway-0"].append(decision(fetch_id="other", detail='"fetch_id":"f1"'))
    chains["gateway-0"].append(event("note", facts={"fetch_id": "f1"}))

    assert find_fetches(chains.end(), "f1").stories == ()


def test_a_line_that_is_still_being_written_is_passed_over(chains: Chains) -> None:
    chains.hop("gateway-0", "f1", 0, {"status": 204})
    directory = chains.end()
    (path,) = series_paths(directory)
    lines = path.read_bytes().splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if b'"kind":"close"' in line)
    path.write_bytes(b"".join(lines[:at]) + lines[at][:-20])
    found = story(directory, "f1")

    assert (len(found.lines), found.outcome) == (1, "open")


def test_a_running_writer_s_lines_are_there(chains: Chains) -> None:
    chains.hop("gateway-0", "f1", 0, {})

    assert story(chains.directory, "f1").outcome == "allowed"
    chains.end()


def test_the_newest_fetches_and_the_newest_that_failed(chains: Chains) -> None:
    chains.hop("gateway-0", "a", 0, {})
    chains["gateway-1"].append(decision(Outcome.REFUSED, fetch_id="b", rule="host"))
    chains.hop("gateway-0", "c", 0, {"verdict": Outcome.REFUSED, "rule": "byte-cap"})
    chains.hop("gateway-1", "d", 0, {})
    chains["daemon"].append(fetch_line(fetch_id="d", outcome=CallOutcome.SOFT))
    chains.hop("gateway-1", "e", 0, None)
    directory = chains.end()

    assert find_newest(directory, 3, refused=False) == ["e", "d", "c"]
    assert find_newest(directory, 20, refused=False) == ["e", "d", "c", "b", "a"]
    assert find_newest(directory, 1, refused=True) == ["d"]
    assert find_newest(directory, 20, refused=True) == ["d", "c", "b"]
    assert [one.fetch_id for one in find_fetches(directory, "", exact=["d", "b"]).stories] == ["b", "d"]


def test_the_providers_a_search_asked_are_in_their_order(chains: Chains) -> None:
    for attempt, outcome in ((2, CallOutcome.SUCCESS), (1, CallOutcome.HARD)):
        chains["daemon"].append(replace(SEARCH, attempt=attempt, outcome=outcome))
    found = story(chains.end(), "f1")

    assert [line.number("attempt") for line in found.searches] == [1, 2]
    assert (found.outcome, found.rule, found.hops, found.fetch) == ("success", None, (), None)


def test_a_search_that_failed_is_among_the_newest_that_did(chains: Chains) -> None:
    chains["daemon"].append(replace(SEARCH, fetch_id="f7", outcome=CallOutcome.HARD))
    chains["daemon"].append(replace(SEARCH, fetch_id="f8"))

    assert find_newest(chains.end(), 9, refused=True) == ["f7"]
