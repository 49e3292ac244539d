"""Attacks on the worker all agents share: its memory, its time, its descriptors (N14, N18, N19, N21, N23)."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hyperframe.frame import ContinuationFrame, Frame, HeadersFrame

from tests.gateway.expect import assert_allowed, recent_lines
from tests.gateway.memory import MIB, peak, reset_peak, worker_of
from tests.gateway.paths import OPEN, Ask, Entry, client_context, send
from tests.gateway.quick_gateway import quick
from tests.kit.client import RawConnection
from tests.kit.client_h2 import ConnectionEndedError, H2Client
from tests.kit.exchange import Exchange
from tests.kit.gateway import World
from tests.kit.processes import poll_until
from tests.kit.sync import Gate

STALL_SECONDS = 0.5
"""How long a socket must take nothing before the gateway counts as reading no further."""


def get_by_other(world: World) -> None:
    """Another agent is served."""
    assert send(world, Entry.ABSOLUTE_HTTP, Ask(path="/other")).status == 200


def pour(sock: socket.socket, data: bytes, limit: int) -> int:
    """Send until nothing more is taken, the connection ends, or `limit` is reached; the octets sent."""
    sent = 0
    sock.setblocking(False)
    while sent < limit and select.select([], [sock], [], STALL_SECONDS)[1]:
        try:
            sent += sock.send(data)
        except BlockingIOError:
            continue
        except OSError:
            break
    return sent


# --- TLS ----------------------------------------------------------------------------------------------------------


def record(body: bytes) -> bytes:
    """One TLS handshake record."""
    return struct.pack("!BHH", 0x16, 0x0301, len(body)) + body


def client_hello(world: World) -> tuple[ssl.SSLObject, ssl.MemoryBIO, bytes]:
    """A client that has said its hello; the hello without its record's head."""
    ask = Ask()
    arriving, leaving = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context(world, ask).wrap_bio(arriving, leaving, server_hostname=ask.host)
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return client, arriving, leaving.read()[5:]


@pytest.mark.parametrize("tunnelled", [False, True], ids=["to the listener", "in a tunnel"])
def test_a_hello_without_end_is_closed(world: World, tunnelled: bool) -> None:
    """Stock parses it anew with each piece: 2 MiB in records of one octet stopped the worker for minutes."""
    endless = b"".join(record(bytes([octet])) for octet in b"\x01\xff\xff\xff" + bytes(1000))
    with world.gateway.open(OPEN) as proxy:
        if tunnelled:
            proxy.connect(world.authority())
        sent = pour(proxy.sock, endless, 16 * MIB)
        assert sent < 16 * MIB
        get_by_other(world)
    assert world.origin.connections == []


def test_a_hello_in_many_small_records_is_read(world: World) -> None:
    client, arriving, hello = client_hello(world)
    with world.gateway.open(OPEN) as proxy:
        proxy.connect(world.authority())
        proxy.send(b"".join(record(hello[at : at + 1]) for at in range(len(hello))))
        while True:
            arriving.write(proxy.receive())
            with contextlib.suppress(ssl.SSLWantReadError):
                client.do_handshake()
                break
        assert client.version() == "TLSv1.3"


# --- HTTP/1 -------------------------------------------------------------------------------------------------------


def test_what_an_agent_sends_ahead_is_not_kept(world: World) -> None:
    """While its first request is under way; stock keeps it all (345 MiB in three seconds)."""
    answer_now = Gate()

    async def hold(exchange: Exchange) -> None:
        await answer_now.wait()
        await exchange.respond(200, [("content-type", "text/plain")], b"at last")

    world.plain.route("/hold", hold)
    worker = worker_of(world.gateway.process.pid)
    before = reset_peak(worker)
    with world.gateway.open(OPEN) as proxy:
        proxy.request("GET", world.plain_url("/hold"), f"a.example:{world.plain.port}")
        pour(proxy.sock, b"x" * 65536, 128 * MIB)
        assert peak(worker) - before < 16 * MIB
        answer_now.open()
        proxy.sock.setblocking(True)
        assert proxy.read_response().body == b"at last"


