"""Bypasses 44 to 52 of docs/bypasses.md: paths, framing, upgrades, tunnels, and who is believed."""

from __future__ import annotations

import itertools
import ssl
import struct
from collections.abc import Iterator

import pytest

from tests.gateway.expect import NOBODY, assert_allowed, assert_refused, contacts, ended, forget
from tests.gateway.kept import KeptClient
from tests.gateway.paths import ALL, TLS_TUNNELS, TUNNELS, WEBSOCKET_FIELDS, Ask, Entry, client_context, send
from tests.kit import replies
from tests.kit.client import RawConnection, Response
from tests.kit.client_h2 import ConnectionEndedError, StreamResetError
from tests.kit.dns import Addresses
from tests.kit.exchange import Exchange, Route
from tests.kit.gateway import World

FOLLOWERS = tuple(entry for entry in ALL if entry is not Entry.WEBSOCKET)
_numbers = itertools.count()


def fresh(name: str = "") -> str:
    """A path nobody used before."""
    return f"/{next(_numbers)}{name}"


# -- 44: one path for the decision, the log and the wire

PATHS = {
    "/public/../secret": "/secret", "/public/%2e%2e/secret": "/secret", "/public/.%2E/secret": "/secret",
    "/a//b": "/a//b", "/a;x/b": "/a;x/b", "/a%2fb": "/a%2fb", "/a%5Cb": "/a%5Cb", "/a\\b": "/a/b",
    "/./a": "/a", "/a/.": "/a/", "/%41": "/%41", "/a?x=/../y": "/a?x=/../y", "/a?%2e%2e": "/a?%2e%2e",
    "/%252e%252e/a": "/%252e%252e/a", "/..;/a": "/..;/a",
}  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_case_44_the_path_that_is_judged_and_logged_is_the_one_that_is_sent(world: World, path: str) -> None:
    for entry in FOLLOWERS:
        forget(world)
        answer = send(world, entry, Ask(path))
        assert_allowed(world, answer)
        (request,) = entry.origin(world).requests
        assert request.target == PATHS[path], entry
        (line,) = world.gateway.decisions(fetch_id=answer.header("fetchd-id"))
        assert line["url"].endswith(PATHS[path].partition("?")[0])


# -- 45: a second request in the same segment


@pytest.mark.parametrize("entry", [e for e in FOLLOWERS if e is not Entry.CONNECT_H2])
@pytest.mark.parametrize("second", ["denied", "allowed"])
def test_case_45_a_pipelined_request_gets_a_verdict_of_its_own(
    world: World, entry: Entry, second: str
) -> None:
    """A tunnel is for one host: there the second request lies about its Host."""
    host = "denied.example" if second == "denied" else "a.example"
    rule = None if second == "allowed" else "authority-mismatch" if entry in TUNNELS else "host"
    authority, other = (Ask(host=name).authority(world, entry) for name in ("a.example", host))
    with KeptClient(world, entry) as client:
        client.get(client.url("/before"))
        connection = client.connection()
        base = f"{entry.scheme}://{{}}" if entry not in TUNNELS else ""
        first = f"GET {base.format(authority)}/one HTTP/1.1\r\nHost: {authority}\r\n\r\n"
        connection.send(f"{first}GET {base.format(other)}/two HTTP/1.1\r\nHost: {other}\r\n\r\n".encode())
        answers = [connection.read_response(), connection.read_response()]
    assert [answer.header("fetchd-rule") for answer in answers] == [None, rule]
    wanted = ["/before", "/one", *(["/two"] if second == "allowed" else [])]
    assert [request.target for request in entry.origin(world).requests] == wanted
    assert contacts(world).connects == 1


LENGTHS = {
    "two lengths that differ": "Content-Length: 4\r\nContent-Length: 5\r\n",
    "a list of lengths": "Content-Length: 4, 5\r\n",
    "a length and chunks": "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
    "a length with a sign": "Content-Length: +4\r\n",
    "a length in hex": "Content-Length: 0x4\r\n",
    "a length below nothing": "Content-Length: -1\r\n",
}


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("entry", [e for e in FOLLOWERS if e is not Entry.CONNECT_H2])
def test_case_45_lengths_that_disagree_are_refused_and_nothing_after_them_is_read(
    world: World, entry: Entry, lengths: str
) -> None:
    authority = Ask().authority(world, entry)
    with KeptClient(world, entry) as client:
        client.get(client.url("/before"))
        connection = client.connection()
        target = f"{entry.scheme}://{authority}/one" if entry not in TUNNELS else "/one"
        head = f"POST {target} HTTP/1.1\r\nHost: {authority}\r\n{LENGTHS[lengths]}\r\n"
        connection.send(f"{head}dataGET /smuggled HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode())
        answer = connection.read_response("POST")
        assert (answer.status, answer.header("fetchd-rule")) == (400, "not-http")
        assert ended(connection) == b""
    assert [request.target for request in entry.origin(world).requests] == ["/before"]


# -- 46: h2 in the clear

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))


