"""Attacks by messages that one side reads otherwise than the other: hostile agents, hostile origins (N3, N17)."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from tests.gateway.expect import (
    NOBODY,
    Contacts,
    assert_allowed,
    assert_refused,
    contacts,
    forget,
    recent_lines,
)
from tests.gateway.paths import OPEN, Ask, Entry, client_context, send
from tests.kit import replies
from tests.kit.client import RawConnection, Response
from tests.kit.client_h2 import H2Client, StreamResetError
from tests.kit.exchange import Exchange, Route
from tests.kit.gateway import ORIGIN_ADDRESS, World
from tests.kit.origin_h2 import H2Exchange
from tests.kit.sync import Gate

SECRET = "s3cret-0f-the-agent"


class HastyOrigin:
    """Answers at the first octets of a request, in the clear; says more when told to `go`."""

    def __init__(self) -> None:
        self._listening = socket.create_server((ORIGIN_ADDRESS, 0))
        self.port: int = self._listening.getsockname()[1]
        self.answers: tuple[bytes, ...] = ()
        self.go = self.ended = Gate()

    def __enter__(self) -> Self:
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.close()

    def _serve(self) -> None:
        while True:
            try:
                taken, _ = self._listening.accept()
            except OSError:
                return
            with taken, contextlib.suppress(ConnectionError):
                taken.recv(65536)
                for answer in self.answers:
                    taken.sendall(answer)
                    self.go.wait_sync()
                while taken.recv(65536):
                    pass
            self.ended.open()


class HastyWorld(World):
    """The usual world with a hasty origin beside the others."""

    def __init__(self, folder: Path, hasty: HastyOrigin, **options: Any) -> None:
        super().__init__(folder, **options)
        self.hasty = hasty

    def config(self) -> dict[str, Any]:
        config = super().config()
        config["profiles"]["open"]["ports"].append(self.hasty.port)
        return config


@pytest.fixture(scope="module")
def shared_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HastyWorld]:
    with HastyOrigin() as hasty, HastyWorld(tmp_path_factory.mktemp("world"), hasty) as world:
        yield world


@pytest.fixture(scope="module")
def h2_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A world whose TLS origin speaks HTTP/2 with whoever offers it."""
    with World(tmp_path_factory.mktemp("h2"), alpn=("h2", "http/1.1")) as world:
        yield world


@contextlib.contextmanager
def h2_client(world: World) -> Iterator[H2Client]:
    """HTTP/2 in a tunnel to the TLS origin."""
    ask = Ask()
    with world.gateway.open(OPEN) as proxy:
        assert proxy.connect(ask.authority(world, Entry.CONNECT_H2)).status == 200
        yield H2Client(proxy.start_tls(ask.host, client_context(world, ask), ("h2",)))


def head(world: World, path: str, method: str = "POST") -> list[tuple[str, str]]:
    return [(":method", method), (":scheme", "https"), (":authority", world.authority()), (":path", path)]


def plain_get(world: World, proxy: RawConnection, path: str) -> Response:
    proxy.request("GET", world.plain_url(path), f"a.example:{world.plain.port}")
    return proxy.read_response()


# --- hostile agents ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "length", ["1", "5"], ids=["one octet owed", "five octets owed, of the request behind it"]
)
def test_a_request_that_owes_its_body_never_leaves(world: World, length: str) -> None:
    """The origin would take the next request on that connection for the body: an unjudged one could hide behind."""
    with h2_client(world) as client:
        answer = client.read_response(
            client.send_headers([*head(world, "/owes"), ("content-length", length)], end=True)
        )
    assert_refused(world, answer, "not-http", 400)


def test_a_request_that_says_it_has_no_body_passes(world: World) -> None:
    with h2_client(world) as client:
        answer = client.read_response(
            client.send_headers([*head(world, "/nothing"), ("content-length", "0")], end=True)
        )
    assert_allowed(world, answer)


def test_a_body_that_trailers_end_too_soon_is_cut_off(world: World) -> None:
    with h2_client(world) as client:
        stream = client.send_headers([*head(world, "/short"), ("content-length", "9")], b"four", end=False)
        client.h2.send_headers(stream, [("x-sum", "1")], end_stream=True)
        client.flush()
        answer = client.read_response(stream)
    assert (answer.status, answer.header("fetchd-rule")) == (400, "not-http")
    assert world.origin.requests == []