@pytest.mark.parametrize(
    ("start", "piece"),
    [
        pytest.param(b"5;", b"e" * 65536, id="an extension of a chunk"),
        pytest.param(b"0\r\n", b"X-Trailer: y\r\n" * 4096, id="trailers"),
    ],
)
async def test_lines_of_an_origin_that_never_end_are_cut(world: World, start: bytes, piece: bytes) -> None:
    async def flood(exchange: Exchange) -> None:
        await exchange.raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + start)
        while True:  # ends with the connection
            await exchange.raw(piece)

    world.plain.route("/flood", flood)
    answer = send(world, Entry.ABSOLUTE_HTTP, Ask(path="/flood"))
    assert not answer.complete
    await world.plain.wait_closed()


# --- HTTP/2 -------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def h2_client(world: World) -> Iterator[H2Client]:
    ask = Ask()
    with world.gateway.open(OPEN) as proxy:
        assert proxy.connect(ask.authority(world, Entry.CONNECT_H2)).status == 200
        yield H2Client(proxy.start_tls(ask.host, client_context(world, ask), ("h2",)))


def assert_ended(client: H2Client, world: World) -> None:
    """The gateway answers nothing more on this connection."""
    with pytest.raises(ConnectionEndedError):
        client.get(world.authority())


def assert_calmed(world: World, why: str) -> None:
    """The newest connection error in the audit says `why`."""
    poll_until(
        lambda: (
            recent_lines(world, "decision", rule="not-http")[-1:] != []
            and recent_lines(world, "decision", rule="not-http")[-1]["detail"] == f"HTTP/2: {why}"
        ),
        f"the line {why}",
    )


def reset_at_once(client: H2Client, world: World, number: int) -> None:
    """Requests that are taken back in the same breath."""
    head = [(":method", "GET"), (":scheme", "https"), (":authority", world.authority()), (":path", "/")]
    for _ in range(number):
        stream = client.h2.get_next_available_stream_id()
        client.h2.send_headers(stream, head, end_stream=True)
        client.h2.reset_stream(stream)
    client.flush()


@pytest.fixture
def slow_dial(world: World) -> Iterator[Gate]:
    """TLS origins do not answer handshakes until the gate is open."""
    gate = world.origin.hold_handshake = Gate()
    yield gate
    gate.open()
    world.origin.hold_handshake = None


def test_requests_taken_back_at_once_do_not_pile_up(world: World, slow_dial: Gate) -> None:
    """Rapid reset: to h2 the stream is gone, here it waits for its dial."""
    with h2_client(world) as client, contextlib.suppress(OSError):  # closed while we still write
        reset_at_once(client, world, 1000)
        assert_ended(client, world)
    assert_calmed(world, "too many requests at once")
    get_by_other(world)


def test_a_client_may_take_requests_back(world: World, slow_dial: Gate) -> None:
    with h2_client(world) as client:
        reset_at_once(client, world, 100)
        slow_dial.open()
        assert client.get(world.authority(), "/after").status == 200


def pings(client: H2Client, number: int) -> None:
    for _ in range(number):
        client.h2.ping(b"12345678")


def settings(client: H2Client, number: int) -> None:
    for _ in range(number):
        client.h2.update_settings({4: 65535})


def priorities(client: H2Client, number: int) -> None:
    for _ in range(number):
        client.h2.prioritize(1, weight=16)


@pytest.mark.parametrize("flood", [pings, settings, priorities])
def test_frames_that_move_nothing_end_the_connection(
    world: World, flood: Callable[[H2Client, int], None]
) -> None:
    with h2_client(world) as client, contextlib.suppress(OSError):
        flood(client, 8000)
        client.flush()
        assert_ended(client, world)
    assert_calmed(world, "HTTP/2 protocol error: too many frames that move nothing")
    get_by_other(world)