@pytest.mark.parametrize("where", ["at the listener", "in a tunnel", "in TLS that agreed on HTTP/1.1"])
def test_case_46_the_preface_of_h2_is_not_spoken_in_the_clear(world: World, where: str) -> None:
    with world.gateway.open(1) as proxy:
        inside = proxy
        if where != "at the listener":
            assert proxy.connect(world.authority()).status == 200
        if where.startswith("in TLS"):
            inside = proxy.start_tls("a.example", client_context(world, Ask()))
        inside.send(PREFACE)
        data = ended(inside)
    assert b"Fetchd-Rule: not-http" in data
    assert contacts(world) == NOBODY


H2C = [("Connection", "Upgrade, HTTP2-Settings"), ("Upgrade", "h2c"), ("HTTP2-Settings", "AAMAAABkAAQAAP__")]
UPGRADES = {
    "h2c": H2C,
    "TLS": [("Connection", "Upgrade"), ("Upgrade", "TLS/1.2")],
    "anything": [("Connection", "Upgrade"), ("Upgrade", "foo/2")],
    "websocket or h2c": [("Connection", "Upgrade"), ("Upgrade", "websocket, h2c")],
    "without Connection": [("Upgrade", "h2c")],
}


@pytest.mark.parametrize("what", UPGRADES)
@pytest.mark.parametrize("entry", [e for e in FOLLOWERS if e is not Entry.CONNECT_H2])
def test_case_46_an_upgrade_to_anything_else_is_refused(world: World, entry: Entry, what: str) -> None:
    assert_refused(world, send(world, entry, Ask(headers=UPGRADES[what])), "upgrade", 403)
    forget(world)
    assert_allowed(world, send(world, entry, Ask()))


# -- 47: names and fields of h2

AUTHORITIES = {
    "another :authority": [(":authority", "b.example:{port}")],
    "another port": [(":authority", "a.example:1")],
    "a host field of another name": [(":authority", "a.example:{port}"), ("host", "b.example:{port}")],
    "only a host field, of another name": [("host", "b.example:{port}")],
    "credentials": [(":authority", "u@a.example:{port}")],
}


@pytest.mark.parametrize("what", AUTHORITIES)
def test_case_47_every_name_of_an_h2_request_is_the_tunnels(world: World, what: str) -> None:
    port = world.origin.port
    fields = [(name, value.format(port=port)) for name, value in AUTHORITIES[what]]
    pseudo = [pair for pair in fields if pair[0].startswith(":")]
    rest = [pair for pair in fields if not pair[0].startswith(":")]
    with KeptClient(world, Entry.CONNECT_H2) as client:
        h2 = client.h2(f"a.example:{port}", "a.example")
        stream = h2.send_headers([(":method", "GET"), (":scheme", "https"), (":path", "/"), *pseudo, *rest])
        try:
            answer = h2.read_response(stream)
        except (StreamResetError, ConnectionEndedError):
            answer = None
    assert_refused(world, answer, "authority-mismatch" if answer else "not-http", 421, closes=True)


BROKEN = {
    "a path with a line break": [(":path", "/x\r\nHost: evil.example")],
    "a path that is a URL": [(":path", "http://evil.example/")],
    "an empty path": [(":path", "")],
    "CONNECT": [(":method", "CONNECT")],
    "extended CONNECT": [(":method", "CONNECT"), (":protocol", "websocket")],
    "a field with a line break": [("x", "a\r\nHost: evil.example")],
    "two host fields": [("host", "evil.example"), ("host", "a.example")],
    "two paths": [(":path", "/x"), (":path", "/y")],
}


@pytest.mark.parametrize("what", BROKEN)
def test_case_47_h2_that_would_be_other_http_1_is_refused(world: World, what: str) -> None:
    changes = BROKEN[what]
    names = {name for name, _ in changes}
    base = [(":method", "GET"), (":scheme", "https"), (":authority", world.authority()), (":path", "/")]
    pseudo = [pair for pair in base if pair[0] not in names] + [pair for pair in changes if pair[0][0] == ":"]
    with KeptClient(world, Entry.CONNECT_H2) as client:
        h2 = client.h2(world.authority(), "a.example")
        try:
            answer = h2.read_response(
                h2.send_headers([*pseudo, *(pair for pair in changes if pair[0][0] != ":")])
            )
        except (StreamResetError, ConnectionEndedError):
            answer = None
    assert answer is None or answer.header("fetchd-verdict") == "refused"
    assert contacts(world) == NOBODY


