"""The operator listener: what is served there, behind which doors.

    GET  /healthz     the process answers
    GET  /readyz      whether the installation serves: each check, 503 while one fails
    POST /v1/reload   reads the configuration again; Authorization: Bearer and the secret of keys/control-secret
                      → 200 {changes: [...]}, 401 without the secret, 409 and why when everything stays as it was

Everything else (`pages`) is for whoever signed in: the gate stands before every route that is not named open. This
listener is never meant for agents.
"""

import hmac
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from fetchd.running.health import Readiness
from fetchd.running.reloading import Change, ReloadError

from .http_guard import BrowserGuard
from .operator_access.access import Access
from .operator_access.gate import Gate
from .operator_paths import HEALTH_PATH, READY_PATH, RELOAD_PATH
from .tool_identity import CHALLENGE

type ShowError = Callable[[Request, Exception], Awaitable[Response]]

__all__ = ("NOBODY", "RELOAD_PATH", "has_control_secret", "make_operator_app")

NOBODY: Final = Access(frozenset, port=0, secure=False)
"""Lets nobody in."""


def make_operator_app(
    check_ready: Callable[[], Awaitable[Readiness]],
    hosts: Iterable[str] = (),
    *,
    reload: Callable[[], Awaitable[Sequence[Change]]] | None = None,
    control_secret: str = "",
    access: Access = NOBODY,
    pages: Sequence[BaseRoute] = (),
    open_paths: frozenset[str] = frozenset(),
    show_error: ShowError | None = None,
) -> Starlette:
    """The ASGI application. check_ready: looks at everything that is needed, now.

    reload: raises ReloadError when everything stays as it was. pages: further routes, behind the gate but for those
    in open_paths, which have a check of their own or say nothing of any traffic. show_error: answers what no route
    does.
    """

    async def health(request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def readiness(request: Request) -> Response:
        found = await check_ready()
        fields = {"Cache-Control": "no-store"}
        return JSONResponse(found.document, 200 if found.ready else 503, fields)

    async def take_reload(request: Request) -> Response:
        if reload is None or not has_control_secret(request, control_secret):
            fields = {"WWW-Authenticate": CHALLENGE}
            return _problem(401, "send the secret of keys/control-secret as Bearer token", fields)
        try:
            changes = await reload()
        except ReloadError as error:
            return _problem(409, str(error))
        return JSONResponse({"changes": [change.document for change in changes]})

    return Starlette(
        routes=[
            Route(HEALTH_PATH, health),
            Route(READY_PATH, readiness),
            Route(RELOAD_PATH, take_reload, methods=["POST"]),
            *pages,
        ],
        exception_handlers={HTTPException: show_error} if show_error is not None else {},
        middleware=[
            Middleware(BrowserGuard, hosts=tuple(hosts)),
            Middleware(Gate, access=access, open_paths=open_paths),
        ],
    )


def has_control_secret(request: Request, secret: str) -> bool:
    """Whether a request comes from a command of this installation."""
    stated = request.headers.getlist("authorization")
    if not secret or len(stated) != 1:
        return False
    scheme, _, rest = stated[0].partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(
        rest.strip().encode("utf-8", "surrogateescape"), secret.encode()
    )


def _problem(status: int, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    title = HTTPStatus(status).phrase
    document = {"type": "about:blank", "title": title, "status": status, "detail": detail}
    return JSONResponse(document, status, headers, "application/problem+json")
