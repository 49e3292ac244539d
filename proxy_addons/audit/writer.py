"""The writer of one chain.

`append` seals a line and hands it to the system in one write; it blocks for the page cache only. `run` does
what may wait for the disk (`open_files`) in a thread of its own: every `fsync_seconds` at the latest it makes new
lines durable, and each `checkpoint_seconds` it signs a checkpoint if there are any.

Each minute `run` also removes what is kept no longer (`retention`). The chain says so first, signed and on disk.

When the system refuses a line (ENOSPC, EFBIG, EIO …) nothing of it stays in the file, `append` raises and the
next call tries again; the first line that works is preceded by an event that counts the lost ones. When fsync
fails, `append` raises until the doubtful lines are rewritten and an fsync works.
"""

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self

from proxy_addons.audit.chain import CheckpointReason, Head, seal_checkpoint, seal_line
from proxy_addons.audit.errors import AuditUnavailableError, explain_unwritable
from proxy_addons.audit.event_record import EventRecord, LogEvent
from proxy_addons.audit.files import list_files, lock_series, parse_series
from proxy_addons.audit.health import AuditHealth, HealthCounter
from proxy_addons.audit.housekeeping import Housekeeping, say_lost, say_pruned
from proxy_addons.audit.keys import AuditKeys
from proxy_addons.audit.moments import render_time
from proxy_addons.audit.open_files import OpenFiles
from proxy_addons.audit.record import Record
from proxy_addons.audit.resume import ResumePoint, load_resume_point
from proxy_addons.audit.retention import LogFile, Retention, choose_files, remove_files
from proxy_addons.audit.segment import SyncFunction

ROTATE_BYTES = 64 << 20
CHECKPOINT_LINES = 1000  # SPEC 1.9, as the two below
CHECKPOINT_SECONDS = 60.0
FSYNC_SECONDS = 0.2

_log = logging.getLogger(__name__)