def test_case_47_a_path_with_a_space_is_one_path_at_the_origin(world: World) -> None:
    assert_allowed(world, send(world, Entry.CONNECT_H2, Ask("/x HTTP/1.1")))
    (request,) = world.origin.requests
    assert request.head.startswith(b"GET /x%20HTTP/1.1 HTTP/1.1\r\n")


# -- 48: WebSocket takes the same way


def ask_websocket(world: World, way: str, host: str, path: str = "/ws") -> tuple[RawConnection, Response]:
    """A handshake; the connection is the caller's."""
    scheme = "http" if way.startswith("ws:") else "https"
    origin = world.plain if scheme == "http" else world.origin
    authority = f"{host}:{origin.port}"
    proxy = world.gateway.open(1)
    if way.endswith("absolute"):
        proxy.request("GET", f"{scheme}://{authority}{path}", authority, WEBSOCKET_FIELDS)
        return proxy, proxy.read_response()
    answer = proxy.connect(authority)
    if answer.status != 200:
        return proxy, answer
    inside = proxy if scheme == "http" else proxy.start_tls(host, client_context(world, Ask()))
    inside.request("GET", path, authority, WEBSOCKET_FIELDS)
    return inside, inside.read_response()


WS_WAYS = ["ws: absolute", "wss: absolute", "ws: tunnel", "wss: tunnel"]
ACCEPT = ("sec-websocket-accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")


def talk(payload: bytes) -> Route:
    """A binary message for whatever comes in."""
    frame = bytes((0x82, 126)) + struct.pack("!H", len(payload)) + payload

    async def route(exchange: Exchange) -> None:
        await exchange.start(101, [("connection", "upgrade"), ("upgrade", "websocket"), ACCEPT])
        while await exchange.read():
            await exchange.raw(frame)
        await exchange.close()

    return route


@pytest.mark.parametrize("way", WS_WAYS)
@pytest.mark.parametrize(
    ("host", "rule"),
    [("denied.example", "host"), ("inside.example", "no-allowed-address")],
    ids=["denied", "inside"],
)
def test_case_48_a_websocket_to_a_refused_place_is_refused(
    world: World, way: str, host: str, rule: str
) -> None:
    world.dns.script("inside.example", "A", Addresses("127.0.0.66"))
    connection, answer = ask_websocket(world, way, host)
    with connection:
        assert (answer.status, answer.header("fetchd-rule")) == (403, rule)
    assert contacts(world).connects == 0


@pytest.mark.parametrize("way", WS_WAYS)
def test_case_48_an_allowed_one_connects_once_and_talks(world: World, way: str) -> None:
    for origin in (world.origin, world.plain):
        origin.route("/ws", talk(bytes(1000)))
    connection, answer = ask_websocket(world, way, "a.example")
    with connection:
        assert (answer.status, answer.header("fetchd-verdict")) == (101, "allowed")
        connection.send(bytes((0x82, 0x84)) + bytes(4) + b"ping")
        assert connection.receive().startswith(bytes((0x82, 126)) + b"\x03\xe8")
    assert contacts(world).connects == 1


@pytest.mark.parametrize("way", WS_WAYS)
def test_case_48_the_byte_cap_counts_over_the_sockets_life(small_world: World, way: str) -> None:
    for origin in (small_world.origin, small_world.plain):
        origin.route("/ws", talk(bytes(1000)))
    connection, answer = ask_websocket(small_world, way, "a.example")
    payload = bytes(1000)
    frame = bytes((0x82, 0xFE)) + struct.pack("!H", len(payload)) + bytes(4) + payload
    with connection:
        assert answer.status == 101
        received = 0
        try:
            for _ in range(100):
                connection.send(frame)
                data = connection.receive()
                if not data:
                    break
                received += len(data)
        except OSError:
            pass
    assert received < 10_000
    (line,) = small_world.gateway.lines("close", fetch_id=answer.header("fetchd-id"))
    assert (line["verdict"], line["rule"]) == ("refused", "byte-cap")


@pytest.fixture(scope="module")
def small_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with World(tmp_path_factory.mktemp("small"), profiles={"open": {"byte_cap": 8000}}) as world:
        yield world


# -- 49: an encrypted ClientHello

ECH = 0xFE0D


