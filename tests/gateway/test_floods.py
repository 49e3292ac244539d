"""Clients that send much of nothing (docs/mitmproxy-holes.md, N18, N19 and N21): their connection ends, nobody waits.

Stock has no bound at all here, and a probe of it would run for minutes; so these run against the gateway alone.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.gateway.expect import CLOSED, NOBODY, assert_allowed, contacts, ended, forget, recent_lines
from tests.gateway.paths import Ask, Entry, send, tunnel
from tests.kit.client import RawConnection
from tests.kit.client_h2 import H2Client
from tests.kit.dns import NODATA, Addresses, Delayed
from tests.kit.gateway import ORIGIN_ADDRESS, World
from tests.kit.sync import Gate


def flood(connection: RawConnection, data: bytes, pieces: int) -> None:
    """Send `data` so many times, or as often as the other side lets us."""
    try:
        for _ in range(pieces):
            connection.send(data)
    except CLOSED:
        return


def is_closed_on(step: Callable[..., object], *arguments: object) -> bool:
    """Whether the gateway closes the connection during this step; to be left hanging raises TimeoutError."""
    try:
        step(*arguments)
    except TimeoutError:
        raise
    except CLOSED:
        return True
    return False


def reset_many(world: World, client: H2Client) -> None:
    """A thousand requests, each reset at once, and one that is not."""
    for _ in range(1000):
        client.h2.reset_stream(client.request(world.authority("b.example"), "/n19"))
        client.flush()
    client.read_response(client.request(world.authority("b.example"), "/n19"))


def others_are_served(world: World) -> bool:
    forget(world)
    assert_allowed(world, send(world, Entry.CONNECT_H2, Ask()))
    return True


@pytest.mark.parametrize("where", ["listener", "tunnel"])
def test_n18_a_client_hello_in_one_byte_records_ends_early(world: World, where: str) -> None:
    """A hello that says it is 16 MiB long, a byte a record: parsed anew with each piece it cost minutes."""
    late = len(recent_lines(world, "event", event="client-timeout"))
    hello = b"\x01\xff\xff\xff\x03\x03" + bytes(64)
    with world.gateway.open(1) as proxy:
        if where == "tunnel":
            assert proxy.connect(world.authority()).status == 200
        proxy.send(b"".join(b"\x16\x03\x01\x00\x01" + hello[n : n + 1] for n in range(len(hello))))
        flood(proxy, b"\x16\x03\x01\x00\x01\x00" * 512, 32)
        answer = ended(proxy)

    assert b"HTTP/1.1 200" not in answer
    assert len(recent_lines(world, "event", event="client-timeout")) == late, (
        "it was the deadline that ended it"
    )
    assert contacts(world) == NOBODY
    assert others_are_served(world)


def test_n19_streams_that_are_reset_during_their_dial_are_counted(world: World) -> None:
    """Rapid reset: to h2 such a stream is closed, to us its look-up is still under way."""
    gate = Gate()
    world.dns.script("b.example", "A", Delayed(gate, Addresses(ORIGIN_ADDRESS)))
    world.dns.script("b.example", "AAAA", NODATA)
    try:
        with (
            world.gateway.open(1) as proxy,
            tunnel(world, proxy, Entry.CONNECT_H2, Ask(host="b.example")) as tls,
        ):
            assert isinstance(tls, RawConnection)
            client = H2Client(tls)
            assert is_closed_on(reset_many, world, client)
        assert contacts(world).connects == 0
        assert others_are_served(world)
    finally:
        gate.open()
        world.dns.host_addresses("b.example", ORIGIN_ADDRESS)


@pytest.mark.parametrize("kind", ["ping", "settings", "window update", "empty data"])
def test_n21_frames_that_move_nothing_end_the_connection(world: World, kind: str) -> None:
    """Each costs us a hundred microseconds and the client nothing."""
    frames = {
        "ping": b"\x00\x00\x08\x06\x00\x00\x00\x00\x00" + bytes(8),
        "settings": b"\x00\x00\x00\x04\x00\x00\x00\x00\x00",
        "window update": b"\x00\x00\x04\x08\x00\x00\x00\x00\x00\x00\x00\x00\x01",
        "empty data": b"\x00\x00\x00\x00\x00\x00\x00\x00\x01",
    }
    with world.gateway.open(1) as proxy, tunnel(world, proxy, Entry.CONNECT_H2, Ask()) as tls:
        assert isinstance(tls, RawConnection)
        client = H2Client(tls)
        stream = client.request(world.authority(), "/n21", "POST", end=False)
        flood(tls, frames[kind] * 256, 64)
        assert is_closed_on(client.read_response, stream)

    assert others_are_served(world)


def test_n21_an_honest_number_of_frames_passes(world: World) -> None:
    with world.gateway.open(1) as proxy, tunnel(world, proxy, Entry.CONNECT_H2, Ask()) as tls:
        assert isinstance(tls, RawConnection)
        client = H2Client(tls)
        for _ in range(500):
            client.h2.ping(b"12345678")
        client.flush()
        assert_allowed(world, client.get(world.authority(), "/n21"))
