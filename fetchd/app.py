"""The composition root of the daemon's use cases: which parts stand behind `WebFetch`.

What keeps a gateway (`fetchd up`, a command that starts a private one) hands in where it listens and the
daemon's secret towards it; the rest is made here and closed in reverse order.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from proxy_addons.audit import AuditKeys, AuditLog
from proxy_addons.policy.config_ask import AskTables
from proxy_addons.policy.config_search import SearchConfig

from .background import running
from .extract.pool import ProcessExtractor
from .extract.slicer import FileSlicer
from .fetch import WebFetch
from .metrics.daemon import DaemonMeters
from .offered_pages import FetchedPage
from .page_read import PageReader
from .search.composition import open_web_search
from .search.local.composition import LocalIndex, open_local_index
from .search.searching import WebSearch
from .store import PageStore, open_page_store
from .transport.proxied import ProxiedTransport

ONE_SHOT_SERIES: Final = tuple(f"fetch-{number}" for number in range(64))
"""Audit chains of commands that run once: each takes the first that no other process holds."""


class GatewayHandle(Protocol):
    """A gateway to use. `secret` is the daemon's own towards it and stays out of every repr and log."""

    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...
    @property
    def secret(self) -> str: ...
    @property
    def tls(self) -> ssl.SSLContext | None: ...


@asynccontextmanager
async def open_web_fetch(
    gateway: GatewayHandle, log: AuditLog, offer: Callable[[FetchedPage], object] = lambda _page: None
) -> AsyncIterator[WebFetch]:
    """The tool over this gateway; `log` is written to and not closed. Leaving closes every connection.

    offer: see `WebFetch`.
    """
    async with ProxiedTransport(gateway.host, gateway.port, gateway.secret, tls=gateway.tls) as transport:
        with ProcessExtractor() as extractor:
            warming = asyncio.create_task(extractor.warm_up())  # while the first hop is on its way
            try:
                yield WebFetch(transport, extractor, log, offer=offer)
            finally:
                # Bounded, and not cancelled: that kills a worker, and one started in its stead while the pool is
                # being closed ends with a traceback on standard error.
                await asyncio.wait([warming])


@dataclass(frozen=True, slots=True)
class DaemonTools:
    """The tools over one gateway, the store that page reads are kept in, and the index of pages read."""

    web_fetch: WebFetch
    page_reader: PageReader
    web_search: WebSearch
    store: PageStore
    index: LocalIndex


@asynccontextmanager
async def open_tools(
    gateway: GatewayHandle,
    log: AuditLog,
    state_dir: Path,
    max_bytes: int,
    search: Callable[[], SearchConfig] = SearchConfig,
    *,
    tidy: bool = True,
    extra_ca: Sequence[str] = (),
    asking: Callable[[], AskTables] = AskTables,
    meters: DaemonMeters | None = None,
) -> AsyncIterator[DaemonTools]:
    """All tools, which share connections and workers; `log` is written to and not closed. Raises StoreError.

    max_bytes, tidy: see `open_page_store`; tidy is for those that serve. search: its configuration now.
    extra_ca, asking: see `open_web_search`. meters: count the work on pages.
    """
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(open_page_store(state_dir, max_bytes=max_bytes, tidy=tidy))
        await stack.enter_async_context(running(store.run(log.flush)))
        transport = await stack.enter_async_context(
            ProxiedTransport(gateway.host, gateway.port, gateway.secret, tls=gateway.tls)
        )
        extractor = stack.enter_context(
            ProcessExtractor(observe=meters.extracted) if meters is not None else ProcessExtractor()
        )
        slicer = stack.enter_context(FileSlicer(extractor))
        warming = asyncio.create_task(extractor.warm_up())
        stack.push_async_callback(asyncio.wait, [warming])  # see open_web_fetch
        index = await stack.enter_async_context(
            open_local_index(state_dir, search, slicer=slicer, serve=tidy)
        )
        offer = index.feeder.offer
        reader = PageReader(transport, slicer, store, log, offer=offer)
        web_search = await stack.enter_async_context(
            open_web_search(search, log, index.provider, extra_ca=extra_ca, asking=asking)
        )
        web_fetch = WebFetch(transport, extractor, log, offer=offer)
        yield DaemonTools(web_fetch, reader, web_search, store, index)


@asynccontextmanager
async def open_audit_log(state_dir: Path, *series: str) -> AsyncIterator[AuditLog]:
    """An audit chain below the state directory: the first of `series` that is free. Raises AuditError."""
    keys = await asyncio.to_thread(AuditKeys.load_or_create, state_dir / "keys")
    log = await asyncio.to_thread(AuditLog.open_first, state_dir / "audit", series, keys)
    keeper = asyncio.create_task(log.run())
    try:
        yield log
    finally:
        keeper.cancel()
        with suppress(asyncio.CancelledError):
            await keeper
        await asyncio.to_thread(log.close)
