"""What only a database can do wrong: older and newer files, damage, full disks, other processes."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fetchd.errors import StoreUnavailableError
from fetchd.store import load_receipt_key
from fetchd.store.database import APPLICATION_ID, Database
from fetchd.store.fakes import MemoryBlobs
from fetchd.store.interface import Usage
from fetchd.store.records import SqliteRecords
from fetchd.store.schema import MIGRATIONS
from fetchd.store.verifying import ReceiptVerifier
from tests.fetchd.store.kit import blob_of, page_read, room

OLD = Path(__file__).with_name("fixtures") / "records-v1.db"


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


async def test_a_second_connection_of_this_process_takes_no_lock_from_the_first(tmp_path: Path) -> None:
    """POSIX drops all locks of a process on a file when any descriptor of it is closed. Another process that then
    opens and closes the file would take itself for the last, and remove the log that is still in use."""
    path = tmp_path / "fetchd.db"
    first = await SqliteRecords.open(path)
    await first.note(page_read(1), lambda _d: True)
    second = await SqliteRecords.open(path)
    log = path.with_name("fetchd.db-wal").stat().st_ino
    visit = "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); db.execute('SELECT * FROM reads'); db.close()"
    subprocess.run([sys.executable, "-c", visit, str(path)], check=True)

    assert path.with_name("fetchd.db-wal").stat().st_ino == log
    await first.close()
    await second.close()


async def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere.db").touch()
    (tmp_path / "fetchd.db").symlink_to("elsewhere.db")
    with pytest.raises(StoreUnavailableError, match="symbolic links"):
        await SqliteRecords.open(tmp_path / "fetchd.db")


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
