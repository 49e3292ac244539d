"""An SQLite file that several processes of this machine use side by side: one maker, and workers that open it.

A worker never makes one: with a fresh file of its own it would not see what the others wrote. An open SQLite
connection works on happily after its file was removed or replaced; here that is a failure.

No call waits for a disk: a crash of the machine may lose the last seconds, a crash of ours loses nothing that was
written. A call that meets another process's write tries again after 50 µs; SQLite would wait 1 ms. Calls are made in
the thread that opened the file: a connection does not survive a fork.
"""

import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

BUSY_SECONDS = 1.0
"""Longest wait for another process's write, which itself takes well below 1 ms; after it the call fails."""
_RETRY_SECONDS = 50e-6


class SharedFile:
    """One process's way to the file. Every failure is raised as what `broken` makes of its reason."""

    def __init__(
        self,
        path: Path,
        version: int,
        broken: Callable[[object], Exception],
        *,
        busy_seconds: float = BUSY_SECONDS,
    ) -> None:
        self._path, self._broken, self._busy_seconds = path, broken, busy_seconds
        try:
            self._id = _identify(path)
            self._db = sqlite3.connect(
                f"file:{quote(os.fspath(path))}?mode=rw", uri=True, autocommit=True, timeout=0
            )
        except (sqlite3.Error, OSError) as error:
            raise broken(error) from error
        try:
            self.run(lambda db: _check_version(db, version))
            self.run(lambda db: db.execute("PRAGMA synchronous = OFF"))
        except BaseException:
            self._db.close()
            raise

    def run[T](self, work: Callable[[sqlite3.Connection], T]) -> T:
        """What `work`, a single statement, gives."""
        try:
            if _identify(self._path) != self._id:
                raise self._broken("it was replaced while in use")
            return _patiently(lambda: work(self._db), self._busy_seconds)
        except (sqlite3.Error, OSError, ValueError) as error:
            raise self._broken(error) from error

    def change[T](self, work: Callable[[sqlite3.Connection], T]) -> T:
        """What `work` gives, all its statements one transaction."""
        self.run(lambda db: db.execute("BEGIN IMMEDIATE"))
        try:
            result = work(self._db)
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            raise self._broken(error) from error
        finally:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
        return result

    def close(self) -> None:
        self._db.close()


def make_afresh(path: Path, schema: str, version: int) -> None:
    """Make the file, empty, in place of any former one; who has that open fails from then on. Raises as `make`."""
    for stale in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
        stale.unlink(missing_ok=True)
    make(path, schema, version)


def make(path: Path, schema: str, version: int) -> None:
    """Make the file, its owner's alone, where there is none; others may use or make it meanwhile.

    Raises sqlite3.Error, for a file of another version too, or OSError.
    """
    # SQLite would make the file with the umask's mode; its -wal and -shm files copy the mode they find.
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    db = sqlite3.connect(path, autocommit=True, timeout=0)
    try:
        (found,) = _patiently(lambda: db.execute("PRAGMA user_version").fetchone(), BUSY_SECONDS)
        if found == 0:
            script = f"PRAGMA journal_mode = WAL; BEGIN IMMEDIATE; {schema} PRAGMA user_version = {version}; COMMIT;"
            _patiently(lambda: db.executescript(script), BUSY_SECONDS)
        elif found != version:
            raise sqlite3.DatabaseError(f"version {found}, not {version}")
    finally:
        db.close()


def _check_version(db: sqlite3.Connection, version: int) -> None:
    (found,) = db.execute("PRAGMA user_version").fetchone()
    if found != version:
        raise sqlite3.DatabaseError(f"version {found}, not {version}")


def _patiently[T](step: Callable[[], T], seconds: float) -> T:
    """What `step` gives, tried again while another process writes; raises sqlite3.Error as SQLite does."""
    until = time.monotonic() + seconds
    while True:
        try:
            return step()
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
            if not busy or time.monotonic() > until:
                raise
        time.sleep(_RETRY_SECONDS)


def _identify(path: Path) -> tuple[int, int]:
    status = os.stat(path)  # noqa: PTH116 (asked for each hop: half the cost of Path.stat)
    return status.st_dev, status.st_ino
