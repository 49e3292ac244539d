"""Reading all chains of a directory as one log, by time.

Within a chain the order is that of the file, whatever its clock did: a line that claims to be earlier than
the one before counts as of the same time. Lines that are no JSON object, as only tampering leaves them, are
passed on with no members, so that a reader can show that something stands there. Files may be removed by
retention at any time; what was not read before is then not read.
"""

import heapq
import json
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proxy_addons.audit.files import (
    SeriesFile,
    list_files,
    read_lines_backward,
    read_lines_still_there,
)


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line as read, not verified: its text without the newline, and its members ({} when it is not an
    object)."""

    chain: str
    raw: bytes
    members: dict[str, Any]

    @property
    def time(self) -> str:
        return self.text("time") or ""

    def text(self, name: str) -> str | None:
        """A member that is a string, else None."""
        value = self.members.get(name)
        return value if isinstance(value, str) else None

    def number(self, name: str) -> int | float | None:
        """A member that is a number, else None."""
        return read_number(self.members.get(name))


def read_number(value: object) -> int | float | None:
    """A number that JSON can say and a float can hold, else None: Python reads 1e400 and a thousand digits too."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return value if math.isfinite(value) else None
    except OverflowError:
        return None


def parse_log_line(chain: str, raw: bytes) -> LogLine:
    """Never raises: what cannot be read has no members."""
    raw = raw.removesuffix(b"\n")
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        value = None
    return LogLine(chain, raw, value if isinstance(value, dict) else {})


def read_all(directory: Path) -> Iterator[LogLine]:
    """Every line of every chain, by time, in memory bounded by one line a chain. Raises OSError."""
    return merge_chains(_read_files(series, files) for series, files in list_files(directory).items())


def merge_chains(chains: Iterable[Iterable[LogLine]]) -> Iterator[LogLine]:
    """Chains, each in its own order, as one by time."""
    return merge_by_time(chains, lambda line: (line.time, line.chain))


def merge_by_time[T](chains: Iterable[Iterable[T]], key: Callable[[T], tuple[str, str]]) -> Iterator[T]:
    """As `merge_chains`, for whatever has a time and a chain: `key` gives both."""
    # A merge never reorders within an input: an item whose time went back comes right behind the one before it.
    return heapq.merge(*chains, key=key)


def _read_files(series: str, files: list[SeriesFile]) -> Iterator[LogLine]:
    for file in files:
        for _, raw in read_lines_still_there(file.path):
            yield parse_log_line(series, raw)


class Follower:
    """The lines of all chains up to now, backwards, and then those that come, batch by batch.

    New series and new files are found as they come.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._files = list_files(directory)
        self._places = {series: _place_at_end(files) for series, files in self._files.items()}

    def read_backward(self) -> list[Iterator[LogLine]]:
        """What was there when this was made: of each chain the lines from the last to the first."""
        return [self._read_chain_backward(series, files) for series, files in self._files.items()]

    def _read_chain_backward(self, series: str, files: list[SeriesFile]) -> Iterator[LogLine]:
        place = self._places[series]
        number, offset = place.number, place.offset
        for file in reversed(files):
            try:
                end = offset if file.number == number else file.path.stat().st_size
                for raw in read_lines_backward(file.path, end):
                    yield parse_log_line(series, raw)
            except FileNotFoundError:
                return

    def poll(self) -> list[LogLine]:
        """The whole lines written since the last poll, by time. Raises OSError."""
        batch = []
        for series, files in list_files(self._directory).items():
            place = self._places.setdefault(series, _Place(0, 0))
            batch.append(place.advance(series, files))
        return list(merge_chains(batch))


@dataclass(slots=True)
class _Place:
    number: int
    offset: int

    def advance(self, series: str, files: list[SeriesFile]) -> list[LogLine]:
        # `files` was listed before any is read, and a writer is done with a file when it begins the next.
        lines = []
        for file in files:
            if file.number < self.number:
                continue
            if file.number > self.number:
                self.number, self.offset = file.number, 0
            # A repaired torn line makes a file shorter; only whole lines were taken, so its end is the place.
            try:
                self.offset = min(self.offset, file.path.stat().st_size)
            except FileNotFoundError:
                continue
            for offset, raw in read_lines_still_there(file.path, self.offset):
                if raw.endswith(b"\n"):
                    self.offset = offset + len(raw)
                    lines.append(parse_log_line(series, raw))
        return lines


def _place_at_end(files: list[SeriesFile]) -> _Place:
    if not files:
        return _Place(0, 0)
    last = files[-1]  # retention never removes this one
    with last.path.open("rb") as file:
        size = file.seek(0, 2)
        # Behind the last whole line: an unfinished one is still to come.
        while size > 0:
            file.seek(size - 1)
            if file.read(1) == b"\n":
                break
            size -= 1
    return _Place(last.number, size)
