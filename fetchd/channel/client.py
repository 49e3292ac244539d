"""The channel on the wire: one provider's endpoint, HTTP/1.1 over kept-alive connections.

    render ──► on the list? ──► connect, TLS ──► head (bounded, no redirect, no upgrade) ──► body as it comes

Laws of this file
- Nothing is looked up or connected to before the URL is known to be of the endpoint's scheme, host and port.
- TLS is verified against certifi's roots and tls.extra_ca, whatever the environment says. It says nothing of proxies
  either: there is none.
- Errors are our own words. What the client raised is dropped, for it may quote what the other side sent, and that may
  be our own credential.
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager
from types import MappingProxyType
from typing import Final, Self

import certifi
import httpcore

from fetchd.connections import Connections
from fetchd.errors import ChannelError
from proxy_addons.policy.codings import BodyError, Coding, UnsupportedCodingError, parse_content_encoding
from proxy_addons.policy.limits import MAX_HEAD_BYTES, MIB
from proxy_addons.policy.metering import BodyMeter
from proxy_addons.policy.targets import Target, TargetParseError, parse_target

from .fields import render_fields
from .hosts import Endpoint, parse_endpoint
from .interface import ChannelAnswer, ChannelRequest
from .network import Lookup, Network, SystemLookup

MAX_CONNECTIONS: Final = 16
"""Requests under way at once; more wait for a connection within their own deadline."""
MAX_BODY_BYTES: Final = 64 * MIB
"""Of any answer; readers have their own, smaller bounds."""
_TURN: Final = 64
"""Chunks after which others have their turn; what is buffered is handed out without waiting for anything."""
REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
CODINGS: Final = frozenset({Coding.GZIP, Coding.DEFLATE})
"""None is asked for unless a provider does; these cost 40 KiB to undo, br and zstd megabytes."""

FOREIGN_ERRORS: Final[Mapping[type[Exception], str]] = MappingProxyType(
    {
        httpcore.TimeoutException: "timed out",
        httpcore.NetworkError: "the connection failed",
        httpcore.ProtocolError: "the answer is not HTTP, or broke off",
        httpcore.ProxyError: "proxy error",
        httpcore.UnsupportedProtocol: "unsupported protocol",
        httpcore.ConnectionNotAvailable: "no connection available",
    }
)
"""Every error of the HTTP client."""
_CAUGHT: Final[tuple[type[Exception], ...]] = (OSError, BodyError, *FOREIGN_ERRORS)


def make_roots(extra_ca: Iterable[str] = ()) -> ssl.SSLContext:
    """What servers are verified against. Blocks. Raises ChannelError for a file that cannot be used."""
    # Not create_default_context: that reads SSL_CERT_FILE, SSL_CERT_DIR and SSLKEYLOGFILE.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for path in (certifi.where(), *extra_ca):
        try:
            context.load_verify_locations(cafile=path)
        except OSError as error:
            raise ChannelError(f"tls.extra_ca: {path}: {error.strerror or 'no certificate'}") from None
    return context


class HttpChannel:
    """Sends requests to one endpoint. Use as an async context manager, or call `aclose`. For one event loop."""

    def __init__(
        self,
        endpoint: str | Endpoint,
        roots: ssl.SSLContext,
        *,
        max_connections: int = MAX_CONNECTIONS,
        lookup: Lookup | None = None,
    ) -> None:
        """Raises ChannelError for an endpoint that cannot be used. lookup: addresses of a name, the system's unless
        given.
        """
        self._endpoint: Final = parse_endpoint(endpoint) if isinstance(endpoint, str) else endpoint
        end = self._endpoint
        self._connections: Final = Connections(
            httpcore.Origin(end.scheme.encode("ascii"), end.host.encode("ascii"), end.port),
            roots,
            Network(lookup or SystemLookup()),
            max_connections,
        )

    def __repr__(self) -> str:
        return f"<HttpChannel {self._endpoint.base}>"

    @asynccontextmanager
    async def send(self, request: ChannelRequest) -> AsyncIterator[ChannelAnswer]:
        """See Channel."""
        rendered = self._render(request)
        async with self._connections.lend() as connection, _answering(connection, rendered) as response:
            fields = _judge_head(response)
            async with aclosing(_read_chunks(response, _codings(fields))) as chunks:
                yield ChannelAnswer(response.status, fields, chunks)

    async def aclose(self) -> None:
        """Close every connection, also those with a request under way."""
        await self._connections.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _render(self, request: ChannelRequest) -> httpcore.Request:
        target = self._admit(request.url)
        url = httpcore.URL(
            scheme=target.scheme.encode("ascii"),
            host=target.host.encode("ascii"),
            port=target.port,
            target=target.request_path.encode("ascii"),
        )
        return httpcore.Request(
            request.method, url, headers=render_fields(request, target.authority), content=request.body
        )

    def _admit(self, url: str) -> Target:
        try:
            target = parse_target(url)
        except TargetParseError:
            raise ChannelError("the request's URL is not absolute") from None
        if target.has_credentials or not self._endpoint.admits(target):
            raise ChannelError("the request is for another host than the provider's")
        return target


@asynccontextmanager
async def _answering(
    connection: httpcore.AsyncHTTPConnection, request: httpcore.Request
) -> AsyncIterator[httpcore.Response]:
    response = await _open(connection, request)
    try:
        yield response
    finally:
        await response.aclose()


async def _open(connection: httpcore.AsyncHTTPConnection, request: httpcore.Request) -> httpcore.Response:
    try:
        return await connection.handle_async_request(request)
    except _CAUGHT as error:
        failure = _translate(error)
    raise failure  # here, where no foreign error is at hand that would be kept with it


def _judge_head(response: httpcore.Response) -> tuple[tuple[str, str], ...]:
    """The fields of an answer that may be read; raises ChannelError."""
    if sum(len(name) + len(value) for name, value in response.headers) > MAX_HEAD_BYTES:
        raise ChannelError(f"the head of the answer is over {MAX_HEAD_BYTES} bytes")
    if response.status in REDIRECTS:
        raise ChannelError(f"redirected ({response.status}); write the endpoint it leads to")
    if response.status < 200:
        raise ChannelError("the protocol was switched")
    return tuple(
        (name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in response.headers
    )


def _codings(fields: Iterable[tuple[str, str]]) -> tuple[Coding, ...]:
    try:
        codings = parse_content_encoding(value for name, value in fields if name == "content-encoding")
    except UnsupportedCodingError:
        codings = (Coding.BR,)
    if not CODINGS.issuperset(codings):
        raise ChannelError("the answer has a content coding that was not asked for")
    return codings


async def _read_chunks(response: httpcore.Response, codings: tuple[Coding, ...]) -> AsyncGenerator[bytes]:
    meter = BodyMeter(codings, MAX_BODY_BYTES)
    busy = 0
    try:
        async for chunk in response.aiter_stream():
            busy += 1
            for piece in meter.feed(chunk):
                yield piece
                if codings or busy >= _TURN:  # neither a bomb nor chunks of a byte each may hold up the loop
                    busy = 0
                    await asyncio.sleep(0)
        meter.finish()
    except _CAUGHT as error:
        failure = _translate(error)
    else:
        return
    finally:
        meter.close()
    raise failure


def _translate(error: Exception) -> ChannelError:
    if isinstance(error, ssl.SSLCertVerificationError):
        return ChannelError(f"the certificate was not accepted: {error.verify_message}")
    if isinstance(error, ssl.SSLError):
        return ChannelError(f"TLS failed: {error.reason}")
    if isinstance(error, OSError):
        return ChannelError(f"the connection failed: {error.strerror or type(error).__name__}")
    if isinstance(error, BodyError):
        return ChannelError("the body of the answer could not be decoded, or is too large")
    what = next(text for kind, text in FOREIGN_ERRORS.items() if isinstance(error, kind))
    return ChannelError(f"{what} ({type(error).__name__})")
