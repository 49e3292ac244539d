"""What every records store does; the fake and the real one pass the same run (law 8)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from fetchd.errors import BlobMissingError, StoreError, StoreFullError
from fetchd.store.fakes import MemoryRecords
from fetchd.store.interface import Records
from fetchd.store.records import SqliteRecords
from tests.fetchd.store.kit import SECOND, START, blob_of, page_read, room


@pytest.fixture(params=["fake", "real"])
async def records(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Records]:
    found: Records = (
        MemoryRecords() if request.param == "fake" else await SqliteRecords.open(tmp_path / "fetchd.db")
    )
    yield found
    await found.close()


# ---- records: the index


async def test_room_is_made_by_dropping_the_least_recently_used(records: Records) -> None:
    one, two, three = (blob_of(bytes([n]) * 10) for n in range(3))
    removed: list[str] = []
    await records.claim(one, 0, room(25, now=START))
    await records.claim(two, 0, room(25, now=START + 1))
    await records.touch(one.digest, START + 2)

    dropped = await records.claim(three, 0, room(25, now=START + 3, remove=removed.append))

    assert dropped == (two,) and removed == [two.digest]
    assert {row.digest for row in await records.list_blobs()} == {one.digest, three.digest}


async def test_exactly_the_limit_fits_and_one_byte_more_does_not(records: Records) -> None:
    one, two = blob_of(b"1" * 10), blob_of(b"2" * 10)
    await records.claim(one, START + SECOND, room(20))
    assert await records.claim(two, START + SECOND, room(20)) == ()

    with pytest.raises(StoreFullError, match="no room for a page of 1 bytes"):
        await records.claim(blob_of(b"3"), START, room(20))
    assert (await records.usage()).bytes == 20


async def test_a_held_blob_stays_until_its_time(records: Records) -> None:
    one, two = blob_of(b"1" * 10), blob_of(b"2" * 10)
    await records.claim(one, START + SECOND, room(10))

    with pytest.raises(StoreFullError):
        await records.claim(two, 0, room(10, now=START + SECOND - 1))
    assert await records.claim(two, 0, room(10, now=START + SECOND)) == (one,)


async def test_holding_again_makes_it_longer_and_never_shorter(records: Records) -> None:
    one, two = blob_of(b"1" * 10), blob_of(b"2" * 10)
    await records.claim(one, START + 5, room(10))

    assert await records.hold(one.digest, START + 10)
    assert await records.hold(one.digest, START + 1)
    assert not await records.hold(two.digest, START + 10)
    with pytest.raises(StoreFullError):
        await records.claim(two, 0, room(10, now=START + 9))


async def test_a_blob_counts_once_however_often_it_is_claimed(records: Records) -> None:
    one = blob_of(b"1" * 10)
    for _ in range(3):
        await records.claim(one, START, room(10))

    assert (await records.usage()).bytes == 10


@pytest.mark.parametrize(
    ("keep", "expected"),
    [
        pytest.param(True, ["idle"], id="a receipted blob stays, whatever room is wanted"),
        pytest.param(False, ["idle", "receipted"], id="told to, it goes, after all others"),
    ],
)
async def test_what_a_receipt_needs(records: Records, keep: bool, expected: list[str]) -> None:
    named = {blob_of(name.encode()): name for name in ("receipted", "idle")}
    for number, blob in enumerate(named):
        await records.claim(blob, START, room(100, now=START + number))
    await records.seal(page_read(body=b"receipted"), None, lambda _p: (b"{}", "h"), lambda _d: True)

    would = await records.evict(room(0, keep=keep, now=START + SECOND), dry_run=True)
    assert len(await records.list_blobs()) == 2
    assert await records.evict(room(0, keep=keep, now=START + SECOND), dry_run=False) == would

    assert [named[blob] for blob in would] == expected


async def test_a_blob_that_comes_back_is_still_needed_by_its_receipt(records: Records) -> None:
    blob = blob_of(b"page")
    await records.claim(blob, START, room(100))
    await records.seal(page_read(), None, lambda _p: (b"{}", "h"), lambda _d: True)
    await records.evict(room(0, keep=False), dry_run=False)
    await records.claim(blob, START, room(100))

    assert await records.evict(room(0), dry_run=False) == ()
    assert (await records.usage()).receipted_bytes == 4


async def test_the_index_follows_the_disk(records: Records) -> None:
    """Found and unknown: entered. Known and gone: dropped, unless a receipt needs it or a read holds it."""
    gone, needed, held, found = (blob_of(name) for name in (b"gone", b"page", b"held", b"found"))
    for blob, until in ((gone, 0), (needed, 0), (held, START + SECOND)):
        await records.claim(blob, until, room(100))
    await records.seal(page_read(), None, lambda _p: (b"{}", "h"), lambda _d: True)

    await records.reconcile([found], START, lambda digest: digest == found.digest)

    assert {row.digest for row in await records.list_blobs()} == {needed.digest, held.digest, found.digest}


# ---- records: reads


async def test_receipts_are_chained_in_the_order_of_sealing(records: Records) -> None:
    asked: list[str | None] = []

    def make(number: int):
        def make_receipt(previous: str | None) -> tuple[bytes, str]:
            asked.append(previous)
            return b'{"n":%d}' % number, f"hash-{number}"

        return make_receipt

    for number in (1, 2):
        assert (
            await records.seal(page_read(number), None, make(number), lambda _d: True) == b'{"n":%d}' % number
        )
    await records.note(page_read(3), lambda _d: True)
    await records.seal(page_read(4), None, make(4), lambda _d: True)

    assert asked == [None, "hash-1", "hash-2"]
    assert [read.receipt for read in await records.list_reads()] == [b'{"n":1}', b'{"n":2}', None, b'{"n":4}']


async def test_nothing_is_written_when_the_blob_is_gone(records: Records) -> None:
    for write in (
        records.seal(page_read(), None, lambda _p: (b"{}", "h"), lambda _d: False),
        records.note(page_read(), lambda _d: False),
    ):
        with pytest.raises(BlobMissingError):
            await write
    assert await records.list_reads() == []


async def test_a_fault_while_a_receipt_is_made_leaves_nothing(records: Records) -> None:
    def broken(_previous: str | None) -> tuple[bytes, str]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await records.seal(page_read(), None, broken, lambda _d: True)
    assert await records.list_reads() == []
    await records.seal(page_read(), None, lambda _p: (b"{}", "h"), lambda _d: True)


async def test_an_id_is_used_once(records: Records) -> None:
    await records.seal(page_read(), None, lambda _p: (b"{}", "h"), lambda _d: True)
    with pytest.raises(StoreError):
        await records.seal(page_read(), None, lambda _p: (b"{}", "h"), lambda _d: True)


async def test_a_read_comes_back_as_it_went_in(records: Records) -> None:
    read = page_read(status=203, query_digest=None)
    await records.seal(read, b"sealed", lambda _p: (b"{}", "h"), lambda _d: True)

    found = await records.find_read(read.id)

    assert found is not None
    assert (found.number, found.id, found.agent, found.tool) == (1, read.id, read.agent, read.tool)
    assert (found.url, found.final_url, found.query_digest) == (read.url, read.final_url, None)
    assert (found.status, found.blob, found.fetched_at) == (203, read.blob, read.fetched_at)
    assert (found.receipt, found.sealed_validators) == (b"{}", b"sealed")
    assert await records.find_read("nobody") is None


async def test_lists_go_either_way_and_by_agent(records: Records) -> None:
    for number in range(1, 6):
        read = page_read(number, agent="bob" if number % 2 else "alice")
        await records.note(read, lambda _d: True)

    async def numbers(**options) -> list[int]:
        return [read.number for read in await records.list_reads(**options)]

    assert await numbers() == [1, 2, 3, 4, 5]
    assert await numbers(after=2, limit=2) == [3, 4]
    assert await numbers(newest_first=True, limit=2) == [5, 4]
    assert await numbers(newest_first=True, after=4, limit=2) == [3, 2]
    assert await numbers(agent="alice") == [2, 4]
    assert await numbers(agent="carol") == []


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        pytest.param({}, True, id="the same agent, page and digest"),
        pytest.param({"agent": "bob"}, False, id="another agent"),
        pytest.param({"final_url": "https://a.example/other"}, False, id="another page"),
        pytest.param({"query_digest": None}, False, id="no query"),
        pytest.param({"query_digest": "hmac-sha256:" + "cd" * 16}, False, id="another query"),
        pytest.param({"digest": blob_of(b"other").digest}, False, id="another digest"),
    ],
)
async def test_only_an_agents_own_read_of_that_very_page_is_reused(
    records: Records, changes: dict[str, Any], found: bool
) -> None:
    read = page_read()
    await records.seal(read, b"sealed", lambda _p: (b"{}", "h"), lambda _d: True)
    asked: dict[str, Any] = {
        "agent": read.agent,
        "final_url": read.final_url,
        "query_digest": read.query_digest,
    }

    reusable = await records.find_reusable(**{**asked, "digest": read.blob.digest, **changes})

    assert (reusable is not None) is found


async def test_a_read_without_validators_is_not_reused_and_the_newest_with_them_is(records: Records) -> None:
    for number, sealed in ((1, b"old"), (2, b"new"), (3, None)):
        await records.seal(page_read(number), sealed, lambda _p: (b"{}", "h"), lambda _d: True)
    read = page_read()

    found = await records.find_reusable(read.agent, read.final_url, read.query_digest, read.blob.digest)

    assert found is not None and found.sealed_validators == b"new"


async def test_whose_read_had_a_blob(records: Records) -> None:
    await records.note(page_read(agent="alice"), lambda _d: True)
    digest = page_read().blob.digest

    assert await records.has_read("alice", digest) and await records.has_read(None, digest)
    assert not await records.has_read("bob", digest)
    assert not await records.has_read(None, blob_of(b"other").digest)


async def test_closed_records_say_so(records: Records) -> None:
    await records.flush()
    await records.close()
    with pytest.raises(StoreError, match="closed"):
        await records.usage()
    await records.close()
