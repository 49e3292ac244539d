"""The lean layers against mitmproxy's own: for the same events the same commands, in the same order."""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

import pytest
import trustme
from hypothesis import given, settings
from hypothesis import strategies as st
from mitmproxy import connection, options
from mitmproxy.connection import ConnectionState
from mitmproxy.proxy import commands, context, events, layer
from mitmproxy.proxy.layers import http as mhttp
from mitmproxy.proxy.layers.http import HttpClient, HttpStream
from mitmproxy.proxy.layers.http._events import ResponseData
from mitmproxy.proxy.layers.tls import TLSLayer
from mitmproxy.proxy.tunnel import TunnelLayer, TunnelState
from mitmproxy.test import tflow
from OpenSSL import SSL, crypto

from proxy_addons.engine import lean, lean_layers
from proxy_addons.engine.refusals import RefusedBody
from proxy_addons.engine.stream import GateStream

# --- waiting -----------------------------------------------------------------------------------------------------

Step = tuple[str, int]
"""("say" | "wait" | "enter", number): a command, one that is waited for, an event that comes in between."""


class Note(commands.Command):
    def __init__(self, number: int) -> None:
        self.number = number


class Question(Note):
    blocking = True


class Said(events.Event):
    def __init__(self, steps: tuple[Step, ...]) -> None:
        self.steps = steps


@dataclass(eq=False)
class Answered(events.CommandCompleted):
    command: Question
    reply: int


class Scripted(layer.Layer):
    """Does what an event says."""

    def __init__(self) -> None:
        self.context = cast(Any, None)
        self._paused = None
        self._paused_event_queue = deque()
        self.seen: list[Any] = []

    def _handle_event(self, event: events.Event) -> layer.CommandGenerator[None]:
        assert isinstance(event, Said)
        for what, number in event.steps:
            self.seen.append((what, number))
            if what == "say":
                yield Note(number)
            else:
                self.seen.append((yield Question(number)))


def run(handle: Callable[[Any, Any], Iterator[Any]], script: list[tuple[Step, ...] | None]) -> list[Any]:
    """What a layer says to each event; None answers the question it waits for, if any."""
    scripted, reply = Scripted(), 0
    said: list[Any] = []
    scripted.handle_event = types.MethodType(handle, scripted)  # type: ignore[method-assign]
    waiting: list[Question] = []
    for steps in script:
        event: events.Event = Said(steps or ())
        if steps is None:
            reply += 1
            event = Answered(waiting.pop() if waiting else Question(-1), reply)
            if event.command.number < 0 and scripted._paused is None:
                continue
        for command in scripted.handle_event(event):
            said.append((type(command).__name__, command.number, command.blocking is scripted))
            if isinstance(command, Question):
                waiting.append(command)
        said.append((len(scripted._paused_event_queue), scripted._paused is not None))
    return [*said, scripted.seen]


STEPS = st.lists(st.tuples(st.sampled_from(["say", "wait"]), st.integers(0, 9)), max_size=4).map(tuple)


@given(st.lists(st.one_of(STEPS, st.none()), max_size=8))
def test_a_layer_waits_and_goes_on_as_in_stock(script: list[tuple[Step, ...] | None]) -> None:
    stock = lean.STOCK[layer.Layer, "handle_event"]
    assert run(lean_layers.handle_event, script) == run(stock, script)


# --- TLS ---------------------------------------------------------------------------------------------------------

AUTHORITY = trustme.CA(key_type=trustme.KeyType.ECDSA)
LEAF = AUTHORITY.issue_cert("a.example", key_type=trustme.KeyType.ECDSA)
SERVER = SSL.Context(SSL.TLS_SERVER_METHOD)
SERVER.use_certificate(
    crypto.load_certificate(crypto.FILETYPE_PEM, LEAF.cert_chain_pems[0].bytes()).to_cryptography()
)
SERVER.use_privatekey(
    crypto.load_privatekey(crypto.FILETYPE_PEM, LEAF.private_key_pem.bytes()).to_cryptography_key()  # type: ignore[arg-type]
)
CLIENT = SSL.Context(SSL.TLS_CLIENT_METHOD)