class AuditLog:
    """An `AuditSink` over files. Made by `open`. `append` may be called from any thread.

    Args of `open`: `clock` gives nanoseconds since 1970 for the time member, `monotonic` seconds for the pace
    of checkpoints, `fsync` makes a descriptor durable.
    """

    def __init__(
        self, directory: Path, series: str, keys: AuditKeys, lock: int, *,
        clock: Callable[[], int], monotonic: Callable[[], float], fsync: SyncFunction,
        rotate_bytes: int, checkpoint_lines: int, checkpoint_seconds: float, fsync_seconds: float,
    ) -> None:  # fmt: skip
        self._directory, self._series, self._keys, self._lock_fd = directory, series, keys, lock
        self._clock, self._monotonic = clock, monotonic
        self._rotate_bytes = rotate_bytes
        self._checkpoint_lines = checkpoint_lines
        self._checkpoint_seconds = checkpoint_seconds
        self._fsync_seconds = fsync_seconds
        self._lock = threading.RLock()  # the chain: head, files, counters
        self._flush_lock = threading.Lock()  # taken before `_lock`; one flush at a time, none while closing
        self._unsigned = 0
        self._signed_at = monotonic()
        self._write_failure: str | None = None
        self._sync_failure: str | None = None
        self._lost = 0
        self._closed = False
        self._health = HealthCounter()
        self._observers: list[Callable[[Record], None]] = []
        self._keeping = Housekeeping(monotonic())
        point = load_resume_point(directory, series, {keys.public.id: keys.public.accepts})
        self._head = point.head
        self._files = OpenFiles(directory, series, point, self._lock, fsync, self._health)
        self._go_on(point)

    @classmethod
    def open(
        cls, directory: Path, series: str, keys: AuditKeys, *,
        clock: Callable[[], int] = time.time_ns, monotonic: Callable[[], float] = time.monotonic,
        fsync: SyncFunction = os.fsync, rotate_bytes: int = ROTATE_BYTES,
        checkpoint_lines: int = CHECKPOINT_LINES, checkpoint_seconds: float = CHECKPOINT_SECONDS,
        fsync_seconds: float = FSYNC_SECONDS,
    ) -> Self:  # fmt: skip
        """The chain `series` in `directory`, begun or gone on with; a torn last line is repaired and noted.

        Reads the last file whole, so call it before serving. Raises AuditUnavailableError: another process
        owns the series, or the directory cannot be read and written; ValueError: a bad series name.
        """
        parse_series(series)
        with ExitStack() as undo:
            try:
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
                lock = lock_series(directory, series)
                undo.callback(os.close, lock)
                log = cls(
                    directory, series, keys, lock, clock=clock, monotonic=monotonic, fsync=fsync,
                    rotate_bytes=rotate_bytes, checkpoint_lines=checkpoint_lines,
                    checkpoint_seconds=checkpoint_seconds, fsync_seconds=fsync_seconds,
                )  # fmt: skip
            except OSError as error:
                raise AuditUnavailableError(explain_unwritable(series, directory, error)) from error
            undo.pop_all()
            return log

    @classmethod
    def open_first(cls, directory: Path, series: Sequence[str], keys: AuditKeys) -> Self:
        """The first of these chains that no other process owns. Raises as `open` does for the last."""
        *others, last = series
        for name in others:
            with suppress(AuditUnavailableError):
                return cls.open(directory, name, keys)
        return cls.open(directory, last, keys)

    @property
    def series(self) -> str:
        return self._series

    @property
    def head(self) -> Head:
        """The last line written."""
        return self._head

    @property
    def available(self) -> bool:
        return self._write_failure is None and self._sync_failure is None and not self._closed

    @property
    def health(self) -> AuditHealth:
        with self._lock:
            return self._health.read(self._monotonic(), available=self.available)

    def observe(self, observer: Callable[[Record], None]) -> None:
        """Call `observer` with each record once its line is written. It must neither wait nor raise."""
        self._observers.append(observer)

    def retain(self, keep: Retention) -> None:
        """What is kept from now on; `run` sees to it."""
        with self._lock:
            self._keeping.take(keep, self._monotonic())

    def query_digest(self, query: str) -> str | None:
        return self._keys.query_digest(query)

    def append(self, record: Record) -> int:
        return self.append_line(record).seq

    def append_line(self, record: Record) -> Head:
        with self._lock:
            if self._closed:
                raise AuditUnavailableError(f"audit log {self._series} is closed")
            if self._sync_failure is not None:
                self._lost += 1
                raise AuditUnavailableError(self._sync_failure)
            try:
                if self._files.current.size >= self._keeping.keep.rotate_bytes(self._rotate_bytes):
                    self._rotate(f"follows {self._files.current.path.name}")
                    self._keeping.hurry(self._monotonic())
                if self._lost:
                    self._note_lost()
                self._put(record)
                self._keeping.wrote_record()
            except OSError as error:
                self._lost += 1
                self._write_failure = self._failed(error)
                raise AuditUnavailableError(self._write_failure) from error
            self._write_failure = None
            head = self._head
            if self._unsigned >= self._checkpoint_lines:
                self._try_checkpoint(CheckpointReason.LINES)
            for observer in self._observers:
                observer(record)
            return head

    async def run(self) -> None:
        tick = self._fsync_seconds / 2  # a line waits one tick at most, then for the disk
        loop = asyncio.get_running_loop()
        thread = ThreadPoolExecutor(1, thread_name_prefix=f"audit-{self._series}")
        try:
            while not self._closed:
                await asyncio.sleep(tick)
                if self._has_work():
                    await loop.run_in_executor(thread, self.flush)
        finally:
            thread.shutdown(wait=False)  # a flush under way is waited for by `close`

    def flush(self) -> None:
        """One turn of `run`: signs when due, makes all lines durable. Blocks; a failure shows in `available`."""
        with self._flush_lock:
            if self._closed:
                return
            with self._lock:
                self._leave_lost_file()
                if self._write_failure is not None:
                    self._probe()
                if self._checkpoint_due():
                    self._try_checkpoint(CheckpointReason.TIME)
            try:
                self._files.sync()
            except OSError as error:
                self._sync_failure = self._failed(error)
                return
            with self._lock:
                self._sync_failure = None
        if self._keeping.is_due(self._monotonic()):
            self._keeping.done(self._monotonic())
            try:
                self.keep_house()
            except OSError as error:  # lines go on being written without it; in a minute it is tried again
                _log.warning("audit log %s: old files stay: %s", self._series, error.strerror or error)

    def keep_house(self) -> tuple[LogFile, ...]:
        """Remove the files of this chain that are kept no longer; which they were. Blocks. Raises OSError."""
        with self._flush_lock:
            if self._closed:
                return ()
            with self._lock:
                if self._keeping.wants_new_file(self._clock()):
                    self._rotate(f"follows {self._files.current.path.name}, which is a day old")
            self._files.sync()
            return self._prune()

    def close(self) -> None:
        with self._flush_lock, self._lock:
            if self._closed:
                return
            self._closed = True
            try:
                if self._unsigned:
                    self._checkpoint(CheckpointReason.STOP)
                self._files.sync()
            except OSError as error:
                raise AuditUnavailableError(
                    explain_unwritable(self._series, self._directory, error)
                ) from error
            finally:
                self._files.close()
                os.close(self._lock_fd)

    # The rest is called with `_lock` held, but `_prune` and `_files.sync` with `_flush_lock`: they take `_lock` where
    # they must.

    def _go_on(self, point: ResumePoint) -> None:
        try:
            if point.file is not None:
                self._keeping.reopen_file(point.file.path)
            for note in point.notes:
                self._put(note)
            event = LogEvent.RESUMED if point.head.seq else LogEvent.OPENED
            self._put(EventRecord(event=event, facts={"pid": os.getpid()}))
            self._checkpoint(CheckpointReason.START)
            self._files.sync()
        except OSError:
            self._files.close()
            raise

    def _put(self, record: Record) -> None:
        now = render_time(self._clock())
        line, head = seal_line(self._series, self._head, now, record)
        self._files.current.write(line)
        self._health.wrote(len(line), self._monotonic())
        self._keeping.wrote(now)
        self._head = head
        self._unsigned += 1

    def _checkpoint(self, reason: CheckpointReason, through: Head | None = None) -> None:
        line, head = seal_checkpoint(
            self._series,
            self._head,
            render_time(self._clock()),
            reason,
            self._keys.public.id,
            self._keys.sign,
            through,
        )
        self._files.current.write(line)
        self._health.wrote(len(line), self._monotonic())
        self._files.show_head(line)
        self._head = head
        self._unsigned, self._signed_at = 0, self._monotonic()

    def _try_checkpoint(self, reason: CheckpointReason) -> None:
        """A checkpoint that cannot be written now stays due; the lines before it are in the file."""
        try:
            self._checkpoint(reason)
        except OSError as error:
            self._write_failure = self._failed(error)

    def _checkpoint_due(self) -> bool:
        if not self._unsigned or self._sync_failure is not None:
            return False
        late = self._monotonic() - self._signed_at >= self._checkpoint_seconds
        return late or self._unsigned >= self._checkpoint_lines

    def _rotate(self, why: str) -> None:
        if self._unsigned:
            self._checkpoint(CheckpointReason.ROTATION)
        self._files.check_pace()
        self._begin_file(self._files.current.number + 1, why)

    def _begin_file(self, number: int, why: str) -> None:
        begun = self._files.begin(number)
        self._keeping.begin_file()
        self._put(EventRecord(event=LogEvent.FILE_BEGUN, detail=why, facts={"file": begun.path.name}))

    def _leave_lost_file(self) -> None:
        """Somebody removed or replaced the file: what goes on being written there would be lost without a
        trace."""
        try:
            gone = self._files.current
            if not gone.is_gone():
                return
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            numbers = [file.number for file in list_files(self._directory).get(self._series, [])]
            self._begin_file(max([gone.number, *numbers]) + 1, f"{gone.path.name} was removed or replaced")
        except OSError as error:
            self._write_failure = self._failed(error)

    def _probe(self) -> None:
        """Can lines be written again? Asked by `run` too, so that `available` recovers without a request."""
        try:
            self._note_lost()
            self._write_failure = None
        except OSError as error:
            self._write_failure = self._failed(error)

    def _note_lost(self) -> None:
        self._put(say_lost(self._lost))
        self._lost = 0

    def _has_work(self) -> bool:
        return bool(
            self._files.wants_sync
            or self._write_failure is not None
            or self._checkpoint_due()
            or self._keeping.is_due(self._monotonic())
        )

    def _prune(self) -> tuple[LogFile, ...]:
        """With `_flush_lock` held."""
        with self._lock:
            busy = self._files.first_number
        going, through = choose_files(self._directory, self._series, busy, self._keeping.keep, self._clock())
        if through is None:
            return ()
        with self._lock:
            if self._keeping.pruned != through:
                self._put(say_pruned(going, through, self._keeping.keep))
                self._checkpoint(CheckpointReason.PRUNED, through)
                self._keeping.pruned = through
        self._files.sync()
        remove_files(self._directory, going)
        return going

    def _failed(self, error: OSError) -> str:
        message = explain_unwritable(self._series, self._directory, error)
        self._health.failed()
        if self.available:
            _log.error("%s; hops are refused until it can", message)
        return message
