"""The ledger of budgets in two SQLite files.

    scratch folder  hops under way and the last minute: of this gateway, made anew at each start
    STATE           bytes of the last days: of all gateways of the installation, private ones too; outlives them

The supervisor makes both files before it starts workers; each worker opens them for itself (`shared_file`).
"""

import sqlite3
import time
from pathlib import Path

from proxy_addons.budgets import KEPT_DAYS, BudgetLedgerError, Clock
from proxy_addons.policy.budgets import Day, Minute, day_of, decide_budgets, first_second
from proxy_addons.policy.limits import Profile
from proxy_addons.policy.verdicts import Verdict
from proxy_addons.shared_file import BUSY_SECONDS, SharedFile, make, make_afresh

DAYS_FILE = "budgets.db"
"""In the state directory: what `bytes_per_day` counts."""
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
        self._scratch = _open(scratch, _SCRATCH_VERSION, busy_seconds)
        try:
            self._days = _open(days, _DAYS_VERSION, busy_seconds)
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


def _open(path: Path, version: int, busy_seconds: float) -> SharedFile:
    def broken(reason: object) -> BudgetLedgerError:
        return BudgetLedgerError(f"ledger of budgets {path} cannot be used ({reason})")

    return SharedFile(path, version, broken, busy_seconds=busy_seconds)


def create_scratch_file(path: Path) -> None:
    """Make the file of hops under way, empty, in place of any former one. Raises `BudgetLedgerError`."""
    try:
        make_afresh(path, _SCRATCH_SCHEMA, _SCRATCH_VERSION)
    except (sqlite3.Error, OSError) as error:
        raise BudgetLedgerError(
            f"ledger of budgets {path} cannot be made ({error}); see that its directory exists and is writable"
        ) from error


def prepare_days_file(path: Path) -> None:
    """Make the file of bytes by day where there is none; others may use or make it meanwhile.

    Raises `BudgetLedgerError` for a file that cannot be used.
    """
    try:
        make(path, _DAYS_SCHEMA, _DAYS_VERSION)
    except (sqlite3.Error, OSError) as error:
        raise BudgetLedgerError(
            f"ledger of budgets {path} cannot be used ({error}); if it is damaged, remove it: bytes_per_day then"
            " counts anew"
        ) from error
