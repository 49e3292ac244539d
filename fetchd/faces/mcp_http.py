"""MCP over streamable HTTP, as an ASGI application to be mounted at `/mcp`.

The SDK's session manager serves both eras: a client that opens with `initialize` gets a session, held for as long as
it is used, so that it can cancel a call by a notification; a request of 2026-07-28 stands for itself. Answers are
one JSON document or an event stream, as the protocol allows each.

A connection that closes drops its calls (SPEC 2.1). In the handshake era the protocol lets a call outlive its
connection and be resumed; without an event store nobody could ever read its answer, so we end it.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import RequestBodyLimitMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from proxy_addons.policy.limits import MIB

from .calls import Calls
from .mcp_json import shorten_integers
from .mcp_server import CLIENT_GONE, PROGRESS_SECONDS, make_server

MAX_MESSAGE_BYTES: Final = MIB
MAX_SESSIONS: Final = 4_000
"""Some 50 KB each. One whose client keeps its event stream open does not count as idle."""
SESSION_IDLE_SECONDS: Final = 1_800.0


@asynccontextmanager
async def open_mcp(calls: Calls, *, progress_seconds: float = PROGRESS_SECONDS) -> AsyncIterator[ASGIApp]:
    """The endpoint; leaving ends every session. It checks neither Host nor Origin: BrowserGuard stands before it."""
    manager = StreamableHTTPSessionManager(
        make_server(calls, progress_seconds=progress_seconds),
        max_request_body_size=MAX_MESSAGE_BYTES,
        max_sessions=MAX_SESSIONS,
        session_idle_timeout=SESSION_IDLE_SECONDS,
    )
    ready, stop = asyncio.Event(), asyncio.Event()

    async def run() -> None:
        # In a task of its own: the manager's cancel scope must be left by the task that entered it.
        async with manager.run():
            ready.set()
            await stop.wait()

    task = asyncio.create_task(run())
    await ready.wait()
    try:
        yield _Endpoint(manager)
    finally:
        stop.set()
        await task


class _Endpoint:
    """The manager, told of closed connections and spared integers it cannot read."""

    def __init__(self, manager: StreamableHTTPSessionManager) -> None:
        self._manager: Final = manager
        self._bounded: Final = RequestBodyLimitMiddleware(self._serve, MAX_MESSAGE_BYTES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        gone = asyncio.Event()

        async def watched() -> Message:
            message = await receive()
            if message["type"] == "http.disconnect":
                gone.set()
            return message

        await self._bounded({**scope, CLIENT_GONE: gone}, watched, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def shortened() -> Message:
            message = await receive()
            if message["type"] == "http.request":
                message = {**message, "body": shorten_integers(message.get("body", b""))}
            return message

        await self._manager.handle_request(scope, shortened, send)
