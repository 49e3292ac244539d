"""The two outside things of the store: where blobs lie, and where records lie.

Methods that are not coroutines block, for a system call or a transaction; they are called off the event loop.
All may raise StoreUnavailableError.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from .values import Blob, KeptBlob, PageRead, StoredRead


class BlobWriter(Protocol):
    """One body on its way in, in bounded memory. Ends with `commit` or `abort`; not for two tasks at once."""

    async def write(self, data: bytes | bytearray | memoryview) -> None:
        """Takes the next piece, copied."""
        ...

    async def finish(self) -> Blob:
        """No more is written; says what it is. Nothing can be read yet."""
        ...

    async def commit(self) -> Blob:
        """Puts the blob in its place, durably: after a power cut too it is there whole. Calls `finish` if need be."""
        ...

    async def abort(self) -> None:
        """Leaves nothing behind; after `commit` it does nothing."""
        ...


class BlobReader(Protocol):
    """A blob whose bytes were found to be right. Iterating gives them in pieces, once.

    They are checked again on the way out: if they changed meanwhile, BlobDamagedError is raised before the last
    piece is given.
    """

    @property
    def blob(self) -> Blob: ...

    def __aiter__(self) -> AsyncIterator[bytes]: ...


class Blobs(Protocol):
    """Bodies by digest."""

    def begin(self) -> BlobWriter:
        """A writer; nothing is touched before the first write."""
        ...

    def open_verified(self, digest: str) -> AbstractAsyncContextManager[BlobReader]:
        """Entering verifies the whole blob. Raises BlobMissingError, BlobDamagedError."""
        ...

    def holds(self, digest: str) -> bool:
        """Is there anything under this digest?"""
        ...

    def path(self, digest: str) -> Path:
        """The file of a blob, there or not."""
        ...

    def remove(self, digest: str) -> None:
        """Takes the blob away, if it is there."""
        ...

    def list(self) -> Iterator[Blob]:
        """Everything kept, in order of digest; not verified."""
        ...

    def sweep(self) -> int:
        """Removes what crashed writers left, and says how much it was. Those of living writers stay."""
        ...


@dataclass(frozen=True, slots=True)
class Room:
    """How to make room. max_bytes: of all blobs together. keep_receipted: blobs of kept receipts stay whatever
    happens. now, hold_until: nanoseconds since 1970. remove: takes a blob away; called inside the transaction,
    so that nobody else can come to rely on it meanwhile."""

    max_bytes: int
    keep_receipted: bool
    now: int
    remove: Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Usage:
    """What the index holds. `receipted_bytes` is a part of `bytes`."""

    blobs: int
    bytes: int
    receipted: int
    receipted_bytes: int


class Records(Protocol):
    """Records of reads with their receipts, and the index of blobs.

    Every method is one transaction. Several processes may use the same records.
    """

    async def claim(self, blob: Blob, hold_until: int, room: Room) -> tuple[Blob, ...]:
        """Enters a blob that is about to be placed, held until then; what was evicted for it is returned.

        Least recently used first; held blobs stay. Raises StoreFullError: nothing was changed.
        """
        ...

    async def hold(self, digest: str, hold_until: int) -> bool:
        """Keeps a blob of the index from eviction until then; False when it is not there."""
        ...

    async def evict(self, room: Room, *, dry_run: bool) -> tuple[Blob, ...]:
        """Drops blobs until at most `room.max_bytes` are left, or none that may be dropped."""
        ...

    async def touch(self, digest: str, now: int) -> None:
        """The blob was used now."""
        ...

    async def seal(
        self,
        read: PageRead,
        validators: bytes | None,
        make_receipt: Callable[[str | None], tuple[bytes, str]],
        holds: Callable[[str], bool],
    ) -> bytes:
        """Writes record and receipt. make_receipt: hash of the receipt before (None: the first) → canonical JSON
        and its hash. Raises BlobMissingError when `holds` says so: nothing was written."""
        ...

    async def note(self, read: PageRead, holds: Callable[[str], bool]) -> None:
        """Writes a record without a receipt: the page is kept, the call failed after. Raises as `seal`."""
        ...

    async def find_read(self, read_id: str) -> StoredRead | None: ...

    async def list_reads(
        self, *, after: int = 0, limit: int = 1000, newest_first: bool = False, agent: str | None = None
    ) -> list[StoredRead]:
        """Records with numbers above `after` (newest first: below it, 0 = from the end), in that order."""
        ...

    async def find_reusable(
        self, agent: str, final_url: str, query_digest: str | None, digest: str
    ) -> StoredRead | None:
        """The newest read of this agent that ended at this URL with this digest and has validators. Not of an agent
        of its name that was forgotten (`PageTexts.forget`)."""
        ...

    async def has_read(self, agent: str | None, digest: str) -> bool:
        """Did a read of this agent (None: of anyone) have this blob? As `find_reusable`, not of an earlier one."""
        ...

    async def list_blobs(self, *, after: str = "", limit: int = 1000) -> list[KeptBlob]:
        """The index by digest, from the first one above `after`."""
        ...

    async def usage(self) -> Usage: ...

    async def reconcile(self, found: Iterable[Blob], now: int, holds: Callable[[str], bool]) -> None:
        """Makes the index agree with what lies there: `found` is entered as just used; what is not there is
        dropped from it, unless it is held or a receipt needs it."""
        ...

    async def flush(self) -> None:
        """What was written outlives a power cut from now on."""
        ...

    async def close(self) -> None: ...
