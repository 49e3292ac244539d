"""No origin learns who asks (SPEC 1.5): on every way in, in every spelling, and the answer says what was removed.

The secret stands in every field that is sent; an origin that gets it anywhere, in whatever bytes, fails the test.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest

from tests.gateway.expect import forget
from tests.gateway.paths import ABSOLUTE, ALL, WEBSOCKET_FIELDS, Ask, Entry, send, tunnel
from tests.kit import replies
from tests.kit.client import Response
from tests.kit.client_h2 import H2Client
from tests.kit.gateway import World

SECRET = "s3cret-of-the-agent"
BASIC = base64.b64encode(SECRET.encode()).decode()
HTTP = tuple(entry for entry in ALL if entry is not Entry.WEBSOCKET)
HTTP1 = tuple(entry for entry in HTTP if entry is not Entry.CONNECT_H2)

FIELDS: dict[str, tuple[list[tuple[str, str]], str | None]] = {
    "a cookie": ([("Cookie", f"a={SECRET}")], "cookie"),
    "two cookies": ([("Cookie", f"a={SECRET}"), ("Cookie", f"b={SECRET}")], "cookie"),
    "a cookie of the older kind": ([("Cookie2", SECRET)], "cookie2"),
    "basic authorization": ([("Authorization", f"Basic {BASIC}")], "authorization"),
    "bearer authorization in odd case": ([("aUTHORIZATION", f"Bearer {SECRET}")], "authorization"),
    "a referrer": ([("Referer", f"https://intranet.example/{SECRET}")], "referer"),
    "all of them": (
        [("Cookie", SECRET), ("Authorization", SECRET), ("Referer", SECRET), ("COOKIE", SECRET)],
        "cookie, authorization, referer",
    ),
    "authorization for a proxy": ([("Proxy-Authorization", f"Basic {BASIC}")], None),
    "authorization for a proxy, twice": (
        [("Proxy-Authorization", f"Basic {BASIC}"), ("proxy-authorization", f"Bearer {SECRET}")],
        None,
    ),
    "what was meant for the gateway": ([("Fetchd-Agent", SECRET), ("fetchd-anything", SECRET)], None),
}
"""Sentence: fields sent, value of Fetchd-Removed."""

HOP_BY_HOP: dict[str, list[tuple[str, str]]] = {
    "proxy-connection": [("Proxy-Connection", f"keep-alive, {SECRET}")],
    "keep-alive": [("Keep-Alive", f"timeout=5, {SECRET}")],
    "te": [("TE", f"trailers, {SECRET}")],
    "trailer": [("Trailer", SECRET)],
    "a field that Connection nominates": [("Connection", "close-not, X-Mine"), ("X-Mine", SECRET)],
    "one that a second Connection field nominates": [
        ("Connection", "keep-alive"),
        ("cOnNeCtIoN", "x-mine"),
        ("X-MINE", SECRET),
    ],
    "http2-settings": [("HTTP2-Settings", SECRET)],
    "proxy-authenticate": [("Proxy-Authenticate", SECRET)],
}


def sent_to(world: World, entry: Entry) -> bytes:
    """All bytes and fields that the origin got."""
    origin = entry.origin(world)
    raw = b"".join(bytes(connection.received) for connection in origin.connections)
    fields = [f"{name}: {value}" for request in origin.requests for name, value in request.headers]
    return raw + "\n".join(fields).encode()


def assert_unknown(world: World, entry: Entry) -> None:
    got = sent_to(world, entry)
    assert SECRET.encode() not in got
    assert BASIC.encode() not in got
    assert len(entry.origin(world).requests) == 1


@pytest.fixture(scope="module")
def shared_h2_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with World(tmp_path_factory.mktemp("anonymous-h2"), alpn=("h2", "http/1.1")) as world:
        yield world


@pytest.mark.parametrize("entry", ALL)
@pytest.mark.parametrize("sentence", FIELDS)
def test_credentials_are_removed_and_the_answer_says_so(world: World, sentence: str, entry: Entry) -> None:
    fields, removed = FIELDS[sentence]
    answer = send(world, entry, Ask(headers=fields))
    if "proxy" in sentence and entry in ABSOLUTE:
        # Outside a tunnel the field is meant for us, and names nobody we know.
        assert (answer.status, answer.header("fetchd-rule")) == (407, "identity")
        assert not entry.origin(world).requests
        return
    assert (answer.status, answer.header("fetchd-removed")) == (200, removed)
    assert_unknown(world, entry)


@pytest.mark.parametrize("sentence", FIELDS)
def test_an_http2_origin_does_not_get_them_either(shared_h2_world: World, sentence: str) -> None:
    world, entry = shared_h2_world, Entry.CONNECT_H2
    forget(world)
    fields, removed = FIELDS[sentence]
    answer = send(world, entry, Ask(headers=fields))
    assert (answer.status, answer.header("fetchd-removed")) == (200, removed)
    assert [request.version for request in world.origin.requests] == ["h2"]
    assert_unknown(world, entry)


@pytest.mark.parametrize("entry", HTTP1)
@pytest.mark.parametrize("sentence", HOP_BY_HOP)
def test_what_is_for_one_connection_stays_on_it(world: World, sentence: str, entry: Entry) -> None:
    answer = send(world, entry, Ask(headers=HOP_BY_HOP[sentence]))
    assert (answer.status, answer.header("fetchd-removed")) == (200, None)
    assert_unknown(world, entry)


@pytest.mark.parametrize("entry", [Entry.ABSOLUTE_HTTP, Entry.CONNECT_H1])
def test_a_folded_field_is_removed_whole_or_refused(world: World, entry: Entry) -> None:
    """Obsolete line folding (RFC 9112, 5.2): a parser that took the second line for a field would let it through."""
    host = f"a.example:{entry.origin(world).port}"
    lines = f"Host: {host}\r\nCookie: a=b;\r\n {SECRET}\r\n\t{SECRET}: x\r\n\r\n".encode()
    with world.gateway.open(1) as proxy:
        if entry is Entry.ABSOLUTE_HTTP:
            proxy.send(b"GET " + world.plain_url("/").encode() + b" HTTP/1.1\r\n" + lines)
            answer = proxy.read_response()
        else:
            with tunnel(world, proxy, entry, Ask()) as inside:
                assert not isinstance(inside, Response)
                inside.send(b"GET / HTTP/1.1\r\n" + lines)
                answer = inside.read_response()
    assert answer.status in (200, 400)
    assert SECRET.encode() not in sent_to(world, entry)


@pytest.mark.parametrize("entry", [Entry.ABSOLUTE_HTTP, Entry.CONNECT_H1])
def test_trailers_of_an_upload_are_dropped(world: World, entry: Entry) -> None:
    host = f"a.example:{entry.origin(world).port}"
    fields = f"Host: {host}\r\nTransfer-Encoding: chunked\r\nTrailer: Cookie\r\n\r\n".encode()
    body = f"4\r\nbody\r\n0\r\nCookie: {SECRET}\r\nX-Trailer: {SECRET}\r\n\r\n".encode()
    with world.gateway.open(1) as proxy:
        if entry is Entry.ABSOLUTE_HTTP:
            proxy.send(b"POST " + world.plain_url("/").encode() + b" HTTP/1.1\r\n" + fields + body)
            answer = proxy.read_response("POST")
        else:
            with tunnel(world, proxy, entry, Ask()) as inside:
                assert not isinstance(inside, Response)
                inside.send(b"POST / HTTP/1.1\r\n" + fields + body)
                answer = inside.read_response("POST")
    assert answer.status == 200
    assert [request.body for request in entry.origin(world).requests] == [b"body"]
    assert SECRET.encode() not in sent_to(world, entry)


@pytest.mark.parametrize("protocol", ["http/1.1", "h2"])
def test_trailers_of_an_http2_upload_are_dropped(world: World, shared_h2_world: World, protocol: str) -> None:
    stage = shared_h2_world if protocol == "h2" else world
    forget(stage)
    with stage.gateway.open(1) as proxy, tunnel(stage, proxy, Entry.CONNECT_H2, Ask()) as inside:
        assert not isinstance(inside, Response)
        client = H2Client(inside)
        stream = client.request(stage.authority(), method="POST", body=b"body", end=False)
        client.h2.send_headers(stream, [("cookie", SECRET), ("x-trailer", SECRET)], end_stream=True)
        client.flush()
        answer = client.read_response(stream)
    assert answer.status == 200
    assert [request.body for request in stage.origin.requests] == [b"body"]
    assert SECRET.encode() not in sent_to(stage, Entry.CONNECT_H2)
    assert all("trailers" not in note for link in stage.origin.connections for note in link.notes)


@pytest.mark.parametrize("entry", [entry for entry in ALL if entry.scheme == "https"])
def test_credentials_pass_to_a_host_that_may_have_them_and_only_there(world: World, entry: Entry) -> None:
    """Profile `open`: credential_hosts = ["c.example"]."""
    fields = [
        ("Cookie", "a=b"),
        ("Authorization", "Bearer t"),
        ("Referer", "https://x.example/"),
        ("Cookie2", "c"),
    ]
    trusted = send(world, entry, Ask(host="c.example", headers=fields))
    assert trusted.header("fetchd-removed") == "referer, cookie2"
    (request,) = world.origin.requests
    assert (request.values("cookie"), request.values("authorization")) == (["a=b"], ["Bearer t"])
    assert request.values("referer") == request.values("cookie2") == []

    forget(world)
    other = send(world, entry, Ask(host="b.example", headers=fields))
    assert other.header("fetchd-removed") == "cookie, authorization, referer, cookie2"
    (request,) = world.origin.requests
    assert request.values("cookie") == request.values("authorization") == []


def test_the_same_host_under_another_profile_gets_nothing(world: World) -> None:
    answer = send(world, Entry.CONNECT_H1, Ask(host="c.example", headers=[("Cookie", SECRET)]), listener=0)
    assert answer.header("fetchd-removed") == "cookie"
    assert_unknown(world, Entry.CONNECT_H1)


@pytest.mark.parametrize("entry", HTTP)
def test_other_fields_and_the_query_arrive_as_they_were_sent(world: World, entry: Entry) -> None:
    fields = [
        ("X-Odd-Case", "One"),
        ("accept-language", "de"),
        ("User-Agent", "agent/1"),
        ("X-Odd-Case", "Two"),
    ]
    send(world, entry, Ask("/p?q=%41&r=a+b", headers=fields))
    (request,) = entry.origin(world).requests
    assert request.target == "/p?q=%41&r=a+b"
    assert request.values("x-odd-case") == ["One", "Two"]
    assert (request.values("user-agent"), request.values("accept-language")) == (["agent/1"], ["de"])
    names = {name.lower() for name, _ in request.headers}
    assert not names & {"via", "x-forwarded-for", "forwarded", "proxy-connection"}


@pytest.mark.parametrize("entry", HTTP)
def test_origins_are_asked_only_for_codings_that_can_be_counted(world: World, entry: Entry) -> None:
    for asked, passed in (
        ("gzip, deflate, br, zstd", "gzip, deflate, br, zstd"),
        ("gzip, dcb, dcz, br;q=0.5", "gzip, br;q=0.5"),
        ("lzma", "identity"),
    ):
        forget(world)
        send(world, entry, Ask(headers=[("Accept-Encoding", asked)]))
        assert entry.origin(world).requests[0].values("accept-encoding") == [passed]


@pytest.mark.parametrize("entry", HTTP)
def test_events_are_asked_for_in_codings_that_can_last(world: World, entry: Entry) -> None:
    """br and zstd hold one of few decoders for as long as an answer lasts."""
    for accept, asked, passed in (
        ("text/event-stream", "gzip, deflate, br;q=0.5, zstd, *;q=0.1", "gzip, deflate"),
        ("text/html, Text/Event-Stream;q=0.9", "br", "identity"),
        ("text/html", "br", "br"),
    ):
        forget(world)
        send(world, entry, Ask(headers=[("Accept", accept), ("Accept-Encoding", asked)]))
        assert entry.origin(world).requests[0].values("accept-encoding") == [passed]


def test_a_websocket_handshake_keeps_only_what_it_needs(world: World) -> None:
    world.origin.route("/ws", replies.upgrade("websocket"))
    fields = [
        ("Cookie", SECRET),
        ("Sec-WebSocket-Extensions", "permessage-deflate"),
        ("Origin", "https://a.example"),
    ]
    answer = send(world, Entry.WEBSOCKET, Ask("/ws", headers=fields))
    assert (answer.status, answer.header("fetchd-removed")) == (101, "cookie")
    (request,) = world.origin.requests
    assert request.values("sec-websocket-extensions") == []
    assert request.values("sec-websocket-key") == [dict(WEBSOCKET_FIELDS)["Sec-WebSocket-Key"]]
    assert_unknown(world, Entry.WEBSOCKET)
