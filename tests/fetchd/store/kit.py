"""Reads to seal, clocks, and stores of both kinds for the tests of the store."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fetchd.store import AuditPosition, Blob, PageRead, PageStore, RedirectHop, StoreKeys
from fetchd.store.blobs import FileBlobs
from fetchd.store.fakes import MemoryBlobs, MemoryRecords
from fetchd.store.interface import Room
from fetchd.store.records import SqliteRecords

KEYS = StoreKeys.generate()
SECOND = 1_000_000_000
START = 1_790_000_000 * SECOND


class Clock:
    """Nanoseconds that go on when told to."""

    def __init__(self, now: int = START) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


def blob_of(body: bytes) -> Blob:
    return Blob(f"sha256:{hashlib.sha256(body).hexdigest()}", len(body))


def page_read(number: int = 1, body: bytes = b"page", **changes: Any) -> PageRead:
    facts: dict[str, Any] = {
        "id": f"{number:020x}",
        "tool": "page_read",
        "agent": "alice",
        "url": "https://a.example/start",
        "final_url": "https://a.example/page",
        "query_digest": "hmac-sha256:" + "ab" * 16,
        "status": 200,
        "blob": blob_of(body),
        "fetched_at": "2026-11-30T20:00:00.000Z",
        "redirects": (
            RedirectHop(
                "https://a.example/start",
                "https://a.example/page",
                301,
                "allowed",
                "page_read@0123abcd",
                AuditPosition("gateway-0", 7, "0" * 64),
            ),
        ),
        "policy": "page_read@0123abcd",
        "fetch": AuditPosition("daemon", 10 + number, "1" * 64),
        "decision": AuditPosition("gateway-1", 9),
    }
    return PageRead(**(facts | changes))


def room(max_bytes: int, *, keep: bool = True, now: int = START, remove: Any = None) -> Room:
    return Room(max_bytes, keep, now, remove or (lambda _digest: None))


async def keep(store: PageStore, body: bytes, piece: int = 100_000) -> Blob:
    """The body kept as a stream of pieces would be."""
    async with store.keep() as writer:
        for start in range(0, len(body), piece):
            await writer.write(body[start : start + piece])
        return await writer.commit()


@asynccontextmanager
async def open_files(directory: Path, **options: Any) -> AsyncIterator[PageStore]:
    options.setdefault("clock", Clock())
    records = await SqliteRecords.open(directory / "fetchd.db")
    store = PageStore(FileBlobs.open(directory / "blobs"), records, KEYS, **options)
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def open_memory(directory: Path, **options: Any) -> AsyncIterator[PageStore]:
    options.setdefault("clock", Clock())
    store = PageStore(MemoryBlobs(), MemoryRecords(), KEYS, **options)
    try:
        yield store
    finally:
        await store.close()
