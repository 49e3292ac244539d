"""The scripted store: blobs and records in memory that fail when told to. Ships for the tests of whoever keeps
pages."""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Final

from fetchd.errors import BlobDamagedError, BlobMissingError, StoreFullError, StoreUnavailableError

from .interface import Room, Usage
from .values import Blob, KeptBlob, PageRead, StoredRead, parse_digest

_PIECE: Final = 64 << 10


@dataclass(slots=True)
class MemoryBlobs:
    """`Blobs` in `bodies`, which a test may change. directory: where `path` puts files, for who needs them.
    writing: bodies begun and not ended. fail_next: so many writes and commits to come fail."""

    bodies: dict[str, bytes] = field(default_factory=dict)
    directory: Path | None = None
    writing: int = 0
    fail_next: int = 0

    def begin(self) -> "MemoryBlobWriter":
        self.writing += 1
        return MemoryBlobWriter(self)

    @asynccontextmanager
    async def open_verified(self, digest: str) -> "AsyncIterator[MemoryBlobReader]":
        body = self.bodies.get(parse_digest(digest))
        if body is None:
            raise BlobMissingError(digest)
        found = _measure(body)
        if found.digest != digest:
            raise BlobDamagedError(digest, found.digest, found.bytes)
        yield MemoryBlobReader(self, found)

    def holds(self, digest: str) -> bool:
        return parse_digest(digest) in self.bodies

    def path(self, digest: str) -> Path:
        parse_digest(digest)
        if self.directory is None:
            raise StoreUnavailableError("blob store in memory: it has no directory for files")
        path = self.directory / digest.replace(":", "-")
        if digest in self.bodies:
            path.write_bytes(self.bodies[digest])
        return path

    def remove(self, digest: str) -> None:
        self.bodies.pop(parse_digest(digest), None)

    def list(self) -> Iterator[Blob]:
        return (Blob(digest, len(self.bodies[digest])) for digest in sorted(self.bodies))

    def sweep(self) -> int:
        return 0

    def check_failure(self) -> None:
        """Fails if it is to; for the writer."""
        if self.fail_next:
            self.fail_next -= 1
            raise StoreUnavailableError("blob store in memory: scripted failure")


class MemoryBlobWriter:
    """See `BlobWriter`."""

    def __init__(self, blobs: MemoryBlobs) -> None:
        self._blobs: Final = blobs
        self._body: Final = bytearray()
        self._blob: Blob | None = None
        self._ended = False

    async def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._ended or self._blob is not None:
            raise ValueError("this body is finished")
        self._try()
        self._body.extend(data)

    async def finish(self) -> Blob:
        if self._ended:
            raise ValueError("this body has ended")
        self._blob = self._blob or _measure(self._body)
        return self._blob

    async def commit(self) -> Blob:
        blob = await self.finish()
        self._try()
        self._blobs.bodies[blob.digest] = bytes(self._body)
        await self.abort()
        return blob

    async def abort(self) -> None:
        if not self._ended:
            self._ended = True
            self._blobs.writing -= 1

    def _try(self) -> None:
        try:
            self._blobs.check_failure()
        except StoreUnavailableError:
            self._ended = True
            self._blobs.writing -= 1
            raise


@dataclass(frozen=True, slots=True)
class MemoryBlobReader:
    """See `BlobReader`."""

    blobs: MemoryBlobs
    blob: Blob

    async def __aiter__(self) -> AsyncIterator[bytes]:
        body = self.blobs.bodies.get(self.blob.digest, b"")
        found = _measure(body)
        whole = found == self.blob
        for start in range(0, len(body), _PIECE):
            if whole or start + _PIECE < len(body):
                yield body[start : start + _PIECE]
        if not whole:
            raise BlobDamagedError(self.blob.digest, found.digest, found.bytes)


@dataclass(slots=True)
class _Row:
    bytes: int
    last_used: int
    receipted: bool
    held_until: int
    placed: bool


