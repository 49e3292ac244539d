"""Records, receipts and the index of blobs in SQLite (`fetchd.db`)."""

import sqlite3
from collections.abc import Callable, Iterable
from functools import partial
from itertools import batched
from pathlib import Path
from typing import Any, Final, Self

from fetchd.errors import BlobMissingError, StoreFullError

from .database import BUSY_MS, Database
from .interface import Room, Usage
from .schema import MIGRATIONS
from .values import Blob, KeptBlob, PageRead, StoredRead

_BATCH: Final = 1000
_CLAIM_TURNS: Final = 16
"""Room that was made is taken by the next transaction; another process may come in between, but not for ever."""

_READ_COLUMNS: Final = """
number, id, agent, tool, fetched_at, url, final_url, final_query, status, digest, bytes, receipt, validators"""
_ADD_READ: Final = """
INSERT INTO reads (id, agent, tool, fetched_at, url, url_query, final_url, final_query, status, digest, bytes,
                   validators, receipt, receipt_hash)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_LAST_HASH: Final = "SELECT receipt_hash FROM reads WHERE receipt IS NOT NULL ORDER BY number DESC LIMIT 1"
_CLAIM: Final = """
INSERT INTO blobs (digest, bytes, last_used, receipted, held_until, placed)
VALUES (:digest, :bytes, :now, EXISTS (SELECT 1 FROM reads WHERE digest = :digest AND receipt IS NOT NULL), :until,
        :placed)
ON CONFLICT (digest) DO UPDATE SET
    bytes = excluded.bytes, last_used = max(last_used, excluded.last_used),
    held_until = max(held_until, excluded.held_until), going = 0, placed = max(placed, excluded.placed)
"""
_VICTIMS: Final = """
SELECT digest, bytes FROM blobs WHERE receipted = ? AND held_until <= ? AND digest <> ? ORDER BY last_used, digest
"""
_ITS_OWN: Final = """fetched_at > ifnull((
    SELECT strftime('%Y-%m-%dT%H:%M:%fZ', since / 1e9, 'unixepoch') FROM page_floors WHERE agent = reads.agent
), '')"""
"""Not of one who had the agent's name before it (`PageTexts.forget`)."""
_REUSABLE: Final = f"""
SELECT {_READ_COLUMNS} FROM reads
WHERE agent = ? AND final_url = ? AND digest = ? AND final_query IS ? AND validators IS NOT NULL AND {_ITS_OWN}
ORDER BY number DESC LIMIT 1
"""  # noqa: S608 - column names of ours


