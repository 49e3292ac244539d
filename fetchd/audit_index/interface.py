"""What the page asks of an index. Times are microseconds since 1970, UTC."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

HOP: Final = "hop"
"""The kind of a row that joins a decision line and its close line."""
OPEN: Final = "open"
"""The verdict of a hop that was let through and has not ended, as far as the log says."""
WOULD_REFUSE: Final = "would refuse"
"""The verdict of a hop that a profile in monitor mode let through; `rule` says what would have refused it."""

STOPPED: Final = "stopped"
"""Wanted as a verdict: any of STOPS. A call that the daemon refuses before any hop is a failure in the log."""
STOPS: Final = ("refused", "soft", "hard")

SLOT: Final = 60_000_000
"""Rows are counted by the minute."""
HOUR_SLOTS: Final = 60
MAX_LIMIT: Final = 1_000
"""Rows of one answer."""


class IndexUnavailableError(Exception):
    """The index cannot be read just now; one line that says why."""


class TooMuchError(IndexUnavailableError):
    """The question takes longer than a person waits; narrow it."""


class Name(StrEnum):
    """What a row is filtered by, where the values can be listed."""

    AGENT = "agent"
    HOST = "host"
    VERDICT = "verdict"
    RULE = "rule"
    KIND = "kind"


@dataclass(frozen=True, slots=True)
class Filter:
    """Which rows; what is empty or None lets every row through. host: a name, or `*.` and a name for those below it.
    verdict: one of the log, or STOPPED.

    fetch_id: an id or the beginning of one. since, until: from the first up to, not including, the second.
    """

    agent: str = ""
    host: str = ""
    verdict: str = ""
    rule: str = ""
    kind: str = ""
    fetch_id: str = ""
    since: int | None = None
    until: int | None = None


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a page ends: rows below this one follow."""

    time: int
    number: int


@dataclass(frozen=True, slots=True)
class Row:
    """One row. number: of its entering, unique. seq: of its first line in `chain`. target: a URL, or what the line is
    about. bytes: decoded. ms: the whole. detail: why it was stopped, or would have been."""

    number: int
    time: int
    chain: str
    seq: int
    kind: str
    agent: str
    host: str
    verdict: str
    rule: str
    method: str
    target: str
    status: int | None
    bytes: int | None
    ms: float | None
    fetch_id: str
    detail: str = ""

    @property
    def cursor(self) -> Cursor:
        """The place behind it."""
        return Cursor(self.time, self.number)


@dataclass(frozen=True, slots=True)
class Tally:
    """Rows of one verdict and rule in one stretch of time, which begins at `start`."""

    start: int
    verdict: str
    rule: str
    rows: int


@dataclass(frozen=True, slots=True)
class HostTally:
    """Rows of one host. refused: those among them that a rule stopped."""

    host: str
    rows: int
    refused: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Place:
    """A line in the log."""

    chain: str
    file: int
    offset: int


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """rows, lines: taken in so far. newest: time of the newest row. revision: changes whenever a row does."""

    rows: int
    lines: int
    newest: int | None
    revision: int


class AuditIndex(Protocol):
    """All methods raise IndexUnavailableError."""

    async def find(self, wanted: Filter, *, before: Cursor | None = None, limit: int = 100) -> Sequence[Row]:
        """Rows, newest first, at most MAX_LIMIT."""
        ...

    async def tally(self, wanted: Filter, step: int) -> Sequence[Tally]:
        """Counts by time, in stretches of `step`, a multiple of SLOT, that begin at multiples of it; by time."""
        ...

    async def top_hosts(self, wanted: Filter, limit: int = 10) -> Sequence[HostTally]:
        """The hosts with most rows; hops alone unless a kind is wanted."""
        ...

    async def names(self, what: Name, limit: int = 500) -> Sequence[str]:
        """Values that occur, in their order."""
        ...

    async def places(self, fetch_id: str, limit: int = 1_000) -> Sequence[Place]:
        """Where the lines of one fetch stand, by time."""
        ...

    async def line_places(self, chain: str, seq: int) -> Sequence[Place]:
        """Where the lines of one row stand, by the number of its first line."""
        ...

    async def status(self) -> IndexStatus:
        """How far it is."""
        ...
