"""Keeps web pages in the operator's own browser away from the tools (DNS rebinding, cross-site requests).

1 Host names this machine, the address connected to, or one of daemon.names   else 421
2 Origin, which browsers send, is absent or this very server                 else 403

Refused before anything else is looked at, and for every path. Where callers need a token, another Host passes with
one: a page that DNS led here can send what it likes, but no token that is known, and the next check wants one.
"""

import json
from collections.abc import Callable, Iterable
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")


class BrowserGuard:
    """ASGI middleware.

    hosts: names or addresses listened on, IPv6 in brackets, beside the loopback ones. needs_token: whether nobody is
    served here without a token, right now.
    """

    def __init__(
        self, app: ASGIApp, hosts: Iterable[str] = (), needs_token: Callable[[], bool] = lambda: False
    ) -> None:
        self._app: Final = app
        self._hosts: Final = frozenset(LOOPBACK_NAMES) | {host.lower() for host in hosts}
        self._needs_token: Final = needs_token

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
        if len(hosts) != 1 or not self._is_ours(_host_name(hosts[0]), scope):
            return 421, "this server is not called that; use the address it prints"
        same = f"{scope['scheme']}://".encode() + hosts[0].lower()
        if any(origin.lower() != same for origin in origins):
            return 403, "requests from other web pages are refused"
        return None

    def _is_ours(self, name: str | None, scope: Scope) -> bool:
        if name is None:
            return False
        if name in self._hosts or name == _local_address(scope):
            return True
        return self._needs_token() and any(field == b"authorization" for field, _ in scope["headers"])


def _local_address(scope: Scope) -> str | None:
    """The address of ours that the client connected to. A name that DNS moved is never an address."""
    server = scope.get("server")
    if not server or not server[0]:
        return None
    host = str(server[0]).lower().removeprefix("::ffff:")
    return f"[{host}]" if ":" in host else host


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
