"""Every provider against servers that misbehave, over real sockets and TLS: each failure with its kind and words."""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from fetchd.core.caller import Caller
from fetchd.core.failures import FailureKind
from fetchd.search.interface import SearchAnswer, SearchArguments, SearchFailure, SearchProvider
from fetchd.search.providers.opening import open_providers
from proxy_addons.policy.config_search import ProviderConfig, SearchConfig, SearchProviderName
from proxy_addons.policy.limits import DEFAULT_PROFILE
from tests.kit import replies
from tests.kit.bodies import Coding
from tests.kit.exchange import Exchange, Route
from tests.kit.listener import BlackHole, CountingListener
from tests.kit.origin import Origin
from tests.kit.pki import Pki
from tests.kit.ports import free_port
from tests.kit.sync import Gate

KEY = "canary-0123456789"
CALLER = Caller("bot", DEFAULT_PROFILE)
CAP = 262_144
SHORT = 0.3
"""Seconds: a deadline for what never ends."""
EMPTY = {
    "gateway": b'{"results":[]}',
    "brave": b'{"type":"search"}',
    "searxng": b'{"results":[]}',
    "tavily": b'{"results":[]}',
}
JSON = "application/json"
TRANSPORT = (FailureKind.TRANSPORT, "request failed")
each_provider = pytest.mark.parametrize("name", EMPTY)
one_provider = pytest.mark.parametrize("name", ["gateway"])
"""For what the transport does before a dialect is asked; it is the same for all."""


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    return Pki(tmp_path)


@asynccontextmanager
async def open_one(
    name: str, pki: Pki, port: int, *, scheme: str = "https", deadline: float = 20.0
) -> AsyncIterator[SearchProvider]:
    which = SearchProviderName(name)
    described = ProviderConfig(which, f"{scheme}://localhost:{port}", "SEARCH_KEY")
    config = SearchConfig(which, providers={which: described})
    async with open_providers(
        config, [str(pki.ca_path)], {"SEARCH_KEY": KEY}, deadline=deadline
    ) as providers:
        yield providers[which]


async def ask(
    name: str, pki: Pki, port: int, *, scheme: str = "https", deadline: float = 20.0
) -> tuple[FailureKind, str] | SearchAnswer:
    async with open_one(name, pki, port, scheme=scheme, deadline=deadline) as provider:
        outcome = await provider.search(SearchArguments("secret plans"), CALLER)
    if isinstance(outcome, SearchAnswer):
        return outcome
    assert isinstance(outcome, SearchFailure)
    assert KEY not in outcome.message
    return outcome.kind, outcome.message


async def serve(
    name: str, pki: Pki, route: Route, *, deadline: float = 20.0
) -> tuple[FailureKind, str] | SearchAnswer:
    with Origin(tls=pki.server_context("localhost")) as origin:
        origin.route("*", route)
        outcome = await ask(name, pki, origin.port, deadline=deadline)
        await origin.wait_closed()
    return outcome


# ---------------------------------------------------------------------------------- before there is an answer


@each_provider
async def test_nobody_listens(name: str, pki: Pki) -> None:
    assert await ask(name, pki, free_port()) == TRANSPORT


@one_provider
async def test_a_connect_that_never_ends(name: str, pki: Pki) -> None:
    with BlackHole("127.0.0.1") as hole:
        assert await ask(name, pki, hole.port, deadline=SHORT) == TRANSPORT


@one_provider
async def test_a_handshake_that_never_ends(name: str, pki: Pki) -> None:
    with CountingListener() as silent:
        assert await ask(name, pki, silent.port, deadline=SHORT) == TRANSPORT
        assert silent.accepts == 1


@one_provider
@pytest.mark.parametrize(
    "context",
    [
        pytest.param(lambda pki: pki.wrong_name_context(), id="for another name"),
        pytest.param(lambda pki: pki.self_signed_context("localhost"), id="self-signed"),
        pytest.param(lambda pki: pki.unknown_ca_context("localhost"), id="of an unknown authority"),
        pytest.param(lambda pki: pki.expired_context("localhost"), id="expired"),
    ],
)
async def test_a_certificate_that_is_not_the_hosts(
    name: str, context: Callable[[Pki], object], pki: Pki, caplog: pytest.LogCaptureFixture
) -> None:
    with Origin(tls=context(pki)) as origin:  # type: ignore[arg-type]
        assert await ask(name, pki, origin.port) == TRANSPORT

    assert origin.requests == [] and "certificate was not accepted" in caplog.text


