"""The operator listener: `/healthz` says that the process answers, `/readyz` whether the installation serves.

The audit page and metrics will be served here too; this listener is never meant for agents.
"""

from collections.abc import Awaitable, Callable, Iterable

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from .http_guard import BrowserGuard


def make_operator_app(is_ready: Callable[[], Awaitable[bool]], hosts: Iterable[str] = ()) -> Starlette:
    """The ASGI application. is_ready: whether every listener of the gateway accepts clients right now."""

    async def health(request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def readiness(request: Request) -> Response:
        ready = await is_ready()
        return JSONResponse({"ready": ready}, status_code=200 if ready else 503)

    return Starlette(
        routes=[Route("/healthz", health), Route("/readyz", readiness)],
        middleware=[Middleware(BrowserGuard, hosts=tuple(hosts))],
    )
