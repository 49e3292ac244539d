"""The store whole, of fakes and of files: bodies in, receipts out, and what is left when a step fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from fetchd.errors import BlobMissingError, StoreError, StoreFullError, StoreUnavailableError
from fetchd.store import PageStore, Validators, open_page_store
from fetchd.store.blobs import BUFFER_BYTES
from fetchd.store.fakes import MemoryBlobs, MemoryRecords
from fetchd.store.pages import HOLD_NS, render_time
from fetchd.store.receipts import hash_receipt
from tests.fetchd.store.kit import (
    KEYS,
    SECOND,
    START,
    Clock,
    blob_of,
    keep,
    open_files,
    open_memory,
    page_read,
)

type Opener = Callable[..., AbstractAsyncContextManager[PageStore]]


@pytest.fixture(params=[open_memory, open_files], ids=["fake", "real"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Any]:
    opener: Opener = request.param
    return lambda **options: opener(tmp_path, **options)


async def test_a_page_kept_and_sealed(opened: Callable[..., Any]) -> None:
    async with opened() as store:
        assert await keep(store, b"page") == blob_of(b"page")
        first = await store.seal(page_read(1))
        second = await store.seal(page_read(2))

        assert first.previous is None and second.previous == hash_receipt(first.text)
        assert first.members["issued_at"] == render_time(START)
        assert await store.read_blob(first.digest, 4) == b"page"
        found = await store.find_read(first.id)
        assert found is not None and found.receipt == first.text


async def test_what_is_not_committed_leaves_nothing(opened: Callable[..., Any]) -> None:
    async with opened() as store:

        async def fail() -> None:
            async with store.keep() as writer:
                await writer.write(b"x" * (BUFFER_BYTES + 1))
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail()
        assert list(store.blobs.list()) == [] and (await store.usage()).blobs == 0


async def test_there_is_no_receipt_without_its_blob(opened: Callable[..., Any]) -> None:
    async with opened() as store:
        for write in (store.seal(page_read()), store.note(page_read())):
            with pytest.raises(BlobMissingError):
                await write
        assert await store.records.list_reads() == []


async def test_a_page_that_no_room_is_left_for_is_not_kept(opened: Callable[..., Any]) -> None:
    async with opened(max_bytes=10) as store:
        await keep(store, b"0123456789")
        await store.seal(page_read(1, b"0123456789"))

        with pytest.raises(StoreFullError, match="no room for a page of 4 bytes"):
            await keep(store, b"page")

        assert [blob.bytes for blob in store.blobs.list()] == [10]
        assert await keep(store, b"0123456789") == blob_of(b"0123456789")  # what is there needs no room


async def test_pages_of_old_make_room_but_for_receipts(opened: Callable[..., Any]) -> None:
    clock = Clock()
    async with opened(max_bytes=12, clock=clock) as store:
        for number, body in enumerate((b"aaaa", b"bbbb", b"cccc"), start=1):
            clock.now += SECOND
            await keep(store, body)
            if body == b"bbbb":
                await store.seal(page_read(number, body))
        clock.now += HOLD_NS

        await keep(store, b"dddd")
        await keep(store, b"eee")
        assert {blob.digest for blob in store.blobs.list()} == {
            blob_of(b).digest for b in (b"bbbb", b"dddd", b"eee")
        }


async def test_a_store_told_so_drops_what_receipts_need(opened: Callable[..., Any]) -> None:
    clock = Clock()
    async with opened(max_bytes=4, keep_receipted=False, clock=clock) as store:
        await keep(store, b"page")
        receipt = await store.seal(page_read())
        clock.now += HOLD_NS
        await keep(store, b"more")

        with pytest.raises(BlobMissingError, match="was kept and has been dropped since") as caught:
            await store.read_blob(receipt.digest, 100)
        assert caught.value.known


async def test_using_a_page_keeps_it(opened: Callable[..., Any]) -> None:
    clock = Clock()
    async with opened(max_bytes=8, clock=clock) as store:
        for body in (b"aaaa", b"bbbb"):
            clock.now += SECOND
            await keep(store, body)
        clock.now += HOLD_NS
        await store.read_blob(blob_of(b"aaaa").digest, 100)
        await keep(store, b"cccc")

        assert {blob.digest for blob in store.blobs.list()} == {blob_of(b).digest for b in (b"aaaa", b"cccc")}


async def test_collecting(opened: Callable[..., Any]) -> None:
    clock = Clock()
    async with opened(max_bytes=100, clock=clock) as store:
        await keep(store, b"page")
        await store.seal(page_read())
        await keep(store, b"idle")
        assert await store.collect(0) == ()  # both are held by reads under way
        clock.now += HOLD_NS

        assert await store.collect() == ()
        assert await store.collect(0, dry_run=True) == (blob_of(b"idle"),)
        assert len(list(store.blobs.list())) == 2
        assert await store.collect(0) == (blob_of(b"idle"),)
        assert await store.collect(0, drop_receipted=True) == (blob_of(b"page"),)
        assert list(store.blobs.list()) == []


async def test_an_agent_gets_what_its_own_reads_had(opened: Callable[..., Any]) -> None:
    async with opened() as store:
        digest = (await keep(store, b"page")).digest
        await store.note(page_read(agent="alice"))

        async with store.open_blob(digest, "alice") as reader:
            assert reader.blob == blob_of(b"page")
        with pytest.raises(BlobMissingError) as caught:
            await store.open_blob(digest, "bob").__aenter__()
        assert not caught.value.known


async def test_a_page_too_large_to_hold_in_memory_is_not_read(opened: Callable[..., Any]) -> None:
    async with opened() as store:
        digest = (await keep(store, b"page")).digest
        assert await store.read_blob(digest, 4) == b"page"
        with pytest.raises(ValueError, match="has 4 bytes, more than 3"):
            await store.read_blob(digest, 3)


# ---- conditional reuse

VALIDATORS = Validators(b'"canary-etag"', b"Mon, 30 Nov 2026 20:00:00 GMT")


async def test_validators_come_back_for_the_same_agent_and_page_while_the_page_is_here(
    opened: Callable[..., Any],
) -> None:
    clock = Clock()
    async with opened(max_bytes=100, clock=clock) as store:
        await keep(store, b"page")
        read = page_read(validators=VALIDATORS)
        await store.seal(read)
        asked = (read.final_url, read.query_digest, read.blob.digest)

        assert await store.find_validators("alice", *asked) == VALIDATORS
        assert await store.find_validators("bob", *asked) is None
        assert await store.find_validators("alice", "https://a.example/", *asked[1:]) is None

        clock.now += 2 * HOLD_NS
        assert await store.find_validators("alice", *asked) == VALIDATORS
        assert await store.collect(0, drop_receipted=True) == ()  # held until the read that asked is sealed
        clock.now += HOLD_NS
        await store.collect(0, drop_receipted=True)
        assert await store.find_validators("alice", *asked) is None


async def test_a_page_whose_file_is_gone_is_fetched_anew(opened: Callable[..., Any]) -> None:
    async with opened() as store:
        await keep(store, b"page")
        read = page_read(validators=VALIDATORS)
        await store.seal(read)
        store.blobs.remove(read.blob.digest)

        assert (
            await store.find_validators("alice", read.final_url, read.query_digest, read.blob.digest) is None
        )


async def test_no_validator_is_to_be_found_on_the_disk(tmp_path: Path) -> None:
    async with open_files(tmp_path) as store:
        await keep(store, b"page")
        receipt = await store.seal(page_read(validators=VALIDATORS))
        await store.flush()
        kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())

    assert receipt.text in kept
    assert b"canary" not in kept and b"20:00:00 GMT" not in kept


# ---- failures


async def test_a_failing_disk_is_an_error_and_the_next_page_is_kept() -> None:
    blobs, records = MemoryBlobs(), MemoryRecords()
    store = PageStore(blobs, records, KEYS, clock=Clock())
    for _ in range(2):
        blobs.fail_next = 1
        with pytest.raises(StoreUnavailableError, match="scripted"):
            await keep(store, b"page")
        records.fail_next = 1
        with pytest.raises(StoreUnavailableError, match="scripted"):
            await keep(store, b"page")
    assert blobs.bodies == {} and blobs.writing == 0

    await keep(store, b"page")
    records.fail_next = 1
    with pytest.raises(StoreUnavailableError):
        await store.seal(page_read())
    assert (await store.seal(page_read())).previous is None


async def test_a_page_can_be_had_though_its_use_cannot_be_noted(caplog: pytest.LogCaptureFixture) -> None:
    class Untouchable(MemoryRecords):
        async def touch(self, digest: str, now: int) -> None:
            raise StoreUnavailableError("read-only")

    store = PageStore(MemoryBlobs(), Untouchable(), KEYS, clock=Clock())
    digest = (await keep(store, b"page")).digest

    assert await store.read_blob(digest, 10) == b"page"
    assert "was not noted: read-only" in caplog.text


# ---- durability


class Flushes(MemoryRecords):
    """Records that note what was made durable, and fail when told to."""

    def __init__(self, order: list[str], failures: int = 0) -> None:
        super().__init__()
        self._order = order
        self._failures = failures
        self.flushed = asyncio.Event()

    async def flush(self) -> None:
        if self._failures:
            self._failures -= 1
            raise StoreUnavailableError("scripted")
        self._order.append("receipts")
        self.flushed.set()


async def test_receipts_are_made_durable_after_the_audit_lines_they_name() -> None:
    order: list[str] = []
    records = Flushes(order, failures=1)
    store = PageStore(MemoryBlobs(), records, KEYS, clock=Clock())
    await keep(store, b"page")
    await store.seal(page_read())
    keeper = asyncio.create_task(store.run(lambda: order.append("audit")))
    await records.flushed.wait()
    keeper.cancel()
    with pytest.raises(asyncio.CancelledError):
        await keeper
    await store.flush()  # nothing new

    assert order == ["audit", "audit", "receipts"]


async def test_closing_flushes_and_lets_go_whatever_happens() -> None:
    records = Flushes([], failures=1)
    store = PageStore(MemoryBlobs(), records, KEYS, clock=Clock())
    await keep(store, b"page")
    await store.seal(page_read())
    with pytest.raises(StoreError):
        await store.close()
    assert records.closed


# ---- starting


async def test_a_start_finds_what_crashes_left(tmp_path: Path) -> None:
    """A scratch file, a blob without a row, a row without a blob."""
    async with open_page_store(tmp_path) as store:
        await keep(store, b"page")
        await store.seal(page_read())
    (tmp_path / "blobs" / "scratch" / "left").write_bytes(b"half")
    async with open_page_store(tmp_path, tidy=False) as store:
        writer = store.blobs.begin()
        await writer.write(b"unclaimed")
        await writer.commit()
        assert (await store.usage()).blobs == 1

    async with open_page_store(tmp_path) as store:
        assert (await store.usage()).blobs == 2
        assert list((tmp_path / "blobs" / "scratch").iterdir()) == []
        assert [blob.receipted for blob in await store.records.list_blobs()].count(True) == 1


def test_times_are_utc_to_the_millisecond() -> None:
    assert render_time(1_790_000_000_000_000_000) == "2026-09-21T14:13:20.000Z"
    assert render_time(1_790_000_000_999_999_999) == "2026-09-21T14:13:20.999Z"
    assert render_time(0) == "1970-01-01T00:00:00.000Z"