def shake_hands() -> tuple[SSL.Connection, SSL.Connection]:
    """A client and a server that have agreed, over memory; what either still has to say is passed on."""
    client, server = SSL.Connection(CLIENT), SSL.Connection(SERVER)
    client.set_connect_state()
    server.set_accept_state()
    for _ in range(3):
        for one, other in ((client, server), (server, client)):
            try:
                one.do_handshake()
            except SSL.WantReadError:
                pass
            while lean_layers.has_output(one):
                other.bio_write(one.bio_read(1 << 16))
    with pytest.raises(SSL.WantReadError):
        client.recv(1)  # session tickets
    return client, server


def open_server() -> connection.Server:
    made = connection.Server(address=("a.example", 443))
    made.state = ConnectionState.OPEN
    return made


class Echo(layer.Layer):
    """Takes note, and says what it got, back."""

    def __init__(self, conn: connection.Connection) -> None:
        self.conn = conn
        self.got: list[Any] = []

    def handle_event(self, event: events.Event) -> layer.CommandGenerator[None]:
        self.got.append((type(event), getattr(event, "data", None)))
        yield Note(len(self.got))
        if isinstance(event, events.DataReceived):
            yield commands.SendData(self.conn, event.data)
            yield commands.SendData(connection.Server(address=("b", 1)), b"to another")

    _handle_event = handle_event


class StockTls(TLSLayer):
    """As it comes, with stock's way to wait."""

    handle_event = lean.STOCK[layer.Layer, "handle_event"]


def make_open(kind: type[TLSLayer], tls: SSL.Connection) -> Any:
    made: Any = object.__new__(kind)
    made.conn = made.tunnel_connection = open_server()
    made.child_layer = Echo(made.conn)
    made.tls, made.tunnel_state, made.command_to_reply_to = tls, TunnelState.OPEN, None
    made._paused, made.debug, made._event_queue = None, None, []
    made._paused_event_queue = deque()
    return made


def exchange(
    kind: type[TLSLayer], pieces: list[int], cuts: list[int], ends: bool
) -> tuple[list[Any], Any, bytes]:
    """Records of these sizes, come in as these cuts have it: commands, what the child got, what the peer reads."""
    client, server = shake_hands()
    for size in pieces:
        client.sendall(bytes(size % 256 for _ in range(size)) or b"x")
    if ends:
        client.shutdown()
    wire = b""
    while lean_layers.has_output(client):
        wire += client.bio_read(1 << 16)
    tls_layer, said = make_open(kind, server), []
    edges = sorted({0, len(wire), *(cut % (len(wire) + 1) for cut in cuts)})
    incoming: list[events.Event] = [
        events.DataReceived(tls_layer.conn, wire[start:end]) for start, end in pairwise(edges)
    ]
    for event in (*incoming, events.DataReceived(connection.Server(address=("b", 1)), b"not TLS"), Said(())):
        for command in tls_layer.handle_event(event):
            to_peer = isinstance(command, commands.SendData) and command.connection is tls_layer.conn
            if to_peer:
                client.bio_write(command.data)
            said.append(
                (type(command).__name__, to_peer, None if to_peer else getattr(command, "data", None))
            )
    answer = b""
    while True:
        try:
            answer += client.recv(1 << 16)
        except SSL.Error:
            return said, (tls_layer.child_layer.got, tls_layer.conn.state), answer


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from([1, 100, 16384, 16385, 40000]), max_size=3),
    st.lists(st.integers(0, 100_000), max_size=4),
    st.booleans(),
)
def test_records_are_read_and_written_as_in_stock(pieces: list[int], cuts: list[int], ends: bool) -> None:
    ours = exchange(lean_layers.LeanTlsLayer, pieces, cuts, ends)
    assert ours == exchange(StockTls, pieces, cuts, ends)


def test_broken_records_are_logged_as_in_stock() -> None:
    said = {}
    for kind in (lean_layers.LeanTlsLayer, StockTls):
        tls_layer = make_open(kind, shake_hands()[1])
        broken = events.DataReceived(tls_layer.conn, b"\x17\x03\x03\x00\x20" + bytes(32))
        said[kind] = [
            (type(command), getattr(command, "message", None), getattr(command, "level", None))
            for command in tls_layer.handle_event(broken)
        ]
    assert said[lean_layers.LeanTlsLayer] == said[StockTls] != []


