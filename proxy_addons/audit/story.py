"""One fetch or search out of the log: its hops in order, and the daemon's lines about the whole.

id ── find_fetches (all chains, one walk) ──► lines by fetch ── tell_story ──► Story

A walk looks for the bytes of the id before it parses a line, so that a long log costs its reading and little more.
It may run while the log is written: a last line that is still unfinished is passed over.
"""

import heapq
import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from proxy_addons.audit.files import list_files, read_lines_still_there
from proxy_addons.audit.kinds import CallOutcome, LineKind
from proxy_addons.audit.reader import Follower, LogLine, merge_chains, parse_log_line
from proxy_addons.policy.verdicts import Outcome

MAX_FETCHES = 20
"""Fetches that one walk holds; who looks for more has to name the id further."""
MAX_LINES = 1_000
"""Lines of one fetch that are held. A chain has six hops of two lines; ids of another's making may have more."""

_STOPPED = frozenset({Outcome.REFUSED.value, CallOutcome.SOFT.value, CallOutcome.HARD.value})


@dataclass(frozen=True, slots=True)
class HopStory:
    """A hop's decision and close lines; one of the two is there."""

    decision: LogLine | None
    close: LogLine | None

    @property
    def first(self) -> LogLine:
        """The line that began it, as far as the log has it."""
        line = self.decision or self.close
        assert line is not None  # noqa: S101 (see above)
        return line

    @property
    def last(self) -> LogLine:
        """The line that says how it ended."""
        return self.close or self.first

    @property
    def refused(self) -> bool:
        """Whether a rule stopped it."""
        return self.last.text("verdict") == Outcome.REFUSED

    @property
    def open(self) -> bool:
        """Let through, and its end not written: it is under way, or its worker died."""
        return self.close is None and not self.refused


@dataclass(frozen=True, slots=True)
class Story:
    """Everything the log has of one fetch. omitted: lines beyond MAX_LINES."""

    fetch_id: str
    hops: tuple[HopStory, ...]
    fetch: LogLine | None
    lines: tuple[LogLine, ...]
    omitted: int = 0
    webs: tuple[LogLine, ...] = ()
    """What vendors of models said of the web tools that they ran in it."""
    searches: tuple[LogLine, ...] = ()
    """Of a search: a line for each provider that was asked."""

    @property
    def first(self) -> LogLine:
        """Its first line."""
        return self.lines[0]

    @property
    def stopped(self) -> HopStory | None:
        """The last hop, if a rule stopped it."""
        return self.hops[-1] if self.hops and self.hops[-1].refused else None

    @property
    def rule(self) -> str | None:
        """The rule that ended it; None when none did."""
        if self.stopped is not None:
            return self.stopped.last.text("rule")
        return self.fetch.text("rule") if self.fetch is not None else None

    @property
    def outcome(self) -> str:
        """How it ended, in a word of the log: a verdict, the daemon's outcome, or `open`."""
        if self.stopped is not None:
            return Outcome.REFUSED.value
        ending = self.fetch or (self.searches[-1] if self.searches else None)
        if ending is not None:
            return ending.text("outcome") or ""
        if self.hops and self.hops[-1].open:
            return "open"
        return self.hops[-1].last.text("verdict") or "" if self.hops else ""


@dataclass(frozen=True, slots=True)
class Findings:
    """What a walk found. more: fetches beyond MAX_FETCHES were there; walked: lines looked at."""

    stories: tuple[Story, ...]
    more: bool
    walked: int


def find_fetches(directory: Path, prefix: str, *, exact: Collection[str] = ()) -> Findings:
    """The fetches whose id begins with `prefix`, or is one of `exact`, by the time of their first lines.

    An id that is `prefix` itself stands alone. Raises OSError.
    """
    wanted = _Wanted(prefix, frozenset(exact))
    walk = _Walk(wanted)
    for line in merge_chains(walk.read(series, directory) for series in list_files(directory)):
        walk.take(line)
    found = walk.found
    if prefix in found and not exact:
        found = {prefix: found[prefix]}
        walk.more = False
    return Findings(
        tuple(
            tell_story(fetch_id, lines, walk.omitted.get(fetch_id, 0)) for fetch_id, lines in found.items()
        ),
        walk.more,
        walk.lines,
    )


