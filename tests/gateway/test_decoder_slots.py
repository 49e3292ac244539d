"""Few br and zstd decoders work at a time: the rest wait their turn, within their time, and nobody waits for ever."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from proxy_addons.addons.decoder_slots import share_windows
from tests.gateway.lines import wait_lines
from tests.gateway.paths import OPEN, Ask, Entry, send, tunnel
from tests.kit import replies
from tests.kit.bodies import Coding, encode_body
from tests.kit.client import Response
from tests.kit.client_h2 import H2Client
from tests.kit.exchange import Exchange
from tests.kit.gateway import World
from tests.kit.sync import Gate

WINDOWS = share_windows(1)
SHORT = 2.0
BIG = encode_body(random.Random(3).randbytes(700_000), Coding.BR)
"""Several reads long, so that a stream which has begun still needs its origin."""


@pytest.fixture(scope="module", params=["http/1.1", "h2"])
def shared_world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    alpn = ("http/1.1",) if request.param == "http/1.1" else ("h2", "http/1.1")
    profiles = {"test": {"total_timeout": SHORT}}
    with World(tmp_path_factory.mktemp("slots"), profiles=profiles, alpn=alpn) as world:
        yield world


def test_more_br_streams_than_slots_on_one_http2_connection_all_end_well(world: World) -> None:
    """Streams that wait for a slot must not keep those that have one from going on."""
    world.origin.route("/big", replies.body_as_is(BIG, "br", length=False))
    with world.gateway.open(OPEN) as proxy, tunnel(world, proxy, Entry.CONNECT_H2, Ask()) as inside:
        assert not isinstance(inside, Response)
        client = H2Client(inside)
        streams = [client.request(world.authority(), "/big") for _ in range(2 * WINDOWS + 4)]
        answers = [client.read_response(stream) for stream in streams]
    assert [(answer.status, answer.body == BIG) for answer in answers] == [(200, True)] * len(streams)


def test_who_finds_no_slot_in_time_is_told_504_and_slots_come_back(world: World) -> None:
    gate = Gate()

    async def held(exchange: Exchange) -> None:
        await replies.start_chunked(exchange, [("content-type", replies.HTML), ("content-encoding", "br")])
        await replies.send_chunk(exchange, BIG[:1000])
        await gate.wait()
        await replies.send_chunk(exchange, BIG[1000:])
        await replies.end_chunked(exchange)

    world.origin.route("/held", held)
    world.origin.route("/late", replies.encoded(b"late", Coding.BR))
    with ThreadPoolExecutor(WINDOWS) as pool:
        holders = [pool.submit(send, world, Entry.ABSOLUTE_HTTPS, Ask("/held")) for _ in range(WINDOWS)]
        wait_lines(world.gateway, "decision", WINDOWS, url=world.url("/held"))
        late = send(world, Entry.ABSOLUTE_HTTPS, Ask("/late"), listener=0)
        unheavy = send(world, Entry.ABSOLUTE_HTTPS, Ask("/gz"), listener=0)
        gate.open()
        whole = [holder.result() for holder in holders]
    again = send(world, Entry.ABSOLUTE_HTTPS, Ask("/late"), listener=0)

    assert (late.status, late.header("fetchd-rule")) == (504, "total-timeout")
    assert unheavy.status == 200
    assert all(answer.body == BIG for answer in whole)
    assert again.status == 200


@pytest.mark.parametrize("ending", ["the client leaves", "the origin breaks off", "the body is over the cap"])
def test_slots_come_back_however_a_body_ends(world: World, ending: str) -> None:
    over = encode_body(bytes(9 << 20), Coding.BR)
    broken = [("content-type", replies.HTML), ("content-encoding", "br")]
    gate = Gate()
    world.origin.route("/over", replies.body_as_is(over, "br", length=False))
    world.origin.route("/breaks", replies.chunked([BIG[:9000]], broken, finish=False))
    world.origin.route("/waits", replies.trickle([BIG[:9000]], [gate], broken))
    path = {"the client leaves": "/waits", "the origin breaks off": "/breaks"}.get(ending, "/over")
    world.origin.route("/late", replies.encoded(b"late", Coding.BR))
    for _ in range(WINDOWS + 1):
        with world.gateway.open(OPEN) as proxy:
            proxy.request("GET", world.url(path), world.authority())
            assert proxy.receive()
            if ending != "the client leaves":
                proxy.receive_until_closed()
    assert send(world, Entry.ABSOLUTE_HTTPS, Ask("/late"), listener=0).status == 200
    gate.open()