def test_before_it_is_open_the_layer_is_stock() -> None:
    made = make_open(lean_layers.GateServerTlsLayer, shake_hands()[1])
    made.tunnel_state = TunnelState.ESTABLISHING
    assert list(made.event_to_child(Said(()))) == [] and len(made._event_queue) == 1
    made.tunnel_state = TunnelState.CLOSED
    assert [type(command) for command in made.event_to_child(Said(()))] == [Note]
    assert TunnelLayer.event_to_child is not lean_layers.LeanTlsLayer.event_to_child


# --- upstream connections and bodies -----------------------------------------------------------------------------


def test_a_connected_client_layer_hands_events_straight_to_its_protocol() -> None:
    client = connection.Client(peername=("127.0.0.1", 1), sockname=("127.0.0.1", 2), timestamp_start=0.0)
    where = context.Context(client, options.Options())
    where.server = open_server()
    ours, stock = lean_layers.GateHttpClient(where.fork()), HttpClient(where.fork())
    for one in (ours, stock):
        (registered,) = one.handle_event(events.Start())
        assert isinstance(registered, mhttp.RegisterHttpConnection) and registered.err is None
    assert ours.handle_event.__self__ is ours.child_layer  # type: ignore[attr-defined]


class Untouched:
    """A hop that nobody refused."""

    refused = answered = False


@pytest.mark.parametrize("counted", [b"as it came", b"changed", b""])
def test_a_piece_of_an_answer_is_passed_on_as_in_stock(counted: bytes) -> None:
    stream = GateStream.__new__(GateStream)
    stream.flow, stream.stream_id, stream.hop = tflow.tflow(resp=True), 1, cast(Any, Untouched())
    opts = options.Options()
    opts.add_option("store_streamed_bodies", bool, False, "as the proxyserver addon does")
    stream.context = context.Context(stream.flow.client_conn, opts)
    assert stream.flow.response is not None
    stream.flow.response.stream = lambda data: counted
    piece = ResponseData(1, b"as it came")
    ours = list(stream.state_stream_response_body(piece))
    assert ours == list(HttpStream.state_stream_response_body(stream, piece)) != []


def test_a_piece_that_is_refused_is_not_passed_on() -> None:
    stream = GateStream.__new__(GateStream)
    stream.flow, stream.stream_id, stream.hop = tflow.tflow(resp=True), 1, cast(Any, Untouched())
    stream._answer = lambda: iter(["the refusal"])  # type: ignore[method-assign, assignment, return-value]

    def refuse(data: bytes) -> bytes:
        raise RefusedBody

    assert stream.flow.response is not None
    stream.flow.response.stream = refuse
    said: list[Any] = list(stream.state_stream_response_body(ResponseData(1, b"x")))
    assert said == ["the refusal"]


# --- session tickets ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("is_client", "version", "held"),
    [(True, "TLSv1.3", True), (True, "TLSv1.2", False), (False, "TLSv1.3", False)],
    ids=[
        "tickets wait for the first answer",
        "TLS 1.2 ends with our Finished",
        "an origin is owed our Finished",
    ],
)
def test_what_is_left_of_a_handshake_waits_only_where_it_is_tickets(
    is_client: bool, version: str, held: bool
) -> None:
    client, server = SSL.Connection(CLIENT), SSL.Connection(SERVER)
    client.set_connect_state()
    server.set_accept_state()
    for one, other in ((client, server), (server, client), (client, server)):
        try:
            one.do_handshake()
        except SSL.WantReadError:
            pass
        while lean_layers.has_output(one):
            other.bio_write(one.bio_read(1 << 16))
    server.do_handshake()
    assert lean_layers.has_output(server), "the tickets"
    made = make_open(lean_layers.LeanTlsLayer, server)
    made.context = types.SimpleNamespace(client=made.conn if is_client else None)
    made.conn.tls_version = version
    sent = [one for one in made.receive_data(b"") if isinstance(one, commands.SendData)]
    assert bool(sent) is not held
    answer = [one.data for one in made.send_data(b"answer")]
    client.bio_write(b"".join([one.data for one in sent] + answer))
    assert client.recv(100) == b"answer"
    assert len(answer) == 1, "in one piece with the answer"
    assert client.get_session() is not None
