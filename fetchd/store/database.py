"""One SQLite file: opened safely, migrated forward, used from one thread, its errors said in one line.

The schema's version stands in the file (`user_version`) and counts the steps of `MIGRATIONS` that were made. A
step, once released, is never changed; what changes later is a step more. An older file is brought up to date in
one transaction, a newer one is refused.
"""

import asyncio
import errno
import os
import sqlite3
import stat
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Final, Self
from urllib.parse import quote

from fetchd.errors import DatabaseDamagedError, DatabaseReplacedError, StoreUnavailableError
from proxy_addons.audit.keys import sync_directory

APPLICATION_ID: Final = 0x66657464
"""``fetd``: whose file this is."""
BUSY_MS: Final = 5_000
"""Longest wait for another process's transaction, which itself takes a few ms."""
_BREAK_SECONDS: Final = 0.1
"""After which a job that is to be broken off is interrupted once more: it may have been between two statements."""


class Database:
    """A connection in a thread of its own; jobs run one at a time, each a transaction. Made by `open`."""

    def __init__(self, path: Path, migrations: Sequence[str], busy_ms: int) -> None:
        self._path: Final = path
        self._migrations: Final = migrations
        self._busy_ms: Final = busy_ms
        self._thread: Final = ThreadPoolExecutor(1, thread_name_prefix="records")
        self._connection: sqlite3.Connection | None = None
        self._file_id = (0, 0)
        self._names_durable = False
        self._closed = False

    @classmethod
    async def open(cls, path: Path, migrations: Sequence[str], *, busy_ms: int = BUSY_MS) -> Self:
        """The file at `path`, made if need be, readable by its owner only. Raises StoreUnavailableError."""
        database = cls(path, migrations, busy_ms)
        try:
            await database._in_thread(database._connect)
        except BaseException:
            await database.close()
            raise
        return database

    async def read[T](self, job: Callable[[sqlite3.Connection], T]) -> T:
        """`job` on one state of the database. Raises StoreUnavailableError, and what `job` raises."""
        return await self._in_thread(lambda: self._transact("BEGIN", job))

    async def read_within[T](self, seconds: float, job: Callable[[sqlite3.Connection], T]) -> T:
        """As `read`, but a job that is not done in time, or whose caller has left, is broken off. Raises
        TimeoutError too."""
        breakable = _Breakable(job)
        try:
            async with asyncio.timeout(seconds):
                return await self.read(breakable)
        except (TimeoutError, asyncio.CancelledError):
            breakable.break_off(asyncio.get_running_loop())
            raise

    async def write[T](self, job: Callable[[sqlite3.Connection], T]) -> T:
        """`job` alone with the database; all it wrote is kept, or nothing. Once begun it ends, whoever waits for
        it. Raises StoreUnavailableError, and what `job` raises."""
        return await self._in_thread(lambda: self._transact("BEGIN IMMEDIATE", job))

    async def flush(self) -> None:
        """What was written outlives a power cut from now on."""
        await self._in_thread(self._sync)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        await asyncio.get_running_loop().run_in_executor(self._thread, self._disconnect)
        self._thread.shutdown(wait=False)

    async def _in_thread[T](self, job: Callable[[], T]) -> T:
        if self._closed:
            raise StoreUnavailableError(f"records {self._path}: closed")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, job)
        except sqlite3.Error as error:
            raise self._unavailable(error) from error
        except OSError as error:
            raise StoreUnavailableError(f"records {self._path}: {error.strerror or error}") from error

    # The rest runs in the thread, and may raise sqlite3.Error and OSError.

    def _connect(self) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._prepare_file()
        self._file_id = self._identify()
        db = sqlite3.connect(
            f"file:{quote(os.fspath(self._path))}?mode=rw",
            uri=True,
            autocommit=True,
            timeout=self._busy_ms / 1000,
        )
        self._connection = db
        db.execute("PRAGMA foreign_keys = ON")
        self._check_version(db)
        db.execute("PRAGMA journal_mode = WAL")
        # Consistent after a power cut; what it may lose is what `flush` has not yet made durable.
        db.execute("PRAGMA synchronous = NORMAL")
        self._transact("BEGIN IMMEDIATE", self._migrate)

    def _prepare_file(self) -> None:
        """Makes the file, or closes it to others: SQLite would make it with the umask's mode, and its -wal and -shm
        files copy the mode they find.

        One that is there is not opened for that: closing any descriptor of a file drops the locks that this process
        has on it, those of another connection too (fcntl, POSIX), and whoever closes next then removes the log from
        under it.
        """
        try:
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            mode = self._path.lstat().st_mode
            if stat.S_ISLNK(mode):
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None
            if stat.S_ISDIR(mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR)) from None
            if mode & 0o077:
                self._path.chmod(0o600)

    def _check_version(self, db: sqlite3.Connection) -> int:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        (owner,) = db.execute("PRAGMA application_id").fetchone()
        (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if owner != APPLICATION_ID and (owner or version or tables):
            raise StoreUnavailableError(
                f"records {self._path}: this is another program's database; move it away"
            )
        if version > len(self._migrations):
            raise StoreUnavailableError(
                f"records {self._path}: made by a newer fetchd (schema {version}, this one knows up to "
                f"{len(self._migrations)}); use that one"
            )
        return int(version)

    def _migrate(self, db: sqlite3.Connection) -> None:
        version = self._check_version(db)  # again: another process may have been at it
        for step in self._migrations[version:]:
            db.executescript(step)
        if version < len(self._migrations):
            db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            db.execute(f"PRAGMA user_version = {len(self._migrations)}")

    def _transact[T](self, begin: str, job: Callable[[sqlite3.Connection], T]) -> T:
        db = self._connection
        if db is None:
            raise StoreUnavailableError(f"records {self._path}: closed")
        if self._identify() != self._file_id:
            # A connection works on happily after its file was removed or replaced; what it writes is lost.
            raise DatabaseReplacedError(f"records {self._path}: replaced while in use; restart")
        db.execute(begin)
        try:
            result = job(db)
            db.execute("COMMIT")
            return result
        finally:
            if db.in_transaction:
                db.execute("ROLLBACK")

    def _sync(self) -> None:
        """The write-ahead log holds whatever a checkpoint has not moved to the file, and a checkpoint syncs."""
        try:
            fd = os.open(f"{self._path}-wal", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
        if not self._names_durable:
            sync_directory(self._path.parent)
            self._names_durable = True

    def _identify(self) -> tuple[int, int]:
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return (0, 0)
        return status.st_dev, status.st_ino

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _unavailable(self, error: sqlite3.Error) -> StoreUnavailableError:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the primary code
        kind = DatabaseDamagedError if code in _DAMAGES else StoreUnavailableError
        return kind(f"records {self._path}: {_REASONS.get(code, str(error))}")


_DAMAGED: Final = "damaged; move it away with its -wal and -shm files, or restore a copy"
_DAMAGES: Final = frozenset((sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB))
_REASONS: Final = {
    sqlite3.SQLITE_FULL: "the disk is full; make room and try again",
    sqlite3.SQLITE_READONLY: "cannot be written; see to the permissions of file and directory",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened; see to the permissions of file and directory",
    sqlite3.SQLITE_PERM: "cannot be opened; see to the permissions of file and directory",
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_NOTADB: _DAMAGED,
    sqlite3.SQLITE_BUSY: "in use by another process for too long; try again",
    sqlite3.SQLITE_LOCKED: "in use by another process for too long; try again",
    sqlite3.SQLITE_IOERR: "the disk cannot be read or written; see the system's log",
}
"""SQLite's primary result codes, as what to do."""


class _Breakable[T]:
    """A job that can be broken off from another thread. What else the connection does is left alone."""

    def __init__(self, job: Callable[[sqlite3.Connection], T]) -> None:
        self._job: Final = job
        self._lock: Final = Lock()
        self._running: sqlite3.Connection | None = None
        self._off = False

    def __call__(self, db: sqlite3.Connection) -> T:
        with self._lock:
            if self._off:
                raise StoreUnavailableError("broken off")
            self._running = db
        try:
            return self._job(db)
        finally:
            with self._lock:
                self._running = None

    def break_off(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            self._off = True
            if self._running is None:
                return
            self._running.interrupt()
        if not loop.is_closed():
            loop.call_later(_BREAK_SECONDS, self.break_off, loop)
