"""The ledger of budgets in two SQLite files.

    scratch folder  hops under way and the last minute: of this gateway, made anew at each start
    STATE           bytes of the last days: of all gateways of the installation, private ones too; outlives them

The supervisor makes both files before it starts workers; each worker opens them for itself, in the thread that uses
them. A worker never makes one: with a fresh file of its own it would not see what the others count.

No call waits for a disk: a crash of the machine may lose the bytes of its last seconds, a crash of ours loses
nothing that was written. A call that meets another worker's write tries again after 50 µs; SQLite would wait 1 ms.
"""

import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from proxy_addons.budgets import KEPT_DAYS, BudgetLedgerError, Clock
from proxy_addons.policy.budgets import Day, Minute, day_of, decide_budgets, first_second
from proxy_addons.policy.limits import Profile
from proxy_addons.policy.verdicts import Verdict

BUSY_SECONDS = 1.0
"""Longest wait for another worker's write, which itself takes well below 1 ms; after it: `BudgetLedgerError`."""
_RETRY_SECONDS = 50e-6
_SCRATCH_VERSION = 1
_DAYS_VERSION = 1

_SCRATCH_SCHEMA = """
CREATE TABLE IF NOT EXISTS open_hops (
    agent TEXT NOT NULL,
    owner TEXT NOT NULL,         -- the worker's audit series
    hops INTEGER NOT NULL,
    PRIMARY KEY (agent, owner)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS minute (
    agent TEXT NOT NULL,
    second INTEGER NOT NULL,     -- monotonic clock of this machine
    requests INTEGER NOT NULL,
    PRIMARY KEY (agent, second)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS minute_by_second ON minute (second);
"""
_DAYS_SCHEMA = """
CREATE TABLE IF NOT EXISTS day_bytes (
    agent TEXT NOT NULL,
    day INTEGER NOT NULL,        -- days of UTC since 1970-01-01
    bytes INTEGER NOT NULL,
    PRIMARY KEY (agent, day)
) WITHOUT ROWID;
"""

_OPEN = "SELECT total(hops) FROM open_hops WHERE agent = ?"
_BEGIN = (
    "INSERT INTO open_hops (agent, owner, hops) VALUES (?, ?, 1)"
    " ON CONFLICT (agent, owner) DO UPDATE SET hops = hops + 1"
)
_END = "UPDATE open_hops SET hops = hops - 1 WHERE agent = ? AND owner = ? AND hops > 0"
_CLEAR = "DELETE FROM open_hops WHERE owner = ?"
_REQUESTS = "SELECT total(requests) FROM minute WHERE agent = ? AND second >= ?"
_BY_SECOND = "SELECT second, requests FROM minute WHERE agent = ? AND second >= ? ORDER BY second"
_REQUEST = (
    "INSERT INTO minute (agent, second, requests) VALUES (?, ?, 1)"
    " ON CONFLICT (agent, second) DO UPDATE SET requests = requests + 1"
)
_DROP_SECONDS = "DELETE FROM minute WHERE second < ?"
_DAY = "SELECT total(bytes) FROM day_bytes WHERE agent = ? AND day = ?"
_ADD = (
    "INSERT INTO day_bytes (agent, day, bytes) VALUES (?, ?, ?)"
    " ON CONFLICT (agent, day) DO UPDATE SET bytes = bytes + excluded.bytes RETURNING bytes"
)
_DROP_DAYS = "DELETE FROM day_bytes WHERE day <= ?"


