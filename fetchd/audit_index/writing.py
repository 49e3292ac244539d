"""Rows into SQLite, a batch a transaction: how far a file was taken in is written with its rows, or neither is.

One process writes (`indexer` holds a lock). A file of another version, or a damaged one, is removed and made again.
"""

import os
import sqlite3
from collections import Counter, OrderedDict
from pathlib import Path
from typing import Any, Final, NamedTuple, Self
from urllib.parse import quote

from proxy_addons.audit.reader import parse_log_line

from .entries import Ending, Entry, final_verdict, read_entry
from .interface import HOP, HOUR_SLOTS, OPEN, SLOT
from .schema import APPLICATION_ID, SCHEMA, VERSION
from .tail import Batch, FileKey, Progress

FORGET_ROWS: Final = 5_000
"""Rows removed in one transaction, so that readers and the disk get their turns."""
MAX_NAMES: Final = 20_000
"""Names whose numbers are remembered."""
CACHE_KIB: Final = 32_768
_SUFFIXES: Final = ("", "-wal", "-shm")

type TallyKey = tuple[int, int, int, int, int]


class _Kept(NamedTuple):
    """What a row has in the index and an ending may change."""

    number: int
    time: int
    kind: int
    agent: int
    verdict: int
    rule: int


class IndexWriter:
    """Made by `open`. Not for two threads at once. Raises sqlite3.Error, OSError."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db: Final = db
        self._ids: Final[OrderedDict[tuple[str, str], int]] = OrderedDict()
        self._texts: Final[OrderedDict[int, str]] = OrderedDict()
        self.known: Final[dict[FileKey, Progress]] = {}
        self._files: Final[dict[FileKey, int]] = {}
        for number, chain, count, mark, done, time in db.execute(
            "SELECT * FROM files ORDER BY chain, number"
        ):
            self.known[chain, count] = Progress(mark, done, time)
            self._files[chain, count] = number

    @classmethod
    def open(cls, path: Path) -> Self:
        """The index at `path`, for this user alone; empty where there was none that can be used."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            return cls(_connect(path))
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError) and not is_damage(error):
                raise
            remove_index(path)
            return cls(_connect(path))

    def close(self) -> None:
        """Leaves nothing open."""
        self._db.close()

    def take(self, batch: Batch) -> None:
        """The rows of a batch; those it changes are changed."""
        key = (batch.file.series, batch.file.number)
        before = self.known.get(key)
        time = before.time if before is not None else 0
        fresh: dict[
            int, tuple[Entry, int, int | None]
        ] = {}  # seq → entry, where it begins, where its close line does
        alone: list[tuple[Entry, int]] = []
        endings: list[tuple[Ending, int]] = []
        for start, raw in batch.lines:
            found = read_entry(parse_log_line(batch.file.series, raw), time)
            if found is None:
                continue
            if isinstance(found, Ending):
                time = found.alone.time
                joined = fresh.get(found.decision)
                if joined is not None and joined[0].verdict == OPEN:
                    joined[0].end(found)
                    fresh[found.decision] = (joined[0], joined[1], start)
                else:
                    endings.append((found, start))
            else:
                time = found.time
                # A number twice is tampering; both are shown.
                if found.seq in fresh:
                    alone.append((found, start))
                else:
                    fresh[found.seq] = (found, start, None)
        self._transact(batch, key, time, fresh, alone, endings)

    def _transact(
        self,
        batch: Batch,
        key: FileKey,
        time: int,
        fresh: dict[int, tuple[Entry, int, int | None]],
        alone: list[tuple[Entry, int]],
        endings: list[tuple[Ending, int]],
    ) -> None:
        tally: Counter[TallyKey] = Counter()
        self._db.execute("BEGIN IMMEDIATE")
        try:
            file = self._enter_file(key, batch, time)
            rows = [self._row(one, file, start, close) for one, start, close in fresh.values()]
            rows += [self._row(one, file, start, None) for one, start in alone]
            self._db.executemany(_INSERT, rows)
            for ending, start in endings:
                kept = self._find(ending)
                if kept is None:
                    rows.append(self._row(ending.alone, file, start, None))
                    self._db.execute(_INSERT, rows[-1])
                else:
                    self._end(kept, ending, file, start, tally)
            for row in rows:
                tally[row[0] // SLOT, row[3], row[4], row[6], row[7]] += 1
            self._add(tally)
            self._count(len(batch.lines), len(rows))
            self._db.execute("COMMIT")
        except BaseException:
            self._roll_back()
            raise
        self.known[key] = Progress(batch.mark, batch.done, time)
        self._files[key] = file

    def forget(self, key: FileKey) -> None:
        """Removes the rows of a file that is not there any more, in several transactions."""
        file = self._files.get(key)
        if file is None:
            return
        chain = self._id("chain", key[0])
        while self._forget_some(chain, file):
            pass
        with_file = [key[0], key[1]]
        self._db.execute("DELETE FROM files WHERE chain = ? AND number = ?", with_file)
        del self.known[key], self._files[key]

    def _forget_some(self, chain: int, file: int) -> bool:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            gone = self._db.execute(
                "SELECT number, time / ?, kind, agent, verdict, rule FROM rows INDEXED BY by_line"
                " WHERE chain = ? AND file = ? LIMIT ?",
                [SLOT, chain, file, FORGET_ROWS],
            ).fetchall()
            self._db.executemany("DELETE FROM rows WHERE number = ?", [row[:1] for row in gone])
            tally: Counter[TallyKey] = Counter()
            tally.subtract(row[1:] for row in gone)
            self._add(tally)
            self._count(0, -len(gone))
            self._db.execute("COMMIT")
        except BaseException:
            self._roll_back()
            raise
        return len(gone) == FORGET_ROWS

    # -- parts of a transaction

    def _enter_file(self, key: FileKey, batch: Batch, time: int) -> int:
        (number,) = self._db.execute(
            "INSERT INTO files (chain, number, mark, done, time) VALUES (?, ?, ?, ?, ?)"
            " ON CONFLICT DO UPDATE SET mark = excluded.mark, done = excluded.done, time = excluded.time"
            " RETURNING id",
            [*key, batch.mark, batch.done, time],
        ).fetchone()
        return int(number)

    def _row(self, one: Entry, file: int, start: int, close: int | None) -> tuple[Any, ...]:
        return (
            one.time, self._id("chain", one.chain), one.seq, self._id("kind", one.kind),
            self._id("agent", one.agent), self._id("host", one.host), self._id("verdict", one.verdict),
            self._id("rule", one.rule), self._id("method", one.method), one.status, one.bytes, one.ms,
            file, start, file if close is not None else None, close, one.fetch_id, one.target, one.detail,
        )  # fmt: skip

    def _find(self, ending: Ending) -> _Kept | None:
        found = self._db.execute(
            "SELECT number, time, kind, agent, verdict, rule FROM rows"
            " WHERE chain = ? AND seq = ? AND kind = ? AND verdict = ? LIMIT 1",
            [
                self._id("chain", ending.chain),
                ending.decision,
                self._id("kind", HOP),
                self._id("verdict", OPEN),
            ],
        ).fetchone()
        return _Kept(*found) if found is not None else None

    def _end(self, kept: _Kept, ending: Ending, file: int, start: int, tally: Counter[TallyKey]) -> None:
        words = final_verdict(self._text(kept.rule), ending)
        verdict, rule = self._id("verdict", words[0]), self._id("rule", words[1])
        self._db.execute(
            "UPDATE rows SET verdict = ?, rule = ?, status = ?, bytes = ?, ms = ?, close_file = ?, close_start = ?,"
            " detail = ifnull(nullif(?, ''), detail) WHERE number = ?",
            [
                verdict,
                rule,
                ending.status,
                ending.bytes,
                ending.ms,
                file,
                start,
                ending.alone.detail,
                kept.number,
            ],
        )
        slot = kept.time // SLOT
        tally[slot, kept.kind, kept.agent, kept.verdict, kept.rule] -= 1
        tally[slot, kept.kind, kept.agent, verdict, rule] += 1

    def _add(self, tally: Counter[TallyKey]) -> None:
        hours: Counter[TallyKey] = Counter()
        for (slot, kind, agent, verdict, rule), number in tally.items():
            hours[slot // HOUR_SLOTS * HOUR_SLOTS, kind, agent, verdict, rule] += number
        for table, counts in (("tally", tally), ("hours", hours)):
            self._db.executemany(
                f"INSERT INTO {table} VALUES (?, ?, ?, ?, ?, ?)"  # noqa: S608 (one of two names)
                " ON CONFLICT DO UPDATE SET rows = rows + excluded.rows",
                [(*key, number) for key, number in counts.items() if number],
            )

    def _count(self, lines: int, rows: int) -> None:
        self._db.execute(
            "UPDATE state SET lines = lines + ?, rows = rows + ?, revision = revision + 1", [lines, rows]
        )

    def _id(self, what: str, text: str) -> int:
        if not text:
            return 0
        key = (what, text)
        found = self._ids.get(key)
        if found is not None:
            return found
        self._db.execute("INSERT OR IGNORE INTO names (what, text) VALUES (?, ?)", key)
        (number,) = self._db.execute("SELECT id FROM names WHERE what = ? AND text = ?", key).fetchone()
        _remember(self._ids, key, int(number))
        return int(number)

    def _text(self, number: int) -> str:
        if not number:
            return ""
        found = self._texts.get(number)
        if found is None:
            (found,) = self._db.execute("SELECT text FROM names WHERE id = ?", [number]).fetchone()
            _remember(self._texts, number, found)
        return str(found)

    def _roll_back(self) -> None:
        self._ids.clear()  # numbers of names that were not kept
        self._texts.clear()
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")


_INSERT: Final = (
    "INSERT INTO rows (time, chain, seq, kind, agent, host, verdict, rule, method, status, bytes, ms, file, start,"
    " close_file, close_start, fetch_id, target, detail)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


def _remember[K, V](known: OrderedDict[K, V], key: K, value: V) -> None:
    known[key] = value
    if len(known) > MAX_NAMES:
        known.popitem(last=False)


def is_damage(error: sqlite3.Error) -> bool:
    """Whether the file is no database of ours any more."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the primary code
    return code in (
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_SCHEMA,
        sqlite3.SQLITE_ERROR,
    )


def remove_index(path: Path) -> None:
    """Takes the index away; it is made again from the log."""
    for suffix in _SUFFIXES:
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _connect(path: Path) -> sqlite3.Connection:
    """A connection to a file of this version, made if need be. Raises sqlite3.DatabaseError for any other."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    os.close(fd)
    db = sqlite3.connect(f"file:{quote(os.fspath(path))}?mode=rw", uri=True, autocommit=True, timeout=5)
    try:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        (owner,) = db.execute("PRAGMA application_id").fetchone()
        (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if (version, owner) != (VERSION, APPLICATION_ID):
            if version or owner or tables:
                raise sqlite3.DatabaseError("an index of another version")
            db.execute("PRAGMA journal_mode = WAL")
            db.executescript(f"BEGIN; {SCHEMA} COMMIT;")
        # Whole after a power cut; what it may lose is taken from the log again.
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        db.execute("PRAGMA temp_store = MEMORY")
    except BaseException:
        db.close()
        raise
    return db
