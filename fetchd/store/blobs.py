"""Blobs as files: `<directory>/sha256/ab/cdef…`, the first two hex digits of the digest a directory.

A body grows in `<directory>/scratch/`, on the same file system, locked (flock) by its writer; what holds no lock
there was left by a crash and is swept. Placing is: fsync of the file, rename, fsync of the directory. A blob
that is there already is read and compared first: a whole one stays and nothing is written, a damaged one is
replaced. Small bodies never touch the scratch directory before they are placed.

Files are 0600, directories 0700. Symbolic links are not followed.
"""

import asyncio
import errno
import fcntl
import os
import secrets
import stat
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Self

from fetchd.errors import BlobDamagedError, BlobMissingError, StoreUnavailableError
from proxy_addons.audit.keys import sync_directory

from .values import Blob, parse_digest

BUFFER_BYTES: Final = 512 << 10
"""Gathered before a thread is asked to write: a hop to a thread costs as much as hashing 100 KiB."""
PIECE_BYTES: Final = 256 << 10
"""Read and handed out at a time."""

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class FileBlobs:
    """`Blobs` over files. Made by `open`. fsync: makes a descriptor durable."""

    def __init__(self, directory: Path, fsync: Callable[[int], None] = os.fsync) -> None:
        self._directory: Final = directory
        self._kept: Final = directory / "sha256"
        self._scratch: Final = directory / "scratch"
        self._fsync: Final = fsync

    @classmethod
    def open(cls, directory: Path, fsync: Callable[[int], None] = os.fsync) -> Self:
        """The store in `directory`, made if need be. Blocks. Raises StoreUnavailableError."""
        blobs = cls(directory, fsync)
        try:
            for path in (directory, blobs._kept, blobs._scratch):
                if not path.is_dir():
                    path.mkdir(mode=0o700, parents=True, exist_ok=True)
                    sync_directory(path.parent)
        except OSError as error:
            raise blobs._unavailable(error) from error
        return blobs

    def begin(self) -> "FileBlobWriter":
        return FileBlobWriter(_Body(self))

    @asynccontextmanager
    async def open_verified(self, digest: str) -> "AsyncIterator[FileBlobReader]":
        path = self.path(digest)
        fd = await asyncio.to_thread(self._open, digest, path)
        try:
            found = await asyncio.to_thread(self._measure, fd)
            if found.digest != digest:
                raise BlobDamagedError(digest, found.digest, found.bytes)
            yield FileBlobReader(self, fd, found)
        finally:
            os.close(fd)

    def holds(self, digest: str) -> bool:
        try:
            return stat.S_ISREG(self.path(digest).lstat().st_mode)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise self._unavailable(error) from error

    def remove(self, digest: str) -> None:
        try:
            self.path(digest).unlink(missing_ok=True)
        except OSError as error:
            raise self._unavailable(error) from error

    def list(self) -> Iterator[Blob]:
        try:
            for name in sorted(os.listdir(self._kept)):  # noqa: PTH208 - names, of which there may be many
                for rest in sorted(os.listdir(self._kept / name)):  # noqa: PTH208
                    with suppress(ValueError, FileNotFoundError):  # not ours; removed meanwhile
                        digest = parse_digest(f"sha256:{name}{rest}")
                        yield Blob(digest, (self._kept / name / rest).lstat().st_size)
        except OSError as error:
            raise self._unavailable(error) from error

    def sweep(self) -> int:
        swept = 0
        try:
            for path in self._scratch.iterdir():
                swept += self._sweep_one(path)
        except OSError as error:
            raise self._unavailable(error) from error
        return swept

    def path(self, digest: str) -> Path:
        """Where a blob lies. Raises ValueError for what is no digest, so no path can be made up."""
        hexadecimal = parse_digest(digest).removeprefix("sha256:")
        return self._kept / hexadecimal[:2] / hexadecimal[2:]

    # The rest blocks, and may raise OSError where it does not say otherwise.

    def _open(self, digest: str, path: Path) -> int:
        try:
            return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            raise BlobMissingError(digest) from None
        except OSError as error:
            raise self._unavailable(error) from error

    def _measure(self, fd: int) -> Blob:
        """Digest and size of what a descriptor holds. Raises StoreUnavailableError."""
        running, size = sha256(), 0
        try:
            while piece := os.pread(fd, 1 << 20, size):
                running.update(piece)
                size += len(piece)
        except OSError as error:
            raise self._unavailable(error) from error
        return Blob(f"sha256:{running.hexdigest()}", size)

    def _create_scratch(self) -> tuple[int, Path]:
        """A locked file that is surely still there: a sweeper may have met it before it was locked."""
        while True:
            path = self._scratch / secrets.token_hex(16)
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(fd).st_nlink:
                    return fd, path
            except BlockingIOError:
                pass
            os.close(fd)

    def _sweep_one(self, path: Path) -> bool:
        try:
            fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink(missing_ok=True)
        except BlockingIOError:
            return False
        finally:
            os.close(fd)
        return True

    def _is_whole(self, blob: Blob) -> bool:
        """Does the blob lie there, byte for byte?"""
        path = self.path(blob.digest)
        try:
            if path.lstat().st_size != blob.bytes:
                return False
            fd = self._open(blob.digest, path)
        except (FileNotFoundError, BlobMissingError):
            return False
        try:
            return self._measure(fd) == blob
        finally:
            os.close(fd)

    def _place(self, fd: int, scratch: Path, blob: Blob) -> None:
        self._fsync(fd)
        target = self.path(blob.digest)
        try:
            scratch.replace(target)
        except FileNotFoundError:
            target.parent.mkdir(mode=0o700, exist_ok=True)
            self._sync_directory(self._kept)
            scratch.replace(target)

    def _sync_directory(self, directory: Path) -> None:
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._fsync(fd)
        finally:
            os.close(fd)

    def _unavailable(self, error: OSError) -> StoreUnavailableError:
        reason = error.strerror or str(error)
        if error.errno in _FULL:
            reason = f"the disk is full ({reason}); make room, or drop pages: fetchd blob gc --max-bytes N"
        return StoreUnavailableError(f"blob store {self._directory}: {reason}")


