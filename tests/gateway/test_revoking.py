"""What is under way for an agent ends when the agent does: its requests, WebSockets, tunnels; and no other's."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from proxy_addons.engine.revoking import REVOKED
from proxy_addons.policy.agents import digest_token
from proxy_addons.policy.wire import DaemonRequest, render_daemon_fields
from tests.gateway.expect import forget
from tests.gateway.kept import KeptClient
from tests.gateway.lines import wait_lines, wait_until
from tests.gateway.paths import ABSOLUTE, ALL, WEBSOCKET_FIELDS, Entry, Pairs
from tests.gateway.test_identity import basic
from tests.kit import replies
from tests.kit.client import Closing, RawConnection, Response, open_connection
from tests.kit.client_h2 import ConnectionEndedError, H2Client, StreamResetError
from tests.kit.gateway import SECRET, World
from tests.kit.sync import Gate

KNOWN, CARLS, ANYBODY = range(3)
"""The listeners: for known agents, Carl's own, and one that is open to all."""
TOKENS = {name: f"fetchd.{name}.{'0123456789abcdef' * 2}" for name in ("alice", "bob", "other")}
ALICE, BOB = (basic(name, TOKENS[name]) for name in ("alice", "bob"))
DORAS_ADDRESS = "127.0.0.5"
WAYS = [entry for entry in ALL if entry is not Entry.WEBSOCKET]
H1_WAYS = [entry for entry in WAYS if entry is not Entry.CONNECT_H2]
ACCEPT = ("sec-websocket-accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
PATIENT = {"total_timeout": 300}
"""Whatever ends sooner than that was ended."""


def configuration(world: World | None = None, **agents: dict[str, Any] | None) -> dict[str, Any]:
    """With these agents instead; None: without that one."""
    known: dict[str, Any] = {
        "alice": {"profile": "open", "token_sha256": digest_token(TOKENS["alice"])},
        "bob": {"profile": "open", "token_sha256": digest_token(TOKENS["bob"])},
        "carl": {"profile": "open"},
        "dora": {"profile": "open", "sources": [DORAS_ADDRESS]},
    }
    listeners = [
        {"address": "127.0.0.1:0", "profile": "open"},
        {"address": "127.0.0.1:0", "agent": "carl"},
        {"address": "127.0.0.1:0", "profile": "open", "anonymous": True},
    ]
    whole = {name: one for name, one in {**known, **agents}.items() if one is not None}
    config = {"gateway": {"listeners": listeners, "workers": 2}, "agents": whole}
    return config if world is None else {**copy.deepcopy(world.config()), "agents": whole}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    profiles = {"open": {
        "schemes": ["https", "http"], "methods": ["GET", "POST"], "request_body": True, "request_cap": 1000,
        "upgrades": ["websocket"], **PATIENT,
    }}  # fmt: skip
    profiles["other"] = {**profiles["open"], "byte_cap": 4242}
    with World(tmp_path_factory.mktemp("revoking"), profiles=profiles, config=configuration()) as world:
        for origin in (world.origin, world.plain):
            origin.route("/ws", replies.upgrade("websocket", [ACCEPT]))
        yield world


@pytest.fixture
def world(shared: World) -> Iterator[World]:
    forget(shared)
    yield shared
    take(shared, configuration(shared))


@pytest.fixture(autouse=True)
def gate(shared: World) -> Iterator[Gate]:
    """/stream: its answer begins, and ends when this opens. /silent: its answer does not begin before."""
    begun, gate = Gate(), Gate()
    begun.open()
    for origin in (shared.origin, shared.plain):
        origin.route("/stream", replies.trickle([b"begun", b"ended"], [begun, gate]))
        origin.route("/silent", replies.silent(gate))
    yield gate
    gate.open()


def take(world: World, config: dict[str, Any]) -> None:
    assert world.gateway.reload(config) == {"event": "reloaded"}


class Standing:
    """One request that is under way, on a connection of its own."""

    def __init__(
        self, stack: ExitStack, world: World, entry: Entry, path: str, who: Pairs, listener: int = KNOWN,
        fields: Pairs = (),
    ) -> None:  # fmt: skip
        client = stack.enter_context(KeptClient(world, entry, listener=listener, credentials=who))
        authority = f"a.example:{entry.origin(world).port}"
        self.stream = 0
        if entry is Entry.CONNECT_H2:
            self.h2 = client.h2(authority, "a.example")
            self.stream = self.h2.request(authority, path)
            return
        assert client.get(client.url("/")).status == 200
        self.connection = client.connection()
        absolute = entry in ABSOLUTE
        self.connection.request(
            "GET", client.url(path) if absolute else path, authority, [*(who if absolute else ()), *fields]
        )

    def wait_for_the_body(self) -> None:
        if self.stream:
            self.h2.wait_head(self.stream)
        else:
            read_to(self.connection, b"begun")

    def read_answer(self) -> Response:
        return self.h2.read_response(self.stream) if self.stream else self.connection.read_response()

    def assert_broken_off(self) -> None:
        """Its body never ends."""
        if self.stream:
            with pytest.raises((StreamResetError, ConnectionEndedError)):
                self.h2.read_response(self.stream)
        else:
            rest, _ = self.connection.receive_until_closed()
            assert b"ended" not in rest and not rest.endswith(b"0\r\n\r\n")


def read_to(connection: RawConnection, end: bytes) -> bytes:
    received = b""
    while end not in received:
        more = connection.receive()
        assert more, received
        received += more
    return received


def open_websocket(
    stack: ExitStack, world: World, who: Pairs, entry: Entry = Entry.CONNECT_H1, listener: int = KNOWN
) -> RawConnection:
    one = Standing(stack, world, entry, "/ws", who, listener, WEBSOCKET_FIELDS)
    assert one.connection.read_response().status == 101
    return one.connection


def wait_until_asked(world: World, entry: Entry, path: str) -> None:
    origin = entry.origin(world)
    origin._watch.wait_sync(lambda: any(one.target == path for one in origin.requests), "the request")


def wait_until_let_go(world: World, entry: Entry) -> None:
    """Nothing of the agent is left at the origin."""
    origin = entry.origin(world)
    origin._watch.wait_sync(
        lambda: all(one.ending is not None for one in origin._connections), "the origins' ends"
    )


# -- each thing under way, by each way in


@pytest.mark.parametrize("entry", WAYS)
def test_an_answer_under_way_breaks_off(world: World, entry: Entry) -> None:
    """An event stream, a download: whatever its origin would send is not passed on any more."""
    with ExitStack() as stack:
        one = Standing(stack, world, entry, "/stream", [ALICE])
        one.wait_for_the_body()
        take(world, configuration(world, alice=None))
        one.assert_broken_off()
        wait_until_let_go(world, entry)
    line = wait_lines(world.gateway, "close", agent="alice", rule="identity")[-1]
    assert (line["verdict"], line["detail"], line["status"]) == ("refused", REVOKED.message, 200)


@pytest.mark.parametrize("entry", WAYS)
def test_a_request_whose_answer_has_not_begun_is_told_why(world: World, entry: Entry) -> None:
    with ExitStack() as stack:
        one = Standing(stack, world, entry, "/silent", [ALICE])
        wait_until_asked(world, entry, "/silent")
        take(world, configuration(world, alice=None))
        answer = one.read_answer()
        wait_until_let_go(world, entry)
    assert (answer.status, answer.header("fetchd-rule")) == (407, "identity")
    assert answer.json()["detail"] == REVOKED.message
    wait_lines(world.gateway, "close", rule="identity", fetch_id=answer.header("fetchd-id"))


@pytest.mark.parametrize("entry", H1_WAYS)
def test_a_websocket_is_cut_on_both_sides(world: World, entry: Entry) -> None:
    with ExitStack() as stack:
        socket = open_websocket(stack, world, [ALICE], entry)
        take(world, configuration(world, alice=None))
        assert socket.receive_until_closed()[0] == b""
        wait_until_let_go(world, entry)
        (close,) = wait_lines(world.gateway, "close", agent="alice", status=101, rule="identity")[-1:]
    assert (close["verdict"], close["detail"]) == ("refused", REVOKED.message)


@pytest.mark.parametrize("entry", [Entry.CONNECT_H1, Entry.CONNECT_H2, Entry.CONNECT_PLAIN])
def test_an_idle_tunnel_is_cut(world: World, entry: Entry) -> None:
    before = len(world.gateway.lines("event", event="revoked"))
    with ExitStack() as stack:
        client = stack.enter_context(KeptClient(world, entry, listener=KNOWN, credentials=[ALICE]))
        assert client.get(client.url("/")).status == 200
        connection = client.h2_connection() if entry is Entry.CONNECT_H2 else client.connection()
        take(world, configuration(world, alice=None))
        connection.receive_until_closed()
        wait_until_let_go(world, entry)
    event = wait_lines(world.gateway, "event", before + 1, event="revoked")[-1]
    assert event["detail"] == REVOKED.message
    assert event["facts"] == {
        "agent": "alice", "profile": "open", "tunnel": f"a.example:{entry.origin(world).port}",
    }  # fmt: skip


def test_every_worker_ends_what_it_has(world: World, gate: Gate) -> None:
    """And what is not hers goes on: all of Bob's answer comes."""
    with ExitStack() as stack:
        bobs = [Standing(stack, world, Entry.CONNECT_H1, "/stream", [BOB]) for _ in range(4)]
        for one in bobs:
            one.wait_for_the_body()
        sockets: list[RawConnection] = []
        begun = len(world.gateway.decisions(agent="alice"))
        while len({line["chain"] for line in world.gateway.decisions(agent="alice")[begun:]}) < 2:
            sockets.append(open_websocket(stack, world, [ALICE]))
        take(world, configuration(world, alice=None))
        for socket in sockets:
            assert socket.receive_until_closed()[0] == b""
        gate.open()
        for one in bobs:
            read_to(one.connection, b"ended")


# -- why it ends, and why not

AGENT = {"profile": "open", "token_sha256": digest_token(TOKENS["alice"])}
ENDS: dict[str, tuple[int, Pairs, str | None, dict[str, Any]]] = {
    "revoked": (KNOWN, [ALICE], None, {"alice": None}),
    "its token was replaced": (
        KNOWN, [ALICE], None, {"alice": {**AGENT, "token_sha256": digest_token(TOKENS["other"])}},
    ),
    "its token is another's now": (
        KNOWN, [ALICE], None, {"alice": None, "eve": {**AGENT}},
    ),
    "revoked, where anybody may come": (ANYBODY, [ALICE], None, {"alice": None}),
    "its address is another's now": (
        KNOWN, [], DORAS_ADDRESS, {"dora": None, "eve": {"profile": "open", "sources": [DORAS_ADDRESS]}},
    ),
    "its address is nobody's now": (KNOWN, [], DORAS_ADDRESS, {"dora": None}),
    "its address is nobody's now, where anybody may come": (ANYBODY, [], DORAS_ADDRESS, {"dora": None}),
}  # fmt: skip
STAYS: dict[str, tuple[int, Pairs, str | None, dict[str, Any]]] = {
    "nothing changed": (KNOWN, [ALICE], None, {}),
    "another agent was revoked": (KNOWN, [ALICE], None, {"bob": None, "dora": None}),
    "it has another profile": (KNOWN, [ALICE], None, {"alice": {**AGENT, "profile": "other"}}),
    "it got an address beside its token": (KNOWN, [ALICE], None, {"alice": {**AGENT, "sources": ["10.0.0.1"]}}),
    "Carl comes by his listener": (CARLS, [], None, {"alice": None}),
    "nobody, where anybody may come": (ANYBODY, [], None, {"alice": None}),
}  # fmt: skip


def stand(stack: ExitStack, world: World, listener: int, who: Pairs, source: str | None) -> RawConnection:
    """An answer under way, from an address."""
    host, port, _ = world.gateway.listeners[listener]
    proxy = stack.enter_context(open_connection(host, port, source=source))
    proxy.request("GET", world.url("/stream"), world.authority(), who)
    read_to(proxy, b"begun")
    return proxy


@pytest.mark.parametrize("sentence", ENDS)
def test_it_ends_when(world: World, sentence: str) -> None:
    listener, who, source, agents = ENDS[sentence]
    with ExitStack() as stack:
        proxy = stand(stack, world, listener, who, source)
        take(world, configuration(world, **agents))
        rest, _ = proxy.receive_until_closed()
        assert b"ended" not in rest


@pytest.mark.parametrize("sentence", STAYS)
def test_it_goes_on_when(world: World, sentence: str, gate: Gate) -> None:
    listener, who, source, agents = STAYS[sentence]
    with ExitStack() as stack:
        proxy = stand(stack, world, listener, who, source)
        take(world, configuration(world, **agents))
        gate.open()
        read_to(proxy, b"ended")


@pytest.mark.parametrize(("agent", "ends"), [("alice", True), ("bob", False), ("local", False)])
def test_a_hop_that_the_daemon_asks_for_ends_with_its_agent(
    world: World, gate: Gate, agent: str, ends: bool
) -> None:
    fields = [
        (name.decode(), value.decode())
        for name, value in render_daemon_fields(SECRET, DaemonRequest(agent, "open", "f" * 20, 0))
    ]
    with ExitStack() as stack:
        proxy = stand(stack, world, KNOWN, fields, None)
        take(world, configuration(world, alice=None))
        if ends:
            assert b"ended" not in proxy.receive_until_closed()[0]
        else:
            gate.open()
            read_to(proxy, b"ended")


def test_an_upload_under_way_ends(world: World) -> None:
    """The rest of its body does not follow to the origin."""
    with ExitStack() as stack:
        proxy = stack.enter_context(world.gateway.open(KNOWN))
        proxy.request("POST", world.url("/silent"), world.authority(), [ALICE, ("Content-Length", "9")])
        proxy.send(b"half")
        wait_until(
            lambda: [bytes(one.received) for one in world.origin.connections],
            lambda all_received: any(b"POST /silent" in received for received in all_received),
            "the request",
        )
        take(world, configuration(world, alice=None))
        answer = proxy.read_response("POST")
        assert (answer.status, answer.header("connection")) == (407, "close")
        assert proxy.receive_until_closed() == (b"", Closing.FIN)
        wait_until_let_go(world, Entry.ABSOLUTE_HTTPS)


def test_streams_of_one_h2_tunnel_end_together(world: World) -> None:
    with ExitStack() as stack:
        client = stack.enter_context(KeptClient(world, Entry.CONNECT_H2, listener=KNOWN, credentials=[ALICE]))
        h2: H2Client = client.h2(world.authority(), "a.example")
        streams = [h2.request(world.authority(), "/stream") for _ in range(3)]
        for stream in streams:
            h2.wait_head(stream)
        take(world, configuration(world, alice=None))
        for stream in streams:
            with pytest.raises((StreamResetError, ConnectionEndedError)):
                h2.read_response(stream)
        wait_until_let_go(world, Entry.CONNECT_H2)
    assert len(wait_lines(world.gateway, "close", 3, agent="alice", rule="identity", status=200)) >= 3