class SqliteRecords:
    """`Records` over one file. Made by `open`."""

    def __init__(self, database: Database) -> None:
        self._database: Final = database

    @classmethod
    async def open(cls, path: Path, *, busy_ms: int = BUSY_MS) -> Self:
        """The records at `path`, made or migrated if need be. Raises StoreUnavailableError."""
        return cls(await Database.open(path, MIGRATIONS, busy_ms=busy_ms))

    async def claim(self, blob: Blob, hold_until: int, room: Room) -> tuple[Blob, ...]:
        def job(db: sqlite3.Connection) -> tuple[Blob, ...]:
            (there,) = db.execute(
                "SELECT total(bytes) FROM blobs WHERE digest = ?", (blob.digest,)
            ).fetchone()
            victims, left = _choose_victims(db, room, blob.bytes - int(there), blob.digest)
            if left > room.max_bytes:
                raise StoreFullError(
                    f"no room for a page of {blob.bytes:,} bytes: {left - blob.bytes:,} of {room.max_bytes:,} are"
                    " needed by receipts or by reads under way; drop pages with fetchd blob gc --drop-receipted,"
                    " or raise the limit"
                )
            if not victims:
                parameters = {
                    "digest": blob.digest,
                    "bytes": blob.bytes,
                    "now": room.now,
                    "until": hold_until,
                    "placed": 0,
                }
                db.execute(_CLAIM, parameters)
            _mark(db, victims)
            return victims

        dropped: list[Blob] = []
        for _ in range(_CLAIM_TURNS):
            victims = await self._database.write(job)
            if not victims:
                return tuple(dropped)
            dropped += await self._remove(victims, room)
        raise StoreFullError(
            f"no room for a page of {blob.bytes:,} bytes: others take it as it is made; try again"
        )

    async def hold(self, digest: str, hold_until: int) -> bool:
        def job(db: sqlite3.Connection) -> bool:
            statement = "UPDATE blobs SET held_until = max(held_until, ?) WHERE digest = ? AND NOT going"
            return db.execute(statement, (hold_until, digest)).rowcount == 1

        return await self._database.write(job)

    async def evict(self, room: Room, *, dry_run: bool) -> tuple[Blob, ...]:
        def job(db: sqlite3.Connection) -> tuple[Blob, ...]:
            victims, _ = _choose_victims(db, room, 0, "")
            if not dry_run:
                _mark(db, victims)
            return victims

        if dry_run:
            return await self._database.read(job)
        return await self._remove(await self._database.write(job), room)

    async def _remove(self, victims: tuple[Blob, ...], room: Room) -> tuple[Blob, ...]:
        """Takes away those of the marked that nobody has come to rely on since."""

        def job(db: sqlite3.Connection) -> tuple[Blob, ...]:
            gone = []
            for blob in victims:
                if db.execute("DELETE FROM blobs WHERE digest = ? AND going", (blob.digest,)).rowcount:
                    room.remove(blob.digest)
                    gone.append(blob)
            return tuple(gone)

        return await self._database.write(job)

    async def touch(self, digest: str, now: int) -> None:
        statement = "UPDATE blobs SET last_used = max(last_used, ?) WHERE digest = ?"
        await self._database.write(lambda db: db.execute(statement, (now, digest)))

    async def seal(
        self,
        read: PageRead,
        validators: bytes | None,
        make_receipt: Callable[[str | None], tuple[bytes, str]],
        holds: Callable[[str], bool],
    ) -> bytes:
        def job(db: sqlite3.Connection) -> bytes:
            _check_there(read, holds)
            last = db.execute(_LAST_HASH).fetchone()
            receipt, receipt_hash = make_receipt(last[0] if last else None)
            _add(db, read, validators, receipt.decode("utf-8"), receipt_hash)
            db.execute(
                "UPDATE blobs SET receipted = 1, placed = 1, going = 0 WHERE digest = ?", (read.blob.digest,)
            )
            return receipt

        return await self._database.write(job)

    async def note(self, read: PageRead, holds: Callable[[str], bool]) -> None:
        def job(db: sqlite3.Connection) -> None:
            _check_there(read, holds)
            _add(db, read, None, None, None)
            db.execute("UPDATE blobs SET placed = 1, going = 0 WHERE digest = ?", (read.blob.digest,))

        await self._database.write(job)

    async def find_read(self, read_id: str) -> StoredRead | None:
        return await self._find_one(f"SELECT {_READ_COLUMNS} FROM reads WHERE id = ?", (read_id,))  # noqa: S608

    async def list_reads(
        self, *, after: int = 0, limit: int = 1000, newest_first: bool = False, agent: str | None = None
    ) -> list[StoredRead]:
        direction, place = ("DESC", "<") if newest_first else ("ASC", ">")
        edge = after if after or not newest_first else 1 << 62
        chosen, parameters = (
            ("agent = ? AND", (agent, edge, limit)) if agent is not None else ("", (edge, limit))
        )
        order = f"number {place} ? ORDER BY number {direction} LIMIT ?"
        statement = f"SELECT {_READ_COLUMNS} FROM reads WHERE {chosen} {order}"  # noqa: S608
        rows = await self._database.read(lambda db: db.execute(statement, parameters).fetchall())
        return [_read_of(row) for row in rows]

    async def find_reusable(
        self, agent: str, final_url: str, query_digest: str | None, digest: str
    ) -> StoredRead | None:
        return await self._find_one(_REUSABLE, (agent, final_url, digest, query_digest))

    async def has_read(self, agent: str | None, digest: str) -> bool:
        statement = "SELECT 1 FROM reads WHERE digest = :digest"
        if agent is not None:
            statement += f" AND agent = :agent AND {_ITS_OWN}"
        values = {"digest": digest, "agent": agent}
        found = await self._database.read(lambda db: db.execute(f"{statement} LIMIT 1", values).fetchone())
        return found is not None

    async def list_blobs(self, *, after: str = "", limit: int = 1000) -> list[KeptBlob]:
        columns = "digest, bytes, last_used, receipted, placed"
        statement = f"SELECT {columns} FROM blobs WHERE digest > ? ORDER BY digest LIMIT ?"  # noqa: S608
        rows = await self._database.read(lambda db: db.execute(statement, (after, limit)).fetchall())
        return [
            KeptBlob(digest, size, used, bool(needed), bool(there))
            for digest, size, used, needed, there in rows
        ]

    async def usage(self) -> Usage:
        statement = "SELECT count(*), total(bytes), total(receipted), total(bytes * receipted) FROM blobs"
        row = await self._database.read(lambda db: db.execute(statement).fetchone())
        return Usage(*map(int, row))

    async def reconcile(self, found: Iterable[Blob], now: int, holds: Callable[[str], bool]) -> None:
        def enter(batch: tuple[Blob, ...], db: sqlite3.Connection) -> None:
            known = "SELECT 1 FROM blobs WHERE digest = ? AND bytes = ? AND placed"
            for blob in batch:
                if holds(blob.digest) and db.execute(known, (blob.digest, blob.bytes)).fetchone() is None:
                    row = {"digest": blob.digest, "bytes": blob.bytes, "now": now, "until": 0, "placed": 1}
                    db.execute(_CLAIM, row)

        def drop_missing(db: sqlite3.Connection) -> None:
            loose = "SELECT digest FROM blobs WHERE going OR (held_until <= ? AND NOT (receipted AND placed))"
            rows = db.execute(loose, (now,)).fetchall()
            missing = [row for row in rows if not holds(row[0])]
            db.executemany("DELETE FROM blobs WHERE digest = ?", missing)
            db.execute("UPDATE blobs SET going = 0 WHERE going")

        for batch in batched(found, _BATCH):
            await self._database.write(partial(enter, batch))
        await self._database.write(drop_missing)

    async def flush(self) -> None:
        await self._database.flush()

    async def close(self) -> None:
        await self._database.close()

    async def _find_one(self, statement: str, parameters: tuple[Any, ...]) -> StoredRead | None:
        row = await self._database.read(lambda db: db.execute(statement, parameters).fetchone())
        return _read_of(row) if row else None


