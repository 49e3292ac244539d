"""MCP on stdio over a scripted transport, as a process: `python -m tests.fetchd.faces.stdio_daemon`.

It does what a careless library might: prints, warns, logs, and starts a child that prints. The outcome of every call
goes to standard error.
"""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fetchd.core.caller import Caller
from fetchd.extract.pool import ProcessExtractor
from fetchd.faces.calls import Calls
from fetchd.faces.mcp_cli import start_logging
from fetchd.faces.mcp_server import make_server
from fetchd.faces.mcp_stdio import claimed_stdio, serve_stdio
from fetchd.fetch import WebFetch
from fetchd.transport.fake import FakeTransport
from fetchd.transport.interface import HopAnswer, HopRequest
from proxy_addons.audit import FetchRecord, MemoryAuditLog, Record
from proxy_addons.policy.limits import DEFAULT_PROFILE
from tests.fetchd.faces.served import HANGS, HANGS_IN_BODY, TEXT, URL

HANGING_URL = "https://a.example/hangs"
SLOW_URL = "https://a.example/slow"
PROGRESS_SECONDS = 0.01


class TalkativeTransport(FakeTransport):
    """Says at every hop what must not reach the wire."""

    @asynccontextmanager
    async def send(self, request: HopRequest) -> AsyncIterator[HopAnswer]:
        print("a stray print")
        warnings.warn("a warning", stacklevel=1)
        logging.getLogger("fetchd.noise").debug("a debug line")
        subprocess.run([sys.executable, "-c", "print('a child')"], check=True)
        async with super().send(request) as answer:
            if answer.status:
                print("fetching", file=sys.stderr, flush=True)
            yield answer

    async def _hang(self) -> None:
        print("hanging", file=sys.stderr, flush=True)
        await super()._hang()


class ToldLog(MemoryAuditLog):
    """Says what came of every call."""

    def append(self, record: Record) -> int:
        if isinstance(record, FetchRecord):
            print(f"call {record.outcome.value}", file=sys.stderr, flush=True)
        return super().append(record)


async def main() -> None:
    transport = TalkativeTransport({URL: TEXT, HANGING_URL: HANGS, SLOW_URL: HANGS_IN_BODY})
    with claimed_stdio() as (read_from, write_to), ProcessExtractor(1) as extractor:
        calls = Calls(WebFetch(transport, extractor, ToldLog()))
        server = make_server(calls, Caller("local", DEFAULT_PROFILE), progress_seconds=PROGRESS_SECONDS)
        await serve_stdio(server, read_from, write_to)
    print("ended", file=sys.stderr, flush=True)


if __name__ == "__main__":
    start_logging(verbose=True)
    asyncio.run(main())
