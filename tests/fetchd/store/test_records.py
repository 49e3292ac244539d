"""Records over one database: what threads, other processes and crashes do to transactions."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest

from fetchd.errors import BlobMissingError, StoreFullError, StoreUnavailableError
from fetchd.store.page_texts import PageTexts
from fetchd.store.pages import render_time
from fetchd.store.records import SqliteRecords
from tests.fetchd.store.kit import START, blob_of, page_read, room


def make_receipt(_previous: str | None) -> tuple[bytes, str]:
    return b"{}", "h"


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


async def test_room_that_others_always_take_is_not_waited_for_without_end(tmp_path: Path) -> None:
    """Whoever removes a blob finds it claimed anew: a scripted race lost every time."""
    records = await SqliteRecords.open(tmp_path / "fetchd.db")
    await records.claim(blob_of(b"page"), 0, room(4))
    await records._database.write(
        lambda db: db.execute(
            "CREATE TRIGGER race AFTER UPDATE OF going ON blobs WHEN new.going BEGIN"
            " UPDATE blobs SET going = 0; END"
        )
    )
    with pytest.raises(StoreFullError, match="others take it as it is made; try again"):
        await records.claim(blob_of(b"more"), 0, room(4))
    await records.close()


MS = 1_000_000


@pytest.mark.parametrize(
    ("read_at", "its_own"),
    [(START - MS, False), (START, False), (START + MS - 1, False), (START + MS, True)],
    ids=["before", "in that very moment", "in that millisecond", "after"],
)
async def test_what_an_agent_read_that_is_no_more_is_not_anothers_of_its_name(
    tmp_path: Path, read_at: int, its_own: bool
) -> None:
    """Revoked and added again: neither its bodies nor the fact that it had them."""
    path = tmp_path / "fetchd.db"
    records, texts = await SqliteRecords.open(path), await PageTexts.open(path)
    read = page_read(fetched_at=render_time(read_at))
    page = (read.final_url, read.query_digest, read.blob.digest)
    await records.seal(read, b"validators", make_receipt, lambda _d: True)
    await texts.forget("bob", START + 10 * MS)
    assert await records.has_read("alice", read.blob.digest)
    assert await records.find_reusable("alice", *page) is not None

    await texts.forget("alice", START)

    assert await records.has_read("alice", read.blob.digest) is its_own
    assert (await records.find_reusable("alice", *page) is not None) is its_own
    assert await records.has_read(None, read.blob.digest)  # the operator's
    assert len(await records.list_reads(agent="alice")) == 1
    await texts.close()
    await records.close()
