"""Names and places of a log directory: `<series>-<number>.jsonl`, `<series>.head`, `<series>.lock`.

A series is the files of one chain, numbered from 1. Its head file is a copy of the last signed checkpoint
that is known to be on disk, so that a tail cut off the files is noticed. Its lock is held (flock) by the one
process that writes it.
"""

import fcntl
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from proxy_addons.audit.chain import MAX_LINE
from proxy_addons.audit.errors import AuditUnavailableError
from proxy_addons.audit.keys import sync_directory

MAX_SERIES_NAME = 64
_SERIES = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
_FILE = re.compile(r"([a-z0-9-]+)-([0-9]{6,12})\.jsonl")
_BLOCK = 1 << 16


@dataclass(frozen=True, slots=True)
class SeriesFile:
    """One file of a series; `number` counts from 1."""

    series: str
    number: int
    path: Path


def parse_series(text: str) -> str:
    """A series name, such as ``gateway-0``, unchanged. Raises ValueError that says which form is expected."""
    if len(text) > MAX_SERIES_NAME or _SERIES.fullmatch(text) is None:
        raise ValueError(
            f"{text!r} is not a series name: lower-case letters and digits in parts joined by -, "
            f"beginning with a letter, at most {MAX_SERIES_NAME} characters"
        )
    return text


def series_path(directory: Path, series: str, number: int) -> Path:
    return directory / f"{series}-{number:06d}.jsonl"


def head_path(directory: Path, series: str) -> Path:
    return directory / f"{series}.head"


def list_files(directory: Path) -> dict[str, list[SeriesFile]]:
    """All series of a log directory, by name; each its files by number. A series of which only the head file
    is left
    has an empty list. Other files (``*.torn-1``, locks) are passed over. Raises OSError."""
    found: dict[str, list[SeriesFile]] = {}
    for path in directory.iterdir():
        if path.suffix == ".head" and _SERIES.fullmatch(path.stem):
            found.setdefault(path.stem, [])
        elif (match := _FILE.fullmatch(path.name)) and _SERIES.fullmatch(match[1]):
            found.setdefault(match[1], []).append(SeriesFile(match[1], int(match[2]), path))
    return {series: sorted(found[series], key=lambda file: file.number) for series in sorted(found)}


def read_head(directory: Path, series: str) -> bytes | None:
    """The head file's bytes, None when there is none. Raises OSError."""
    try:
        with head_path(directory, series).open("rb") as file:
            return file.read(MAX_LINE + 1)
    except FileNotFoundError:
        return None


def write_head(directory: Path, series: str, line: bytes) -> None:
    """Replaces the head file by `line`. Raises OSError."""
    replace_file(head_path(directory, series), line)


def replace_file(path: Path, content: bytes) -> None:
    """Puts a durable file in the place of another; readers see the old one or the new one. Raises OSError."""
    aside = path.with_name(f".{path.name}.tmp")
    fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(fd)
    aside.replace(path)
    sync_directory(path.parent)


def lock_series(directory: Path, series: str) -> int:
    """Makes this process the writer of `series` until the returned descriptor is closed, or the process ends.

    Raises AuditUnavailableError when another one is; OSError.
    """
    path = directory / f"{series}.lock"
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        owner = os.pread(fd, 32, 0).decode("ascii", "replace").strip()
        os.close(fd)
        if not isinstance(error, BlockingIOError):
            raise
        raise AuditUnavailableError(
            f"audit series {series} in {directory} is being written by process {owner or 'unknown'}; "
            "stop it or use another state directory"
        ) from error
    os.ftruncate(fd, 0)
    os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    return fd


def read_lines(path: Path, offset: int = 0) -> Iterator[tuple[int, bytes]]:
    """(offset, line) from `offset` on, newline kept; the last may lack one. No piece is longer than MAX_LINE
    + 1."""
    with path.open("rb") as file:
        file.seek(offset)
        while line := file.readline(MAX_LINE + 1):
            yield offset, line
            offset += len(line)


def read_lines_still_there(path: Path, offset: int = 0) -> Iterator[tuple[int, bytes]]:
    """As `read_lines`; a file that was removed meanwhile, as retention does, has none."""
    try:
        yield from read_lines(path, offset)
    except FileNotFoundError:
        return


def read_lines_backward(path: Path, end: int) -> Iterator[bytes]:
    """The whole lines in the first `end` bytes of a file, last to first, without newlines.

    An unfinished last one is left out.

    Memory is bounded by `MAX_LINE` and a block: a longer run without a newline ends the walk.
    """
    with path.open("rb") as file:
        position = min(end, file.seek(0, os.SEEK_END))
        rest: bytes | None = (
            None  # from the newest newline seen so far back to `position`; None before the first one
        )
        while position > 0:
            start = max(0, position - _BLOCK)
            file.seek(start)
            block = file.read(position - start)
            position = start
            if rest is None:
                block, newline, _ = block.rpartition(b"\n")
                if not newline:
                    continue
                rest = b""
            *earlier, rest = reversed((block + rest).split(b"\n"))
            yield from earlier
            if len(rest) > MAX_LINE:
                return
        if rest is not None:
            yield rest
