"""Time limits on clients (SPEC 1.7): head 10 s, handshake 10 s, silent tunnel 10 s, idle 60 s; here shorter.

No assertion is about how long something took. A silent client must find its connection closed, by the limit that
the audit names; where the gateway failed to, the client's own patience ends the test in red.
"""

from __future__ import annotations

import asyncio
import select
import ssl
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.gateway.expect import contacts, ended, forget
from tests.gateway.paths import (
    Ask,
    Entry,
    listener_tls,
    tunnel,
)
from tests.gateway.quick_gateway import quick
from tests.gateway.side_by_side import at_once
from tests.kit import replies
from tests.kit.client import RawConnection
from tests.kit.client_h2 import H2Client
from tests.kit.gateway import World
from tests.kit.sync import Gate

SHORT = 1.0


# --- the client's side ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def short_clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    python = quick(CLIENT_HEAD_SECONDS=SHORT, HANDSHAKE_SECONDS=SHORT, SILENT_TUNNEL_SECONDS=SHORT)
    with World(tmp_path_factory.mktemp("clients"), python=python) as world:
        yield world


@pytest.fixture
def clients(short_clients: World) -> World:
    forget(short_clients)
    return short_clients


def client_hello(name: str = "a.example") -> bytes:
    """A whole first flight of TLS."""
    arriving, leaving = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = ssl.create_default_context().wrap_bio(arriving, leaving, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return leaving.read()


def nothing(world: World, proxy: RawConnection) -> RawConnection:
    return proxy


def half_a_line(world: World, proxy: RawConnection) -> RawConnection:
    proxy.send(b"GET https://a.exa")
    return proxy


def half_a_head(world: World, proxy: RawConnection) -> RawConnection:
    proxy.send(f"GET {world.url()} HTTP/1.1\r\nHost: a.exam".encode())
    return proxy


def silent_tunnel(world: World, proxy: RawConnection) -> RawConnection:
    assert proxy.connect(world.authority()).status == 200
    return proxy


def half_a_record(world: World, proxy: RawConnection) -> RawConnection:
    silent_tunnel(world, proxy).send(client_hello()[:3])
    return proxy


def half_a_hello(world: World, proxy: RawConnection) -> RawConnection:
    silent_tunnel(world, proxy).send(client_hello()[:100])
    return proxy


def a_hello_and_no_more(world: World, proxy: RawConnection) -> RawConnection:
    silent_tunnel(world, proxy).send(client_hello())
    return proxy


def half_a_hello_to_the_listener(world: World, proxy: RawConnection) -> RawConnection:
    proxy.send(client_hello()[:100])
    return proxy


def a_hello_to_the_listener_and_no_more(world: World, proxy: RawConnection) -> RawConnection:
    proxy.send(client_hello())
    return proxy


def tls_and_then_nothing(world: World, proxy: RawConnection) -> RawConnection:
    return silent_tunnel(world, proxy).start_tls("a.example", world.gateway.ca_path)


def tls_to_the_listener_and_then_nothing(world: World, proxy: RawConnection) -> RawConnection:
    return listener_tls(world, proxy)


def a_tunnel_in_tls_and_then_nothing(world: World, proxy: RawConnection) -> RawConnection:
    return silent_tunnel(world, listener_tls(world, proxy))


def half_a_head_in_a_tunnel(world: World, proxy: RawConnection) -> RawConnection:
    inside = tls_and_then_nothing(world, proxy)
    inside.send(b"GET / HTTP/1.1\r\nHost: a.exam")
    return inside


def half_a_head_in_a_plain_tunnel(world: World, proxy: RawConnection) -> RawConnection:
    silent_tunnel(world, proxy).send(b"GET / HTTP/1.1\r\nHost: a.exam")
    return proxy


def half_a_preface(world: World, proxy: RawConnection) -> RawConnection:
    inside = silent_tunnel(world, proxy).start_tls("a.example", world.gateway.ca_path, ("h2",))
    inside.send(b"PRI * HTTP/2.0\r\n")
    return inside


def h2_and_then_nothing(world: World, proxy: RawConnection) -> RawConnection:
    inside = silent_tunnel(world, proxy).start_tls("a.example", world.gateway.ca_path, ("h2",))
    H2Client(inside)
    return inside


def half_a_second_head(world: World, proxy: RawConnection) -> RawConnection:
    assert proxy.get(world.url("/first"), world.authority()).status == 200
    return half_a_head(world, proxy)


def half_a_second_head_in_a_tunnel(world: World, proxy: RawConnection) -> RawConnection:
    inside = tls_and_then_nothing(world, proxy)
    assert inside.get("/first", world.authority()).status == 200
    inside.send(b"GET / HTTP/1.1\r\nHost: a.exam")
    return inside


Stall = Callable[[World, RawConnection], RawConnection]
STALLS: dict[str, tuple[Stall, str]] = {
    "a client that says nothing": (nothing, "no request in time"),
    "half a request line": (half_a_line, "no request in time"),
    "half a request head": (half_a_head, "no request in time"),
    "a tunnel and then nothing": (silent_tunnel, "silent tunnel"),
    "a tunnel and half a TLS record": (half_a_record, "silent tunnel"),
    "a tunnel and half a ClientHello": (half_a_hello, "silent tunnel"),
    "a tunnel, a ClientHello, no more": (a_hello_and_no_more, "TLS handshake not done in time"),
    "half a ClientHello to the listener": (half_a_hello_to_the_listener, "no request in time"),
    "a ClientHello to the listener, no more": (
        a_hello_to_the_listener_and_no_more, "TLS handshake not done in time"),
    "TLS in a tunnel and then nothing": (tls_and_then_nothing, "no request in time"),
    "TLS to the listener and then nothing": (tls_to_the_listener_and_then_nothing, "no request in time"),
    "a tunnel in TLS and then nothing": (a_tunnel_in_tls_and_then_nothing, "silent tunnel"),
    "TLS in a tunnel and half a head": (half_a_head_in_a_tunnel, "no request in time"),
    "a tunnel and half a plain head": (half_a_head_in_a_plain_tunnel, "silent tunnel"),
    "h2 and half a preface": (half_a_preface, "no request in time"),
    "h2 and no request": (h2_and_then_nothing, "no request in time"),
    "a request, then half a head": (half_a_second_head, "request head not complete in time"),
    "in a tunnel a request, then half a head": (
        half_a_second_head_in_a_tunnel, "request head not complete in time"),
}  # fmt: skip


async def test_clients_that_stall_are_closed_and_audited(clients: World) -> None:
    def stall(name: str) -> bytes:
        with clients.gateway.open() as proxy:
            return ended(STALLS[name][0](clients, proxy))

    await at_once(STALLS, stall)
    said = Counter(line["detail"] for line in timeouts(clients))
    assert said == Counter(why for _, why in STALLS.values())
    assert contacts(clients).connects == sum(name.endswith("then half a head") for name in STALLS)


def timeouts(world: World) -> list[dict[str, Any]]:
    return world.gateway.lines("event", event="client-timeout")


TRICKLES = {
    "a head": (nothing, b"GET https://a.example/ HTTP/1.1\r\n" + b"x: y\r\n" * 4000),
    "a head in a plain tunnel": (silent_tunnel, b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 4000),
    "a ClientHello": (silent_tunnel, client_hello() + bytes(4000)),
    "a ClientHello to the listener": (nothing, client_hello() + bytes(4000)),
    "a head in TLS": (tls_and_then_nothing, b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 4000),
    "a second head": (half_a_second_head, b"ple\r\n" + b"x: y\r\n" * 4000),
}


async def test_bytes_one_by_one_do_not_put_the_deadline_off(clients: World) -> None:
    def drip_feed(what: str) -> int:
        begin, data = TRICKLES[what]
        with clients.gateway.open() as proxy:
            return len(data) - trickle(begin(clients, proxy), data)

    before = len(timeouts(clients))
    unsent = await at_once(TRICKLES, drip_feed)
    assert all(left > 0 for left in unsent.values()), unsent
    assert len(timeouts(clients)) == before + len(TRICKLES)


def trickle(connection: RawConnection, data: bytes) -> int:
    """Send byte by byte until the other side closes; how many were sent."""
    for number in range(len(data)):
        if select.select([connection.sock], [], [], 0.02)[0]:
            ended(connection)
            return number
        try:
            connection.send(data[number : number + 1])
        except OSError:
            return number
    return len(data)


def test_a_kept_connection_may_be_silent_for_longer_than_a_head_may_take(clients: World) -> None:
    """The clock is a silent client that is closed meanwhile."""
    with clients.gateway.open() as kept, clients.gateway.open() as h2_proxy:
        assert kept.get(clients.url("/one"), clients.authority()).status == 200
        client = H2Client(
            silent_tunnel(clients, h2_proxy).start_tls("a.example", clients.gateway.ca_path, ("h2",))
        )
        assert client.get(clients.authority(), "/one").status == 200
        for _ in range(2):
            with clients.gateway.open() as clock:
                ended(clock)
        assert kept.get(clients.url("/two"), clients.authority()).status == 200
        assert client.get(clients.authority(), "/two").status == 200
    assert contacts(clients).connects == 2


async def test_a_request_under_way_is_not_cut_by_the_limits_of_heads(clients: World) -> None:
    gate = Gate()
    clients.origin.route("/slow", replies.silent(gate, replies.text("at last")))
    with clients.gateway.open() as proxy:
        proxy.request("GET", clients.url("/slow"), clients.authority())
        await clients.origin.wait_requests(1)
        for _ in range(2):
            with clients.gateway.open() as clock:
                await asyncio.to_thread(ended, clock)
        gate.open()
        answer = await asyncio.to_thread(proxy.read_response)
    assert (answer.status, answer.body) == (200, b"at last")


# --- idle -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def short_idle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with World(tmp_path_factory.mktemp("idle"), python=quick(IDLE_SECONDS=1.0)) as world:
        yield world


@pytest.fixture
def idle(short_idle: World) -> World:
    forget(short_idle)
    return short_idle


@pytest.mark.parametrize("way", ["absolute", "connect-h1", "connect-h2"])
async def test_an_idle_connection_is_closed_on_both_sides(idle: World, way: str) -> None:
    def use() -> bytes:
        with idle.gateway.open() as proxy:
            if way == "absolute":
                assert proxy.get(idle.url(), idle.authority()).status == 200
                return ended(proxy)
            entry = Entry(way)
            with tunnel(idle, proxy, entry, Ask()) as inside:
                assert isinstance(inside, RawConnection)
                if entry is Entry.CONNECT_H2:
                    assert H2Client(inside).get(idle.authority()).status == 200
                else:
                    assert inside.get("/", idle.authority()).status == 200
                return ended(inside)

    await asyncio.to_thread(use)
    await idle.origin.wait_closed()
    assert idle.origin.accepts == 1


@pytest.mark.parametrize("moment", ["before the head", "within the body"])
async def test_a_hop_under_way_is_bounded_by_its_own_limit_and_not_by_idleness(
    idle: World, moment: str
) -> None:
    """The clocks are connections that are idle meanwhile, one after the other, and are closed."""
    gate = Gate()
    idle.origin.route("/slow", replies.silent(gate, replies.text("late")))
    idle.origin.route("/half", replies.headers_only(gate, b"late", "text/plain"))
    path = "/slow" if moment == "before the head" else "/half"
    with idle.gateway.open() as proxy:
        proxy.request("GET", idle.url(path), idle.authority())
        await idle.origin.wait_requests(1)
        for _ in range(2):
            with idle.gateway.open() as clock:
                assert (
                    await asyncio.to_thread(clock.get, idle.url("/quick"), idle.authority())
                ).status == 200
                await asyncio.to_thread(ended, clock)
        gate.open()
        answer = await asyncio.to_thread(proxy.read_response)
    assert (answer.status, answer.body, answer.complete) == (200, b"late", True)
