"""One open file of a series: a line goes in whole or not at all, and what was written can be made durable.

Every method may raise OSError, and after it the file holds whole lines only (or the next write cleans up
first).
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Self

type SyncFunction = Callable[[int], None]


class Segment:
    """A file being appended to. `size`: bytes of whole lines; `synced`: those surely on disk."""

    def __init__(self, path: Path, number: int, fd: int, size: int) -> None:
        self.path = path
        self.number = number
        self.size = size
        self.synced = 0
        self._fd = fd
        self._unclean = False
        self._suspect = False

    @classmethod
    def create(cls, path: Path, number: int) -> Self:
        """A new, empty file. Raises FileExistsError when the name is taken."""
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND
        return cls(path, number, os.open(path, flags, 0o600), 0)

    @classmethod
    def reopen(cls, path: Path, number: int, size: int) -> Self:
        """An existing file, cut to its first `size` bytes."""
        fd = os.open(path, os.O_RDWR | os.O_APPEND)
        try:
            if os.fstat(fd).st_size != size:
                os.ftruncate(fd, size)
        except OSError:
            os.close(fd)
            raise
        return cls(path, number, fd, size)

    def write(self, data: bytes) -> None:
        """Appends `data`, by one system call unless the system takes only part of it; on failure nothing of
        it stays."""
        if self._unclean:
            self._cut_back()
        written = 0
        try:
            while written < len(data):
                written += os.write(self._fd, data[written:] if written else data)
        except OSError:
            # Left for the next write when even cutting fails; a restart repairs it as a torn line.
            self._unclean = True
            self._cut_back()
            raise
        self.size += len(data)

    def _cut_back(self) -> None:
        if os.fstat(self._fd).st_size > self.size:
            os.ftruncate(self._fd, self.size)
        self._unclean = False

    @property
    def dirty(self) -> bool:
        return self.size != self.synced or self._suspect

    def sync(self, size: int, fsync: SyncFunction) -> None:
        """Makes the first `size` bytes durable.

        After a failed fsync Linux takes the pages for clean though they never reached the disk, so a later
        fsync that works proves nothing; the doubtful range is written once more first.
        """
        if self._suspect:
            self._rewrite(self.synced, size)
        try:
            fsync(self._fd)
        except OSError:
            self._suspect = True
            raise
        self._suspect = False
        self.synced = max(self.synced, size)

    def _rewrite(self, start: int, end: int) -> None:
        fd = os.open(
            self.path, os.O_WRONLY
        )  # pwrite on an O_APPEND descriptor appends (Linux pwrite(2), BUGS)
        try:
            while start < end:
                block = os.pread(self._fd, min(1 << 20, end - start), start)
                if not block:
                    return
                start += os.pwrite(fd, block, start)
        finally:
            os.close(fd)

    def is_gone(self) -> bool:
        """Has the file been removed or replaced under its name?"""
        try:
            named = self.path.stat()
        except FileNotFoundError:
            return True
        own = os.fstat(self._fd)
        return (named.st_dev, named.st_ino) != (own.st_dev, own.st_ino)

    def close(self) -> None:
        os.close(self._fd)
