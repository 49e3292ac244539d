"""What only files can do wrong: modes, crashes, full disks, other processes, links."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import shutil
import stat
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fetchd.errors import BlobDamagedError, BlobMissingError, StoreUnavailableError
from fetchd.store.blobs import BUFFER_BYTES, FileBlobs
from tests.fetchd.store.kit import blob_of

LARGE = b"x" * (BUFFER_BYTES + 10)


def scratch(directory: Path) -> list[Path]:
    return list((directory / "scratch").iterdir())


async def put(blobs: FileBlobs, body: bytes) -> Path:
    writer = blobs.begin()
    await writer.write(body)
    return blobs.path((await writer.commit()).digest)


async def test_where_it_lies_and_who_may_read_it(tmp_path: Path) -> None:
    path = await put(FileBlobs.open(tmp_path / "blobs"), b"page")

    hexadecimal = blob_of(b"page").digest.removeprefix("sha256:")
    assert path == tmp_path / "blobs" / "sha256" / hexadecimal[:2] / hexadecimal[2:]
    assert path.read_bytes() == b"page"
    modes = {stat.S_IMODE(one.stat().st_mode) for one in (tmp_path / "blobs").rglob("*") if one.is_dir()}
    assert modes == {0o700} and stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("body", [b"page", LARGE], ids=["small", "large"])
async def test_the_file_is_durable_before_it_has_its_name_and_the_name_after(
    tmp_path: Path, body: bytes
) -> None:
    seen: list[str] = []

    def fsync(descriptor: int) -> None:
        is_directory = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        seen.append(("directory" if is_directory else "file") + (", placed" if path.exists() else ""))

    path = FileBlobs(tmp_path / "blobs").path(blob_of(body).digest)
    await put(FileBlobs.open(tmp_path / "blobs", fsync), body)

    assert seen == ["file", "directory", "directory, placed"]


async def test_a_blob_that_is_there_is_not_written_again(tmp_path: Path) -> None:
    blobs = FileBlobs.open(tmp_path / "blobs")
    before = (await put(blobs, b"page")).stat()
    after = (await put(blobs, b"page")).stat()

    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


async def test_small_bodies_touch_nothing_before_they_are_placed(tmp_path: Path) -> None:
    writer = FileBlobs.open(tmp_path / "blobs").begin()
    await writer.write(b"page")
    await writer.finish()

    assert scratch(tmp_path / "blobs") == []


# ---- crashes and other processes

CRASHING = """
import asyncio, os, sys
from pathlib import Path
from fetchd.store.blobs import BUFFER_BYTES, FileBlobs