class MemoryRecords:
    """`Records` in `reads` and an index. `fail_next`: so many calls to come fail."""

    def __init__(self) -> None:
        self.reads: Final[list[StoredRead]] = []
        self.fail_next = 0
        self.closed = False
        self._hashes: Final[list[str]] = []
        self._blobs: Final[dict[str, _Row]] = {}

    async def claim(self, blob: Blob, hold_until: int, room: Room) -> tuple[Blob, ...]:
        self._check()
        row = self._blobs.get(blob.digest)
        victims, left = self._choose_victims(room, blob.bytes - (row.bytes if row else 0), blob.digest)
        if left > room.max_bytes:
            raise StoreFullError(f"no room for a page of {blob.bytes:,} bytes")
        self._drop(victims, room.remove)
        receipted = any(read.receipt is not None and read.blob.digest == blob.digest for read in self.reads)
        used, held = (max(room.now, row.last_used), row.held_until) if row else (room.now, 0)
        placed = row is not None and row.placed
        self._blobs[blob.digest] = _Row(blob.bytes, used, receipted, max(held, hold_until), placed)
        return victims

    async def hold(self, digest: str, hold_until: int) -> bool:
        self._check()
        row = self._blobs.get(digest)
        if row is not None:
            row.held_until = max(row.held_until, hold_until)
        return row is not None

    async def evict(self, room: Room, *, dry_run: bool) -> tuple[Blob, ...]:
        self._check()
        victims, _ = self._choose_victims(room, 0, "")
        if not dry_run:
            self._drop(victims, room.remove)
        return victims

    async def touch(self, digest: str, now: int) -> None:
        self._check()
        if (row := self._blobs.get(digest)) is not None:
            row.last_used = max(row.last_used, now)

    async def seal(
        self,
        read: PageRead,
        validators: bytes | None,
        make_receipt: Callable[[str | None], tuple[bytes, str]],
        holds: Callable[[str], bool],
    ) -> bytes:
        self._check()
        self._check_there(read, holds)
        receipt, receipt_hash = make_receipt(self._hashes[-1] if self._hashes else None)
        self._add(read, validators, receipt)
        self._hashes.append(receipt_hash)
        if (row := self._blobs.get(read.blob.digest)) is not None:
            row.receipted = row.placed = True
        return receipt

    async def note(self, read: PageRead, holds: Callable[[str], bool]) -> None:
        self._check()
        self._check_there(read, holds)
        self._add(read, None, None)
        if (row := self._blobs.get(read.blob.digest)) is not None:
            row.placed = True

    async def find_read(self, read_id: str) -> StoredRead | None:
        self._check()
        return next((read for read in self.reads if read.id == read_id), None)

    async def list_reads(
        self, *, after: int = 0, limit: int = 1000, newest_first: bool = False, agent: str | None = None
    ) -> list[StoredRead]:
        self._check()
        reads = [read for read in self.reads if agent is None or read.agent == agent]
        if newest_first:
            return [read for read in reversed(reads) if not after or read.number < after][:limit]
        return [read for read in reads if read.number > after][:limit]

    async def find_reusable(
        self, agent: str, final_url: str, query_digest: str | None, digest: str
    ) -> StoredRead | None:
        self._check()
        wanted = (agent, final_url, query_digest, digest)
        for read in reversed(self.reads):
            page = (read.agent, read.final_url, read.query_digest, read.blob.digest)
            if page == wanted and read.sealed_validators is not None:
                return read
        return None

    async def has_read(self, agent: str | None, digest: str) -> bool:
        self._check()
        return any(read.blob.digest == digest and agent in (None, read.agent) for read in self.reads)

    async def list_blobs(self, *, after: str = "", limit: int = 1000) -> list[KeptBlob]:
        self._check()
        rows = ((digest, self._blobs[digest]) for digest in sorted(self._blobs) if digest > after)
        return [
            KeptBlob(digest, row.bytes, row.last_used, row.receipted, row.placed) for digest, row in rows
        ][:limit]

    async def usage(self) -> Usage:
        self._check()
        needed = [row.bytes for row in self._blobs.values() if row.receipted]
        return Usage(
            len(self._blobs), sum(row.bytes for row in self._blobs.values()), len(needed), sum(needed)
        )

    async def reconcile(self, found: Iterable[Blob], now: int, holds: Callable[[str], bool]) -> None:
        self._check()
        for blob in found:
            row = self._blobs.get(blob.digest)
            if holds(blob.digest) and (row is None or row.bytes != blob.bytes or not row.placed):
                receipted = any(
                    read.receipt is not None and read.blob.digest == blob.digest for read in self.reads
                )
                held = row.held_until if row else 0
                self._blobs[blob.digest] = _Row(blob.bytes, now, receipted, held, True)
        for digest, row in list(self._blobs.items()):
            if not (row.receipted and row.placed) and row.held_until <= now and not holds(digest):
                del self._blobs[digest]

    async def flush(self) -> None:
        self._check()

    async def close(self) -> None:
        self.closed = True

    def _check(self) -> None:
        if self.closed:
            raise StoreUnavailableError("records in memory: closed")
        if self.fail_next:
            self.fail_next -= 1
            raise StoreUnavailableError("records in memory: scripted failure")

    def _check_there(self, read: PageRead, holds: Callable[[str], bool]) -> None:
        if not holds(read.blob.digest):
            raise BlobMissingError(read.blob.digest, known=True)
        if any(other.id == read.id for other in self.reads):
            raise StoreUnavailableError("records in memory: there is a read of this id")

    def _add(self, read: PageRead, validators: bytes | None, receipt: bytes | None) -> None:
        number = len(self.reads) + 1
        stored = StoredRead(
            number, read.id, read.agent, read.tool, read.fetched_at, read.url, read.final_url, read.query_digest,
            read.status, read.blob, receipt, validators,
        )  # fmt: skip
        self.reads.append(stored)

    def _choose_victims(self, room: Room, added: int, spared: str) -> tuple[tuple[Blob, ...], int]:
        left = sum(row.bytes for row in self._blobs.values()) + added
        victims = []
        order = sorted(self._blobs.items(), key=lambda item: (item[1].receipted, item[1].last_used, item[0]))
        for digest, row in order:
            may_go = not (room.keep_receipted and row.receipted) and row.held_until <= room.now
            if left > room.max_bytes and may_go and digest != spared:
                victims.append(Blob(digest, row.bytes))
                left -= row.bytes
        return tuple(victims), left

    def _drop(self, victims: Iterable[Blob], remove: Callable[[str], None]) -> None:
        for blob in victims:
            del self._blobs[blob.digest]
            remove(blob.digest)


def _measure(body: bytes | bytearray) -> Blob:
    return Blob(f"sha256:{sha256(body).hexdigest()}", len(body))
