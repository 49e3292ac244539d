"""The HTTP API of the daemon.

    POST /v1/tools/web_fetch   arguments as a JSON object → 200 {text, trust, ...}, or a problem document with `kind`
    POST /v1/search            web_search for the gateway provider of another installation (SPEC 4)
    GET  /v1/blobs/{digest}    the body of a page that the calling agent has read
    POST /v1/tools/page_read   the same way → 200 {provider_operation, trust, ...}, or a problem document with `code`
    POST /v1/tools/web_search  the same way → 200 {text, trust, urls, ...}, or a problem document with `kind`
    POST /v1/ask               a run of completions by a vendor, where the profile lists ask; events or one object
    GET  /openapi.json         what is accepted and answered, exactly; /docs is the same for people
    GET  /healthz              the process answers
         /mcp                  the same tools for MCP clients

Who calls is found out first (`tool_identity`). A client that goes away drops its call (SPEC 2.1): the fetch is
cancelled and its connection closed at once.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from fetchd.core.caller import Caller
from fetchd.core.tool_definitions import PAGE_READ, WEB_FETCH, WEB_SEARCH
from fetchd.search.searching import SearchResult
from fetchd.search.way import FIELD, read_way
from fetchd.store import PageStore
from fetchd.web_access.asking import Asker
from proxy_addons.policy.rulebook import CurrentRules

from .ask_http import make_ask_route
from .blob_http import make_blob_route
from .calls import (
    RETRY_SECONDS,
    BusyError,
    Calls,
    ToolNotAllowedError,
    require_tool,
)
from .http_guard import BrowserGuard
from .http_parts import json_response, problem_response, read_bounded, too_large, until_disconnect
from .openapi import (
    PAGE_READ_PATH,
    PROBLEM_TYPE,
    WEB_FETCH_PATH,
    WEB_SEARCH_PATH,
    make_document,
)
from .openapi_ask import ASK_PATH
from .openapi_page import PAGE_FIELDS, render_page
from .read_results import render_read, render_read_problem
from .results import render_problem, render_result
from .search_gateway import SEARCH_GATEWAY_PATH, render_gateway_answer, render_gateway_failure
from .search_results import render_search, render_search_problem
from .tool_identity import CALLER, ToolIdentity

_SENT_AT_ONCE: Final = 256 << 10


@asynccontextmanager
async def open_tools_app(
    calls: Calls,
    rules: CurrentRules,
    hosts: Iterable[str] = (),
    store: PageStore | None = None,
    asker: Asker | None = None,
) -> AsyncIterator[Starlette]:
    """The tools listener whole: the HTTP API, and MCP at `/mcp`, which share `calls`.

    rules: tell callers apart. hosts: see BrowserGuard.
    """
    from .mcp_http import open_mcp

    async with open_mcp(calls) as mcp:
        yield make_app(calls, rules, hosts, mcp, store, asker)


def make_app(
    calls: Calls,
    rules: CurrentRules,
    hosts: Iterable[str] = (),
    mcp: ASGIApp | None = None,
    store: PageStore | None = None,
    asker: Asker | None = None,
) -> Starlette:
    """The ASGI application; `mcp`, if any, answers at `/mcp`, the blobs of `store` at `/v1/blobs/`, `asker` at
    `/v1/ask`."""
    routes: list[BaseRoute] = [
        Route("/", _index, methods=["GET"]),
        Route("/healthz", _health, methods=["GET"]),
        Route("/openapi.json", _openapi, methods=["GET"]),
        Route("/docs", _docs, methods=["GET"]),
        Route(WEB_FETCH_PATH, _Tools(calls).web_fetch, methods=["POST"]),
        Route(PAGE_READ_PATH, _Tools(calls).page_read, methods=["POST"]),
        Route(WEB_SEARCH_PATH, _Tools(calls).web_search, methods=["POST"]),
        Route(SEARCH_GATEWAY_PATH, _Tools(calls).search_gateway, methods=["POST"]),
        make_ask_route(asker, calls.turns),
    ]
    if mcp is not None:
        routes.append(Route("/mcp", mcp))
    if store is not None:
        routes.append(make_blob_route(store, _find_reader))

    def needs_token() -> bool:
        return not rules.now.tools.anonymous

    return Starlette(
        routes=routes,
        middleware=[
            Middleware(BrowserGuard, hosts=tuple(hosts), needs_token=needs_token),
            Middleware(ToolIdentity, rules=rules),
        ],
        exception_handlers={HTTPException: _http_error, Exception: _fault},
    )


class _Tools:
    """The endpoints that run calls."""

    def __init__(self, calls: Calls) -> None:
        self._calls: Final = calls

    async def web_fetch(self, request: Request) -> Response:
        result = await _run(request, WEB_FETCH.name, self._calls.web_fetch)
        if isinstance(result, Response):
            return result
        if result.is_hard and result.failure is not None:
            document = render_problem(result.failure, result.fetch_id)
            return json_response(document, int(str(document["status"])), PROBLEM_TYPE)
        return json_response(render_result(result))

    async def page_read(self, request: Request) -> Response:
        outcome = await _run(request, PAGE_READ.name, self._calls.page_read)
        if isinstance(outcome, Response):
            return outcome
        if outcome.failure is not None:
            document = render_read_problem(outcome.failure, outcome.fetch_id)
            return json_response(document, int(str(document["status"])), PROBLEM_TYPE)
        return _pieces(await asyncio.to_thread(render_read, outcome))

    async def web_search(self, request: Request) -> Response:
        result = await _run(request, WEB_SEARCH.name, self._calls.web_search)
        if isinstance(result, Response):
            return result
        if result.failure is not None:
            document = render_search_problem(result)
            return json_response(document, int(str(document["status"])), PROBLEM_TYPE)
        return json_response(render_search(result, request.scope[CALLER]))

    async def search_gateway(self, request: Request) -> Response:
        way = read_way(request.headers.getlist(FIELD))

        async def search(arguments: bytes, caller: Caller) -> SearchResult:
            return await self._calls.web_search(arguments, replace(caller, way=way))

        result = await _run(request, WEB_SEARCH.name, search)
        if isinstance(result, Response):
            return result
        if result.failure is not None:
            status, line = render_gateway_failure(result.failure)
            return Response(line, status, media_type="text/plain")
        return json_response(render_gateway_answer(result))


async def _find_reader(request: Request) -> str | Response:
    """The agent who asks for a blob; the refusal of one whose profile has no page reads."""
    caller: Caller = request.scope[CALLER]
    try:
        require_tool(PAGE_READ.name, caller)
    except ToolNotAllowedError as error:
        return problem_response(403, str(error), rule=None)
    return caller.agent


async def _run[T](
    request: Request, tool: str, call: Callable[[bytes, Caller], Coroutine[Any, Any, T]]
) -> T | Response:
    """A call's result; a response where it was not made."""
    caller: Caller = request.scope[CALLER]
    try:
        require_tool(tool, caller)
        arguments = await read_bounded(request)
        if arguments is None:
            return too_large()
        return await until_disconnect(request, call(arguments, caller))
    except ToolNotAllowedError as error:
        return problem_response(403, str(error), rule=None)
    except BusyError as error:
        return problem_response(503, str(error), {"Retry-After": str(RETRY_SECONDS)})
    except ClientDisconnect:
        return Response(status_code=499)  # nobody reads it


