"""Which files of a log are kept no longer, by age and by size.

Laws of this file. Only whole files go, only from the beginning of a chain, and never the last of one, which may be
written to. What goes depends on the files and the clock alone, so that every writer of a directory comes to the same
plan and removes its own part of it. Removing is the writer's (`writer.AuditLog.keep_house`): it says so in the chain
first, signed.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from proxy_addons.audit.chain import Head, Line, parse_line
from proxy_addons.audit.files import SeriesFile, list_files, read_lines_backward, read_lines_still_there
from proxy_addons.audit.keys import sync_directory
from proxy_addons.audit.kinds import LineKind
from proxy_addons.audit.moments import NANOSECONDS, render_time

if TYPE_CHECKING:
    from proxy_addons.policy.config_values import (
        AuditConfig,  # the log is also read without any configuration
    )

_RECORDS = tuple(
    f'{{"kind":"{kind}"'.encode() for kind in LineKind if kind not in (LineKind.EVENT, LineKind.CHECKPOINT)
)
_log = logging.getLogger(__name__)

DAY_SECONDS = 86_400
SMALLEST_ROTATION = 1 << 20
FILES_TO_KEEP = 32
"""So that what is being written is a small part of `keep_bytes`, whole files being what goes: 32 at least."""


@dataclass(frozen=True, slots=True)
class Retention:
    """What is kept: files with lines of the last `keep_days`, and at most `keep_bytes` of all chains; None: all."""

    keep_days: int | None = None
    keep_bytes: int | None = None

    @property
    def sets_limits(self) -> bool:
        return self.keep_days is not None or self.keep_bytes is not None

    def rotate_bytes(self, usual: int) -> int:
        """The size at which a file is followed by the next."""
        if self.keep_bytes is None:
            return usual
        return min(usual, max(SMALLEST_ROTATION, self.keep_bytes // FILES_TO_KEEP))


def make_retention(config: "AuditConfig") -> Retention:
    """What a configuration says of what is kept."""
    return Retention(config.keep_days, config.keep_bytes)


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file with what retention asks of it. `newest`: the time of its last line, "" when that cannot be read."""

    series: str
    number: int
    path: Path
    size: int
    newest: str
    last: bool


def load_log_files(directory: Path) -> tuple[LogFile, ...]:
    """Every file of every chain. Raises OSError."""
    return tuple(_describe_all(list_files(directory)))


def _describe_all(found: Mapping[str, list[SeriesFile]]) -> Iterator[LogFile]:
    for series, files in found.items():
        for file in files:
            try:
                size = file.path.stat().st_size
                end = read_end(file.path)
            except FileNotFoundError:  # another process has just removed it
                continue
            yield LogFile(series, file.number, file.path, size, end.time if end else "", file is files[-1])


def read_end(path: Path) -> Line | None:
    """The last line of a file, None when that is no whole line. Raises OSError."""
    raw = next(read_lines_backward(path, path.stat().st_size), b"")
    line = parse_line(raw + b"\n")
    return line if isinstance(line, Line) else None


def read_start(path: Path) -> Line | None:
    """The first line of a file, None when that is no whole line. Raises OSError."""
    raw = next((raw for _, raw in read_lines_still_there(path)), b"")
    line = parse_line(raw)
    return line if isinstance(line, Line) else None


def holds_records(path: Path) -> bool:
    """Whether a file says of anybody, and not only of the log itself. Raises OSError."""
    return any(raw.startswith(_RECORDS) for _, raw in read_lines_still_there(path))


def plan_pruning(files: tuple[LogFile, ...], keep: Retention, now: int) -> tuple[LogFile, ...]:
    """The files to remove, oldest first; `now`: nanoseconds since 1970.

    Age: a file goes when its newest line is older than `keep_days`. Size: the oldest go until what is left, with
    the last file of each chain, is within `keep_bytes`. A file whose time cannot be read has that of the next.
    """
    gone: dict[Path, LogFile] = {}
    ordered = sorted(_by_age(files), key=lambda pair: (pair[0], pair[1].series, pair[1].number))
    if keep.keep_days is not None:
        oldest = render_time(max(0, now - keep.keep_days * DAY_SECONDS * NANOSECONDS))
        gone |= {file.path: file for time, file in ordered if time < oldest}
    if keep.keep_bytes is not None:
        left = sum(file.size for file in files if file.path not in gone)
        for _, file in ordered:
            if left <= keep.keep_bytes:
                break
            if file.path not in gone:
                gone[file.path] = file
                left -= file.size
    return tuple(file for _, file in ordered if file.path in gone)


def _by_age(files: tuple[LogFile, ...]) -> Iterator[tuple[str, LogFile]]:
    """(time, file) of all that may go. The time never goes back within a chain, so that only beginnings go."""
    chains: dict[str, list[LogFile]] = {}
    for file in sorted(files, key=lambda one: (one.series, one.number)):
        chains.setdefault(file.series, []).append(file)
    for chain in chains.values():
        time = _NEVER
        times = [time := file.newest or time for file in reversed(chain)][::-1]
        for file, latest in zip(chain, accumulate(times, max), strict=True):
            if not file.last:
                yield latest, file


_NEVER = "9999"
"""Later than every time: what cannot be dated by itself or by what follows is the newest of all."""


def find_boundary(last: Path, following: Path) -> Head | None:
    """The head of a chain at the end of file `last`, if file `following` goes on from there; else None."""
    end, start = read_end(last), read_start(following)
    if end is None or start is None or (start.seq, start.prev) != (end.seq + 1, end.hash):
        return None
    return end.head


def choose_files(
    directory: Path, series: str, busy: int, keep: Retention, now: int
) -> tuple[tuple[LogFile, ...], Head | None]:
    """What the writer of `series` has to remove, and the head of the chain at its end; (), None: nothing.

    busy: the number of the first file that is still being written or made durable. Raises OSError.
    """
    files = load_log_files(directory)
    going = [f for f in plan_pruning(files, keep, now) if f.series == series and f.number < busy]
    going.sort(key=lambda file: file.number)
    own = sorted((file for file in files if file.series == series), key=lambda file: file.number)
    following = {before.number: after.path for before, after in pairwise(own)}
    while going:
        through = find_boundary(going[-1].path, following[going[-1].number])
        if through is not None:
            return tuple(going), through
        # Somebody changed the log there. Without a sound end nobody could tell removal from tampering.
        _log.warning(
            "audit log %s: %s stays: the next file does not follow it", series, going.pop().path.name
        )
    return (), None


def remove_files(directory: Path, files: Sequence[LogFile]) -> None:
    """Remove them, oldest first, each with the torn bytes that were moved out of it. Raises OSError."""
    for file in files:
        for path in (*directory.glob(f"{file.path.name}.torn-*"), file.path):
            path.unlink(missing_ok=True)
    sync_directory(directory)
