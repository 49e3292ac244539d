"""Page reads: milliseconds a read and reads a second, and what keeping and proving them costs beside the bare read.

The same reads twice, turn by turn, through a gateway of ours: into the real store, and into one that keeps nothing on
disk and is otherwise the same code. The difference is the store's. `python -m benchmarks --part reads`.
"""

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.rounds import LoadFailedError
from benchmarks.stage import ADDRESS, HOST, Place, ServerProcess
from fetchd.core.caller import Caller
from fetchd.extract.pool import ProcessExtractor
from fetchd.extract.slicer import FileSlicer
from fetchd.page_read import PageReader
from fetchd.store import PageStore, StoreKeys, open_page_store
from fetchd.store.fakes import MemoryBlobs, MemoryRecords
from fetchd.transport.proxied import ProxiedTransport
from proxy_addons.audit import AuditKeys, AuditLog
from proxy_addons.policy.config import parse_config
from proxy_addons.policy.reading import DEFAULT_READ_BYTES
from tests.kit.gateway import SECRET, GatewayProcess

SIZES = (100 << 10, 10 << 20)
AT_ONCE = 4
STORE_BOUND = 0.15
"""Of a bare read of 100 KiB, what the store may add."""


@dataclass(frozen=True, slots=True)
class ReadRow:
    """Medians over the rounds for pages of `size` bytes. rate: reads a second, AT_ONCE at a time, kept."""

    size: int
    kept_ms: float
    bare_ms: float
    rate: float

    @property
    def overhead(self) -> float:
        """What the store adds, as a part of the bare read."""
        return (self.kept_ms - self.bare_ms) / self.bare_ms


def measure_reads(place: Place, rounds: int, say: Callable[[str], None]) -> list[ReadRow]:
    """A row for each size; raises LoadFailedError."""
    with ServerProcess("benchmarks.read_site", ADDRESS, str(place.certificate)) as site:
        config = {
            "gateway": {"listeners": [{"address": "127.0.0.1:0", "profile": "bench"}]},
            "dns": {"nameservers": [f"127.0.0.1:{place.dns_port}"]},
            "tls": {"extra_ca": [str(place.origin_ca)]},
            "daemon": {"listen": "127.0.0.1:0", "profile": "bench"},
            "operator": {"listen": "127.0.0.1:0"},
            "profiles": {"bench": {"ports": [site.port], "exceptions": [{"host": HOST, "address": ADDRESS}]}},
        }
        with GatewayProcess(config, place.folder / "reads") as gateway:
            caller = Caller("local", parse_config(config, source="bench").profiles["bench"])
            return asyncio.run(_measure(gateway, site.port, caller, rounds, say))


async def _measure(
    gateway: GatewayProcess, port: int, caller: Caller, rounds: int, say: Callable[[str], None]
) -> list[ReadRow]:
    rows = []
    async with AsyncExitStack() as stack:
        kept = await stack.enter_async_context(_open_reader(gateway, on_disk=True))
        bare = await stack.enter_async_context(_open_reader(gateway, on_disk=False))
        for size in SIZES:
            say(f"reads of {size >> 10} KiB")
            url = f"https://{HOST}:{port}/{size}"
            for reader in (kept, bare):
                await _read(reader, url, caller)
            kept_ms, bare_ms = [], []
            for _ in range(rounds * (20 if size < 1 << 20 else 2)):
                kept_ms.append(await _time(kept, url, caller))
                bare_ms.append(await _time(bare, url, caller))
            rows.append(
                ReadRow(
                    size,
                    statistics.median(kept_ms),
                    statistics.median(bare_ms),
                    await _measure_rate(kept, url, caller, 60 if size < 1 << 20 else 8),
                )
            )
    return rows


async def _time(reader: PageReader, url: str, caller: Caller) -> float:
    started = time.perf_counter()
    await _read(reader, f"{url}?{os.urandom(8).hex()}", caller)
    return (time.perf_counter() - started) * 1e3


async def _measure_rate(reader: PageReader, url: str, caller: Caller, count: int) -> float:
    places = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        async with places:
            await _read(reader, f"{url}?rate-{number}-{os.urandom(4).hex()}", caller)

    started = time.perf_counter()
    await asyncio.gather(*map(one, range(count)))
    return count / (time.perf_counter() - started)


async def _read(reader: PageReader, url: str, caller: Caller) -> None:
    outcome = await reader.call({"url": url}, caller, DEFAULT_READ_BYTES)
    if outcome.failure is not None:
        raise LoadFailedError(outcome.failure.text)


@asynccontextmanager
async def _open_reader(gateway: GatewayProcess, *, on_disk: bool) -> AsyncIterator[PageReader]:
    host, port, _ = gateway.listeners[0]
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fetchd-bench-")))
        keys = AuditKeys.load_or_create(folder / "keys")
        log = AuditLog.open(folder / "audit", "bench", keys)
        stack.callback(log.close)
        if on_disk:
            store = await stack.enter_async_context(open_page_store(folder))
        else:
            blobs = MemoryBlobs(directory=folder)
            store = PageStore(blobs, MemoryRecords(), StoreKeys.load_or_create(folder / "keys"))
        transport = await stack.enter_async_context(ProxiedTransport(host, port, SECRET))
        small = stack.enter_context(ProcessExtractor())
        slicer = stack.enter_context(FileSlicer(small))
        await small.warm_up()
        yield PageReader(transport, slicer, store, log)
