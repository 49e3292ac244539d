"""The lines of a log directory that were not taken in yet, batch by batch, in bounded memory. Blocks.

The oldest files first. A file counts as the same while its first line is: whatever else happened to it, lines are
taken from where the last whole one ended.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from proxy_addons.audit.chain import MAX_LINE
from proxy_addons.audit.files import SeriesFile, list_files, read_lines

MAX_LINES: Final = 4_000
MAX_BYTES: Final = 4 << 20
"""Of one batch."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a file was taken in. mark: digest of its first line. time: of its last line."""

    mark: str
    done: int
    time: int = 0


@dataclass(frozen=True, slots=True)
class Batch:
    """Lines of one file, each with its offset. mark, done: the file's progress once they are taken in."""

    file: SeriesFile
    lines: tuple[tuple[int, bytes], ...]
    mark: str
    done: int


type FileKey = tuple[str, int]
"""Series and number."""


def list_log(directory: Path) -> dict[FileKey, SeriesFile]:
    """Every file of the log, by age within its series; none where there is no log yet. Raises OSError."""
    try:
        found = list_files(directory)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    return {(one.series, one.number): one for files in found.values() for one in files}


def find_gone(files: dict[FileKey, SeriesFile], known: dict[FileKey, Progress]) -> list[FileKey]:
    """Files that were taken in and are not there any more, or are others under the same name. Raises OSError."""
    return [
        key
        for key, progress in known.items()
        if key not in files
        or _size(files[key].path) < progress.done
        or read_mark(files[key].path) != progress.mark
    ]


def read_batches(files: dict[FileKey, SeriesFile], known: dict[FileKey, Progress]) -> Iterator[Batch]:
    """What is new, as files lie there now; `known` is looked at as each file is begun. Raises OSError."""
    for key, file in files.items():
        progress = known.get(key)
        done = progress.done if progress is not None else 0
        try:
            if file.path.stat().st_size <= done:
                continue
            mark = progress.mark if progress is not None and done else read_mark(file.path)
            yield from _read_file(file, mark, done)
        except FileNotFoundError:
            continue  # moved away since it was listed


def _read_file(file: SeriesFile, mark: str, done: int) -> Iterator[Batch]:
    lines: list[tuple[int, bytes]] = []
    size = 0
    end = done
    for offset, raw in read_lines(file.path, done):
        if not raw.endswith(b"\n") and not _is_piece(raw):
            break  # its writer is in the midst of it, or a crash was
        lines.append((offset, raw))
        size += len(raw)
        end = offset + len(raw)
        if len(lines) >= MAX_LINES or size >= MAX_BYTES:
            yield Batch(file, tuple(lines), mark, end)
            lines, size = [], 0
    if lines:
        yield Batch(file, tuple(lines), mark, end)


def _is_piece(raw: bytes) -> bool:
    """Of a run without a newline that is longer than any line: not ours, and not to be waited for."""
    return len(raw) > MAX_LINE


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def read_mark(path: Path) -> str:
    """Which file this is; "" while it has no whole line. Raises OSError."""
    try:
        first = next((raw for _, raw in read_lines(path)), b"")
    except FileNotFoundError:
        return ""
    return sha256(first).hexdigest()[:32] if first.endswith(b"\n") or _is_piece(first) else ""
