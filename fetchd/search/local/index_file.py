"""An index of pages in one SQLite file with FTS5: `PageIndex`.

The full-text table keeps no text. What it needs to take a document out again is kept deflated beside it, so a file is
about as large as the plain text it is of.
"""

import logging
import sqlite3
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, Self

from fetchd.errors import DatabaseDamagedError, StoreUnavailableError
from fetchd.search.domains import find_host
from fetchd.store.database import Database
from fetchd.store.text_values import Marks, PackedText, TextChanges, TextPage

from .interface import Ask, IndexState
from .query import Query, render_all, render_any, render_term
from .segmenting import FORM, segment_text

COMMON: Final = 4
"""A word of more than a quarter of the documents says little: it does not make a page a result by itself."""
FEW: Final = 50
"""Documents that are few whatever their share."""
SEARCH_SECONDS: Final = 10.0
"""A usual search takes some ms. One for a long phrase of a word that pages repeat by the thousand would take hours of
a processor, also after its caller has left."""
RAREST: Final = 12
"""Words of a query that pages with only some of them are looked for by."""

_TABLES: Final = """
CREATE TABLE state (form TEXT NOT NULL, epoch TEXT NOT NULL, page INTEGER NOT NULL, removal INTEGER);
INSERT INTO state VALUES ('', '', 0, NULL);
CREATE TABLE docs (id INTEGER PRIMARY KEY, digest TEXT NOT NULL UNIQUE, title TEXT NOT NULL, text BLOB NOT NULL);
CREATE TABLE hosts (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE pages (
    number INTEGER PRIMARY KEY,
    doc INTEGER NOT NULL REFERENCES docs (id),
    host INTEGER NOT NULL REFERENCES hosts (id),
    dated INTEGER NOT NULL,  -- ns since 1970: the page's own date, or when it was read
    language TEXT
);
CREATE INDEX pages_by_doc ON pages (doc);
CREATE INDEX pages_by_host ON pages (host);
CREATE VIRTUAL TABLE texts USING fts5(
    title, body, content='', tokenize="porter unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc'"
);
INSERT INTO texts (texts, rank) VALUES ('rank', 'bm25(4.0, 1.0)');  -- a word of the title counts as four
"""

_FIND: Final = """
SELECT (SELECT max(number) FROM pages WHERE doc = texts.rowid {filters}) FROM texts WHERE texts MATCH :match
ORDER BY rank
"""

_log = logging.getLogger(__name__)


@cache
def require_fts5() -> None:
    """Raises StoreUnavailableError where there is none."""
    db = sqlite3.connect(":memory:")
    try:
        db.execute("CREATE VIRTUAL TABLE t USING fts5(a)")
    except sqlite3.OperationalError:
        raise StoreUnavailableError(
            f"search index: the SQLite of this Python ({sqlite3.sqlite_version}) is built without FTS5; use a Python"
            " whose SQLite has it, or set search.index = false"
        ) from None
    finally:
        db.close()


class IndexFile:
    """Made by `open`."""

    def __init__(self, database: Database) -> None:
        self._database: Final = database

    @classmethod
    async def open(cls, path: Path) -> Self:
        """The index at `path`, made if need be. Raises DatabaseDamagedError for what is no index of this form."""
        require_fts5()
        index = cls(await Database.open(path, (_TABLES,)))
        try:
            await index.state()
        except BaseException:
            await index.close()
            raise
        return index

    async def state(self) -> IndexState:
        def job(db: sqlite3.Connection) -> IndexState:
            form, epoch, page, removal = _read_state(db)
            if form != FORM and epoch:
                raise DatabaseDamagedError("search index: of another form")
            (pages,) = db.execute("SELECT count(*) FROM pages").fetchone()
            return IndexState(epoch, Marks(page, removal), pages)

        return await self._read(job)

    async def apply(self, before: Marks, changes: TextChanges) -> bool:
        def job(db: sqlite3.Connection) -> bool:
            _, epoch, page, removal = _read_state(db)
            if Marks(page, removal) != before or epoch not in ("", changes.epoch):
                return False
            for added in changes.added:
                _add(db, added)
            for number in changes.removed:
                _remove(db, number)
            marks = changes.marks
            db.execute(
                "UPDATE state SET form = ?, epoch = ?, page = ?, removal = ?",
                (FORM, changes.epoch, marks.page, marks.removal),
            )
            return True

        try:
            return await self._database.write(job)
        except StoreUnavailableError as error:
            raise _told(error) from error

    async def search(self, ask: Ask) -> Sequence[int]:
        try:
            return await self._database.read_within(SEARCH_SECONDS, lambda db: _search(db, ask))
        except StoreUnavailableError as error:
            raise _told(error) from error

    async def close(self) -> None:
        await self._database.close()

    async def _read[T](self, job: Any) -> T:
        try:
            found: T = await self._database.read(job)
            return found
        except StoreUnavailableError as error:
            raise _told(error) from error


def _told(error: StoreUnavailableError) -> StoreUnavailableError:
    """SQL that does not fit the file says that the file is not what it should be."""
    code = getattr(error.__cause__, "sqlite_errorcode", 0) & 0xFF
    broken = code in (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH)
    return DatabaseDamagedError(str(error)) if broken else error


