"""The index as the daemon reads it: questions in threads of their own, each with a time limit.

The file may be made again while it is read (`indexer`); a question that finds another file opens that one.
"""

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Final
from urllib.parse import quote

from .interface import (
    HOP,
    MAX_LIMIT,
    SLOT,
    STOPPED,
    STOPS,
    Cursor,
    Filter,
    HostTally,
    IndexStatus,
    IndexUnavailableError,
    Name,
    Place,
    Row,
    Tally,
    TooMuchError,
)
from .queries import Wanted, select_rows, select_tally

THREADS: Final = 2
QUESTION_SECONDS: Final = 5.0
STEPS: Final = 20_000
"""Steps of SQLite's machine between two looks at the clock: about a millisecond."""
MAX_HOSTS: Final = 500
"""Hosts below a domain that one question looks at."""
_READING: Final = "the index is being made; look again in a moment"


class _Connection:
    """One thread's, with the names it has seen."""

    def __init__(self, path: Path) -> None:
        self.file: Final = _identify(path)
        self.db: Final = sqlite3.connect(
            f"file:{quote(os.fspath(path))}?mode=ro",
            uri=True,
            autocommit=True,
            timeout=5,
            check_same_thread=False,
        )
        self.names: Final[dict[int, str]] = {0: ""}
        self.until = 0.0
        self.db.set_progress_handler(self._is_late, STEPS)

    def _is_late(self) -> int:
        return time.monotonic() > self.until

    def text(self, number: int) -> str:
        found = self.names.get(number)
        if found is None:
            row = self.db.execute("SELECT text FROM names WHERE id = ?", [number]).fetchone()
            found = self.names[number] = row[0] if row is not None else ""
        return found

    def number(self, what: str, text: str) -> int | None:
        row = self.db.execute("SELECT id FROM names WHERE what = ? AND text = ?", [what, text]).fetchone()
        return int(row[0]) if row is not None else None


