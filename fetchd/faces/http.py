"""The HTTP API of the daemon.

    POST /v1/tools/web_fetch   arguments as a JSON object → 200 {text, trust, …}, or a problem document with
    `kind` GET  /healthz              the process answers GET  /                     what is here

A client that goes away drops its call (SPEC 2.1): the fetch is cancelled and its connection closed at once.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from fetchd.core.caller import Caller
from fetchd.fetch import FetchResult, WebFetch
from proxy_addons.policy.limits import MIB

from .http_guard import BrowserGuard
from .results import render_problem, render_result

MAX_ARGUMENT_BYTES: Final = MIB
MAX_CALLS: Final = 64
"""Calls at work at once: each may hold a body of the cap and a decoder's window."""
MAX_WAITING: Final = 256
"""Calls that wait for their turn; one more is answered 503."""


def make_app(
    web_fetch: WebFetch,
    caller: Caller,
    hosts: Iterable[str] = (),
    *,
    max_calls: int = MAX_CALLS,
    max_waiting: int = MAX_WAITING,
) -> Starlette:
    """The ASGI application. caller: on whose behalf all calls run. hosts: see BrowserGuard."""
    tools = _Tools(web_fetch, caller, _Turnstile(max_calls, max_waiting))
    return Starlette(
        routes=[
            Route("/", _index, methods=["GET"]),
            Route("/healthz", _health, methods=["GET"]),
            Route("/v1/tools/web_fetch", tools.web_fetch, methods=["POST"]),
        ],
        middleware=[Middleware(BrowserGuard, hosts=tuple(hosts))],
    )


class _Tools:
    """The endpoints that run calls."""

    def __init__(self, web_fetch: WebFetch, caller: Caller, turnstile: "_Turnstile") -> None:
        self._web_fetch: Final = web_fetch
        self._caller: Final = caller
        self._turnstile: Final = turnstile

    async def web_fetch(self, request: Request) -> Response:
        try:
            arguments = await _read_bounded(request)
            if arguments is None:
                return _problem(413, "Arguments too large", f"send at most {MAX_ARGUMENT_BYTES} bytes")
            result = await _until_disconnect(request, self._call(arguments))
        except _FullError:
            return _problem(503, "Too many calls", "try again in a few seconds", {"Retry-After": "5"})
        except ClientDisconnect:
            return Response(status_code=499)  # nobody reads it
        if result.is_hard and result.failure is not None:
            document = render_problem(result.failure, result.fetch_id)
            return _json(document, int(str(document["status"])), "application/problem+json")
        return _json(render_result(result))

    async def _call(self, arguments: bytes) -> FetchResult:
        async with self._turnstile.turn():
            return await self._web_fetch.call(arguments, self._caller)


async def _until_disconnect(request: Request, call: Coroutine[Any, Any, FetchResult]) -> FetchResult:
    """The call's result. Raises ClientDisconnect if the client went away first; the call has ended too."""
    work = asyncio.ensure_future(call)
    gone = asyncio.ensure_future(_wait_disconnect(request))
    try:
        await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise ClientDisconnect
        return work.result()
    finally:
        for task in (work, gone):
            task.cancel()
        await asyncio.gather(work, gone, return_exceptions=True)


async def _wait_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _read_bounded(request: Request) -> bytes | None:
    """The body; None when it is too large. Raises ClientDisconnect."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_ARGUMENT_BYTES:
            return None
    return bytes(body)


class _FullError(Exception):
    """No more calls may wait."""


class _Turnstile:
    """Lets so many through at once, and so many wait."""

    def __init__(self, places: int, waiting: int) -> None:
        self._semaphore: Final = asyncio.Semaphore(places)
        self._room: int = places + waiting

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Raises _FullError."""
        if not self._room:
            raise _FullError
        self._room -= 1
        try:
            async with self._semaphore:
                yield
        finally:
            self._room += 1


async def _index(request: Request) -> Response:
    return _json(
        {
            "name": "fetchd",
            "tools": {"web_fetch": "POST /v1/tools/web_fetch with a JSON object: url, max_chars, raw"},
            "health": "/healthz",
        }
    )


async def _health(request: Request) -> Response:
    return _json({"status": "ok"})


def _problem(status: int, title: str, detail: str, headers: dict[str, str] | None = None) -> Response:
    document = {"type": "about:blank", "title": title, "status": status, "detail": detail}
    return _json(document, status, "application/problem+json", headers)


def _json(
    document: object,
    status: int = 200,
    media_type: str = "application/json",
    headers: dict[str, str] | None = None,
) -> Response:
    body = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    return Response(body, status, headers, media_type)