class _Body:
    """A body on its way in, as threads see it. A call that was given up may still run: hence the lock, and a
    call after the end changes nothing."""

    def __init__(self, blobs: FileBlobs) -> None:
        self._blobs = blobs
        self._lock = threading.Lock()
        self._running = sha256()
        self._size = 0
        self._rest = b""
        self._scratch: tuple[int, Path] | None = None
        self._ended = False

    def append(self, data: bytes) -> None:
        with self._lock:
            self._check_open()
            try:
                self._write(data)
            except OSError as error:
                self._drop()
                raise self._blobs._unavailable(error) from error
            self._running.update(data)
            self._size += len(data)

    def finish(self, rest: bytes) -> Blob:
        """Takes the last piece, which stays in memory, and says what the blob is."""
        with self._lock:
            self._check_open()
            self._rest += rest
            self._running.update(rest)
            self._size += len(rest)
            return Blob(f"sha256:{self._running.hexdigest()}", self._size)

    def place(self, blob: Blob) -> None:
        with self._lock:
            self._check_open()
            try:
                if not self._blobs._is_whole(blob):
                    self._blobs._place(*self._write(self._rest), blob)
                # Also where it was there before: its writer may not have come to this yet.
                self._blobs._sync_directory(self._blobs.path(blob.digest).parent)
            except OSError as error:
                raise self._blobs._unavailable(error) from error
            finally:
                self._drop()

    def abort(self) -> None:
        with self._lock:
            if not self._ended:
                self._drop()

    def _write(self, data: bytes) -> tuple[int, Path]:
        if self._scratch is None:
            self._scratch = self._blobs._create_scratch()
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._scratch[0], rest) :]
        return self._scratch

    def _drop(self) -> None:
        """The end: the scratch file goes, unless it was placed."""
        self._ended = True
        self._rest = b""
        if self._scratch is None:
            return
        fd, path = self._scratch
        self._scratch = None
        try:
            path.unlink(missing_ok=True)
        except OSError:
            pass  # swept at the next start
        finally:
            os.close(fd)

    def _check_open(self) -> None:
        if self._ended:
            raise ValueError("this body has ended")


class FileBlobWriter:
    """See `BlobWriter`. Whoever does not commit it aborts it, also when a call was cancelled."""

    def __init__(self, body: _Body) -> None:
        self._body: Final = body
        self._held: Final = bytearray()
        self._blob: Blob | None = None

    async def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._blob is not None:
            raise ValueError("this body is finished")
        self._held.extend(data)
        if len(self._held) >= BUFFER_BYTES:
            await asyncio.to_thread(self._body.append, self._take())

    async def finish(self) -> Blob:
        if self._blob is None:
            self._blob = await asyncio.to_thread(self._body.finish, self._take())
        return self._blob

    async def commit(self) -> Blob:
        blob = await self.finish()
        await asyncio.to_thread(self._body.place, blob)
        return blob

    async def abort(self) -> None:
        self._held.clear()
        await asyncio.to_thread(self._body.abort)

    def _take(self) -> bytes:
        data = bytes(self._held)
        self._held.clear()
        return data


class FileBlobReader:
    """See `BlobReader`."""

    def __init__(self, blobs: FileBlobs, fd: int, blob: Blob) -> None:
        self._blobs: Final = blobs
        self._fd: Final = fd
        self._blob: Final = blob

    @property
    def blob(self) -> Blob:
        return self._blob

    async def __aiter__(self) -> AsyncIterator[bytes]:
        running, offset = sha256(), 0
        held = b""
        while piece := await asyncio.to_thread(self._read, offset, running):
            offset += len(piece)
            if offset > self._blob.bytes:
                break
            if held:
                yield held
            held = piece
        found = f"sha256:{running.hexdigest()}"
        if found != self._blob.digest:
            raise BlobDamagedError(self._blob.digest, found, offset)
        if held:
            yield held

    def _read(self, offset: int, running: Any) -> bytes:
        try:
            piece = os.pread(self._fd, PIECE_BYTES, offset)
        except OSError as error:
            raise self._blobs._unavailable(error) from error
        running.update(piece)
        return piece
