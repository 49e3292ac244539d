"""The operator listener.

    GET  /healthz     the process answers
    GET  /readyz      whether the installation serves
    POST /v1/reload   reads the configuration again; Authorization: Bearer and the secret of keys/control-secret
                      → 200 {changes: [...]}, 401 without the secret, 409 and why when everything stays as it was

The audit page and metrics will be served here too; this listener is never meant for agents.
"""

import hmac
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from fetchd.reloading import Change, ReloadError

from .http_guard import BrowserGuard
from .tool_identity import CHALLENGE

RELOAD_PATH: Final = "/v1/reload"


def make_operator_app(
    is_ready: Callable[[], Awaitable[bool]],
    hosts: Iterable[str] = (),
    *,
    reload: Callable[[], Awaitable[Sequence[Change]]] | None = None,
    control_secret: str = "",
) -> Starlette:
    """The ASGI application. is_ready: whether every listener of the gateway accepts clients right now.

    reload: raises ReloadError when everything stays as it was.
    """

    async def health(request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def readiness(request: Request) -> Response:
        ready = await is_ready()
        return JSONResponse({"ready": ready}, status_code=200 if ready else 503)

    async def take_reload(request: Request) -> Response:
        stated = request.headers.getlist("authorization")
        if (
            reload is None
            or not control_secret
            or len(stated) != 1
            or not _is_secret(stated[0], control_secret)
        ):
            fields = {"WWW-Authenticate": CHALLENGE}
            return _problem(401, "send the secret of keys/control-secret as Bearer token", fields)
        try:
            changes = await reload()
        except ReloadError as error:
            return _problem(409, str(error))
        return JSONResponse({"changes": [change.document for change in changes]})

    return Starlette(
        routes=[
            Route("/healthz", health),
            Route("/readyz", readiness),
            Route(RELOAD_PATH, take_reload, methods=["POST"]),
        ],
        middleware=[Middleware(BrowserGuard, hosts=tuple(hosts))],
    )


def _is_secret(stated: str, secret: str) -> bool:
    scheme, _, rest = stated.partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(
        rest.strip().encode("utf-8", "surrogateescape"), secret.encode()
    )


def _problem(status: int, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    title = HTTPStatus(status).phrase
    document = {"type": "about:blank", "title": title, "status": status, "detail": detail}
    return JSONResponse(document, status, headers, "application/problem+json")