async def main():
    writer = FileBlobs.open(Path(sys.argv[1])).begin()
    await writer.write(b"x" * BUFFER_BYTES)
    print("written", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    os._exit(1)

asyncio.run(main())
"""


def test_what_a_crash_left_is_swept_and_what_a_living_writer_holds_is_not(tmp_path: Path) -> None:
    directory = tmp_path / "blobs"
    with subprocess.Popen(
        [sys.executable, "-c", CRASHING, str(directory)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None and other.stdin is not None
        assert other.stdout.readline() == b"written\n"
        blobs = FileBlobs.open(directory)

        assert blobs.sweep() == 0 and len(scratch(directory)) == 1
        other.stdin.close()
        other.wait()

    assert blobs.sweep() == 1 and scratch(directory) == []


async def test_a_call_that_was_given_up_leaves_nothing(tmp_path: Path) -> None:
    """The task is cancelled while a thread writes; abort waits for the thread."""
    blobs = FileBlobs.open(tmp_path / "blobs")
    writer = blobs.begin()

    async def write() -> None:
        try:
            while True:
                await writer.write(LARGE)
        finally:
            await writer.abort()

    task = asyncio.create_task(write())
    while not scratch(tmp_path / "blobs"):  # noqa: ASYNC110 - a file is what is waited for
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert scratch(tmp_path / "blobs") == [] and list(blobs.list()) == []


async def test_two_writers_of_one_body_make_one_blob(tmp_path: Path) -> None:
    stores = [FileBlobs.open(tmp_path / "blobs") for _ in range(8)]

    paths = await asyncio.gather(*(put(store, LARGE) for store in stores))

    assert len(set(paths)) == 1 and paths[0].read_bytes() == LARGE
    assert scratch(tmp_path / "blobs") == []


# ---- the disk


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("body", [b"page" * 100, LARGE], ids=["while placing", "while writing"])
async def test_a_refused_write_is_one_clear_error_and_leaves_nothing(tmp_path: Path, body: bytes) -> None:
    blobs = FileBlobs.open(tmp_path / "blobs")
    writer = blobs.begin()

    async def write() -> None:
        await writer.write(body)
        await writer.commit()

    with pytest.raises(StoreUnavailableError) as caught, file_size_limit(100):
        await write()

    text = str(caught.value)
    assert "the disk is full" in text and "fetchd blob gc" in text and "\n" not in text
    assert scratch(tmp_path / "blobs") == [] and list(blobs.list()) == []
    assert (await put(blobs, body)).read_bytes() == body


@pytest.mark.parametrize("failing", [0, 1, 2], ids=["file", "new directory", "name"])
async def test_what_cannot_be_made_durable_is_not_committed(tmp_path: Path, failing: int) -> None:
    calls = 0

    def fsync(descriptor: int) -> None:
        nonlocal calls
        calls += 1
        if calls == failing + 1:
            raise OSError(errno.EIO, "Input/output error")
        os.fsync(descriptor)

    blobs = FileBlobs.open(tmp_path / "blobs", fsync)
    with pytest.raises(StoreUnavailableError, match="Input/output error"):
        await put(blobs, b"page")

    assert scratch(tmp_path / "blobs") == []
    assert (await put(blobs, b"page")).read_bytes() == b"page"


FULL = """
import asyncio, sys
from pathlib import Path
from fetchd.errors import StoreUnavailableError
from fetchd.store.blobs import FileBlobs

async def main():
    directory = Path(sys.argv[1]) / "blobs"
    blobs = FileBlobs.open(directory)
    refused = 0
    for number in range(200):
        writer = blobs.begin()
        try:
            await writer.write(bytes([number]) * 20_000)
            await writer.commit()
        except StoreUnavailableError as error:
            refused += "the disk is full (No space left on device)" in str(error)
            break
    for blob in blobs.list():
        async with blobs.open_verified(blob.digest):
            pass
    print(refused, len(list((directory / "scratch").iterdir())), number > 3)

asyncio.run(main())
"""


def test_a_full_file_system_is_survived(tmp_path: Path) -> None:
    """ENOSPC of a real file system of 512 KiB, mounted for a child process alone."""
    shell, unshare = shutil.which("sh"), shutil.which("unshare")
    if not shell or not unshare:
        pytest.skip("no unshare; the test above has a real write refused too")
    script = 'mount -t tmpfs -o size=512k tmpfs "$1" || exit 77; exec "$2" -c "$3" "$1"'
    done = subprocess.run(
        [unshare, "-rm", shell, "-c", script, "sh", str(tmp_path), sys.executable, FULL],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode == 77 or "unshare failed" in done.stderr:
        pytest.skip("mounting is not permitted here; the test above has a real write refused too")

    assert done.stdout.split() == ["1", "0", "True"], done.stderr


async def test_one_flipped_bit_is_found_wherever_it_is(tmp_path: Path) -> None:
    blobs = FileBlobs.open(tmp_path / "blobs")
    path = await put(blobs, b"page")
    for bit in range(8 * 4):
        body = bytearray(b"page")
        body[bit // 8] ^= 1 << bit % 8
        path.write_bytes(body)
        with pytest.raises(BlobDamagedError, match=blob_of(b"page").digest):
            async with blobs.open_verified(blob_of(b"page").digest):
                pass


async def test_links_are_not_followed(tmp_path: Path) -> None:
    blobs = FileBlobs.open(tmp_path / "blobs")
    path = await put(blobs, b"page")
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")

    assert not blobs.holds(blob_of(b"page").digest)
    with pytest.raises((StoreUnavailableError, BlobMissingError)):
        async with blobs.open_verified(blob_of(b"page").digest):
            pass


def test_a_place_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "blobs").write_text("a file")
    with pytest.raises(StoreUnavailableError, match=r"blob store .*blobs: (File exists|Not a directory)"):
        FileBlobs.open(tmp_path / "blobs")


async def test_strange_files_are_passed_over(tmp_path: Path) -> None:
    blobs = FileBlobs.open(tmp_path / "blobs")
    path = await put(blobs, b"page")
    (path.parent / "README").write_text("not ours")

    assert list(blobs.list()) == [blob_of(b"page")]


async def test_memory_is_bounded_whatever_the_size(tmp_path: Path) -> None:
    """24 MiB in and out again, never more than a few pieces of it at once."""
    blobs = FileBlobs.open(tmp_path / "blobs")
    piece = os.urandom(64 << 10)
    tracemalloc.start()
    try:
        writer = blobs.begin()
        for _ in range(384):
            await writer.write(piece)
        blob = await writer.commit()
        size = 0
        async with blobs.open_verified(blob.digest) as reader:
            async for part in reader:
                size += len(part)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert blob.bytes == size == 24 << 20
    assert peak < 4 << 20