@one_provider
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(name: str, status: int, pki: Pki) -> None:
    with CountingListener() as elsewhere:
        target = f"https://localhost:{elsewhere.port}/?q=secret+plans"
        assert await serve(name, pki, replies.redirect(target, status)) == TRANSPORT
        assert elsewhere.accepts == 0


async def reset(exchange: Exchange) -> None:
    exchange.abort()


async def leave(exchange: Exchange) -> None:
    await exchange.close()


@one_provider
@pytest.mark.parametrize(
    "route",
    [
        pytest.param(reset, id="reset"),
        pytest.param(leave, id="closed without a word"),
        pytest.param(replies.wire(b"SSH-2.0-OpenSSH_9.6\r\n"), id="another protocol"),
        pytest.param(
            replies.wire(f"HTTP/1.1 200 {KEY}\x00\r\n\r\n".encode()), id="a status line that is none"
        ),
        pytest.param(
            replies.wire(b"HTTP/1.1 200 OK\r\nX: " + b"a" * 200_000 + b"\r\n\r\n"), id="a huge head"
        ),
        pytest.param(replies.wire(b"HTTP/1.1 200 OK\r\nX: " + b"a" * 50_000, close=True), id="half a head"),
    ],
)
async def test_no_head(name: str, route: Route, pki: Pki) -> None:
    assert await serve(name, pki, route) == TRANSPORT


@one_provider
async def test_a_head_that_never_comes(name: str, pki: Pki) -> None:
    gate = Gate()
    with Origin(tls=pki.server_context("localhost")) as origin:
        origin.route("*", replies.silent(gate))
        assert await ask(name, pki, origin.port, deadline=SHORT) == TRANSPORT
        await origin.wait_closed()
        gate.open()


@one_provider
async def test_informational_answers_without_end(name: str, pki: Pki) -> None:
    async def route(exchange: Exchange) -> None:
        while True:
            await exchange.informational(103, [("link", "</a>; rel=preload")])
            await asyncio.sleep(0)  # let the loop hear that the client is gone

    assert await serve(name, pki, route, deadline=SHORT) == TRANSPORT


# ------------------------------------------------------------------------------------------ the body of a success


@each_provider
@pytest.mark.parametrize("coded", [False, True], ids=["plain", "gzip"])
async def test_exactly_the_cap_is_accepted(name: str, coded: bool, pki: Pki) -> None:
    body = EMPTY[name] + b" " * (CAP - len(EMPTY[name]))
    route = replies.encoded(body, Coding.GZIP) if coded else replies.answer(200, body, JSON)

    assert await serve(name, pki, route) == SearchAnswer(())


@one_provider
@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda body: replies.answer(200, body, JSON), id="declared"),
        pytest.param(lambda body: replies.encoded(body, Coding.GZIP), id="gzip"),
        pytest.param(
            lambda body: replies.trickle([body], [opened()], [("content-type", JSON)]), id="chunked"
        ),
    ],
)
async def test_one_byte_over_the_cap_is_not(name: str, make: Callable[[bytes], Route], pki: Pki) -> None:
    body = EMPTY[name] + b" " * (CAP + 1 - len(EMPTY[name]))

    assert await serve(name, pki, make(body)) == (
        FailureKind.BACKEND,
        "malformed search response: body exceeds 262144 bytes",
    )


def opened() -> Gate:
    gate = Gate()
    gate.open()
    return gate


@one_provider
@pytest.mark.parametrize(
    "route",
    [
        pytest.param(replies.endless(b"x" * 4096, JSON), id="endless"),
        pytest.param(replies.encoded(b"\0" * (20 << 20), Coding.GZIP), id="a gzip bomb"),
        pytest.param(replies.encoded(b"\0" * (20 << 20), Coding.GZIP, Coding.GZIP), id="a bomb in a bomb"),
    ],
)
async def test_more_than_anybody_reads(name: str, route: Route, pki: Pki) -> None:
    assert await serve(name, pki, route) == (
        FailureKind.BACKEND,
        "malformed search response: body exceeds 262144 bytes",
    )


@one_provider
@pytest.mark.parametrize(
    "route",
    [
        pytest.param(replies.close_mid_body(b'{"results":[', content_type=JSON), id="closed before its end"),
        pytest.param(replies.close_mid_body(b'{"results":[', content_type=JSON, reset=True), id="reset"),
        pytest.param(replies.broken_chunk(b'{"results":', JSON), id="a chunk that is none"),
        pytest.param(
            replies.answer(
                200, zlib.compress(b"x" * 99, wbits=31)[:-9], JSON, [("content-encoding", "gzip")]
            ),
            id="gzip that breaks off",
        ),
        pytest.param(replies.answer(200, b"x", JSON, [("content-encoding", "gzip")]), id="gzip that is none"),
        pytest.param(replies.answer(200, b"x", JSON, [("content-encoding", "br")]), id="br, not asked for"),
        pytest.param(replies.upgrade("websocket"), id="another protocol"),
    ],
)
async def test_a_success_that_breaks_off(name: str, route: Route, pki: Pki) -> None:
    assert await serve(name, pki, route) == TRANSPORT