def test_trailers_of_an_agent_reach_no_origin(world: World) -> None:
    """Stock: a crash towards HTTP/1, credentials at the origin towards HTTP/2."""
    with h2_client(world) as client:
        stream = client.send_headers(head(world, "/trailers"), b"body", end=False)
        client.h2.send_headers(stream, [("authorization", SECRET), ("fetchd-agent", "x")], end_stream=True)
        client.flush()
        answer = client.read_response(stream)
    assert_allowed(world, answer)
    (connection,) = world.origin.connections
    assert connection.requests[0].body == b"body"
    assert SECRET.encode() not in connection.received


def test_trailers_of_an_agent_reach_no_http2_origin(h2_world: World) -> None:
    forget(h2_world)
    with h2_client(h2_world) as client:
        stream = client.send_headers(head(h2_world, "/trailers"), b"body", end=False)
        client.h2.send_headers(stream, [("authorization", SECRET), ("fetchd-agent", "x")], end_stream=True)
        client.flush()
        assert client.read_response(stream).status == 200
    (connection,) = h2_world.origin.connections
    assert (connection.alpn, connection.requests[0].body) == ("h2", b"body")
    assert connection.notes == []  # where the origin notes trailers


def test_an_empty_frame_is_not_the_end_of_an_upload(world: World) -> None:
    """Written as a chunk it is the last one, and the rest of the body the next request."""
    with h2_client(world) as client:
        stream = client.send_headers(head(world, "/frames"), b"one", end=False)
        client.send_data(stream, b"")
        client.send_data(stream, b"two", end=True)
        assert client.read_response(stream).status == 200
    (request,) = world.origin.requests
    assert request.body == b"onetwo"


def test_cookies_of_an_http2_agent_are_one_field(world: World) -> None:
    """RFC 9113, 8.2.3; to the one host that may have them."""
    ask = Ask(host="c.example", headers=[("cookie", "a=1"), ("cookie", "b=2")])
    assert send(world, Entry.CONNECT_H2, ask).status == 200
    (request,) = world.origin.requests
    assert request.values("cookie") == ["a=1; b=2"]


def test_a_protocol_name_nobody_speaks_here_is_not_agreed_on(world: World) -> None:
    """Stock agrees on h3 over TCP, and its layer crashes at the first octet."""
    ask = Ask()
    with world.gateway.open(OPEN) as proxy:
        proxy.connect(ask.authority(world, Entry.CONNECT_H1))
        inside = proxy.start_tls(ask.host, client_context(world, ask), ("h3", "http/1.1"))
        inside.request("GET", "/", world.authority())
        assert_allowed(world, inside.read_response())


@pytest.mark.parametrize(
    "target",
    [
        pytest.param(f"agent:{SECRET}@a.example:443", id="user and password before the host"),
        pytest.param(f"https://agent:{SECRET}@a.example/", id="a whole URL with credentials"),
        pytest.param(f"a.example:443/?token={SECRET}", id="a query behind the port"),
    ],
)
def test_no_secret_of_a_connect_is_written_down(world: World, target: str) -> None:
    with world.gateway.open(OPEN) as proxy:
        answer = proxy.connect(target, host="a.example:443")
    assert_refused(world, answer, "parse", 403)
    assert SECRET.encode() not in answer.body
    assert SECRET not in repr(recent_lines(world, "decision"))


def test_an_empty_line_before_a_request_is_skipped(world: World) -> None:
    """RFC 9112, 2.2; stock waits for more and answers nobody."""
    where = f"a.example:{world.plain.port}"
    with world.gateway.open(OPEN) as proxy:
        assert plain_get(world, proxy, "/first").status == 200
        proxy.send(f"\r\n\r\nGET http://{where}/second HTTP/1.1\r\nHost: {where}\r\n\r\n".encode())
        assert proxy.read_response().body == b"hello /second\n"


# --- hostile origins -----------------------------------------------------------------------------------------------


def test_an_answer_that_owes_its_body_is_no_answer(h2_world: World) -> None:
    """An HTTP/1 client would take the next answer, of whatever origin, for the rest of this one."""
    forget(h2_world)

    async def owe(exchange: Exchange) -> None:
        assert isinstance(exchange, H2Exchange)
        head = [(":status", "200"), ("content-type", "text/plain"), ("content-length", "5")]
        exchange._session.h2.send_headers(exchange.stream, head, end_stream=True)
        await exchange._session.flush()

    h2_world.origin.route("/owes", owe)
    with h2_client(h2_world) as client:
        answer = client.get(h2_world.authority(), "/owes")
    assert (answer.status, answer.header("fetchd-rule")) == (502, "upstream")


