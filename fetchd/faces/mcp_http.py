"""MCP over streamable HTTP, as an ASGI application to be mounted at `/mcp`.

The SDK's session manager serves both eras: a client that opens with `initialize` gets a session, held for as long as
it is used, so that it can cancel a call by a notification; a request of 2026-07-28 stands for itself. Answers are
one JSON document or an event stream, as the protocol allows each.

Whose request it is stands in its scope (`tool_identity`). The SDK lets a session be used by its owner alone; to
anyone else it does not exist.

A connection that closes drops its calls (SPEC 2.1). In the handshake era the protocol lets a call outlive its
connection and be resumed; without an event store nobody could ever read its answer, so we end it.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import RequestBodyLimitMiddleware
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fetchd.core.caller import Caller
from proxy_addons.policy.limits import MIB

from .calls import Calls
from .mcp_json import UnreadableMessageError, parse_plain
from .mcp_server import ARGUMENTS, BUSY_CODE, CLIENT_GONE, PROGRESS_SECONDS, make_server
from .mcp_sessions import SESSION_FIELD, SessionShares
from .tool_identity import CALLER

MAX_MESSAGE_BYTES: Final = MIB
MAX_SESSIONS: Final = 4_000
"""Some 50 KB each. One whose client keeps its event stream open does not count as idle."""
MAX_AGENT_SESSIONS: Final = MAX_SESSIONS // 4
"""Of one agent."""
SESSION_IDLE_SECONDS: Final = 1_800.0


@asynccontextmanager
async def open_mcp(
    calls: Calls, *, progress_seconds: float = PROGRESS_SECONDS, max_agent_sessions: int = MAX_AGENT_SESSIONS
) -> AsyncIterator[ASGIApp]:
    """The endpoint; leaving ends every session. BrowserGuard and ToolIdentity stand before it."""
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
        yield _Endpoint(manager, SessionShares(max_agent_sessions, SESSION_IDLE_SECONDS))
    finally:
        stop.set()
        await task


class _Endpoint:
    """The manager, told of closed connections and given only messages that it reads as JSON-RPC means them.

    It would take a request whose id is none for a notification, and call half a surrogate pair a parse error.
    """

    def __init__(self, manager: StreamableHTTPSessionManager, shares: SessionShares) -> None:
        self._manager: Final = manager
        self._shares: Final = shares
        self._bounded: Final = RequestBodyLimitMiddleware(self._serve, MAX_MESSAGE_BYTES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        gone = asyncio.Event()

        async def watched() -> Message:
            message = await receive()
            if message["type"] == "http.disconnect":
                gone.set()
            return message

        caller: Caller = scope[CALLER]
        named = {**scope, CLIENT_GONE: gone, "user": _make_user(caller.agent)}
        if not _is_of_a_session(scope):
            await self._bounded(named, watched, send)
        elif self._shares.is_full(caller.agent) and not any(n == SESSION_FIELD for n, _ in scope["headers"]):
            await _TOO_MANY(scope, watched, send)
        else:
            await self._shares.run(self._bounded, caller.agent, named, watched, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """`receive` gives the body in one piece: RequestBodyLimitMiddleware has gathered it."""
        if scope["method"] == "POST" and _is_json(scope):
            first = await receive()
            if first["type"] == "http.request" and not first.get("more_body", False):
                try:
                    message = parse_plain(first.get("body", b""))
                except UnreadableMessageError as error:
                    await _answer(error, scope, receive, send)
                    return
                first = {**first, "body": message.text}
                if message.arguments is not None:
                    scope = {**scope, ARGUMENTS: message.arguments[0]}
            receive = _put_back(first, receive)
        await self._manager.handle_request(scope, receive, send)


def _is_json(scope: Scope) -> bool:
    media_type = Headers(scope=scope).get("content-type", "").partition(";")[0]
    return media_type.strip(" \t").lower() == "application/json"


def _put_back(first: Message, receive: Receive) -> Receive:
    taken = [first]

    async def receive_again() -> Message:
        return taken.pop() if taken else await receive()

    return receive_again


async def _answer(error: UnreadableMessageError, scope: Scope, receive: Receive, send: Send) -> None:
    body = error.answer.model_dump_json(by_alias=True, exclude_unset=True)
    await Response(body, 400, media_type="application/json")(scope, receive, send)


_TOO_MANY: Final = JSONResponse(
    {
        "jsonrpc": "2.0",
        "id": None,
        "error": {"code": BUSY_CODE, "message": "too many open sessions of this agent; end one, or wait"},
    },
    503,
)


def _is_of_a_session(scope: Scope) -> bool:
    """Whether a request is of the handshake era, as the SDK tells them apart: it opens a session or is in one."""
    stated = next((value for name, value in scope["headers"] if name == b"mcp-protocol-version"), None)
    return stated is None or stated.decode("latin-1") in HANDSHAKE_PROTOCOL_VERSIONS


def _make_user(agent: str) -> AuthenticatedUser:
    """Whom the SDK takes for the owner of a session. It needs no token for that, and gets none."""
    return AuthenticatedUser(AccessToken(token="", client_id=agent, scopes=[]))
