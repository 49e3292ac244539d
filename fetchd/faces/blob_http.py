"""`GET /v1/blobs/{digest}`: a page's body, inert, to the agent whose read had it (SPEC 5).

    200   the bytes as they were after content-decoding, verified before the first of them
    404   no read of this agent had it, or it is no digest; which of these is not said
    410   it was had, and has been dropped since
    500   what is kept is damaged · 503 the store cannot be read now

Whatever the page claimed to be, it is served as bytes to be saved: no browser sniffs, shows or runs it. A body
that turns out damaged under way ends in an aborted answer, short of its Content-Length.
"""

import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from http import HTTPStatus
from types import MappingProxyType
from typing import Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from fetchd.errors import BlobDamagedError, BlobMissingError, StoreError
from fetchd.store import BlobReader, PageStore, parse_digest

from .openapi import PROBLEM_TYPE

BLOB_PATH: Final = "/v1/blobs/{digest}"
INERT_FIELDS: Final = MappingProxyType(
    {
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "private, no-store",  # dropped pages stay dropped
    }
)
"""What keeps a browser from doing anything with a body, beside its type and disposition."""

_log = logging.getLogger(__name__)


def make_blob_route(store: PageStore, find_agent: Callable[[Request], Awaitable[str | Response]]) -> Route:
    """The route. find_agent: the agent of a request, or the answer that refuses it."""

    async def endpoint(request: Request) -> Response:
        agent = await find_agent(request)
        if isinstance(agent, Response):
            return agent
        return await answer_blob(store, request.path_params["digest"], agent)

    return Route(BLOB_PATH, endpoint, methods=["GET"])


async def answer_blob(store: PageStore, text: str, agent: str) -> Response:
    """The answer to `agent` asking for the blob `text`. Raises nothing but faults of ours."""
    try:
        digest = parse_digest(text)
    except ValueError as error:
        return _problem(404, str(error))
    stack = AsyncExitStack()
    try:
        reader = await stack.enter_async_context(store.open_blob(digest, agent))
    except BlobMissingError as error:
        return _problem(410, str(error)) if error.known else _problem(404, "no read of yours had this blob")
    except BlobDamagedError as error:
        _log.error("%s", error)
        return _problem(500, "what is kept under this digest is damaged, and is not handed out")
    except StoreError as error:
        _log.error("%s", error)
        return _problem(503, "the store cannot be read now")
    return _BlobResponse(reader, stack)


class _BlobResponse(StreamingResponse):
    """A body that lets go of its blob however the answer ends, HEAD and a client that went away included."""

    def __init__(self, reader: BlobReader, stack: AsyncExitStack) -> None:
        name = reader.blob.digest.replace(":", "-")
        fields = {
            **INERT_FIELDS,
            "Content-Length": str(reader.blob.bytes),
            "Content-Disposition": f'attachment; filename="{name}.bin"',
        }
        super().__init__(_pieces(reader), headers=fields, media_type="application/octet-stream")
        self._stack: Final = stack

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._stack:
            await super().__call__(scope, receive, send)


async def _pieces(reader: BlobReader) -> AsyncIterator[bytes]:
    async for piece in reader:
        yield piece


def _problem(status: int, detail: str) -> Response:
    document = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    body = json.dumps(document, separators=(",", ":")).encode("utf-8")
    return Response(body, status, media_type=PROBLEM_TYPE)