def find_newest(directory: Path, count: int, *, refused: bool) -> list[str]:
    """The ids of the last `count` fetches, newest first; refused: of those that were refused or failed."""
    follower = Follower(directory)
    merged = heapq.merge(*follower.read_backward(), key=lambda line: (line.time, line.chain), reverse=True)
    ids: dict[str, None] = {}
    for line in merged:
        fetch_id = line.text("fetch_id")
        if fetch_id is None or (refused and not _is_stop(line)):
            continue
        ids[fetch_id] = None
        if len(ids) == count:
            break
    return list(ids)


def tell_story(fetch_id: str, lines: list[LogLine], omitted: int = 0) -> Story:
    """Join the lines of one fetch, given by time."""
    closes = {
        (line.chain, line.number("decision")): line for line in lines if line.text("kind") == LineKind.CLOSE
    }
    hops = [
        HopStory(line, closes.pop((line.chain, line.number("seq")), None))
        for line in lines
        if line.text("kind") == LineKind.DECISION
    ]
    hops += [HopStory(None, close) for close in closes.values()]
    hops.sort(key=lambda hop: hop.first.number("hop") or 0)  # stable: retries of one hop stay by time
    fetch = next((line for line in reversed(lines) if line.text("kind") == LineKind.FETCH), None)
    searches = [line for line in lines if line.text("kind") == LineKind.SEARCH]
    searches.sort(key=lambda line: line.number("attempt") or 0)
    webs = tuple(line for line in lines if line.text("kind") == LineKind.WEB)
    return Story(fetch_id, tuple(hops), fetch, tuple(lines), omitted, webs, tuple(searches))


def _is_stop(line: LogLine) -> bool:
    return (line.text("verdict") or line.text("outcome")) in _STOPPED


@dataclass(frozen=True, slots=True)
class _Wanted:
    prefix: str
    exact: frozenset[str]

    @property
    def needles(self) -> tuple[bytes, ...]:
        """What stands in the bytes of a line that may be wanted: JSON as `record` writes it, no spaces."""
        if self.exact:
            return tuple(f'"fetch_id":{json.dumps(one)}'.encode() for one in self.exact)
        return (f'"fetch_id":{json.dumps(self.prefix)[:-1]}'.encode(),)

    def wants(self, fetch_id: str) -> bool:
        return fetch_id in self.exact if self.exact else fetch_id.startswith(self.prefix)


class _Walk:
    """The state of one walk through a log."""

    def __init__(self, wanted: _Wanted) -> None:
        self._wanted, self._needles = wanted, wanted.needles
        self.found: dict[str, list[LogLine]] = {}
        self.omitted: dict[str, int] = {}
        self.more = False
        self.lines = 0

    def read(self, series: str, directory: Path) -> Iterator[LogLine]:
        for file in list_files(directory).get(series, []):
            for _, raw in read_lines_still_there(file.path):
                self.lines += 1
                if any(needle in raw for needle in self._needles):
                    yield parse_log_line(series, raw)

    def take(self, line: LogLine) -> None:
        fetch_id = line.text("fetch_id")
        if fetch_id is None or not self._wanted.wants(fetch_id):
            return
        if fetch_id not in self.found and len(self.found) >= MAX_FETCHES and fetch_id != self._wanted.prefix:
            self.more = True
            return
        lines = self.found.setdefault(fetch_id, [])
        if len(lines) < MAX_LINES:
            lines.append(line)
        else:
            self.omitted[fetch_id] = self.omitted.get(fetch_id, 0) + 1