async def _index(request: Request) -> Response:
    return json_response(
        {
            "name": "fetchd",
            "tools": {
                "web_fetch": f"POST {WEB_FETCH_PATH} with a JSON object: url, max_chars, raw",
                "page_read": f"POST {PAGE_READ_PATH} with a JSON object: url, allowlist, extract, link_text,"
                " known_digest",
                "web_search": f"POST {WEB_SEARCH_PATH} with a JSON object: "
                + ", ".join(parameter.name for parameter in WEB_SEARCH.parameters),
            },
            "search": f"POST {SEARCH_GATEWAY_PATH} with the same, for the search provider of another fetchd",
            "ask": f"POST {ASK_PATH} with a JSON object: prompt, provider, search, fetch, max_uses and more",
            "blobs": "GET /v1/blobs/{digest}, the body of a page that was read",
            "mcp": "/mcp",
            "openapi": "/openapi.json",
            "docs": "/docs",
            "health": "/healthz",
        }
    )


async def _health(request: Request) -> Response:
    return json_response({"status": "ok"})


async def _openapi(request: Request) -> Response:
    return json_response(make_document())


async def _docs(request: Request) -> Response:
    return Response(render_page(make_document()), headers=PAGE_FIELDS, media_type="text/html")


async def _http_error(request: Request, error: Exception) -> Response:
    """What the router itself refuses: no such path, another method."""
    if not isinstance(error, HTTPException):
        raise error
    return problem_response(
        error.status_code, f"{request.method} {request.url.path} is not served; see /docs", error.headers
    )


async def _fault(request: Request, error: Exception) -> Response:
    """A fault of ours; the traceback is in the log, not in the answer."""
    return problem_response(500, "the request could not be handled")


def _pieces(pieces: Sequence[bytes]) -> Response:
    """JSON in pieces, sent as fast as it is read."""

    async def send() -> AsyncIterator[memoryview]:
        for piece in pieces:
            view = memoryview(piece)
            for start in range(0, len(piece), _SENT_AT_ONCE):
                yield view[start : start + _SENT_AT_ONCE]

    length = str(sum(map(len, pieces)))
    return StreamingResponse(send(), headers={"Content-Length": length}, media_type="application/json")
