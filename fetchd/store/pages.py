"""The store as use cases and faces see it: bodies in, receipts out, in the order that survives a crash.

1 finish    the body is whole and its digest known; nothing can be read yet
2 claim     one transaction: room is made, the blob is in the index and held
3 place     the file is durable under its name
4 seal      one transaction: the file is there, the receipt follows the last one, record and receipt are written

A crash after 1 or 2 leaves a scratch file or an index row, both gone at the next start; after 3 a blob that no
receipt needs, which is evicted when its time comes. Receipts become durable within `FLUSH_SECONDS`, as the audit
lines they name do; a power cut may take the last of both, never a blob from under a receipt.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

from fetchd.errors import BlobMissingError, StoreError

from .blobs import FileBlobs
from .interface import BlobReader, Blobs, BlobWriter, Records, Room, Usage
from .keys import StoreKeys
from .receipts import Receipt, parse_receipt, seal_receipt
from .records import SqliteRecords
from .values import Blob, PageRead, StoredRead, Validators

DEFAULT_MAX_BYTES: Final = 10 << 30
HOLD_NS: Final = 600 * 1_000_000_000
"""How long a read may take from its blob to its receipt: its limit is 120 s (SPEC 5), five times over."""
FLUSH_SECONDS: Final = 0.2  # SPEC 1.9's for the audit log

_log = logging.getLogger(__name__)


class PageStore:
    """Blobs, records and receipts of one installation. Made by `open_page_store`, or of fakes.

    clock: nanoseconds since 1970. keep_receipted: False lets old blobs go although a receipt names them.
    """

    def __init__(
        self,
        blobs: Blobs,
        records: Records,
        keys: StoreKeys,
        *,
        max_bytes: int = DEFAULT_MAX_BYTES,
        keep_receipted: bool = True,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.blobs: Final = blobs
        self.records: Final = records
        self.keys: Final = keys
        self._max_bytes: Final = max_bytes
        self._keep_receipted: Final = keep_receipted
        self._clock: Final = clock
        self._unflushed = False

    # ---- a read

    @asynccontextmanager
    async def keep(self) -> "AsyncIterator[KeptWriter]":
        """A writer for one body; what was not committed when the context ends leaves nothing behind."""
        writer = KeptWriter(self.blobs.begin(), self._claim)
        try:
            yield writer
        finally:
            await writer.abort()

    async def seal(self, read: PageRead) -> Receipt:
        """Record and receipt of a read whose blob was committed (or held by `find_validators`) and whose audit
        line was written. Raises BlobMissingError, StoreUnavailableError: there is no receipt then."""
        validators = read.validators.bounded() if read.validators is not None else None
        sealed = None
        if validators is not None:
            page = _page_of(read.agent, read.final_url, read.query_digest)
            sealed = self.keys.seal_validators(validators, page)
        text = await self.records.seal(read, sealed, partial(self._make_receipt, read), self.blobs.holds)
        self._unflushed = True
        receipt = parse_receipt(text)
        if isinstance(receipt, str):
            raise TypeError(f"the records gave back another text: {receipt}")
        return receipt

    async def note(self, read: PageRead) -> None:
        """A record without a receipt: the page is kept and named, the call failed later. Raises as `seal`."""
        await self.records.note(read, self.blobs.holds)
        self._unflushed = True

    async def find_validators(
        self, agent: str, url: str, query_digest: str | None, digest: str
    ) -> Validators | None:
        """What to send along so that an unchanged page costs no body: only when this agent has read this very
        URL (display form and keyed query digest of the hop) with this digest, and the blob is here. It is then
        held until the read is sealed."""
        read = await self.records.find_reusable(agent, url, query_digest, digest)
        if read is None or read.sealed_validators is None:
            return None
        if not await self.records.hold(digest, self._clock() + HOLD_NS):
            return None
        if not await asyncio.to_thread(self.blobs.holds, digest):
            return None
        return self.keys.open_validators(read.sealed_validators, _page_of(agent, url, query_digest))

    # ---- a blob

    @asynccontextmanager
    async def open_blob(self, digest: str, agent: str | None = None) -> "AsyncIterator[BlobReader]":
        """A verified blob; with `agent`, only one that a read of this agent had. Raises BlobMissingError (`known`
        when it was dropped), BlobDamagedError; ValueError for what is no digest."""
        known = await self.records.has_read(agent, digest)
        if agent is not None and not known:
            raise BlobMissingError(digest)
        async with AsyncExitStack() as stack:
            try:
                reader = await stack.enter_async_context(self.blobs.open_verified(digest))
            except BlobMissingError:
                raise BlobMissingError(digest, known=known) from None
            try:
                await self.records.touch(digest, self._clock())
            except StoreError as error:  # the page can be had all the same
                _log.warning("last use of %s was not noted: %s", digest, error)
            yield reader

    def locate(self, digest: str) -> Path:
        """The file of a blob that was committed just now and is held, for a worker process to read."""
        return self.blobs.path(digest)

    async def read_blob(self, digest: str, max_bytes: int) -> bytearray:
        """A whole blob in memory, verified. Raises as `open_blob`; ValueError: it is larger than `max_bytes`."""
        async with self.open_blob(digest) as reader:
            if reader.blob.bytes > max_bytes:
                raise ValueError(f"{digest} has {reader.blob.bytes} bytes, more than {max_bytes}")
            data = bytearray()
            async for piece in reader:
                data += piece
            return data

    # ---- the whole

    async def find_read(self, read_id: str) -> StoredRead | None:
        return await self.records.find_read(read_id)

    async def usage(self) -> Usage:
        return await self.records.usage()

    async def start(self) -> None:
        """Removes what crashes left behind, and makes the index agree with the disk."""
        await asyncio.to_thread(self.blobs.sweep)
        found = await asyncio.to_thread(lambda: list(self.blobs.list()))
        await self.records.reconcile(found, self._clock(), self.blobs.holds)

    async def collect(
        self, max_bytes: int | None = None, *, drop_receipted: bool = False, dry_run: bool = False
    ) -> tuple[Blob, ...]:
        """Drops least recently used blobs until `max_bytes` (the store's own by default) are left."""
        keep = self._keep_receipted and not drop_receipted
        limit = self._max_bytes if max_bytes is None else max_bytes
        return await self.records.evict(self._room(limit, keep), dry_run=dry_run)

    async def run(self, before_flush: Callable[[], object] = lambda: None) -> None:
        """Makes receipts durable, until cancelled. before_flush: makes the audit lines they name durable; called
        off the event loop. Never raises for a failing disk: the next turn tries again."""
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            try:
                if self._unflushed:
                    await asyncio.to_thread(before_flush)
                await self.flush()
            except StoreError as error:
                _log.error("receipts are not durable yet: %s", error)

    async def flush(self) -> None:
        """Every receipt handed out so far outlives a power cut."""
        if self._unflushed:
            self._unflushed = False
            try:
                await self.records.flush()
            except StoreError:
                self._unflushed = True
                raise

    async def close(self) -> None:
        """Flushes and lets go."""
        try:
            await self.flush()
        finally:
            await self.records.close()

    async def _claim(self, blob: Blob) -> None:
        room = self._room(self._max_bytes, self._keep_receipted)
        await self.records.claim(blob, room.now + HOLD_NS, room)

    def _room(self, max_bytes: int, keep_receipted: bool) -> Room:
        return Room(max_bytes, keep_receipted, self._clock(), self.blobs.remove)

    def _make_receipt(self, read: PageRead, previous: str | None) -> tuple[bytes, str]:
        receipt = seal_receipt(
            read,
            issued_at=render_time(self._clock()),
            previous=previous,
            key_id=self.keys.public.id,
            sign=self.keys.sign,
        )
        return receipt.text, receipt.hash


class KeptWriter:
    """A body on its way into the store; see `BlobWriter`. All of it may raise StoreUnavailableError."""

    def __init__(self, writer: BlobWriter, claim: Callable[[Blob], Awaitable[None]]) -> None:
        self._writer: Final = writer
        self._claim: Final = claim

    async def write(self, data: bytes | bytearray | memoryview) -> None:
        """Takes the next piece, copied; memory stays bounded."""
        await self._writer.write(data)

    async def commit(self) -> Blob:
        """The blob, durable, and held until its read is sealed. Raises StoreFullError."""
        blob = await self._writer.finish()
        await self._claim(blob)
        return await self._writer.commit()

    async def abort(self) -> None:
        """Leaves nothing behind; after `commit` it does nothing."""
        await self._writer.abort()


@asynccontextmanager
async def open_page_store(
    state_dir: Path, *, max_bytes: int = DEFAULT_MAX_BYTES, keep_receipted: bool = True, tidy: bool = True
) -> AsyncIterator[PageStore]:
    """The store below a state directory, made if need be. tidy: sweep and reconcile first, for those that serve.

    Who serves also runs `PageStore.run`. Raises StoreError.
    """
    keys = await asyncio.to_thread(StoreKeys.load_or_create, state_dir / "keys")
    blobs = await asyncio.to_thread(FileBlobs.open, state_dir / "blobs")
    records = await SqliteRecords.open(state_dir / "fetchd.db")
    store = PageStore(blobs, records, keys, max_bytes=max_bytes, keep_receipted=keep_receipted)
    try:
        if tidy:
            await store.start()
        yield store
    finally:
        await store.close()


def render_time(nanoseconds: int) -> str:
    """RFC 3339, UTC, milliseconds."""
    moment = datetime.fromtimestamp(nanoseconds // 1_000_000 / 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{nanoseconds // 1_000_000 % 1000:03d}Z"


def _page_of(agent: str, url: str, query_digest: str | None) -> str:
    """What sealed validators are bound to; none of the parts holds a newline."""
    return f"{agent}\n{url}\n{query_digest or ''}"
