"""Keeps web pages in the operator's own browser away from the tools (DNS rebinding, cross-site requests).

1 Host names this machine or the address listened on, exactly   else 421
2 Origin, which browsers send, is absent or this very server    else 403

Refused before anything else is looked at, and for every path.
"""

import json
from collections.abc import Iterable
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")


class BrowserGuard:
    """ASGI middleware. hosts: names or addresses listened on, IPv6 in brackets, beside the loopback ones."""

    def __init__(self, app: ASGIApp, hosts: Iterable[str] = ()) -> None:
        self._app: Final = app
        self._hosts: Final = frozenset(LOOPBACK_NAMES) | {host.lower() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            refusal = self._judge(scope)
            if refusal is not None:
                await _answer(send, *refusal)
                return
        await self._app(scope, receive, send)

    def _judge(self, scope: Scope) -> tuple[int, str] | None:
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        origins = [value for name, value in scope["headers"] if name == b"origin"]
        if len(hosts) != 1 or _host_name(hosts[0]) not in self._hosts:
            return 421, "this server is not called that; use the address it prints"
        same = f"{scope['scheme']}://".encode() + hosts[0].lower()
        if any(origin.lower() != same for origin in origins):
            return 403, "requests from other web pages are refused"
        return None


def _host_name(value: bytes) -> str | None:
    """The name of a Host field without its port; None when it is malformed."""
    text = value.decode("latin-1").lower()
    name, mark, port = text.rpartition(":")
    if not mark or text.endswith("]"):
        return text
    return name if port.isascii() and port.isdigit() else None


async def _answer(send: Send, status: int, detail: str) -> None:
    title = "Misdirected request" if status == 421 else "Foreign origin"
    body = json.dumps({"type": "about:blank", "title": title, "status": status, "detail": detail}).encode()
    fields = [(b"content-type", b"application/problem+json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": body})
