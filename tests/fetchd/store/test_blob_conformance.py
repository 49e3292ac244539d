"""What every blob store does; the fake and the real one pass the same run (law 8)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fetchd.errors import BlobDamagedError, BlobMissingError
from fetchd.store.blobs import BUFFER_BYTES, PIECE_BYTES, FileBlobs
from fetchd.store.fakes import MemoryBlobs
from fetchd.store.interface import Blobs
from tests.fetchd.store.kit import blob_of

type Breaker = Callable[[str, bytes], None]


@pytest.fixture(params=["fake", "real"])
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Blobs, Breaker]:
    """A store, and what replaces the bytes under a digest behind its back."""
    if request.param == "fake":
        memory = MemoryBlobs(directory=tmp_path)
        return memory, memory.bodies.__setitem__
    files = FileBlobs.open(tmp_path / "blobs")
    return files, lambda digest, body: (files.path(digest).write_bytes(body), None)[1]


async def put(blobs: Blobs, body: bytes, piece: int = 70_000) -> str:
    writer = blobs.begin()
    for start in range(0, len(body), piece):
        await writer.write(body[start : start + piece])
    return (await writer.commit()).digest


async def get(blobs: Blobs, digest: str) -> bytes:
    async with blobs.open_verified(digest) as reader:
        return b"".join([piece async for piece in reader])


@pytest.mark.parametrize(
    "size",
    [0, 1, BUFFER_BYTES - 1, BUFFER_BYTES, BUFFER_BYTES + 1, PIECE_BYTES, PIECE_BYTES * 5 + 7],
)
async def test_what_was_kept_comes_back_under_its_digest(blobs: tuple[Blobs, Breaker], size: int) -> None:
    store, _ = blobs
    body = bytes(n % 251 for n in range(size))

    digest = await put(store, body)

    assert digest == blob_of(body).digest
    assert await get(store, digest) == body
    assert store.holds(digest) and list(store.list()) == [blob_of(body)]


async def test_a_worker_process_finds_a_body_in_a_file(blobs: tuple[Blobs, Breaker]) -> None:
    store, _ = blobs
    digest = await put(store, b"page")

    assert store.path(digest).read_bytes() == b"page"
    assert not store.path(blob_of(b"other").digest).exists()


async def test_the_same_body_twice_is_kept_once(blobs: tuple[Blobs, Breaker]) -> None:
    store, _ = blobs

    assert await put(store, b"page") == await put(store, b"page", piece=1)
    assert list(store.list()) == [blob_of(b"page")]


async def test_a_body_that_comes_again_heals_a_damaged_one(blobs: tuple[Blobs, Breaker]) -> None:
    store, damage = blobs
    digest = await put(store, b"page")
    damage(digest, b"pagE")

    await put(store, b"page")

    assert await get(store, digest) == b"page"


@pytest.mark.parametrize("finished", [False, True], ids=["while writing", "after finish"])
async def test_nothing_is_left_of_an_aborted_body(blobs: tuple[Blobs, Breaker], finished: bool) -> None:
    store, _ = blobs
    writer = store.begin()
    await writer.write(b"x" * (BUFFER_BYTES + 5))
    if finished:
        assert await writer.finish() == blob_of(b"x" * (BUFFER_BYTES + 5))
    assert list(store.list()) == []
    await writer.abort()
    await writer.abort()

    assert list(store.list()) == [] and store.sweep() == 0
    with pytest.raises(ValueError, match=r"ended|finished"):
        await writer.commit()


async def test_abort_after_commit_takes_nothing_away(blobs: tuple[Blobs, Breaker]) -> None:
    store, _ = blobs
    writer = store.begin()
    await writer.write(b"page")
    blob = await writer.commit()
    await writer.abort()

    assert store.holds(blob.digest)


async def test_nothing_is_written_to_a_finished_body(blobs: tuple[Blobs, Breaker]) -> None:
    writer = blobs[0].begin()
    await writer.finish()
    with pytest.raises(ValueError, match="finished"):
        await writer.write(b"more")
    await writer.abort()


@pytest.mark.parametrize("bad", [b"", b"pag", b"pagf", b"page2"])
async def test_a_damaged_blob_is_named_before_its_first_byte(
    blobs: tuple[Blobs, Breaker], bad: bytes
) -> None:
    store, damage = blobs
    digest = await put(store, b"page")
    damage(digest, bad)

    with pytest.raises(BlobDamagedError) as caught:
        await get(store, digest)

    assert caught.value.digest == digest and caught.value.size == len(bad)
    assert blob_of(bad).digest in str(caught.value)


async def test_a_blob_that_changes_while_it_is_read_never_comes_out_whole(
    blobs: tuple[Blobs, Breaker],
) -> None:
    store, damage = blobs
    body = b"a" * (PIECE_BYTES * 3)
    digest = await put(store, body)
    got = bytearray()

    async def read() -> None:
        async with store.open_verified(digest) as reader:
            damage(digest, body[:-1] + b"b")
            async for piece in reader:
                got.extend(piece)

    with pytest.raises(BlobDamagedError):
        await read()
    assert len(got) < len(body)


async def test_what_is_not_there_is_missing(blobs: tuple[Blobs, Breaker]) -> None:
    store, _ = blobs
    digest = await put(store, b"page")
    store.remove(digest)
    store.remove(digest)

    assert not store.holds(digest)
    with pytest.raises(BlobMissingError, match=f"no blob {digest}"):
        await get(store, digest)


@pytest.mark.parametrize(
    "text", ["", "sha256:", "sha256:" + "A" * 64, "sha256:../../../etc/passwd", "md5:" + "0" * 32]
)
async def test_what_is_no_digest_reaches_no_file(blobs: tuple[Blobs, Breaker], text: str) -> None:
    store, _ = blobs
    for ask in (store.holds, store.remove, store.path):
        with pytest.raises(ValueError, match="is not a digest"):
            ask(text)
    with pytest.raises(ValueError, match="is not a digest"):
        await get(store, text)