@one_provider
async def test_a_body_that_never_ends(name: str, pki: Pki) -> None:
    gate = Gate()
    with Origin(tls=pki.server_context("localhost")) as origin:
        origin.route("*", replies.headers_only(gate, content_type=JSON))
        assert await ask(name, pki, origin.port, deadline=SHORT) == TRANSPORT
        await origin.wait_closed()
        gate.open()


@each_provider
@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "body is not JSON"),
        (b"<!doctype html><p>hello", "body is not JSON"),
        (b'{"results":[]', "body is not JSON"),
        (b"\xff\xfe{}", "body is not UTF-8"),
        (b"[]", "body is not an object"),
        (b'"results"', "body is not an object"),
    ],
)
async def test_a_success_that_is_no_answer(name: str, body: bytes, why: str, pki: Pki) -> None:
    assert await serve(name, pki, replies.answer(200, body)) == (
        FailureKind.BACKEND,
        f"malformed search response: {why}",
    )


# ------------------------------------------------------------------------------------------- the body of an error


@each_provider
@pytest.mark.parametrize(
    ("body", "shown"),
    [
        pytest.param(b"", "(empty body)", id="empty"),
        pytest.param(b"upstream\r\ndown\t\x1b[2J", r"upstream\r\ndown\t\u{001b}[2J", id="control characters"),
        pytest.param(b"\x00\xff" * 4, "\\u{0000}\ufffd" * 4, id="binary"),
        pytest.param(b"x" * (1 << 20), "x" * 2000, id="1 MiB"),
        pytest.param(b"x" * 1999 + "世".encode() * 9, "x" * 1999, id="cut inside a character"),
        pytest.param(f"your key {KEY} is wrong".encode(), "your key [key] is wrong", id="our own key"),
    ],
)
async def test_an_error_on_one_line(name: str, body: bytes, shown: str, pki: Pki) -> None:
    outcome = await serve(name, pki, replies.answer(500, body))

    assert outcome == (FailureKind.BACKEND, f"backend returned 500: {shown}")


@one_provider
@pytest.mark.parametrize(
    "route",
    [
        pytest.param(replies.close_mid_body(b"part"), id="closed before its end"),
        pytest.param(
            replies.answer(200, b"x", headers=[("content-encoding", "gzip")]), id="gzip that is none"
        ),
    ],
)
async def test_an_error_body_that_breaks_off(name: str, route: Route, pki: Pki) -> None:
    async def failing(exchange: Exchange) -> None:
        original = exchange.start

        async def start(status: int, headers: object = (), reason: str = "") -> None:
            await original(503, headers, reason)  # type: ignore[arg-type]

        exchange.start = start  # type: ignore[method-assign]
        await route(exchange)

    assert await serve(name, pki, failing) == (
        FailureKind.BACKEND,
        "backend returned 503, and its error body could not be read",
    )


@one_provider
async def test_an_error_body_without_end_is_cut(name: str, pki: Pki) -> None:
    async def route(exchange: Exchange) -> None:
        await replies.start_chunked(exchange, [("content-type", "text/plain")], 500)
        while True:
            await replies.send_chunk(exchange, b"x" * 512)
            await asyncio.sleep(0)

    assert await serve(name, pki, route) == (FailureKind.BACKEND, "backend returned 500: " + "x" * 2000)


# ------------------------------------------------------------------------------------------------ and in all of it


@each_provider
async def test_neither_key_nor_query_is_in_any_log(
    name: str, pki: Pki, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "fetchd")
    caplog.set_level(logging.DEBUG, "asyncio")
    for route in (
        reset,
        replies.redirect(f"https://localhost/?k={KEY}&q=secret+plans"),
        replies.answer(500, f"{KEY} secret plans".encode()),
        replies.answer(200, f"{KEY} secret plans".encode()),
        replies.wire(f"HTTP/1.1 {KEY} secret plans\r\n\r\n".encode()),
    ):
        await serve(name, pki, route)

    assert KEY not in caplog.text and "secret" not in caplog.text


async def test_plain_http_to_loopback(pki: Pki) -> None:
    with Origin() as origin:
        origin.route("*", replies.json({"results": []}))
        assert await ask("searxng", pki, origin.port, scheme="http") == SearchAnswer(())
