"""`GET /metrics` of the operator's listener.

A listener at a loopback address answers everybody on this machine, for the numbers name no host and no agent, unless
a metrics token is configured. Everybody else sends `Authorization: Bearer` and that token
(`operator.metrics_token_sha256`), or the operator's own.
"""

import asyncio
import hmac
from collections.abc import Callable
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from fetchd.metrics.collecting import Collecting
from fetchd.metrics.exposition import render_exposition
from proxy_addons.policy.agents import digest_token
from proxy_addons.policy.config_addresses import is_loopback, parse_plain_address

from .operator_access.access import Access, Signed
from .tool_identity import CHALLENGE

METRICS_PATH: Final = "/metrics"
_MAX_TOKEN: Final = 512


class MetricsPage:
    """load_digest: of the metrics token in force, None without one. exposed: whether other machines reach us."""

    def __init__(
        self,
        collecting: Collecting,
        access: Access,
        load_digest: Callable[[], str | None],
        *,
        exposed: bool,
    ) -> None:
        self._collecting: Final = collecting
        self._access: Final = access
        self._load_digest: Final = load_digest
        self._exposed: Final = exposed

    def route(self) -> Route:
        """For the operator's application, which has to leave the path open: the check is made here."""
        return Route(METRICS_PATH, self._get, methods=["GET"])

    async def _get(self, request: Request) -> Response:
        if not await self._may_read(request):
            detail = (
                "send the metrics token (operator.metrics_token_sha256), or the operator's, as Bearer token"
            )
            document = {"type": "about:blank", "title": "Unauthorized", "status": 401, "detail": detail}
            fields = {"WWW-Authenticate": CHALLENGE, "Cache-Control": "no-store"}
            return JSONResponse(document, 401, fields, "application/problem+json")
        report, _ = await self._collecting.collect()
        accept = ", ".join(request.headers.getlist("accept"))
        content_type, body = await asyncio.to_thread(render_exposition, report, accept)
        return Response(body, 200, {"Content-Type": content_type, "Cache-Control": "no-store"})

    async def _may_read(self, request: Request) -> bool:
        digest = self._load_digest()
        if digest is None and not self._exposed and _is_near(request):
            return True
        stated = request.headers.getlist("authorization")
        if len(stated) == 1 and digest is not None:
            scheme, _, token = stated[0].partition(" ")
            token = token.strip()
            is_token = scheme.lower() == "bearer" and len(token) <= _MAX_TOKEN
            if is_token and hmac.compare_digest(digest_token(token), digest):
                return True
        return isinstance(await self._access.identify(request.scope, use=False), Signed)


def _is_near(request: Request) -> bool:
    host = request.client.host if request.client is not None else ""
    return parse_plain_address(host) is not None and is_loopback(host)
