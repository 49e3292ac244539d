"""`fetchd fetch` over a scripted transport, as a process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fetchd.extract.pool import ProcessExtractor
from fetchd.faces.fetch_cli import FetchSettings, fetch
from fetchd.fetch import WebFetch
from fetchd.transport.fake import FakeTransport, ScriptedAnswer
from proxy_addons.audit import MemoryAuditLog

PAGE = ScriptedAnswer(200, [(b"Content-Type", b"text/plain")], [b"page 1"])


@asynccontextmanager
async def open_scripted(settings: FetchSettings) -> AsyncIterator[WebFetch]:
    with ProcessExtractor(1) as extractor:
        yield WebFetch(FakeTransport({"https://a.example/1": PAGE}), extractor, MemoryAuditLog())


if __name__ == "__main__":
    fetch(obj=open_scripted)
