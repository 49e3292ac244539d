"""The log itself: is it whole, and how far is the index.

GET  /log            every chain, as `audit verify` found it, and when
POST /log/verify     look again → 303
"""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from fetchd.audit_index.interface import IndexStatus, IndexUnavailableError
from fetchd.faces.operator_access.access import has_csrf
from fetchd.faces.operator_access.gate import SIGNED

from .forms import FormError, read_form
from .parts import PageParts
from .sign_in import STALE
from .views import Views, redirect


class LogPage:
    """The routes."""

    def __init__(self, parts: PageParts, views: Views) -> None:
        self._parts: Final = parts
        self._views: Final = views

    async def show(self, request: Request) -> Response:
        """The page."""
        self._parts.verifier.refresh()
        status: IndexStatus | None = None
        problem = self._parts.index_problem() or ""
        try:
            status = await self._parts.index.status()
        except IndexUnavailableError as error:
            problem = problem or str(error)
        return await self._views.page(
            request,
            "log.html",
            verification=self._parts.verifier.last,
            verifying=self._parts.verifier.running,
            index=status,
            problem=problem,
        )

    async def verify(self, request: Request) -> Response:
        """Look again."""
        try:
            form = await read_form(request)
        except FormError as error:
            return await self._views.error(request, 400, str(error))
        if not has_csrf(request.scope[SIGNED], form.get("csrf", "")):
            return await self._views.error(request, 403, STALE)
        self._parts.verifier.start()
        return redirect("/log")
