"""Bypasses 1 to 8 and 17 of docs/bypasses.md: seen on walls built on mitmproxy, or on mitmproxy itself."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.gateway.expect import (
    NOBODY,
    assert_allowed,
    assert_refused,
    audited,
    contacts,
    ended,
    forget,
    recent_lines,
    refuse_beside_twin,
    try_send,
)
from tests.gateway.paths import (
    ALL,
    HTTP1,
    TLS_TUNNELS,
    Ask,
    Entry,
    listener_tls,
    open_way,
    request_target,
    send,
    tunnel,
)
from tests.kit import replies
from tests.kit.client import RawConnection, Response
from tests.kit.client_h2 import H2Client
from tests.kit.gateway import World

SSH = b"SSH-2.0-OpenSSH_9.9\r\n"


# -- 1: two Host fields, one of them allowed


@pytest.mark.parametrize("order", ["evil first", "evil last", "the same twice"])
@pytest.mark.parametrize("entry", ALL)
def test_case_01_two_host_fields(world: World, entry: Entry, order: str) -> None:
    """h2 hides the first `host` behind :authority; over HTTP/1 mitmproxy passes both on."""
    good = Ask().authority(world, entry)
    evil = good if order == "the same twice" else "b.example"
    if entry is Entry.CONNECT_H2:
        hosts = (evil, good) if order == "evil first" else (good, evil)
        attack = Ask(headers=[("host", host) for host in hosts])
        assert_refused(world, try_send(world, entry, attack), "not-http", 400, closes=True)
        forget(world)
        assert_allowed(world, send(world, entry, Ask(headers=[("host", good)])))
        return
    first, second = (evil, good) if order == "evil first" else (good, evil)
    attack = Ask(host_field=first, headers=[("hOST", second)])
    refuse_beside_twin(world, entry, attack, "authority-mismatch", 421)


# -- 2, 3: bytes that are no HTTP

PLACES = ("listener", "in a tunnel", "in TLS in a tunnel", "in TLS to the listener", "in h2")
RAW = {
    "ssh": SSH,
    "binary": bytes(range(128, 192)),
    "redis": b"*1\r\n$4\r\nPING\r\n",
    "socks5": b"\x05\x01\x00",
    "h2c preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "postgres": b"\x00\x00\x00\x08\x04\xd2\x16\x2f",
}


@contextmanager
def inside(world: World, place: str) -> Iterator[RawConnection]:
    """A connection with the named place at its other end."""
    with world.gateway.open(1) as proxy:
        match place:
            case "listener":
                yield proxy
            case "in TLS to the listener":
                yield listener_tls(world, proxy)
            case _:
                entries = {"in a tunnel": Entry.CONNECT_PLAIN, "in h2": Entry.CONNECT_H2}
                with tunnel(world, proxy, entries.get(place, Entry.CONNECT_H1), Ask()) as connection:
                    assert isinstance(connection, RawConnection)
                    yield connection


@pytest.mark.parametrize(
    ("place", "kind"),
    # In h2 the preface is what a connection must begin with.
    [pair for pair in itertools.product(PLACES, RAW) if pair != ("in h2", "h2c preface")],
)
def test_case_02_raw_bytes_are_no_tunnel(world: World, place: str, kind: str) -> None:
    """mitmproxy makes a raw tunnel of them, and no request hook runs."""
    with inside(world, place) as connection:
        connection.send(RAW[kind])
        answer = ended(connection)

    assert answer.startswith(b"HTTP/1.1 400 ") and b"Fetchd-Rule: not-http" in answer
    assert contacts(world) == NOBODY
    assert audited(world, lambda line: line["rule"] == "not-http" and line["fetch_id"].encode() in answer)


@pytest.mark.parametrize("place", PLACES)
def test_case_02_http_at_the_same_place_connects_once(world: World, place: str) -> None:
    entry = {
        "listener": Entry.ABSOLUTE_HTTP,
        "in a tunnel": Entry.CONNECT_PLAIN,
        "in TLS in a tunnel": Entry.CONNECT_H1,
        "in TLS to the listener": Entry.TLS_LISTENER,
        "in h2": Entry.CONNECT_H2,
    }[place]
    assert_allowed(world, send(world, entry, Ask()))


@pytest.mark.parametrize("entry", HTTP1)
def test_case_03_not_one_raw_byte_follows_a_request(world: World, entry: Entry) -> None:
    """Killing a TCP flow in a hook does nothing: what comes after an allowed request must not reach the origin."""
    with world.gateway.open(1) as proxy:
        connection = open_way(world, proxy, entry)
        connection.request("GET", request_target(world, entry, "/kept"), Ask().authority(world, entry))
        assert_allowed(world, connection.read_response())
        connection.send(SSH + bytes(100) + b"\r\n\r\n")
        answer = ended(connection)

    origin = entry.origin(world)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert bytes(origin.connections[0].received) == origin.requests[0].head
    assert len(origin.requests) == 1


# -- 4: upgrades


@pytest.mark.parametrize("protocol", ["anything", "h2c", "websocket, anything", "TLS/1.2"])
@pytest.mark.parametrize("entry", [entry for entry in HTTP1 if entry is not Entry.WEBSOCKET])
def test_case_04_upgrade_to_anything_is_refused(world: World, entry: Entry, protocol: str) -> None:
    fields = [("Connection", "upgrade"), ("Upgrade", protocol)]
    refuse_beside_twin(world, entry, Ask(headers=fields), "upgrade", 403)


def test_case_04_upgrade_field_in_h2_is_malformed(world: World) -> None:
    attack = Ask(headers=[("upgrade", "websocket")])
    answer = try_send(world, Entry.CONNECT_H2, attack)
    assert answer is None or answer.status >= 400
    assert contacts(world) == NOBODY


@pytest.mark.parametrize("entry", ALL)
def test_case_04_unasked_101_is_refused(world: World, entry: Entry) -> None:
    """The origin switches to an odd protocol by itself; stock turns that into raw TCP."""
    entry.origin(world).route("/101", replies.upgrade("odd"))
    answer = send(world, entry, Ask(path="/101"))

    assert (answer.status, answer.header("fetchd-rule")) == (403, "upgrade")
    assert contacts(world).connects == 1
    assert audited(world, lambda line: line["rule"] == "upgrade", "close")


def test_case_04_no_byte_passes_after_a_refused_101(world: World) -> None:
    world.origin.route("/101b", replies.upgrade("odd"))
    with world.gateway.open(1) as proxy:
        connection = open_way(world, proxy, Entry.CONNECT_H1)
        connection.request("GET", "/101b", world.authority())
        assert connection.read_response().status == 403
        connection.send(b"raw bytes for the odd protocol\r\n\r\n")
        ended(connection)

    assert b"raw bytes" not in bytes(world.origin.connections[0].received)


# -- 5: a hook that meets what its author did not think of


ODD_NAMES = {
    "no UTF-8": "\udcff.example",
    "broken UTF-8": "\udcc3(.example",
    "too long a name": "a." * 130 + "example",
    "too long a label": "a" * 64 + ".example",
    "punycode of no letters": "xn--\u00e4.example",
    "empty label": "a..example",
}


@pytest.mark.parametrize("kind", ODD_NAMES)
@pytest.mark.parametrize("entry", ALL)
def test_case_05_odd_names_end_in_a_refusal(world: World, entry: Entry, kind: str) -> None:
    """An exception in a hook lets traffic pass in stock; here none is met to begin with."""
    seen = len(world.gateway.errors)
    answer = try_send(world, entry, Ask(host=ODD_NAMES[kind], server_name="a.example"))

    assert answer is not None and answer.status in (403, 502)
    assert answer.header("fetchd-rule") in ("parse", "dns-failed")
    assert contacts(world) == NOBODY
    assert world.gateway.errors[seen:] == []
    forget(world)
    assert_allowed(world, send(world, entry, Ask()))


# -- 6, 7: a pinned address must not cost reuse, nor show up as the name


@pytest.mark.parametrize("entry", [entry for entry in ALL if entry is not Entry.WEBSOCKET])
def test_case_06_twelve_requests_on_one_connection(world: World, entry: Entry) -> None:
    """Pinning by rewriting the server address hangs the sixth request."""
    with world.gateway.open(1) as proxy:
        answers = list(in_turn(world, proxy, entry, 12))

    assert [answer.status for answer in answers] == [200] * 12
    assert contacts(world).connects == 1
    assert world.dns.count("a.example") == 2, "A and AAAA, once"


@pytest.mark.parametrize("entry", [entry for entry in ALL if entry is not Entry.WEBSOCKET])
def test_case_07_the_log_names_the_host_each_time(world: World, entry: Entry) -> None:
    with world.gateway.open(1) as proxy:
        answers = list(in_turn(world, proxy, entry, 3))

    for number, answer in enumerate(answers):
        (line,) = recent_lines(world, "decision", fetch_id=answer.header("fetchd-id"))
        assert line["url"] == f"{entry.scheme}://{Ask().authority(world, entry)}/turn/{number}"


def in_turn(world: World, proxy: RawConnection, entry: Entry, number: int) -> Iterator[Response]:
    """The answers to this many requests on one client connection."""
    authority = Ask().authority(world, entry)
    if entry is Entry.CONNECT_H2:
        with tunnel(world, proxy, entry, Ask()) as tls:
            assert isinstance(tls, RawConnection)
            client = H2Client(tls)
            yield from (client.get(authority, f"/turn/{turn}") for turn in range(number))
        return
    connection = open_way(world, proxy, entry)
    for turn in range(number):
        yield connection.get(request_target(world, entry, f"/turn/{turn}"), authority)


# -- 8: no server name


@pytest.mark.parametrize("entry", TLS_TUNNELS)
def test_case_08_tls_without_a_server_name(world: World, entry: Entry) -> None:
    """Others passed such TLS through undecrypted, or checked the certificate against an address."""
    refuse_beside_twin(world, entry, Ask(server_name=None), "no-sni", 421)


# -- 17: pages of the proxy's own


@pytest.mark.parametrize("host", ["mitm.it", "mitmproxy.local", "proxy.mitm.it"])
@pytest.mark.parametrize("entry", [Entry.ABSOLUTE_HTTP, Entry.CONNECT_PLAIN])
def test_case_17_no_page_of_the_proxy(world: World, entry: Entry, host: str) -> None:
    """Stock answers http://mitm.it/ by itself, with its CA."""
    answer = send(world, entry, Ask(host=host, port=80))
    assert (answer.status, answer.header("fetchd-rule")) == (502, "dns-failed")
    assert contacts(world).connects == 0
    forget(world)
    assert_allowed(world, send(world, entry, Ask()))


@pytest.mark.parametrize("entry", ALL)
def test_case_17_no_listener_of_our_own_through_the_proxy(world: World, entry: Entry) -> None:
    """Not by the listener's port and address, whatever name leads there."""
    world.dns.host_addresses("self.example", "127.0.0.1")
    _, port, _ = world.gateway.listeners[0]
    by_port = send(world, entry, Ask(host="self.example", port=port))
    by_address = send(world, entry, Ask(host="self.example"))
    assert by_port.header("fetchd-rule") == "port"
    assert by_address.header("fetchd-rule") == "no-allowed-address"
    assert contacts(world).connects == 0