class SqliteBudgetLedger:
    """One worker's way to the two files; see `budgets.BudgetLedger`. owner: its name, which no other has now."""

    def __init__(
        self,
        scratch: Path,
        days: Path,
        owner: str,
        *,
        clock: Clock = time.monotonic,
        utc: Clock = time.time,
        busy_seconds: float = BUSY_SECONDS,
    ) -> None:
        self._owner, self._clock, self._utc = owner, clock, utc
        self._dropped_seconds = self._dropped_days = 0
        self._scratch = _SharedFile(scratch, _SCRATCH_VERSION, busy_seconds)
        try:
            self._days = _SharedFile(days, _DAYS_VERSION, busy_seconds)
            self._scratch.run(lambda db: db.execute(_CLEAR, (owner,)))
        except BudgetLedgerError:
            self.close()
            raise

    def begin_hop(self, agent: str, profile: Profile, day: Day | None = None) -> Verdict:
        if profile.concurrent_hops is None and profile.requests_per_minute is None:
            return decide_budgets(profile, day=day)
        return self._scratch.change(lambda db: self._begin(db, agent, profile, day))

    def _begin(self, db: sqlite3.Connection, agent: str, profile: Profile, day: Day | None) -> Verdict:
        open_hops, minute = 0, None
        now = self._clock()  # read inside the write lock: the seconds of all workers then grow together
        if profile.concurrent_hops is not None:
            open_hops = int(db.execute(_OPEN, (agent,)).fetchone()[0])
        if profile.requests_per_minute is not None:
            minute = _read_minute(db, agent, now, profile.requests_per_minute)
        verdict = decide_budgets(profile, open_hops=open_hops, minute=minute, day=day)
        if verdict.refused:
            return verdict
        if profile.concurrent_hops is not None:
            db.execute(_BEGIN, (agent, self._owner))
        if profile.requests_per_minute is not None:
            db.execute(_REQUEST, (agent, int(now // 1)))
            oldest = first_second(now)
            if oldest > self._dropped_seconds:
                self._dropped_seconds = oldest
                db.execute(_DROP_SECONDS, (oldest,))
        return verdict

    def end_hop(self, agent: str) -> None:
        self._scratch.run(lambda db: db.execute(_END, (agent, self._owner)))

    def read_day(self, agent: str) -> Day:
        now = self._utc()
        rows = self._days.run(lambda db: db.execute(_DAY, (agent, day_of(now))).fetchall())
        return Day(now, int(rows[0][0]))

    def add_bytes(self, agent: str, size: int) -> Day:
        now = self._utc()
        today = day_of(now)
        # One statement is one transaction, ended once its rows are fetched.
        rows = self._days.run(lambda db: db.execute(_ADD, (agent, today, size)).fetchall())
        if today > self._dropped_days:
            self._dropped_days = today
            self._days.run(lambda db: db.execute(_DROP_DAYS, (today - KEPT_DAYS,)))
        return Day(now, int(rows[0][0]))

    def close(self) -> None:
        for file in (self._scratch, getattr(self, "_days", None)):
            if file is not None:
                file.close()


def _read_minute(db: sqlite3.Connection, agent: str, now: float, limit: int) -> Minute:
    oldest = first_second(now)
    requests = int(db.execute(_REQUESTS, (agent, oldest)).fetchone()[0])
    if requests < limit:
        return Minute(now, requests)
    return Minute(now, requests, tuple(db.execute(_BY_SECOND, (agent, oldest)).fetchall()))


class _SharedFile:
    """An SQLite file of several processes, opened by one of them. Every failure is a `BudgetLedgerError`."""

    def __init__(self, path: Path, version: int, busy_seconds: float) -> None:
        self._path, self._busy_seconds = path, busy_seconds
        try:
            self._id = _identify(path)
            self._db = sqlite3.connect(
                f"file:{quote(os.fspath(path))}?mode=rw", uri=True, autocommit=True, timeout=0
            )
        except (sqlite3.Error, OSError) as error:
            raise self._broken(error) from error
        try:
            self.run(lambda db: _check_version(db, version))
            self.run(lambda db: db.execute("PRAGMA synchronous = OFF"))
        except BudgetLedgerError:
            self._db.close()
            raise

    def run[T](self, work: Callable[[sqlite3.Connection], T]) -> T:
        """What `work`, a single statement, gives."""
        try:
            # An open connection works on happily after its file was removed or replaced; we must not.
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

    def _broken(self, reason: object) -> BudgetLedgerError:
        return BudgetLedgerError(f"ledger of budgets {self._path} cannot be used ({reason})")


def create_scratch_file(path: Path) -> None:
    """Make the file of hops under way, empty, in place of any former one. Raises `BudgetLedgerError`."""
    try:
        for stale in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
            stale.unlink(missing_ok=True)
        _make(path, _SCRATCH_SCHEMA, _SCRATCH_VERSION)
    except (sqlite3.Error, OSError) as error:
        raise BudgetLedgerError(
            f"ledger of budgets {path} cannot be made ({error}); see that its directory exists and is writable"
        ) from error


def prepare_days_file(path: Path) -> None:
    """Make the file of bytes by day where there is none; others may use or make it meanwhile.

    Raises `BudgetLedgerError` for a file that cannot be used.
    """
    try:
        _make(path, _DAYS_SCHEMA, _DAYS_VERSION)
    except (sqlite3.Error, OSError) as error:
        raise BudgetLedgerError(
            f"ledger of budgets {path} cannot be used ({error}); if it is damaged, remove it: bytes_per_day then"
            " counts anew"
        ) from error


def _make(path: Path, schema: str, version: int) -> None:
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