def test_an_answer_that_ends_short_is_reset(h2_world: World) -> None:
    """The reset, or a refusal where the head came in one piece with the end and was not passed on yet."""

    async def stop_short(exchange: Exchange) -> None:
        await exchange.start(200, [("content-type", "text/plain"), ("content-length", "9")])
        await exchange.data(b"four")
        await exchange.end()

    h2_world.origin.route("/short", stop_short)
    with h2_client(h2_world) as client, contextlib.suppress(StreamResetError):
        assert client.get(h2_world.authority(), "/short").header("fetchd-rule") == "upstream"


def test_a_head_without_body_may_name_the_length_of_one(h2_world: World) -> None:
    h2_world.origin.route("/head", replies.text("twelve chars"))
    with h2_client(h2_world) as client:
        answer = client.read_response(client.request(h2_world.authority(), "/head", "HEAD"))
    assert (answer.status, answer.header("content-length")) == (200, "12")


def test_an_http1_agent_meets_no_http2_origin(h2_world: World) -> None:
    """Stock offers the origin whatever the client offered; the client had chosen HTTP/1."""
    forget(h2_world)
    ask = Ask()
    with h2_world.gateway.open(OPEN) as proxy:
        proxy.connect(ask.authority(h2_world, Entry.CONNECT_H1))
        inside = proxy.start_tls(ask.host, client_context(h2_world, ask), ("http/1.1", "h2"))
        inside.request("GET", "/", h2_world.authority())
        assert inside.read_response().status == 200
    assert [connection.alpn for connection in h2_world.origin.connections] == ["http/1.1"]


EARLY, EVIL = (
    b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body) for body in (b"early", b"evil")
)


@pytest.mark.parametrize(
    "answers", [pytest.param((EARLY + EVIL,), id="in one piece"), pytest.param((EARLY, EVIL), id="later")]
)
def test_a_second_answer_to_one_upload_reaches_nobody(world: HastyWorld, answers: tuple[bytes, ...]) -> None:
    """It comes while the request is still going up: stock crashed; the next request gets its own answer."""
    hasty = world.hasty
    hasty.answers, hasty.go, hasty.ended = answers, Gate(), Gate()
    where = f"a.example:{hasty.port}"
    with world.gateway.open(OPEN) as proxy:
        proxy.send(f"POST http://{where}/ HTTP/1.1\r\nHost: {where}\r\nContent-Length: 4\r\n\r\nhal".encode())
        assert proxy.read_response().body == b"early"
        hasty.go.open()
        if len(answers) > 1:
            hasty.ended.wait_sync()
        proxy.send(b"f")
        assert plain_get(world, proxy, "/own").body == b"hello /own\n"
        hasty.ended.wait_sync()
    assert not recent_lines(world, "event", event="internal"), world.gateway.errors


def raw_answer(raw: bytes) -> Route:
    async def route(exchange: Exchange) -> None:
        await exchange.raw(raw)

    return route


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"HTTP/1.1 200 OK\rFetchd-Verdict: refused\rX: y\r\n", id="lines in the reason phrase"),
        pytest.param(b"HTTP/1.1 200 O\0K\r\n", id="a NUL in the reason phrase"),
        pytest.param(b"HTTP/1.1 042 Odd\r\n", id="a status below 100"),
        pytest.param(b"HTTP/1.1 199\n", id="an interim status at the end of its line"),
    ],
)
def test_a_head_that_clients_read_differently_is_no_answer(world: World, raw: bytes) -> None:
    world.plain.route("/odd", raw_answer(raw + b"Content-Length: 2\r\n\r\nhi"))
    answer = send(world, Entry.ABSOLUTE_HTTP, Ask(path="/odd"))
    assert (answer.status, answer.header("fetchd-rule")) == (502, "upstream")


def test_an_unusual_reason_phrase_passes(world: World) -> None:
    raw = "HTTP/1.1 299 Für alle\r\nContent-Length: 2\r\n\r\nhi".encode("latin-1")
    world.plain.route("/reason", raw_answer(raw))
    assert_allowed(world, send(world, Entry.ABSOLUTE_HTTP, Ask(path="/reason")), status=299)


def test_nothing_follows_an_answer_that_has_no_body(world: World) -> None:
    """A 304 said to be chunked: stock writes a last chunk behind it, the head of the next answer to a client."""
    world.plain.route("/same", raw_answer(b"HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n"))
    with world.gateway.open(OPEN) as proxy:
        assert plain_get(world, proxy, "/same").status == 304
        assert plain_get(world, proxy, "/next").body == b"hello /next\n"
    assert contacts(world) != NOBODY
    assert contacts(world) == Contacts(1, 2)