class SqliteAuditIndex:
    """Over the file at `path`, which `indexer` writes. Closed by `close`."""

    def __init__(self, path: Path, seconds: float = QUESTION_SECONDS) -> None:
        self._path: Final = path
        self._seconds: Final = seconds
        self._idle: Final[list[_Connection]] = []
        self._threads: Final = ThreadPoolExecutor(THREADS, thread_name_prefix="audit-index")

    def close(self) -> None:
        """Questions under way end first."""
        self._threads.shutdown()
        for found in self._idle:
            found.db.close()
        self._idle.clear()

    async def find(self, wanted: Filter, *, before: Cursor | None = None, limit: int = 100) -> Sequence[Row]:
        """As the interface says."""

        def job(found: _Connection) -> Sequence[Row]:
            known = _look_up(found, wanted)
            if known is None:
                return ()
            query = select_rows(known, before)
            rows = found.db.execute(
                f"SELECT {_COLUMNS} FROM rows JOIN (SELECT number AS wanted FROM {query.source}"  # noqa: S608 (ours)
                " ORDER BY time DESC, number DESC LIMIT ?) ON number = wanted ORDER BY time DESC, number DESC",
                [*query.values, max(0, min(limit, MAX_LIMIT))],
            ).fetchall()
            return [_read_row(found, row) for row in rows]

        return await self._ask(job)

    async def tally(self, wanted: Filter, step: int) -> Sequence[Tally]:
        """As the interface says."""

        def job(found: _Connection) -> Sequence[Tally]:
            known = _look_up(found, wanted)
            if known is None:
                return ()
            slots = max(1, step // SLOT)
            query = select_tally(known, slots)
            slot, number = "slot", "SUM(rows)"
            if query is None:
                query, slot, number = select_rows(known, whole_slots=True), f"(time / {SLOT})", "COUNT(*)"
            rows = found.db.execute(
                f"SELECT {slot} / {slots} * {slots}, verdict, rule, {number} AS sum FROM {query.source}"  # noqa: S608
                " GROUP BY 1, 2, 3 HAVING sum > 0 ORDER BY 1",
                query.values,
            ).fetchall()
            made = [Tally(start * SLOT, found.text(v), found.text(r), n) for start, v, r, n in rows]
            return sorted(made, key=lambda one: (one.start, one.verdict, one.rule))

        return await self._ask(job)

    async def top_hosts(self, wanted: Filter, limit: int = 10) -> Sequence[HostTally]:
        """As the interface says."""

        def job(found: _Connection) -> Sequence[HostTally]:
            known = _look_up(found, wanted if wanted.kind else replace(wanted, kind=HOP))
            if known is None:
                return ()
            # Host by host nothing has to be sorted, but every row is looked at: twice as quick where most count.
            query = select_rows(known, all_times="by_host" if _covers_most(found, wanted) else "by_time")
            stopped = [found.number(Name.VERDICT, one) or -1 for one in STOPS]
            rows = found.db.execute(
                f"SELECT host, COUNT(*) AS many, SUM(verdict IN (?, ?, ?)), TOTAL(bytes) FROM {query.source}"  # noqa: S608
                " AND host > 0 GROUP BY host ORDER BY many DESC, host LIMIT ?",
                [*stopped, *query.values, max(0, min(limit, MAX_LIMIT))],
            ).fetchall()
            return [HostTally(found.text(host), n, refused, int(size)) for host, n, refused, size in rows]

        return await self._ask(job)

    async def names(self, what: Name, limit: int = 500) -> Sequence[str]:
        """As the interface says."""

        def job(found: _Connection) -> Sequence[str]:
            query = "SELECT text FROM names WHERE what = ? ORDER BY text LIMIT ?"
            return [text for (text,) in found.db.execute(query, [what.value, max(0, limit)])]

        return await self._ask(job)

    async def places(self, fetch_id: str, limit: int = 1_000) -> Sequence[Place]:
        """As the interface says."""
        condition = "INDEXED BY by_fetch {} WHERE fetch_id = ? AND fetch_id > ''"
        return await self._ask(lambda found: _find_places(found, condition, [fetch_id], limit))

    async def line_places(self, chain: str, seq: int) -> Sequence[Place]:
        """As the interface says."""

        def job(found: _Connection) -> Sequence[Place]:
            number = found.number("chain", chain)
            condition = "INDEXED BY by_line {} WHERE rows.chain = ? AND seq = ?"
            return _find_places(found, condition, [number, seq], MAX_LIMIT)

        return await self._ask(job)

    async def status(self) -> IndexStatus:
        """As the interface says."""

        def job(found: _Connection) -> IndexStatus:
            lines, rows, revision = found.db.execute("SELECT lines, rows, revision FROM state").fetchone()
            (newest,) = found.db.execute("SELECT MAX(time) FROM rows").fetchone()
            return IndexStatus(rows, lines, newest, revision)

        return await self._ask(job)

    async def _ask[T](self, job: Callable[[_Connection], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, self._run, job)
        except RuntimeError as error:  # closed
            raise IndexUnavailableError("the index is closed") from error

    def _run[T](self, job: Callable[[_Connection], T]) -> T:
        found: _Connection | None = None
        try:
            found = self._take()
            found.until = time.monotonic() + self._seconds
            found.db.execute("BEGIN")
            try:
                answer = job(found)
            finally:
                if found.db.in_transaction:
                    found.db.execute("ROLLBACK")
            self._idle.append(found)
            found = None
            return answer
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_INTERRUPT:
                raise TooMuchError(
                    "this takes longer than it may; narrow the time, or name an agent, a host or a rule"
                ) from error
            raise IndexUnavailableError(_READING) from error
        except OSError as error:
            raise IndexUnavailableError(_READING) from error
        finally:
            if found is not None:
                found.db.close()

    def _take(self) -> _Connection:
        """One that nobody uses, to the file that is there now."""
        file = _identify(self._path)
        while True:
            try:
                found = self._idle.pop()
            except IndexError:
                return _Connection(self._path)
            if found.file == file:
                return found
            found.db.close()


_COLUMNS: Final = (
    "number, time, chain, seq, kind, agent, host, verdict, rule, method, target, status, bytes, ms, fetch_id,"
    " detail"
)


def _read_row(found: _Connection, row: Sequence[object]) -> Row:
    number, when, chain, seq, kind, agent, host, verdict, rule, method, *rest = row
    words = (found.text(one) for one in (kind, agent, host, verdict, rule, method))  # type: ignore[arg-type]
    return Row(number, when, found.text(chain), seq, *words, *rest)  # type: ignore[arg-type]


def _covers_most(found: _Connection, wanted: Filter) -> bool:
    """Whether the time that is wanted is more than half of the log's."""
    (first,), (last,) = (
        found.db.execute(f"SELECT {which}(time) FROM rows").fetchone()  # noqa: S608 (one of two words)
        for which in ("MIN", "MAX")
    )
    if first is None:
        return False
    since = first if wanted.since is None else max(first, wanted.since)
    until = last if wanted.until is None else min(last, wanted.until)
    return bool(2 * (until - since) > last - first)


def _find_places(found: _Connection, condition: str, values: list[object], limit: int) -> Sequence[Place]:
    """condition: what stands behind FROM rows, with a place for the joins."""
    joins = "JOIN files ON files.id = file LEFT JOIN files AS later ON later.id = close_file"
    rows = found.db.execute(
        "SELECT files.chain, files.number, start, later.number, close_start FROM rows "  # noqa: S608 (ours)
        f"{condition.format(joins)} ORDER BY rows.time, rows.number LIMIT ?",
        [*values, max(0, limit)],
    ).fetchall()
    places = []
    for chain, file, start, close_file, close_start in rows:
        places.append(Place(chain, file, start))
        if close_file is not None:
            places.append(Place(chain, close_file, close_start))
    return places[:limit]


def _look_up(found: _Connection, wanted: Filter) -> Wanted | None:
    """The numbers of what is wanted; None when a name occurs nowhere."""
    numbers: dict[str, int] = {}
    named = {
        Name.AGENT: wanted.agent,
        Name.RULE: wanted.rule,
        Name.KIND: wanted.kind,
    }
    for what, text in named.items():
        if text:
            number = found.number(what, text)
            if number is None:
                return None
            numbers[what.value] = number
    verdicts: list[int] | None = None
    if wanted.verdict:
        texts = STOPS if wanted.verdict == STOPPED else (wanted.verdict,)
        known = (found.number(Name.VERDICT, text) for text in texts)
        verdicts = [number for number in known if number is not None]
    hosts: list[int] | None = None
    if wanted.host.startswith("*."):
        below = wanted.host[1:]
        rows = found.db.execute(
            "SELECT id FROM names WHERE what = ? AND length(text) > length(?2) AND substr(text, -length(?2)) = ?2"
            " LIMIT ?",
            [Name.HOST.value, below, MAX_HOSTS],
        )
        hosts = [number for (number,) in rows]
    elif wanted.host:
        number = found.number(Name.HOST, wanted.host)
        hosts = [number] if number is not None else []
    if hosts == [] or verdicts == []:
        return None
    return Wanted(wanted, hosts=hosts, verdicts=verdicts, **numbers)


def _identify(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino
