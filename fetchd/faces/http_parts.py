"""What the endpoints of the tools listener share: bounded bodies, JSON, problem documents, clients that go away."""

import asyncio
import json
from collections.abc import Coroutine, Mapping
from http import HTTPStatus
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from .openapi import MAX_ARGUMENT_BYTES
from .openapi_parts import PROBLEM_TYPE

__all__ = (
    "PROBLEM_TYPE",
    "json_response",
    "problem_response",
    "read_bounded",
    "too_large",
    "until_disconnect",
)


async def until_disconnect[T](request: Request, call: Coroutine[Any, Any, T]) -> T:
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


async def read_bounded(request: Request) -> bytes | None:
    """The body; None when it is too large. Raises ClientDisconnect."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_ARGUMENT_BYTES:
            return None
    return bytes(body)


def too_large() -> Response:
    """The answer to a body over the bound."""
    return problem_response(413, f"send at most {MAX_ARGUMENT_BYTES} bytes of arguments")


def problem_response(
    status: int, detail: str, headers: Mapping[str, str] | None = None, **more: object
) -> Response:
    """A problem document (RFC 9457) of the server itself, as an answer."""
    return json_response(problem_document(status, detail, **more), status, PROBLEM_TYPE, headers)


def problem_document(status: int, detail: str, **more: object) -> dict[str, object]:
    """A problem document (RFC 9457) of the server itself."""
    return {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        **more,
    }


def json_response(
    document: object,
    status: int = 200,
    media_type: str = "application/json",
    headers: Mapping[str, str] | None = None,
) -> Response:
    """A document as compact JSON."""
    body = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    return Response(body, status, headers, media_type)
