"""The open files of one chain, and what of them is known to be on disk.

The head file follows only after the checkpoint it copies is on disk, so it never promises a line that a power cut
could take.
"""

import errno
import threading
import time
from pathlib import Path

from proxy_addons.audit.files import series_path, write_head
from proxy_addons.audit.health import HealthCounter
from proxy_addons.audit.keys import sync_directory
from proxy_addons.audit.resume import ResumePoint
from proxy_addons.audit.segment import Segment, SyncFunction

_MAX_FULL = 64
"""Full files that wait for their last fsync, each an open descriptor; as a rule one."""


class OpenFiles:
    """The file that lines go into (`current`), and full ones that wait for their last fsync.

    The owner holds `lock` around every call but `sync`, which takes it where it must and is for one thread at a time.
    """

    def __init__(
        self,
        directory: Path,
        series: str,
        point: ResumePoint,
        lock: threading.RLock,
        fsync: SyncFunction,
        health: HealthCounter,
    ) -> None:
        """Goes on where `point` says. Raises OSError."""
        self.current = _open_first(directory, series, point)
        self._directory, self._series = directory, series
        self._lock, self._fsync, self._health = lock, fsync, health
        self._full: list[Segment] = []
        self._names_made, self._names_durable = (
            1,
            0,
        )  # files made in the directory, and of these known to last
        self._head_line: bytes | None = None  # the checkpoint that the head file has yet to show

    def check_pace(self) -> None:
        """Raises OSError where the disk is too far behind for one more file to be full."""
        if len(self._full) >= _MAX_FULL:
            raise OSError(errno.EBUSY, "the disk does not keep up")

    def begin(self, number: int) -> Segment:
        """Make the next file the current one. Raises OSError, and nothing has changed."""
        begun = Segment.create(series_path(self._directory, self._series, number), number)
        self._full.append(self.current)
        self.current = begun
        self._names_made += 1
        return begun

    def show_head(self, line: bytes) -> None:
        """Have the head file show this checkpoint, once it is on disk."""
        self._head_line = line

    @property
    def first_number(self) -> int:
        """That of the earliest file that is open."""
        return min([self.current.number, *(file.number for file in self._full)])

    @property
    def wants_sync(self) -> bool:
        """Whether anything is not known to be on disk."""
        return bool(
            self.current.dirty or self._full or self._head_line or self._names_made != self._names_durable
        )

    def sync(self) -> None:
        """Make durable what is written so far, then show its last checkpoint in the head file. Raises OSError."""
        with self._lock:
            current, size, full = self.current, self.current.size, list(self._full)
            head_line, names = self._head_line, self._names_made
            self._health.begin_sync()
        synced_at = None
        try:
            for file in full:
                file.sync(file.size, self._fsync)
            current.sync(size, self._fsync)
            if names != self._names_durable:
                sync_directory(self._directory)
                self._names_durable = names
            synced_at = time.time()
        finally:
            with self._lock:
                self._health.end_sync(synced_at)
        with self._lock:
            self._full = self._full[len(full) :]
        for file in full:
            file.close()
        if head_line is not None:
            write_head(self._directory, self._series, head_line)
            with self._lock:
                if self._head_line is head_line:
                    self._head_line = None

    def close(self) -> None:
        for file in (*self._full, self.current):
            file.close()


def _open_first(directory: Path, series: str, point: ResumePoint) -> Segment:
    if point.file is None:
        return Segment.create(series_path(directory, series, point.number), point.number)
    return Segment.reopen(point.file.path, point.number, point.size)
