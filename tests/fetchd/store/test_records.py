"""What only a database can do wrong: older and newer files, damage, full disks, other processes."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from fetchd.errors import BlobMissingError, StoreFullError, StoreUnavailableError
from fetchd.store import load_receipt_key
from fetchd.store.database import APPLICATION_ID, Database
from fetchd.store.fakes import MemoryBlobs
from fetchd.store.interface import Usage
from fetchd.store.records import SqliteRecords
from fetchd.store.schema import MIGRATIONS
from fetchd.store.verifying import ReceiptVerifier
from tests.fetchd.store.kit import START, blob_of, page_read, room

OLD = Path(__file__).with_name("fixtures") / "records-v1.db"


def make_receipt(_previous: str | None) -> tuple[bytes, str]:
    return b"{}", "h"


def version_of(path: Path) -> int:
    with sqlite3.connect(path) as db:
        (version,) = db.execute("PRAGMA user_version").fetchone()
    db.close()
    return int(version)


# ---- the file


async def test_the_file_and_its_neighbours_are_the_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "state" / "fetchd.db"
    records = await SqliteRecords.open(path)
    await records.note(page_read(), lambda _d: True)
    modes = {one.name: stat.S_IMODE(one.stat().st_mode) for one in path.parent.iterdir()}
    await records.close()

    assert modes == {"fetchd.db": 0o600, "fetchd.db-wal": 0o600, "fetchd.db-shm": 0o600}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


async def test_a_file_that_others_may_read_is_closed_to_them(tmp_path: Path) -> None:
    path = tmp_path / "fetchd.db"
    path.touch(0o644)
    path.chmod(0o644)
    await (await SqliteRecords.open(path)).close()

    assert stat.S_IMODE(path.stat().st_mode) == 0o600


# ---- versions


async def test_an_older_file_opens_unchanged_in_meaning(tmp_path: Path) -> None:
    """A file of schema 1, kept as it was made then: its receipts hold, its index counts, new reads follow."""
    path = tmp_path / "fetchd.db"
    shutil.copy(OLD, path)
    assert version_of(path) == 1
    records = await SqliteRecords.open(path)
    public = load_receipt_key(OLD.with_suffix(".pub"))
    try:
        assert version_of(path) == len(MIGRATIONS) > 1
        assert [read.blob for read in await records.list_reads()] == [blob_of(b"first"), blob_of(b"second")]
        first = page_read(1, b"first")
        reusable = await records.find_reusable(
            "alice", first.final_url, first.query_digest, first.blob.digest
        )
        assert reusable is not None and reusable.sealed_validators == b"sealed"
        assert await records.usage() == Usage(3, 15, 2, 11)
        blobs = MemoryBlobs({blob_of(body).digest: body for body in (b"first", b"second")})
        verifier = ReceiptVerifier(records, blobs, {public.id: public.accepts}, None)
        reports = [report async for report in verifier.verify_all()]
        assert [report.findings for report in reports] == [[], []]
        asked: list[str | None] = []

        def after(previous: str | None) -> tuple[bytes, str]:
            asked.append(previous)
            return b"{}", "h"

        await records.seal(page_read(3), None, after, lambda _d: True)
        assert asked[0] is not None and asked[0].startswith("sha256:")
        assert await records.evict(room(0), dry_run=False) == (blob_of(b"idle"),)
    finally:
        await records.close()


async def test_opening_again_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "fetchd.db"
    for number in (1, 2):
        records = await SqliteRecords.open(path)
        await records.note(page_read(number), lambda _d: True)
        await records.close()

    records = await SqliteRecords.open(path)
    assert len(await records.list_reads()) == 2
    await records.close()


async def test_two_that_migrate_at_once_do_it_once(tmp_path: Path) -> None:
    path = tmp_path / "fetchd.db"
    shutil.copy(OLD, path)

    opened = await asyncio.gather(*(SqliteRecords.open(path) for _ in range(4)))

    for records in opened:
        assert (await records.usage()).blobs == 3
        await records.close()


async def test_a_step_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "fetchd.db"
    shutil.copy(OLD, path)
    with pytest.raises(StoreUnavailableError, match="no such table: nowhere"):
        await Database.open(path, (*MIGRATIONS, "CREATE TABLE half (a); INSERT INTO nowhere VALUES (1);"))

    assert version_of(path) == 1
    records = await SqliteRecords.open(path)
    assert (await records.usage()).blobs == 3
    await records.close()


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        pytest.param(f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = 99",
                     "made by a newer fetchd (schema 99, this one knows up to", id="a newer file"),
        pytest.param("PRAGMA application_id = 7", "another program's database", id="another program's"),
        pytest.param("CREATE TABLE theirs (a)", "another program's database", id="nobody's"),
    ],
)  # fmt: skip
async def test_what_is_not_ours_to_open_is_left_alone(tmp_path: Path, statement: str, said: str) -> None:
    path = tmp_path / "fetchd.db"
    db = sqlite3.connect(path)
    db.executescript(statement)
    db.close()
    before = path.read_bytes()

    with pytest.raises(StoreUnavailableError) as caught:
        await SqliteRecords.open(path)

    assert said in str(caught.value) and str(path) in str(caught.value)
    assert path.read_bytes() == before


# ---- damage


def overwrite_start(path: Path) -> None:
    path.write_bytes(b"not a database at all" * 100)


def overwrite_pages(path: Path) -> None:
    """Everything behind the header page."""
    data = path.read_bytes()
    path.write_bytes(data[:4096] + b"\xa5" * (len(data) - 4096))


def make_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("break_it", "said"),
    [
        pytest.param(overwrite_start, "damaged; move it away", id="another file's content"),
        pytest.param(overwrite_pages, "damaged; move it away", id="pages overwritten"),
        pytest.param(make_directory, "Is a directory", id="a directory"),
    ],
)
async def test_a_broken_database_is_one_clear_line(
    tmp_path: Path, break_it: Callable[[Path], None], said: str
) -> None:
    path = tmp_path / "fetchd.db"
    records = await SqliteRecords.open(path)
    await records.claim(blob_of(b"page"), 0, room(100))
    await records.note(page_read(), lambda _d: True)
    await records.close()
    break_it(path)

    async def use() -> None:
        broken = await SqliteRecords.open(path)
        try:
            await broken.list_reads()
        finally:
            await broken.close()

    with pytest.raises(StoreUnavailableError) as caught:
        await use()
    assert said in str(caught.value) and "\n" not in str(caught.value)


async def with_connection(records: SqliteRecords, statement: str) -> None:
    """A setting of the connection itself, which no transaction covers."""
    database = records._database
    await database._in_thread(lambda: database._connection and database._connection.execute(statement))


async def test_a_full_database_keeps_what_it_had(tmp_path: Path) -> None:
    records = await SqliteRecords.open(tmp_path / "fetchd.db")
    await records.note(page_read(1), lambda _d: True)
    await with_connection(records, "PRAGMA max_page_count = 1")  # raised to what it has

    async def fill() -> None:
        for number in range(2, 200):
            await records.note(page_read(number), lambda _d: True)

    with pytest.raises(StoreUnavailableError, match="the disk is full; make room and try again"):
        await fill()

    kept = len(await records.list_reads())
    await with_connection(records, "PRAGMA max_page_count = 100000")
    await records.note(page_read(500), lambda _d: True)
    assert len(await records.list_reads()) == kept + 1
    await records.close()


async def test_a_read_only_database_says_so(tmp_path: Path) -> None:
    records = await SqliteRecords.open(tmp_path / "fetchd.db")
    await with_connection(records, "PRAGMA query_only = ON")
    with pytest.raises(StoreUnavailableError, match="cannot be written; see to the permissions"):
        await records.note(page_read(), lambda _d: True)

    assert await records.list_reads() == []
    await records.close()


async def test_a_database_that_another_process_holds_is_busy_and_then_works(tmp_path: Path) -> None:
    path = tmp_path / "fetchd.db"
    records = await SqliteRecords.open(path, busy_ms=1)
    other = sqlite3.connect(path, autocommit=True)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailableError, match="in use by another process for too long; try again"):
        await records.note(page_read(), lambda _d: True)
    assert await records.list_reads() == []  # reading goes on

    other.execute("COMMIT")
    other.close()
    await records.note(page_read(), lambda _d: True)
    await records.close()


async def test_a_database_replaced_while_in_use_takes_no_more(tmp_path: Path) -> None:
    path = tmp_path / "fetchd.db"
    records = await SqliteRecords.open(path)
    path.rename(tmp_path / "gone")
    with pytest.raises(StoreUnavailableError, match="replaced while in use; restart"):
        await records.note(page_read(), lambda _d: True)
    shutil.copy(tmp_path / "gone", path)
    with pytest.raises(StoreUnavailableError, match="replaced while in use; restart"):
        await records.usage()
    await records.close()


# ---- threads and transactions


async def test_the_loop_goes_on_while_the_database_waits(tmp_path: Path) -> None:
    records = await SqliteRecords.open(tmp_path / "fetchd.db")
    inside, go_on = threading.Event(), threading.Event()

    def slow(_previous: str | None) -> tuple[bytes, str]:
        inside.set()
        go_on.wait(60)
        return b"{}", "h"

    sealing = asyncio.create_task(records.seal(page_read(), None, slow, lambda _d: True))
    await asyncio.to_thread(inside.wait, 60)
    go_on.set()  # from the loop, while the database's thread waits
    assert await sealing == b"{}"
    await records.close()


async def test_a_seal_once_begun_ends_though_nobody_waits(tmp_path: Path) -> None:
    records = await SqliteRecords.open(tmp_path / "fetchd.db")
    inside, go_on = threading.Event(), threading.Event()

    def slow(_previous: str | None) -> tuple[bytes, str]:
        inside.set()
        go_on.wait(60)
        return b"{}", "h"

    sealing = asyncio.create_task(records.seal(page_read(), None, slow, lambda _d: True))
    await asyncio.to_thread(inside.wait, 60)
    sealing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sealing
    go_on.set()

    assert [read.receipt for read in await records.list_reads()] == [b"{}"]
    await records.close()


async def test_no_eviction_comes_between_the_look_at_a_blob_and_its_receipt(tmp_path: Path) -> None:
    """Two processes: while one seals, the other evicts. It either sees the receipt, or the seal sees no blob."""
    path = tmp_path / "fetchd.db"
    sealing, evicting = [await SqliteRecords.open(path) for _ in range(2)]
    blob = blob_of(b"page")
    there = {blob.digest}
    for number in range(1, 30):
        await evicting.claim(blob, 0, room(10))
        there.add(blob.digest)

        sealed, dropped = await asyncio.gather(
            sealing.seal(page_read(number), None, make_receipt, there.__contains__),
            evicting.evict(room(0, remove=there.discard, now=START + 1), dry_run=False),
            return_exceptions=True,
        )

        assert isinstance(sealed, BlobMissingError) or (dropped == () and there)
        if not isinstance(sealed, BlobMissingError):
            break
    await asyncio.gather(sealing.close(), evicting.close())


async def test_an_eviction_that_cannot_remove_a_file_is_done_again(tmp_path: Path) -> None:
    records = await SqliteRecords.open(tmp_path / "fetchd.db")
    await records.claim(blob_of(b"page"), 0, room(4))

    def fail(_digest: str) -> None:
        raise StoreUnavailableError("scripted")

    with pytest.raises(StoreUnavailableError, match="scripted"):
        await records.claim(blob_of(b"more"), 0, room(4, remove=fail))
    assert [blob.digest for blob in await records.list_blobs()] == [blob_of(b"page").digest]
    assert await records.claim(blob_of(b"more"), 0, room(4)) == (blob_of(b"page"),)
    await records.close()


@pytest.mark.parametrize(
    ("still_there", "left"),
    [
        pytest.param(False, 0, id="the file is gone: dropped by rule, and not a loss"),
        pytest.param(True, 1, id="the file is there: it stays"),
    ],
)
async def test_a_crash_while_a_receipted_blob_is_dropped(
    tmp_path: Path, still_there: bool, left: int
) -> None:
    records = await SqliteRecords.open(tmp_path / "fetchd.db")
    await records.claim(blob_of(b"page"), 0, room(4))
    await records.seal(page_read(), None, make_receipt, lambda _d: True)

    def crash(_digest: str) -> None:
        raise StoreUnavailableError("crash")

    with pytest.raises(StoreUnavailableError, match="crash"):
        await records.evict(room(0, keep=False, remove=crash), dry_run=False)
    await records.reconcile([], START, lambda _digest: still_there)

    assert len(await records.list_blobs()) == left
    await records.close()


@pytest.mark.parametrize("rely", ["claim", "seal"])
async def test_who_comes_to_rely_on_a_blob_about_to_go_keeps_it(tmp_path: Path, rely: str) -> None:
    """Between the choice of a victim and its removal another process claims or seals it."""
    path = tmp_path / "fetchd.db"
    evicting, other = [await SqliteRecords.open(path) for _ in range(2)]
    blob = blob_of(b"page")
    await evicting.claim(blob, 0, room(4))

    def fail(_digest: str) -> None:
        raise StoreUnavailableError("later")

    with pytest.raises(StoreUnavailableError, match="later"):
        await evicting.evict(room(0, remove=fail), dry_run=False)
    assert not await other.hold(blob.digest, START + 1)
    if rely == "claim":
        await other.claim(blob, START + 1, room(4))
    else:
        await other.seal(page_read(), None, make_receipt, lambda _d: True)

    assert await evicting._remove((blob,), room(0, remove=fail)) == ()
    await asyncio.gather(evicting.close(), other.close())


async def test_the_total_is_that_of_the_rows_whatever_happens(tmp_path: Path) -> None:
    records = await SqliteRecords.open(tmp_path / "fetchd.db")
    for number in range(50):
        try:
            await records.claim(blob_of(bytes(number)), START + number % 7, room(200, now=START + number % 5))
        except StoreFullError:
            pass
        (total,) = await records._database.read(
            lambda db: db.execute("SELECT bytes FROM blob_total").fetchone()
        )
        assert total == (await records.usage()).bytes <= 200
    await records.close()


async def test_flushing_reaches_the_write_ahead_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = await SqliteRecords.open(tmp_path / "fetchd.db")
    await records.note(page_read(), lambda _d: True)
    synced: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        inode = os.fstat(descriptor).st_ino
        synced.append(next(one.name for one in (tmp_path, *tmp_path.iterdir()) if one.stat().st_ino == inode))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    await records.flush()
    await records.flush()
    monkeypatch.undo()

    assert synced == ["fetchd.db-wal", tmp_path.name, "fetchd.db-wal"]
    await records.close()