def _check_there(read: PageRead, holds: Callable[[str], bool]) -> None:
    """Inside the transaction, so that no eviction can come between this and the row."""
    if not holds(read.blob.digest):
        raise BlobMissingError(read.blob.digest, known=True)


def _choose_victims(
    db: sqlite3.Connection, room: Room, added: int, spared: str
) -> tuple[tuple[Blob, ...], int]:
    """(what to drop so that `added` bytes fit, the total after that): the others first, receipted ones if at
    all after them, each least recently used first."""
    (total,) = db.execute("SELECT bytes FROM blob_total").fetchone()
    left = total + added
    victims: list[Blob] = []
    for receipted in (0,) if room.keep_receipted else (0, 1):
        if left <= room.max_bytes:
            break
        for digest, size in db.execute(_VICTIMS, (receipted, room.now, spared)):
            victims.append(Blob(digest, size))
            left -= size
            if left <= room.max_bytes:
                break
    return tuple(victims), left


def _mark(db: sqlite3.Connection, victims: tuple[Blob, ...]) -> None:
    """Committed before any file goes: a crash in between is then known for what it was."""
    db.executemany("UPDATE blobs SET going = 1 WHERE digest = ?", [(blob.digest,) for blob in victims])


def _add(
    db: sqlite3.Connection,
    read: PageRead,
    validators: bytes | None,
    receipt: str | None,
    receipt_hash: str | None,
) -> None:
    blob = read.blob
    db.execute(
        _ADD_READ,
        (
            read.id, read.agent, read.tool, read.fetched_at, read.url, read.url_query_digest, read.final_url,
            read.query_digest, read.status, blob.digest, blob.bytes, validators, receipt, receipt_hash,
        ),
    )  # fmt: skip


def _read_of(row: tuple[Any, ...]) -> StoredRead:
    number, read_id, agent, tool, at, url, final_url, query, status, digest, size, receipt, validators = row
    text = receipt.encode("utf-8") if receipt is not None else None
    blob = Blob(digest, size)
    return StoredRead(number, read_id, agent, tool, at, url, final_url, query, status, blob, text, validators)
