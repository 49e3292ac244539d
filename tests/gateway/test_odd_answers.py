"""Answers no careful server would give, and what reaches the client of them: an answer it can trust, or a refusal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.gateway.expect import contacts, forget
from tests.gateway.lines import wait_line
from tests.gateway.paths import OPEN, Ask, Entry, send, tunnel
from tests.kit import replies
from tests.kit.client import Response
from tests.kit.client_h2 import H2Client, StreamResetError
from tests.kit.exchange import Exchange
from tests.kit.gateway import World

WAYS = (Entry.ABSOLUTE_HTTP, Entry.ABSOLUTE_HTTPS, Entry.CONNECT_H1, Entry.CONNECT_H2)
OK = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n"


@pytest.fixture(scope="module")
def shared_h2_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A gateway before an origin that speaks HTTP/2."""
    with World(tmp_path_factory.mktemp("odd-h2"), alpn=("h2", "http/1.1")) as world:
        yield world


@pytest.fixture
def h2_world(shared_h2_world: World) -> World:
    forget(shared_h2_world)
    return shared_h2_world


READABLE = {
    "HTTP/1.0 without a length": (b"HTTP/1.0 200 OK\r\ncontent-type: text/html\r\n\r\npage", b"page"),
    "HTTP/1.1 without a length": (OK + b"\r\npage", b"page"),
    "an empty reason phrase": (b"HTTP/1.1 200 \r\ncontent-length: 4\r\n\r\npage", b"page"),
    "no reason phrase at all": (b"HTTP/1.1 200\r\ncontent-length: 4\r\n\r\npage", b"page"),
    "103 twice before the answer": (
        b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n" * 2 + OK + b"content-length: 4\r\n\r\npage",
        b"page",
    ),
    "100 that nobody asked for": (
        b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"content-length: 4\r\n\r\npage",
        b"page",
    ),
    "102 with fields": (
        b"HTTP/1.1 102 Processing\r\nx: y\r\n\r\n" + OK + b"content-length: 4\r\n\r\npage",
        b"page",
    ),
    "chunk extensions": (OK + b"transfer-encoding: chunked\r\n\r\n4;a=b\r\npage\r\n0\r\n\r\n", b"page"),
    "bytes after the end": (OK + b"content-length: 4\r\n\r\npageHTTP/1.1 200 OK\r\n\r\n", b"page"),
}


@pytest.mark.parametrize("entry", WAYS)
@pytest.mark.parametrize("sentence", READABLE)
def test_odd_but_readable(world: World, sentence: str, entry: Entry) -> None:
    data, body = READABLE[sentence]
    entry.origin(world).route("/odd", replies.wire(data))
    answer = send(world, entry, Ask("/odd"))
    assert (answer.status, answer.body, answer.complete) == (200, body, True)
    assert answer.informational == ()
    assert answer.header("fetchd-verdict") == "allowed"


