"""Signing in and out, and the links that sign in once.

GET  /sign-in               the form; ?code= from a link makes it a single button, ?next= is where to go then
POST /sign-in               → 303 with the session's cookie; 403 for what is not known; 429 after many failures
POST /sign-out              → 303 to the form
POST /v1/sign-in-link       Authorization: Bearer and the secret of keys/control-secret → 200 {path}
"""

import re
from collections.abc import Callable
from typing import Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from fetchd.faces.operator_access.access import Access, Denied, Signed, has_csrf
from fetchd.faces.operator_access.gate import MAX_NEXT, SIGNED
from fetchd.faces.operator_paths import LINK_PATH, SIGN_IN_PATH, SIGN_OUT_PATH

from .forms import FormError, read_form
from .views import FIELDS, Views, redirect

_NEXT: Final = re.compile(r"/(?:[A-Za-z0-9._~!$&'()*+,;=:@%?-][A-Za-z0-9._~!$&'()*+,;=:@%/?-]*)?")
"""A path of ours with its query: one slash, and nothing that a browser would take for a host or turn into a slash."""
STALE: Final = "this page was open for too long; send the form again"


class SignIn:
    """is_control: whether a request has the control secret."""

    def __init__(self, access: Access, views: Views, is_control: Callable[[Request], bool]) -> None:
        self._access: Final = access
        self._views: Final = views
        self._is_control: Final = is_control

    def routes(self) -> list[Route]:
        """What is served."""
        return [
            Route(SIGN_IN_PATH, self._show),
            Route(SIGN_IN_PATH, self._take, methods=["POST"]),
            Route(SIGN_OUT_PATH, self._leave, methods=["POST"]),
            Route(LINK_PATH, self._link, methods=["POST"]),
        ]

    async def _show(self, request: Request) -> Response:
        code, target = request.query_params.get("code", ""), read_next(request.query_params.get("next"))
        if isinstance(await self._access.identify(request.scope, use=False), Signed):
            return redirect(target)
        return await self._form(request, 200, code=code, target=target)

    async def _take(self, request: Request) -> Response:
        try:
            form = await read_form(request)
        except FormError as error:
            return await self._views.error(request, 400, str(error))
        code, target = form.get("code", ""), read_next(form.get("next"))
        if not self._access.is_form(request.scope, form.get("form", "")):
            return await self._form(request, 403, code=code, target=target, problem=STALE)
        found = await self._access.sign_in(request.scope, form.get("token", ""), code)
        if isinstance(found, Denied):
            status = 429 if found.wait else 403
            answer = await self._form(request, status, target=target, problem=found.reason)
            if found.wait:
                answer.headers["Retry-After"] = str(found.wait)
            return answer
        return redirect(target, found)

    async def _leave(self, request: Request) -> Response:
        signed = request.scope[SIGNED]
        try:
            form = await read_form(request)
        except FormError as error:
            return await self._views.error(request, 400, str(error))
        if not has_csrf(signed, form.get("csrf", "")):
            return await self._views.error(request, 403, STALE)
        return redirect(SIGN_IN_PATH, self._access.sign_out(request.scope))

    async def _link(self, request: Request) -> Response:
        if not self._is_control(request):
            document = {"type": "about:blank", "title": "Unauthorized", "status": 401,
                        "detail": "send the secret of keys/control-secret as Bearer token"}  # fmt: skip
            return JSONResponse(document, 401, {**FIELDS, "WWW-Authenticate": 'Bearer realm="fetchd"'})
        path = f"{SIGN_IN_PATH}?code={quote(self._access.links.issue(), safe='')}"
        return JSONResponse({"path": path}, headers=FIELDS)

    async def _form(
        self, request: Request, status: int, *, target: str, code: str = "", problem: str = ""
    ) -> Response:
        mark, cookie = self._access.open_form(request.scope)
        # Who follows a link of another site comes without the session's cookie, signed in or not (SameSite=Strict).
        linked = request.headers.get("sec-fetch-site") == "cross-site"
        return await self._views.page(
            request, "sign_in.html", status, cookie, form=mark, code=code, target=target, problem=problem,
            linked=linked,
        )  # fmt: skip


def read_next(text: str | None) -> str:
    """Where to go after signing in; the first page for whatever is not a path of ours."""
    if text is None or len(text) > MAX_NEXT or _NEXT.fullmatch(text) is None:
        return "/"
    return text
