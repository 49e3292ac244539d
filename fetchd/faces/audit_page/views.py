"""Templates to answers: autoescape is on for every template, and every answer has the same protecting fields.

The policy lets in our own style sheet and script by address, and nothing else: no inline code, no picture, no frame.
`require-trusted-types-for` takes from the script what could turn text into markup.
"""

import asyncio
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from fetchd.faces.operator_access.access import Signed
from fetchd.faces.operator_access.gate import SIGNED

from . import display
from .safe_text import show, show_long, show_plain, show_short

FOLDER: Final = Path(__file__).parent

FIELDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Content-Security-Policy": (
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'self'; "
            "frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
        ),
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        # Not no-referrer: browsers then say `Origin: null` of our own forms.
        "Referrer-Policy": "same-origin",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
        "Cache-Control": "no-store",
    }
)
"""Of every answer of the pages."""


def make_environment() -> Environment:
    """Where the templates are, and what they may call."""
    environment = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters |= {
        "show": show,
        "show_long": show_long,
        "show_short": show_short,
        "show_plain": show_plain,
        **display.FILTERS,
    }
    return environment


class Views:
    """Renders off the event loop: a page of many rows takes milliseconds."""

    def __init__(self) -> None:
        self._environment: Final = make_environment()

    async def page(
        self, request: Request, template: str, status: int = 200, cookie: str | None = None, **values: Any
    ) -> Response:
        """A page. cookie: to set with it."""
        signed = request.scope.get(SIGNED)
        values |= {"csrf": signed.csrf if isinstance(signed, Signed) else "", "signed": signed is not None}
        text = await asyncio.to_thread(self._environment.get_template(template).render, **values)
        answer = HTMLResponse(text, status, FIELDS)
        if cookie is not None:
            answer.headers.append("set-cookie", cookie)
        return answer

    async def error(self, request: Request, status: int, detail: str, cookie: str | None = None) -> Response:
        """A page that says what is wrong; a problem document (RFC 9457) for programs."""
        title = HTTPStatus(status).phrase
        if "text/html" in request.headers.get("accept", ""):
            return await self.page(request, "error.html", status, cookie, title=title, detail=detail)
        document = {"type": "about:blank", "title": title, "status": status, "detail": detail}
        return JSONResponse(document, status, FIELDS, "application/problem+json")

    async def show_error(self, request: Request, error: Exception) -> Response:
        """What no route answers, like every other answer. error: an HTTPException."""
        if not isinstance(error, HTTPException):
            raise error
        detail = _NO_ROUTE.get(error.status_code, HTTPStatus(error.status_code).phrase)
        answer = await self.error(request, error.status_code, detail)
        answer.headers.update(error.headers or {})
        return answer


_NO_ROUTE: Final = {404: "there is no such page here", 405: "this address takes another method"}


def redirect(target: str, cookie: str | None = None) -> Response:
    """To another page of ours, with GET."""
    answer = RedirectResponse(target, 303, FIELDS)
    if cookie is not None:
        answer.headers.append("set-cookie", cookie)
    return answer
