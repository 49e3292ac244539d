"""What a careful person writes in an afternoon: a script for stock `mitmdump` that enforces the five checks.

Scheme, port, IP literal, credentials and telling fields, redirects; names are resolved and pinned when a connection
is made. It stands here to be measured beside the gateway, not to be used.

Told by the environment: NAIVE_PORTS (comma-separated), NAIVE_DNS (address:port), NAIVE_EXCEPT (an address that
passes although it is private).
"""

import asyncio
import ipaddress
import os
import socket
from urllib.parse import urljoin, urlsplit

import dns.asyncresolver
from mitmproxy import http

PORTS = {int(port) for port in os.environ["NAIVE_PORTS"].split(",")}
EXCEPT = os.environ.get("NAIVE_EXCEPT")
STRIPPED = ("cookie", "authorization", "referer", "proxy-authorization")


class Naive:
    """The five checks."""

    def __init__(self) -> None:
        address, _, port = os.environ["NAIVE_DNS"].rpartition(":")
        self._resolver = dns.asyncresolver.Resolver(configure=False)
        self._resolver.nameservers = [address]
        self._resolver.port = int(port)

    def request(self, flow: http.HTTPFlow) -> None:
        """Scheme, user info, port, IP literal; credentials are stripped."""
        refusal = check_url(flow.request.url)
        if refusal is not None:
            flow.response = http.Response.make(403, refusal)
            return
        for name in STRIPPED:
            flow.request.headers.pop(name, None)

    def response(self, flow: http.HTTPFlow) -> None:
        """A redirect is judged like a request."""
        if flow.response is not None and 300 <= flow.response.status_code < 400:
            target = urljoin(flow.request.url, flow.response.headers.get("location", ""))
            refusal = check_url(target)
            if refusal is not None:
                flow.response = http.Response.make(403, refusal)

    def running(self) -> None:
        """Every connection asks the loop for addresses: give it judged ones, and those it connects to.

        Rewriting `server.address` in `server_connect` instead breaks the reuse of connections.
        """
        asyncio.get_running_loop().getaddrinfo = self._resolve  # type: ignore[assignment, method-assign]

    async def _resolve(self, host: str | bytes, port: int, **_: object) -> list[tuple[object, ...]]:
        name = host.decode("ascii") if isinstance(host, bytes) else host
        answers = await self._resolver.resolve_name(name or "")
        allowed = [address for address in answers.addresses() if may_dial(address)]
        if not allowed:
            raise OSError("no allowed address")
        family = socket.AF_INET6 if ":" in allowed[0] else socket.AF_INET
        return [(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (allowed[0], port))]


def check_url(url: str) -> str | None:
    """Why a URL is refused, or None."""
    parts = urlsplit(url)
    if parts.scheme != "https":
        return "scheme not allowed"
    if parts.username or parts.password:
        return "url must not contain userinfo"
    if (parts.port or 443) not in PORTS:
        return "port not allowed"
    try:
        ipaddress.ip_address(parts.hostname or "")
    except ValueError:
        return None
    return "ip literal host not allowed"


def may_dial(address: str) -> bool:
    """Whether an address is a public one."""
    return address == EXCEPT or ipaddress.ip_address(address).is_global


addons = [Naive()]
