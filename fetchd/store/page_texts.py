"""The texts of pages read, kept for searching: one row an agent and URL, bounded, and a log of what changed.

Indexes are made of this and follow it (`changes`); they can be thrown away. A page whose body was kept goes with its
blob, whichever process drops that: a trigger of the database sees to it.
"""

import asyncio
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

from .database import BUSY_MS, Database
from .schema import MIGRATIONS
from .text_values import Marks, PackedText, ReadText, TextChanges, TextPage, TextUsage

PAGES_A_BATCH: Final = 64
REMOVALS_A_BATCH: Final = 5_000
_DROPPED_AT_ONCE: Final = 32
MAX_RATIO: Final = 4
"""A text counts as so much of its characters at least, however well it deflates: its index does not deflate, and a
word repeated by the thousand would fill the disk at a cost of nothing. Text of people deflates to a third or so."""

_COLUMNS: Final = "p.number, p.agent, p.url, p.read_at, p.dated_at, p.language, t.digest, t.title, t.text"
_ADD: Final = """
INSERT INTO pages (agent, url, read_at, used_at, dated_at, language, text_id, blob, bytes)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_ADD_TEXT: Final = (
    "INSERT INTO page_texts (digest, title, text) VALUES (?, ?, ?) ON CONFLICT (digest) DO NOTHING"
)
_RENEW: Final = """
UPDATE pages SET read_at = max(read_at, :now), used_at = max(used_at, :now)
WHERE agent = :agent AND url = :url AND blob = :blob RETURNING number
"""
_RAISE_FLOOR: Final = """
INSERT INTO page_floors VALUES (?, ?) ON CONFLICT (agent) DO UPDATE SET since = max(since, ?)
"""
_DROP_OLDEST: Final = """
DELETE FROM pages WHERE number IN (SELECT number FROM pages WHERE agent = ? ORDER BY used_at, number LIMIT ?)
"""


@dataclass(frozen=True, slots=True)
class TextLimits:
    """pages, bytes: of one agent, so that none crowds out another. total_bytes: of all together; beyond it pages of
    the agent that has most go. Least recently used first, each time. Bytes are packed ones, see MAX_RATIO."""

    pages: int = 20_000
    bytes: int = 256 << 20
    total_bytes: int = 2 << 30


class PageTexts:
    """Made by `open`; a connection of its own to the database of the store. All of it may raise
    StoreUnavailableError."""

    def __init__(self, database: Database, limits: TextLimits) -> None:
        self._database: Final = database
        self._limits: Final = limits

    @classmethod
    async def open(cls, path: Path, limits: TextLimits | None = None, *, busy_ms: int = BUSY_MS) -> Self:
        """The texts in the database at `path`, made or migrated if need be."""
        return cls(await Database.open(path, MIGRATIONS, busy_ms=busy_ms), limits or TextLimits())

    async def add(self, reads: Iterable[ReadText]) -> int:
        """Enters pages, each in place of an older read of its agent and URL; how many were.

        Passed over: what was asked for before its agent's floor, what an eviction was faster than, what was read
        again since. Pages beyond the limits go.
        """
        packed = await asyncio.to_thread(
            lambda: [(read, PackedText.of(read.title, read.text)) for read in reads]
        )

        def job(db: sqlite3.Connection) -> int:
            entered = [read for read, content in packed if _enter(db, read, content)]
            for agent in {read.agent for read in entered}:
                self._trim(db, agent)
            return len(entered)

        return await self._database.write(job) if packed else 0

    async def renew(self, agent: str, url: str, blob: str, now: int) -> bool:
        """The page was read again and is unchanged; False: no text of it is kept, under this blob."""
        row = {"agent": agent, "url": url, "blob": blob, "now": now}

        def job(db: sqlite3.Connection) -> bool:
            found = db.execute(_RENEW, row).fetchall()
            for (number,) in found:
                _renumber(db, number)
            return bool(found)

        return await self._database.write(job)

    async def use(self, numbers: Sequence[int], now: int) -> None:
        """These pages were of use now."""
        rows = [(now, number) for number in numbers]
        statement = "UPDATE pages SET used_at = max(used_at, ?) WHERE number = ?"
        await self._database.write(lambda db: db.executemany(statement, rows))

    async def forget(self, agent: str, now: int) -> int:
        """Drops an agent's pages, and takes none more that were asked for until now; how many went.

        What it had read is, for `Records`, of another agent from then on.
        """

        def job(db: sqlite3.Connection) -> int:
            db.execute(_RAISE_FLOOR, (agent, now, now))
            return db.execute("DELETE FROM pages WHERE agent = ?", (agent,)).rowcount

        return await self._database.write(job)

    async def clear(self, agent: str | None = None) -> int:
        """Drops the pages of an agent (None: of all); how many went."""
        statement = "DELETE FROM pages WHERE agent = ifnull(?, agent)"
        return await self._database.write(lambda db: db.execute(statement, (agent,)).rowcount)

    async def changes(self, agent: str | None, marks: Marks, epoch: str | None = None) -> TextChanges:
        """What came and went since `marks` among the pages of an agent (None: of all), a batch of it.

        epoch: of the database that the marks are of.
        """
        return await self._database.read(partial(_read_changes, agent=agent, marks=marks, epoch=epoch))

    async def find(self, numbers: Sequence[int], agent: str | None) -> list[TextPage]:
        """Those of these pages that are still there and an agent's (None: anybody's)."""
        marks = ", ".join("?" * len(numbers))
        statement = f"""
            SELECT {_COLUMNS} FROM pages p JOIN page_texts t ON t.id = p.text_id
            WHERE p.number IN ({marks}) AND p.agent = ifnull(?, p.agent)
        """  # noqa: S608 - column names of ours, question marks
        parameters = (*numbers, agent)
        return [
            _page_of(row)
            for row in await self._database.read(lambda db: db.execute(statement, parameters).fetchall())
        ]

    async def usage(self) -> list[TextUsage]:
        """By agent."""
        statement = "SELECT agent, pages, bytes FROM page_usage ORDER BY agent"
        rows = await self._database.read(lambda db: db.execute(statement).fetchall())
        return [TextUsage(*row) for row in rows]

    async def close(self) -> None:
        await self._database.close()

    def _trim(self, db: sqlite3.Connection, agent: str) -> None:
        limits = self._limits
        while usage := db.execute("SELECT pages, bytes FROM page_usage WHERE agent = ?", (agent,)).fetchone():
            excess = usage[0] - limits.pages if usage[1] <= limits.bytes else max(1, usage[0] - limits.pages)
            if excess <= 0:
                break
            db.execute(_DROP_OLDEST, (agent, excess))
        while db.execute("SELECT total(bytes) FROM page_usage").fetchone()[0] > limits.total_bytes:
            (largest,) = db.execute("SELECT agent FROM page_usage ORDER BY bytes DESC LIMIT 1").fetchone()
            db.execute(_DROP_OLDEST, (largest, _DROPPED_AT_ONCE))


def _enter(db: sqlite3.Connection, read: ReadText, content: PackedText) -> bool:
    floor = db.execute(
        "SELECT 1 FROM page_floors WHERE agent = ? AND since >= ?", (read.agent, read.asked_at)
    )
    if floor.fetchone() is not None:
        return False
    # The blob may have been evicted while the text was on its way here: nothing would take the page out later.
    blob = db.execute("SELECT 1 FROM blobs WHERE digest = ?", (read.blob,))
    if read.blob is not None and blob.fetchone() is None:
        return False
    place = (read.agent, read.url)
    before = db.execute("SELECT read_at, used_at FROM pages WHERE agent = ? AND url = ?", place).fetchone()
    if before is not None and before[0] > read.read_at:
        return False
    db.execute("DELETE FROM pages WHERE agent = ? AND url = ?", place)
    db.execute(_ADD_TEXT, (content.digest, content.title, content.packed))
    (text_id,) = db.execute("SELECT id FROM page_texts WHERE digest = ?", (content.digest,)).fetchone()
    row = (
        read.agent, read.url, read.read_at, read.read_at, read.dated_at, read.language, text_id, read.blob,
        max(content.bytes, len(read.text) // MAX_RATIO),
    )  # fmt: skip
    db.execute(_ADD, row)
    return True


def _renumber(db: sqlite3.Connection, number: int) -> None:
    """Gives a page that changed a new number, so that indexes see it."""
    columns = "agent, url, read_at, used_at, dated_at, language, text_id, blob, bytes"
    row = db.execute(f"SELECT {columns} FROM pages WHERE number = ?", (number,)).fetchone()  # noqa: S608
    content = db.execute("SELECT digest, title, text FROM page_texts WHERE id = ?", (row[6],)).fetchone()
    db.execute("DELETE FROM pages WHERE number = ?", (number,))
    db.execute(_ADD_TEXT, content)
    (text_id,) = db.execute("SELECT id FROM page_texts WHERE digest = ?", content[:1]).fetchone()
    db.execute(_ADD, (*row[:6], text_id, *row[7:]))


def _read_changes(
    db: sqlite3.Connection, *, agent: str | None, marks: Marks, epoch: str | None
) -> TextChanges:
    (own,) = db.execute("SELECT epoch FROM page_epoch").fetchone()
    tops = dict(db.execute("SELECT name, seq FROM sqlite_sequence WHERE name IN ('pages', 'page_removals')"))
    last_page, last_removal = int(tops.get("pages", 0)), int(tops.get("page_removals", 0))
    (oldest,) = db.execute("SELECT ifnull(min(number), 1) FROM page_removals").fetchone()
    since = last_removal if marks.removal is None else marks.removal
    if (
        (epoch is not None and epoch != own)
        or marks.page > last_page
        or since > last_removal
        or since + 1 < oldest
    ):
        return TextChanges(own, Marks(), stale=True)
    chosen, whose = ("p.agent = ? AND", (agent,)) if agent is not None else ("", ())
    rows = db.execute(
        f"""
        SELECT {_COLUMNS} FROM pages p JOIN page_texts t ON t.id = p.text_id
        WHERE {chosen} p.number > ? ORDER BY p.number LIMIT ?
        """,  # noqa: S608 - column names of ours
        (*whose, marks.page, PAGES_A_BATCH),
    ).fetchall()
    gone = db.execute(
        f"SELECT p.number, p.page FROM page_removals p WHERE {chosen} p.number > ? ORDER BY p.number LIMIT ?",  # noqa: S608
        (*whose, since, REMOVALS_A_BATCH),
    ).fetchall()
    more_pages, more_gone = len(rows) == PAGES_A_BATCH, len(gone) == REMOVALS_A_BATCH
    now_at = Marks(rows[-1][0] if more_pages else last_page, gone[-1][0] if more_gone else last_removal)
    pages = tuple(_page_of(row) for row in rows)
    return TextChanges(own, now_at, pages, tuple(page for _, page in gone), more_pages or more_gone)


def _page_of(row: tuple[Any, ...]) -> TextPage:
    number, agent, url, read_at, dated_at, language, digest, title, text = row
    return TextPage(number, agent, url, read_at, dated_at, language, PackedText(digest, title, bytes(text)))