def _read_state(db: sqlite3.Connection) -> tuple[str, str, int, int | None]:
    rows = db.execute("SELECT form, epoch, page, removal FROM state").fetchall()
    if len(rows) != 1:
        raise DatabaseDamagedError("search index: without a state")
    form, epoch, page, removal = rows[0]
    return form, epoch, page, removal


def _add(db: sqlite3.Connection, page: TextPage) -> None:
    content = page.content
    found = db.execute("SELECT id FROM docs WHERE digest = ?", (content.digest,)).fetchone()
    if found is None:
        try:
            text = content.unpack()
        except ValueError:
            _log.error("search index: the kept text of page %s is damaged; passed over", page.number)
            return
        row = (content.digest, content.title, content.packed)
        doc = db.execute("INSERT INTO docs (digest, title, text) VALUES (?, ?, ?)", row).lastrowid
        parts = (doc, segment_text(content.title), segment_text(text))
        db.execute("INSERT INTO texts (rowid, title, body) VALUES (?, ?, ?)", parts)
    else:
        (doc,) = found
    host = host_of(page.url)
    db.execute("INSERT INTO hosts (name) VALUES (?) ON CONFLICT (name) DO NOTHING", (host,))
    (host_id,) = db.execute("SELECT id FROM hosts WHERE name = ?", (host,)).fetchone()
    dated = page.dated_at if page.dated_at is not None else page.read_at
    db.execute(
        "INSERT OR REPLACE INTO pages VALUES (?, ?, ?, ?, ?)",
        (page.number, doc, host_id, dated, page.language),
    )


def _remove(db: sqlite3.Connection, number: int) -> None:
    gone = db.execute("DELETE FROM pages WHERE number = ? RETURNING doc, host", (number,)).fetchone()
    if gone is None:
        return
    doc, host = gone
    if db.execute("SELECT 1 FROM pages WHERE doc = ? LIMIT 1", (doc,)).fetchone() is None:
        digest, title, packed = db.execute(
            "SELECT digest, title, text FROM docs WHERE id = ?", (doc,)
        ).fetchone()
        try:
            text = PackedText(digest, title, bytes(packed)).unpack()
        except ValueError:
            raise DatabaseDamagedError("search index: a document is not what it was") from None
        parts = (doc, segment_text(title), segment_text(text))
        db.execute("INSERT INTO texts (texts, rowid, title, body) VALUES ('delete', ?, ?, ?)", parts)
        db.execute("DELETE FROM docs WHERE id = ?", (doc,))
    if db.execute("SELECT 1 FROM pages WHERE host = ? LIMIT 1", (host,)).fetchone() is None:
        db.execute("DELETE FROM hosts WHERE id = ?", (host,))


def host_of(url: str) -> str:
    """As domain lists compare hosts; "" for what has none."""
    return find_host(url) or ""


# ---- a search


def _search(db: sqlite3.Connection, ask: Ask) -> list[int]:
    filters, parameters = _filters(db, ask)
    statement = _FIND.format(filters=filters)
    found: dict[int, None] = {}
    for match in _matches(db, ask.query):
        for (number,) in db.execute(statement, {"match": match, **parameters}):
            if number is not None:
                found[number] = None
            if len(found) >= ask.limit:
                return list(found)
    return list(found)


def _filters(db: sqlite3.Connection, ask: Ask) -> tuple[str, dict[str, object]]:
    """What a page has to be, as SQL: so that the limit is of those that are."""
    clauses: list[str] = []
    parameters: dict[str, object] = {}
    if ask.since is not None:
        clauses.append("AND dated >= :since")
        parameters["since"] = ask.since
    if ask.language is not None:
        clauses.append("AND ifnull(language, :language) = :language")
        parameters["language"] = ask.language
    if ask.keeps_host is not None:
        kept = [number for number, name in db.execute("SELECT id, name FROM hosts") if ask.keeps_host(name)]
        db.execute("CREATE TEMP TABLE IF NOT EXISTS kept_hosts (id INTEGER PRIMARY KEY)")
        db.execute("DELETE FROM temp.kept_hosts")
        db.executemany("INSERT INTO temp.kept_hosts VALUES (?)", [(number,) for number in kept])
        clauses.append("AND host IN (SELECT id FROM temp.kept_hosts)")
    return " ".join(clauses), parameters


def _matches(db: sqlite3.Connection, query: Query) -> Iterator[str]:
    """The expressions to try, one after the other."""
    everything = render_all(query)
    if everything:
        yield everything
    some = render_any(query, _choose_words(db, query.words)) if query.words else ""
    if some and some != everything:
        yield some
    phrases = render_any(query, ())
    if phrases and phrases not in (everything, some):
        yield phrases


def _choose_words(db: sqlite3.Connection, words: Sequence[str]) -> list[str]:
    """The rarest. Those of many documents only where there are no others: they cost time and tell little."""
    (total,) = db.execute("SELECT count(*) FROM docs").fetchone()
    cap = max(FEW, total // COMMON)
    statement = "SELECT count(*) FROM (SELECT 1 FROM texts WHERE texts MATCH ? LIMIT ?)"
    counts = {word: db.execute(statement, (render_term(word), cap + 1)).fetchone()[0] for word in words}
    known = sorted((word for word in words if counts[word]), key=lambda word: counts[word])
    return ([word for word in known if counts[word] <= cap] or known)[:RAREST]
