"""Ready-made routes for Origin. On h2, frames take the place of chunks."""

from __future__ import annotations

import asyncio
import json as json_module
from collections.abc import Iterable, Sequence

from tests.kit.bodies import Coding, content_encoding, encode_body
from tests.kit.exchange import Exchange, H1Exchange, Route
from tests.kit.sync import Gate

Pairs = Sequence[tuple[str, str]]
HTML = "text/html; charset=utf-8"


def answer(
    status: int = 200, body: bytes = b"", content_type: str | None = HTML, headers: Pairs = ()
) -> Route:
    """A whole answer with Content-Length."""
    fields = [*headers] if content_type is None else [("content-type", content_type), *headers]

    async def route(exchange: Exchange) -> None:
        await exchange.respond(status, fields, body)

    return route


def page(html: str, headers: Pairs = ()) -> Route:
    return answer(200, html.encode(), HTML, headers)


def text(content: str, headers: Pairs = ()) -> Route:
    return answer(200, content.encode(), "text/plain; charset=utf-8", headers)


def json(value: object, headers: Pairs = ()) -> Route:
    return answer(200, json_module.dumps(value).encode(), "application/json", headers)


def redirect(location: str | None, status: int = 302, body: bytes = b"moved\n", headers: Pairs = ()) -> Route:
    """`location` None leaves the field out."""
    where = [] if location is None else [("location", location)]
    return answer(status, body, "text/plain", [*where, *headers])


def encoded(body: bytes, *codings: Coding, content_type: str = HTML) -> Route:
    """`body` under these codings, with the matching Content-Encoding."""
    return answer(
        200, encode_body(body, *codings), content_type, [("content-encoding", content_encoding(*codings))]
    )


def body_as_is(body: bytes, content_encoding: str, content_type: str = HTML, *, length: bool = True) -> Route:
    """Bytes as they are under any Content-Encoding (bombs, broken codings); chunked unless `length`."""
    fields = [("content-type", content_type), ("content-encoding", content_encoding)]
    if length:
        return answer(200, body, None, fields)
    return chunked([body], fields)


def chunked(
    chunks: Iterable[bytes], headers: Pairs = (("content-type", HTML),), *, finish: bool = True
) -> Route:
    """One chunk each; `finish=False` closes without the last chunk (h2: resets the stream)."""
    parts = list(chunks)

    async def route(exchange: Exchange) -> None:
        await start_chunked(exchange, headers)
        for part in parts:
            await send_chunk(exchange, part)
        if finish:
            await end_chunked(exchange)
        elif isinstance(exchange, H1Exchange):
            await exchange.close()
        else:
            exchange.abort()

    return route


def no_length(body: bytes, content_type: str = HTML, *, version: str = "1.1") -> Route:
    """Neither length nor chunks: the end of the connection ends the body (h1 only)."""

    async def route(exchange: Exchange) -> None:
        head = f"HTTP/{version} 200 OK\r\ncontent-type: {content_type}\r\n\r\n"
        await exchange.raw(head.encode() + body)
        await exchange.close()

    return route


def endless(chunk: bytes = b"x" * 16384, content_type: str = HTML, headers: Pairs = ()) -> Route:
    """Chunks until the client is gone."""

    async def route(exchange: Exchange) -> None:
        await start_chunked(exchange, [("content-type", content_type), *headers])
        while True:
            await send_chunk(exchange, chunk)
            await asyncio.sleep(0)  # writing need not wait: let the loop hear that the client is gone

    return route


def trickle(
    chunks: Iterable[bytes], gates: Sequence[Gate], headers: Pairs = (("content-type", HTML),)
) -> Route:
    """The head at once; the n-th chunk once the n-th gate is open; then the end."""
    parts = list(chunks)

    async def route(exchange: Exchange) -> None:
        await start_chunked(exchange, headers)
        for part, gate in zip(parts, gates, strict=True):
            await gate.wait()
            await send_chunk(exchange, part)
        await end_chunked(exchange)

    return route


def informational_first(statuses: Sequence[int], then: Route) -> Route:
    """1xx answers, then `then`."""

    async def route(exchange: Exchange) -> None:
        for status in statuses:
            await exchange.informational(status, [("link", "</style.css>; rel=preload")])
        await then(exchange)

    return route


def broken_chunk(good: bytes = b"good", content_type: str = HTML) -> Route:
    """A chunk, then a chunk size that is no number (h1 only)."""

    async def route(exchange: Exchange) -> None:
        await start_chunked(exchange, [("content-type", content_type)])
        await send_chunk(exchange, good)
        await exchange.raw(b"zz\r\nnot a chunk\r\n")
        await exchange.close()

    return route


def close_mid_body(body: bytes, missing: int = 10, content_type: str = HTML, *, reset: bool = False) -> Route:
    """Content-Length promises `missing` bytes more than come; then FIN, or RST if `reset`."""

    async def route(exchange: Exchange) -> None:
        length = ("content-length", str(len(body) + missing))
        await exchange.start(200, [("content-type", content_type), length])
        await exchange.data(body)
        if reset:
            exchange.abort()
        else:
            await exchange.close()

    return route


def headers_only(gate: Gate, body: bytes = b"late", content_type: str = HTML) -> Route:
    """The head at once, the body only once the gate is open."""

    async def route(exchange: Exchange) -> None:
        await exchange.start(200, [("content-type", content_type), ("content-length", str(len(body)))])
        await gate.wait()
        await exchange.data(body)
        await exchange.end()

    return route


def silent(gate: Gate, then: Route | None = None) -> Route:
    """Nothing at all until the gate is open; then `then`, or an orderly close."""

    async def route(exchange: Exchange) -> None:
        await gate.wait()
        if then is None:
            await exchange.close()
        else:
            await then(exchange)

    return route


def upgrade(protocol: str, headers: Pairs = ()) -> Route:
    """101, then every byte comes back (h1 only)."""

    async def route(exchange: Exchange) -> None:
        await exchange.start(101, [("connection", "upgrade"), ("upgrade", protocol), *headers])
        while data := await exchange.read():
            await exchange.raw(data)
        await exchange.close()

    return route


def wire(data: bytes, *, close: bool = True) -> Route:
    """These bytes as the answer, whatever they are (h1 only)."""

    async def route(exchange: Exchange) -> None:
        await exchange.raw(data)
        if close:
            await exchange.close()

    return route


# -- pieces for routes written in a test


async def start_chunked(exchange: Exchange, headers: Pairs, status: int = 200) -> None:
    framing = [("transfer-encoding", "chunked")] if isinstance(exchange, H1Exchange) else []
    await exchange.start(status, [*headers, *framing])


async def send_chunk(exchange: Exchange, part: bytes) -> None:
    framed = b"%x\r\n%s\r\n" % (len(part), part) if isinstance(exchange, H1Exchange) else part
    await exchange.data(framed)


async def end_chunked(exchange: Exchange, trailers: Pairs = ()) -> None:
    if isinstance(exchange, H1Exchange):
        lines = "".join(f"{name}: {value}\r\n" for name, value in trailers)
        await exchange.raw(b"0\r\n" + lines.encode() + b"\r\n")
    await exchange.end()
