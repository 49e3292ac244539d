"""Hops through the gateway: absolute-form requests over kept-alive connections (RFC 9112, 3.2.2).

    GET https://docs.rs/tokio HTTP/1.1        to http://{gateway}

so the daemon needs no CONNECT, no second TLS and no CA. The connection is dialled to the gateway's address whatever
the environment says of proxies. Of the HTTP client one connection at a time is used, not its pool (`connections`).
"""

import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from types import MappingProxyType
from typing import Final, Self

import httpcore

from fetchd.connections import Connections
from fetchd.errors import BrokenAnswerError, NoAnswerError, TransportError
from proxy_addons.policy.limits import IDLE_SECONDS, MAX_HEAD_BYTES, USER_AGENT
from proxy_addons.policy.wire import render_daemon_fields

from .interface import HopAnswer, HopRequest

MAX_CONNECTIONS: Final = 128
"""Hops under way at once; more wait for a connection within their own time limit."""

KEEP_ALIVE_SECONDS: Final = IDLE_SECONDS / 2
"""Well before the gateway's idle limit, so that no request meets a connection that is just being closed."""

FOREIGN_ERRORS: Final[Mapping[type[Exception], str]] = MappingProxyType(
    {
        httpcore.TimeoutException: "timed out",
        httpcore.NetworkError: "connection failed",
        httpcore.ProtocolError: "not HTTP",
        httpcore.ProxyError: "proxy error",
        httpcore.UnsupportedProtocol: "unsupported protocol",
        httpcore.ConnectionNotAvailable: "no connection available",
    }
)
"""Every error of the HTTP client; which of ours it becomes depends on the phase, before or after the head."""


class ProxiedTransport:
    """Sends hops to one gateway. Use as an async context manager, or call `aclose`."""

    def __init__(
        self,
        host: str,
        port: int,
        secret: str,
        *,
        tls: ssl.SSLContext | None = None,
        max_connections: int = MAX_CONNECTIONS,
    ) -> None:
        """secret: the daemon's own towards the gateway. tls: for a gateway that is spoken to over TLS."""
        authority = f"[{host}]" if ":" in host else host
        self._gateway: Final = f"{'http' if tls is None else 'https'}://{authority}:{port}"
        self._secret: Final = secret
        origin = httpcore.URL(self._gateway).origin
        self._connections: Final = Connections(origin, tls, None, max_connections, KEEP_ALIVE_SECONDS)

    def __repr__(self) -> str:
        return f"<ProxiedTransport {self._gateway}>"

    @asynccontextmanager
    async def send(self, request: HopRequest) -> AsyncIterator[HopAnswer]:
        """See Transport."""
        async with self._connections.lend() as connection:
            with _translated(NoAnswerError):
                response = await connection.handle_async_request(self._render(request))
            chunks = _read_chunks(response)
            try:
                fields = tuple(response.headers)
                if sum(len(name) + len(value) for name, value in fields) > MAX_HEAD_BYTES:
                    raise NoAnswerError(f"the response head is over {MAX_HEAD_BYTES} bytes")
                yield HopAnswer(response.status, fields, chunks)
            finally:
                await chunks.aclose()  # or an unread one is left to the garbage collector
                await response.aclose()

    async def aclose(self) -> None:
        """Close every connection, also those with a hop under way."""
        await self._connections.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _render(self, request: HopRequest) -> httpcore.Request:
        target = request.target
        absolute = f"{target.scheme}://{target.authority}{target.request_path}"
        return httpcore.Request(
            "GET",
            self._gateway,
            headers=[
                (b"Host", target.authority.encode("ascii")),
                (b"User-Agent", USER_AGENT.encode("ascii")),
                (b"Accept", b"*/*"),
                (b"Accept-Encoding", b"gzip, br"),
                *request.conditions,
                *render_daemon_fields(self._secret, request.identity),
            ],
            extensions={"target": absolute.encode("ascii")},
        )


async def _read_chunks(response: httpcore.Response) -> AsyncGenerator[bytes]:
    with _translated(BrokenAnswerError):
        async for chunk in response.aiter_stream():
            yield chunk


@contextmanager
def _translated(ours: type[TransportError]) -> Iterator[None]:
    """Errors of the HTTP client as `ours`. Their text stays out of ours: it is for `__cause__` only."""
    try:
        yield
    except tuple(FOREIGN_ERRORS) as error:
        what = next(text for kind, text in FOREIGN_ERRORS.items() if isinstance(error, kind))
        raise ours(f"{what} ({type(error).__name__})") from error