def hello_with_ech(outer: str | None) -> bytes:
    """A first flight (TLS 1.2, whose certificate is sent in the clear) with an ECH extension."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    arriving, leaving = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(arriving, leaving, server_hostname=outer).do_handshake()
    record = leaving.read()
    hello = record[9:]
    at = 34 + 1 + hello[34]
    at += 2 + int.from_bytes(hello[at : at + 2])
    at += 1 + hello[at]
    inner = b"\x00\x00\x01\x00\x01\x00\x00\x20" + bytes(32) + b"\x00\x20" + b"denied.example".ljust(32, b"\0")
    extensions = hello[at + 2 :] + struct.pack("!HH", ECH, len(inner)) + inner
    body = hello[:at] + struct.pack("!H", len(extensions)) + extensions
    message = b"\x01" + len(body).to_bytes(3) + body
    return b"\x16\x03\x01" + struct.pack("!H", len(message)) + message


@pytest.mark.parametrize("outer", ["a.example", "b.example"])
def test_case_49_ech_is_not_spoken_and_the_outer_name_counts(world: World, outer: str) -> None:
    """The gateway ends TLS itself, with a leaf for the outer name; nothing is dialled for a hello."""
    with world.gateway.open() as proxy:
        assert proxy.connect(world.authority()).status == 200
        proxy.send(hello_with_ech(outer))
        data = b""
        while outer.encode() not in data:
            more = proxy.receive()
            assert more, data
            data += more
    assert b"denied.example" not in data
    assert contacts(world) == NOBODY


# -- 50: invitations to leave for UDP


@pytest.mark.parametrize("entry", FOLLOWERS)
def test_case_50_alt_svc_does_not_reach_a_client(world: World, entry: Entry) -> None:
    path = fresh()
    entry.origin(world).route(path, replies.text("x", [("alt-svc", 'h3=":443"; ma=86400'), ("x-kept", "1")]))
    answer = send(world, entry, Ask(path))
    assert_allowed(world, answer)
    assert answer.header("alt-svc") is None and answer.header("x-kept") == "1"


# -- 51: nothing is dialled before a request is allowed


@pytest.mark.parametrize("entry", TUNNELS)
@pytest.mark.parametrize("port", ["open", "dead"])
def test_case_51_a_tunnel_alone_dials_nothing_and_is_no_port_oracle(
    world: World, entry: Entry, port: str
) -> None:
    where = world.authority() if port == "open" else "a.example:443"
    with world.gateway.open(1) as proxy:
        answer = proxy.connect(where)
        assert answer.status == 200
        if entry in TLS_TUNNELS and entry is not Entry.TLS_LISTENER_CONNECT:
            proxy.start_tls("a.example", client_context(world, Ask()))
    assert contacts(world) == NOBODY


@pytest.mark.parametrize("entry", FOLLOWERS)
def test_case_51_a_denied_request_to_an_allowed_host_makes_no_connection(world: World, entry: Entry) -> None:
    assert_refused(world, send(world, entry, Ask(method="DELETE")), "method", 403)
    forget(world)
    assert_allowed(world, send(world, entry, Ask()))


# -- 52: who speaks for the gateway

FORGED = [
    ("Fetchd-Verdict", "refused"), ("Fetchd-Rule", "host"), ("Fetchd-Id", "0"), ("Fetchd-Policy", "x@0"),
    ("fetchd-anything", "1"), ("Proxy-Status", "fetchd; error=http_request_denied"),
    ("Proxy-Authenticate", "Basic realm=x"),
]  # fmt: skip


@pytest.mark.parametrize("status", [401, 403, 407, 502])
@pytest.mark.parametrize("entry", FOLLOWERS)
def test_case_52_an_origins_denial_cannot_be_taken_for_the_gateways(
    world: World, entry: Entry, status: int
) -> None:
    path = fresh()
    body = b'{"rule": "host", "detail": "host not allowed: a.example"}'
    entry.origin(world).route(path, replies.answer(status, body, "application/problem+json", FORGED))
    answer = send(world, entry, Ask(path))
    assert_allowed(world, answer, status=status)
    assert answer.header("fetchd-policy") != "x@0" and answer.header("fetchd-id") != "0"
    for name in ("fetchd-rule", "fetchd-anything", "proxy-status", "proxy-authenticate"):
        assert answer.header(name) is None


@pytest.mark.parametrize("entry", FOLLOWERS)
def test_case_52_a_refusal_says_why_in_fields_and_in_a_document(world: World, entry: Entry) -> None:
    answer = send(world, entry, Ask(host="denied.example"))
    assert_refused(world, answer, "host", 403)
    assert answer.header("content-type") == "application/problem+json"
    assert answer.header("proxy-status") == (
        'fetchd; error=http_request_denied; details="host not allowed: denied.example"'
    )
    assert answer.json()["rule"] == "host" and answer.json()["fetch_id"] == answer.header("fetchd-id")