def test_an_upload_in_frames_of_one_octet_ends_the_connection(world: World) -> None:
    with h2_client(world) as client, contextlib.suppress(OSError):
        stream = client.request(world.authority(), "/upload", "POST", end=False)
        for _ in range(8000):
            client.h2.send_data(stream, b"x")
        client.flush()
        assert_ended(client, world)
    assert_calmed(world, "HTTP/2 protocol error: too many frames that move nothing")
    get_by_other(world)


@pytest.mark.parametrize("flood", [pings, settings, priorities])
def test_a_client_may_send_some_of_them(world: World, flood: Callable[[H2Client, int], None]) -> None:
    with h2_client(world) as client:
        flood(client, 500)
        client.flush()
        assert_allowed(world, client.get(world.authority()))


def test_n23_a_header_block_that_comes_to_nothing_ends_the_connection(world: World) -> None:
    """A megabyte of table sizes, each of which is read: stock takes the request that comes behind them."""
    with h2_client(world) as client, contextlib.suppress(OSError):
        block = b"\x20" * (900 << 10) + client.h2.encoder.encode(
            [(":method", "GET"), (":scheme", "https"), (":authority", world.authority()), (":path", "/")]
        )
        pieces = [block[at : at + 16_000] for at in range(0, len(block), 16_000)]
        frames: list[Frame] = [HeadersFrame(1, pieces[0], flags=["END_STREAM"])]
        frames += [ContinuationFrame(1, piece) for piece in pieces[1:]]
        frames[-1].flags.add("END_HEADERS")
        client.connection.send(b"".join(frame.serialize() for frame in frames))
        assert_ended(client, world)
    assert_calmed(world, "HTTP/2 protocol error: header block too long")
    get_by_other(world)


# --- descriptors --------------------------------------------------------------------------------------------------


def sockets(worker: int) -> int:
    """Open descriptors of a process."""
    return len(list(Path(f"/proc/{worker}/fd").iterdir()))


@pytest.fixture(scope="module")
def short_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A gateway with short limits."""
    python = quick(FLUSH_SECONDS=0.2, CLIENT_HEAD_SECONDS=0.5)
    with World(
        tmp_path_factory.mktemp("short"), profiles={"open": {"total_timeout": 1}}, python=python
    ) as world:
        yield world


def test_clients_that_take_no_answer_are_let_go(short_world: World) -> None:
    """Closed by time, with octets left that they never read: stock keeps each for ever, uncounted."""
    world = short_world

    async def much(exchange: Exchange) -> None:
        with contextlib.suppress(ConnectionError):
            await exchange.respond(200, [("content-type", "text/plain")], bytes(8 * MIB))

    world.plain.route("/much", much)
    get_by_other(world)
    worker = worker_of(world.gateway.process.pid)
    before = sockets(worker)
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            deaf: RawConnection = stack.enter_context(world.gateway.open(OPEN))
            deaf.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.request("GET", world.plain_url("/much"), f"a.example:{world.plain.port}")
        poll_until(lambda: sockets(worker) >= before + 20, "all clients taken")
        poll_until(lambda: sockets(worker) <= before, "descriptors given back")


def test_a_later_head_in_drops_gets_no_more_time_than_the_first(short_world: World) -> None:
    """Each octet used to begin the time anew."""
    world = short_world
    with world.gateway.open(OPEN) as proxy:
        proxy.request("GET", world.plain_url("/"), f"a.example:{world.plain.port}")
        assert proxy.read_response().status == 200
        for octet in b"GET http://a.example/" + b"a" * 200:  # 22 s of drops
            with contextlib.suppress(OSError):
                proxy.send(bytes([octet]))
            if select.select([proxy.sock], [], [], 0.1)[0]:
                break
        else:
            raise AssertionError("still open")
