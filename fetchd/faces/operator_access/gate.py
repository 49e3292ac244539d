"""Nobody but the operator gets past here: ASGI middleware before every route.

Open to all: what says nothing of any traffic, or has a check of its own (`OPEN`). A new route is behind the gate
until it is named there. A browser without a session is led to the form; everybody else is answered 401 (RFC 6750).
"""

import json
from typing import Final
from urllib.parse import quote

from starlette.types import ASGIApp, Receive, Scope, Send

from fetchd.faces.operator_paths import (
    HEALTH_PATH,
    LINK_PATH,
    READY_PATH,
    RELOAD_PATH,
    SIGN_IN_PATH,
    STATIC_PATH,
)

from .access import Access, Signed

OPEN: Final = frozenset({HEALTH_PATH, READY_PATH, SIGN_IN_PATH, RELOAD_PATH, LINK_PATH})
"""Reload and link want the control secret."""
SIGNED: Final = "fetchd.signed"
"""Key of an ASGI scope: the Signed."""
CHALLENGE: Final = 'Bearer realm="fetchd operator"'
MAX_NEXT: Final = 2_000


class Gate:
    """open_paths: beside OPEN, of whoever serves more here."""

    def __init__(self, app: ASGIApp, access: Access, open_paths: frozenset[str] = frozenset()) -> None:
        self._app: Final = app
        self._access: Final = access
        self._open: Final = OPEN | open_paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if scope["type"] != "http" or path in self._open or path.startswith(f"{STATIC_PATH}/"):
            await self._app(scope, receive, send)
            return
        if not _is_same_origin(scope) and not _is_visit(scope):
            await _answer(send, 403, "requests from other web pages are refused")
            return
        found = await self._access.identify(scope, use=not _is_unasked(scope))
        if isinstance(found, Signed):
            await self._app({**scope, SIGNED: found}, receive, send)
        elif found.wait:
            await _answer(send, 429, found.reason, (b"retry-after", b"%d" % found.wait))
        elif _is_browser(scope):
            target = f"{SIGN_IN_PATH}?next={quote(_shown(scope), safe='')}"
            await _redirect(send, target)
        else:
            await _answer(send, 401, found.reason, (b"www-authenticate", CHALLENGE.encode()))


def _is_same_origin(scope: Scope) -> bool:
    """Browsers say where a request comes from (Fetch metadata); what says nothing is no page of another site."""
    said = [value for name, value in scope["headers"] if name == b"sec-fetch-site"]
    return all(value in (b"same-origin", b"none") for value in said)


def _is_visit(scope: Scope) -> bool:
    """Whether a person came by a link of another site. What a page there asks for by itself it could not read, but it
    would learn how long the answer takes, and keep the session in use: a cookie goes to every port of a machine."""
    said = {name: value for name, value in scope["headers"] if name.startswith(b"sec-fetch-")}
    return (
        scope["method"] == "GET"
        and said.get(b"sec-fetch-mode") == b"navigate"
        and said.get(b"sec-fetch-dest") == b"document"
    )


def _is_unasked(scope: Scope) -> bool:
    """Whether a page's script asks: that does not keep a session in use. Browsers say so (Fetch metadata)."""
    return any(name == b"sec-fetch-dest" and value == b"empty" for name, value in scope["headers"])


def _is_browser(scope: Scope) -> bool:
    accepted = [value for name, value in scope["headers"] if name == b"accept"]
    asked = any(name == b"authorization" for name, _ in scope["headers"])
    return scope["method"] == "GET" and not asked and any(b"text/html" in value for value in accepted)


def _shown(scope: Scope) -> str:
    """The target as it was asked for, to come back to."""
    query = scope.get("query_string", b"").decode("latin-1")
    path = scope.get("raw_path", b"/").decode("latin-1")
    target = f"{path}?{query}" if query else path
    return target if len(target) <= MAX_NEXT else "/"


async def _redirect(send: Send, target: str) -> None:
    fields = [
        (b"location", target.encode("latin-1")),
        (b"content-length", b"0"),
        (b"cache-control", b"no-store"),
    ]
    await send({"type": "http.response.start", "status": 303, "headers": fields})
    await send({"type": "http.response.body", "body": b""})


async def _answer(send: Send, status: int, detail: str, *fields: tuple[bytes, bytes]) -> None:
    title = {401: "Unauthorized", 403: "Forbidden", 429: "Too Many Requests"}[status]
    document = {"type": "about:blank", "title": title, "status": status, "detail": detail}
    body = json.dumps(document).encode()
    head = [
        (b"content-type", b"application/problem+json"),
        (b"content-length", b"%d" % len(body)),
        (b"cache-control", b"no-store"),
        *fields,
    ]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})
