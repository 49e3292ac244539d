"""What keeping a page costs beside fetching it: body in, blob durable, receipt sealed, in milliseconds.

`python -m benchmarks.store` prints it for the temporary directory's disk; `measure_store` is for the whole run.
"""

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable
from dataclasses import dataclass
from pathlib import Path

import click

from fetchd.store import AuditPosition, Blob, PageRead, PageStore, open_page_store

SIZES = (100 << 10, 10 << 20)
PIECE = 64 << 10
"""Bytes that a transport hands over at a time."""


@dataclass(frozen=True, slots=True)
class StoreCost:
    """Medians in milliseconds for bodies of `size` bytes: the body in and durable, the receipt, reading it back
    verified, and the same body once more."""

    size: int
    keep_ms: float
    seal_ms: float
    read_ms: float
    again_ms: float

    @property
    def overhead_ms(self) -> float:
        """What a page read pays for being kept and proved."""
        return self.keep_ms + self.seal_ms


async def measure_store(directory: Path, rounds: int = 30, sizes: tuple[int, ...] = SIZES) -> list[StoreCost]:
    """The cost on the disk that `directory` lies on; everything made there stays for the caller to remove."""
    async with open_page_store(directory) as store:
        return [await _measure(store, size, rounds) for size in sizes]


async def _measure(store: PageStore, size: int, rounds: int) -> StoreCost:
    keep, seal, read, again = [], [], [], []
    for number in range(rounds):
        body = os.urandom(32) * (size // 32)
        seconds, blob = await _time(_keep(store, body))
        keep.append(seconds)
        facts = _facts(f"{size:010x}{number:010x}", blob)
        seal.append((await _time(store.seal(facts)))[0])
        read.append((await _time(store.read_blob(blob.digest, blob.bytes)))[0])
        again.append((await _time(_keep(store, body)))[0])
    return StoreCost(size, *(statistics.median(times) * 1000 for times in (keep, seal, read, again)))


async def _keep(store: PageStore, body: bytes) -> Blob:
    async with store.keep() as writer:
        for start in range(0, len(body), PIECE):
            await writer.write(body[start : start + PIECE])
        return await writer.commit()


async def _time[T](work: Awaitable[T]) -> tuple[float, T]:
    started = time.perf_counter()
    result = await work
    return time.perf_counter() - started, result


def _facts(read_id: str, blob: Blob) -> PageRead:
    url = "https://bench.example/a/page/of/the/usual/length.html"
    return PageRead(
        id=read_id, tool="page_read", agent="bench", url=url, final_url=url, status=200, blob=blob,
        fetched_at="2026-01-01T00:00:00.000Z", policy="page_read@00000000",
        fetch=AuditPosition("daemon", 1, "0" * 64),
    )  # fmt: skip


@click.command()
@click.option("--rounds", default=30, show_default=True, type=click.IntRange(3, 1000))
def main(rounds: int) -> None:
    """Measure what the store adds to a page read."""
    with tempfile.TemporaryDirectory() as directory:
        for row in asyncio.run(measure_store(Path(directory), rounds)):
            click.echo(
                f"{row.size / 1024:10,.0f} KiB  keep {row.keep_ms:7.2f} ms  seal {row.seal_ms:6.2f} ms  "
                f"read {row.read_ms:7.2f} ms  again {row.again_ms:7.2f} ms"
            )


if __name__ == "__main__":
    main()
