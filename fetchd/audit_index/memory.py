"""An index over a list of lines, by the plainest means: what `reading` is compared with."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from proxy_addons.audit.reader import parse_log_line

from .entries import Ending, Entry, read_entry
from .interface import (
    HOP,
    OPEN,
    SLOT,
    STOPPED,
    STOPS,
    Cursor,
    Filter,
    HostTally,
    IndexStatus,
    Name,
    Place,
    Row,
    Tally,
)
from .queries import ceil_slot, floor_slot


class MemoryAuditIndex:
    """`take` is told of lines in the order of their chains."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._places: list[list[Place]] = []
        self._lines = 0
        self._revision = 0
        self._time = 0

    def take(self, chain: str, file: int, offset: int, raw: bytes) -> None:
        """One line more."""
        self._lines += 1
        self._revision += 1
        found = read_entry(parse_log_line(chain, raw), self._time)
        place = Place(chain, file, offset)
        if found is None:
            return
        if isinstance(found, Ending):
            for entry, places in zip(self._entries, self._places, strict=True):
                if (entry.chain, entry.seq, entry.kind, entry.verdict) == (chain, found.decision, HOP, OPEN):
                    entry.end(found)
                    places.append(place)
                    return
            found = found.alone
        self._time = found.time
        self._entries.append(found)
        self._places.append([place])

    async def find(self, wanted: Filter, *, before: Cursor | None = None, limit: int = 100) -> Sequence[Row]:
        """As the interface says."""
        rows = [row for row in self._rows() if _matches(row, wanted)]
        if before is not None:
            rows = [row for row in rows if (row.time, row.number) < (before.time, before.number)]
        return sorted(rows, key=lambda row: (row.time, row.number), reverse=True)[:limit]

    async def tally(self, wanted: Filter, step: int) -> Sequence[Tally]:
        """As the interface says."""
        whole = replace(wanted, since=floor_slot(wanted.since), until=ceil_slot(wanted.until))
        stretch = max(SLOT, step // SLOT * SLOT)
        found = Counter(
            (row.time // stretch * stretch, row.verdict, row.rule)
            for row in self._rows()
            if _matches(row, whole)
        )
        return [Tally(*key, number) for key, number in sorted(found.items())]

    async def top_hosts(self, wanted: Filter, limit: int = 10) -> Sequence[HostTally]:
        """As the interface says."""
        found: dict[str, list[Row]] = {}
        for row in self._rows():
            if row.host and _matches(row, wanted) and (wanted.kind or row.kind == HOP):
                found.setdefault(row.host, []).append(row)
        tallies = [
            HostTally(
                host, len(rows), sum(row.verdict in STOPS for row in rows), sum(row.bytes or 0 for row in rows)
            )
            for host, rows in found.items()
        ]  # fmt: skip
        return sorted(tallies, key=lambda one: -one.rows)[:limit]

    async def names(self, what: Name, limit: int = 500) -> Sequence[str]:
        """As the interface says."""
        return sorted({getattr(row, what.value) for row in self._rows()} - {""})[:limit]

    async def places(self, fetch_id: str, limit: int = 1_000) -> Sequence[Place]:
        """As the interface says."""
        rows = sorted(
            (row.time, row.number)
            for row in self._rows()
            if row.fetch_id == fetch_id
        )  # fmt: skip
        return [place for _, number in rows for place in self._places[number - 1]][:limit]

    async def line_places(self, chain: str, seq: int) -> Sequence[Place]:
        """As the interface says."""
        found = [row.number for row in self._rows() if (row.chain, row.seq) == (chain, seq)]
        return [place for number in found for place in self._places[number - 1]]

    async def status(self) -> IndexStatus:
        """As the interface says."""
        newest = max((entry.time for entry in self._entries), default=None)
        return IndexStatus(len(self._entries), self._lines, newest, self._revision)

    def _rows(self) -> list[Row]:
        return [
            Row(
                number, one.time, one.chain, one.seq, one.kind, one.agent, one.host, one.verdict, one.rule,
                one.method, one.target, one.status, one.bytes, one.ms, one.fetch_id, one.detail,
            )
            for number, one in enumerate(self._entries, start=1)
        ]  # fmt: skip


def _matches(row: Row, wanted: Filter) -> bool:
    if wanted.host.startswith("*."):
        host = row.host.endswith(wanted.host[1:]) and len(row.host) > len(wanted.host) - 1
    else:
        host = not wanted.host or row.host == wanted.host
    return (
        host
        and all(
            not text or own == text
            for own, text in (
                (row.agent, wanted.agent), (row.rule, wanted.rule),
                (row.kind, wanted.kind),
            )
        )
        and (not wanted.verdict or row.verdict in (STOPS if wanted.verdict == STOPPED else (wanted.verdict,)))
        and row.fetch_id.startswith(wanted.fetch_id)
        and (wanted.since is None or row.time >= wanted.since)
        and (wanted.until is None or row.time < wanted.until)
    )  # fmt: skip