UNREADABLE = {
    "nothing": b"",
    "no HTTP": b"SSH-2.0-OpenSSH_9.9\r\n\r\n",
    "a status that is no number": b"HTTP/1.1 abc OK\r\n\r\n",
    "HTTP/2 in the clear": b"HTTP/2 200 OK\r\ncontent-length: 0\r\n\r\n",
    "half a head": OK,
    "a field without a colon": OK + b"no colon here\r\n\r\n",
    "a field over 64 KiB": OK + b"x: " + b"a" * 70_000 + b"\r\n\r\n",
    "fields over 64 KiB together": OK + b"x: a\r\n" * 20_000 + b"\r\n",
    "fields without an end": OK + b"x: a\r\n" * 20_000,
    "a NUL in a field": OK + b"x: a\0b\r\ncontent-length: 0\r\n\r\n",
    "a field name with a space": OK + b"x y: z\r\ncontent-length: 0\r\n\r\n",
    "a negative Content-Length": OK + b"content-length: -1\r\n\r\n",
    "a Content-Length that is no number": OK + b"content-length: four\r\n\r\npage",
    "one length given twice": OK + b"content-length: 4\r\ncontent-length: 4\r\n\r\npage",
    "two lengths": OK + b"content-length: 4\r\ncontent-length: 5\r\n\r\npage!",
    "two lengths in one field": OK + b"content-length: 4, 5\r\n\r\npage!",
    "a length and chunks": OK
    + b"content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n4\r\npage\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("entry", WAYS)
@pytest.mark.parametrize("sentence", UNREADABLE)
def test_an_unreadable_head_is_refused(world: World, sentence: str, entry: Entry) -> None:
    entry.origin(world).route("/odd", replies.wire(UNREADABLE[sentence]))
    answer = send(world, entry, Ask("/odd"))
    assert (answer.status, answer.header("fetchd-rule")) == (502, "upstream")
    assert answer.json()["detail"] == "the origin a.example failed"
    line = wait_line(world.gateway, "close", fetch_id=answer.header("fetchd-id"))
    assert (line["verdict"], line["rule"]) == ("refused", "upstream")


@pytest.mark.parametrize("entry", WAYS)
@pytest.mark.parametrize("upgrade", ["websocket", "h2c", "anything"])
def test_a_101_that_nobody_asked_for_is_refused(world: World, upgrade: str, entry: Entry) -> None:
    entry.origin(world).route("/odd", replies.upgrade(upgrade))
    answer = send(world, entry, Ask("/odd"))
    assert (answer.status, answer.header("fetchd-rule")) == (403, "upgrade")


def _broken(exchange_end: str) -> Any:
    async def route(exchange: Exchange) -> None:
        if exchange_end == "a declared body ends short":
            await replies.close_mid_body(b"part")(exchange)
        elif exchange_end == "a declared body is reset":
            await replies.close_mid_body(b"part", reset=True)(exchange)
        elif exchange_end == "chunks without a last one":
            await replies.chunked([b"part"], finish=False)(exchange)
        elif exchange_end == "a chunk size that is no number":
            await replies.broken_chunk(b"part")(exchange)
        elif exchange_end == "a chunk longer than it says":
            await exchange.raw(OK + b"transfer-encoding: chunked\r\n\r\n4\r\npartXX0\r\n\r\n")
            await exchange.close()
        else:
            await exchange.raw(OK + b"\r\npart")
            exchange.abort()

    return route


BREAKS = (
    "a declared body ends short",
    "a declared body is reset",
    "chunks without a last one",
    "a chunk size that is no number",
    "a chunk longer than it says",
    "a body without a length is reset",
)


@pytest.mark.parametrize("entry", WAYS)
@pytest.mark.parametrize("sentence", BREAKS)
def test_a_body_that_breaks_off_never_looks_complete(world: World, sentence: str, entry: Entry) -> None:
    entry.origin(world).route("/odd", _broken(sentence))
    try:
        answer: Response | None = send(world, entry, Ask("/odd"))
    except StreamResetError as reset:
        answer = reset.response
        assert answer is not None and not answer.complete
    assert answer is not None
    if answer.status == 200:
        assert not answer.complete
        line = wait_line(world.gateway, "close", fetch_id=answer.header("fetchd-id"))
        assert (line["verdict"], line["detail"]) == ("allowed", "broke off")
    else:  # the reset overtook the head
        assert (answer.status, answer.header("fetchd-rule")) == (502, "upstream")


class TestHttp2Origin:
    """What an HTTP/2 origin can do wrong; the client speaks HTTP/2 too, as only then we do."""

    def fetch(self, world: World, path: str) -> Response:
        return send(world, Entry.CONNECT_H2, Ask(path))

    def test_honest(self, h2_world: World) -> None:
        h2_world.origin.route("/page", replies.page("page"))
        assert self.fetch(h2_world, "/page").body == b"page"
        assert [request.version for request in h2_world.origin.requests] == ["h2"]

    def test_a_stream_reset_before_the_head_is_a_refusal(self, h2_world: World) -> None:
        async def route(exchange: Exchange) -> None:
            exchange.abort()

        h2_world.origin.route("/odd", route)
        answer = self.fetch(h2_world, "/odd")
        assert (answer.status, answer.header("fetchd-rule")) == (502, "upstream")

    def test_a_stream_reset_in_the_body_is_passed_on(self, h2_world: World) -> None:
        h2_world.origin.route("/odd", replies.chunked([b"part"], finish=False))
        with pytest.raises(StreamResetError):
            self.fetch(h2_world, "/odd")

    @pytest.mark.parametrize("head", [True, False])
    def test_goaway_and_close(self, h2_world: World, head: bool) -> None:
        async def route(exchange: Exchange) -> None:
            if head:
                await exchange.start(200, [("content-type", "text/html")])
            await exchange.close()

        h2_world.origin.route("/odd", route)
        if head:
            with pytest.raises(StreamResetError):
                self.fetch(h2_world, "/odd")
        else:
            answer = self.fetch(h2_world, "/odd")
            assert (answer.status, answer.header("fetchd-rule")) == (502, "upstream")

    def test_interim_answers_are_skipped(self, h2_world: World) -> None:
        h2_world.origin.route("/odd", replies.informational_first([103, 103], replies.page("page")))
        answer = self.fetch(h2_world, "/odd")
        assert (answer.status, answer.body, answer.informational) == (200, b"page", ())

    def test_fields_of_connections_are_no_fields_of_http2(self, h2_world: World) -> None:
        h2_world.origin.route("/odd", replies.page("page", [("connection", "x-a"), ("x-a", "1")]))
        answer = self.fetch(h2_world, "/odd")
        assert answer.status == 502 or (answer.header("connection"), answer.header("x-a")) == (None, None)

    def test_twelve_requests_of_one_client_ride_on_one_connection(self, h2_world: World) -> None:
        h2_world.origin.route("/page", replies.page("page"))
        assert twelve_over_h2(h2_world) == [200] * 12
        assert contacts(h2_world).connects == 1


def twelve_over_h2(world: World) -> list[int]:
    with world.gateway.open(OPEN) as proxy, tunnel(world, proxy, Entry.CONNECT_H2, Ask()) as inside:
        assert not isinstance(inside, Response)
        client = H2Client(inside)
        return [client.get(world.authority(), "/page").status for _ in range(12)]


def twelve_over_h1(world: World, entry: Entry) -> list[int]:
    host = f"a.example:{entry.origin(world).port}"
    with world.gateway.open(OPEN) as proxy:
        if entry is Entry.CONNECT_H1:
            with tunnel(world, proxy, entry, Ask()) as inside:
                assert not isinstance(inside, Response)
                return [inside.get("/page", host).status for _ in range(12)]
        url = f"{entry.scheme}://{host}/page"
        return [proxy.get(url, host).status for _ in range(12)]


@pytest.mark.parametrize("entry", WAYS)
def test_twelve_requests_of_one_client_ride_on_one_connection(world: World, entry: Entry) -> None:
    entry.origin(world).route("/page", replies.page("page"))
    statuses = twelve_over_h2(world) if entry is Entry.CONNECT_H2 else twelve_over_h1(world, entry)
    assert statuses == [200] * 12
    assert contacts(world).connects == 1


@pytest.mark.parametrize("entry", WAYS)
def test_what_an_origin_says_to_lure_clients_away_or_in_our_name_is_dropped(
    world: World, entry: Entry
) -> None:
    fields = [
        ("alt-svc", 'h3=":443"'),
        ("Alt-Svc", "clear"),
        ("proxy-status", "fetchd; error=none"),
        ("fetchd-verdict", "refused"),
        ("Fetchd-Rule", "host"),
        ("fetchd-anything", "x"),
        ("proxy-authenticate", "Basic"),
        ("keep-alive", "timeout=5"),
        ("connection", "x-hop"),
        ("x-hop", "1"),
        ("x-kept", "1"),
    ]
    entry.origin(world).route("/lure", replies.page("page", fields))
    answer = send(world, entry, Ask("/lure"))
    names = [name for name, _ in answer.headers]
    assert answer.header("x-kept") == "1"
    assert answer.header("fetchd-verdict") == "allowed"
    for gone in ("alt-svc", "proxy-status", "fetchd-rule", "fetchd-anything", "proxy-authenticate", "x-hop"):
        assert gone not in names
    assert "keep-alive" not in names


def test_mitm_it_does_not_exist(world: World) -> None:
    answer = send(world, Entry.ABSOLUTE_HTTP, Ask(host="mitm.it", port=80))
    assert (answer.status, answer.header("fetchd-rule")) == (502, "dns-failed")


@pytest.mark.parametrize("entry", WAYS)
@pytest.mark.parametrize("path", ["/mitmproxy-0.crl", "/mitmproxy-123456789.crl", "/cert/pem"])
def test_paths_that_mitmproxy_answers_itself_are_ordinary_paths(
    world: World, path: str, entry: Entry
) -> None:
    entry.origin(world).route(path, replies.page("the origin's own"))
    answer = send(world, entry, Ask(path))
    assert answer.body == b"the origin's own"
    assert len(entry.origin(world).requests) == 1
