"""Idle clients never keep others out: a worker with few descriptors, all its places held by those who say nothing."""

from __future__ import annotations

import hashlib
import resource
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from proxy_addons.engine.places import LEAST_PLACES
from tests.gateway.expect import CLOSED, assert_allowed, forget
from tests.gateway.footprint import processes_of
from tests.gateway.lines import wait_lines
from tests.gateway.paths import WEBSOCKET_FIELDS, Ask, Entry, client_context, send
from tests.kit import replies
from tests.kit.client import RawConnection
from tests.kit.gateway import World
from tests.kit.processes import poll_until
from tests.kit.sync import Gate

ENTRIES = [Entry.ABSOLUTE_HTTPS, Entry.CONNECT_H1, Entry.CONNECT_H2]


def limited(descriptors: int) -> tuple[str, ...]:
    """The interpreter's arguments for a gateway that was started under `ulimit -n`."""
    limit = f"resource.setrlimit(resource.RLIMIT_NOFILE, ({descriptors}, {descriptors}))"
    return ("-c", f"import resource, runpy; {limit}; runpy.run_module('proxy_addons', run_name='__main__')")


@pytest.fixture(scope="module")
def shared_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with World(tmp_path_factory.mktemp("places"), python=limited(256)) as world:
        yield world


def say_nothing(world: World, stack: ExitStack) -> RawConnection:
    return stack.enter_context(world.gateway.open(1))


def ask_once(world: World, stack: ExitStack) -> RawConnection:
    """A kept-alive connection after its one request."""
    proxy = stack.enter_context(world.gateway.open(1))
    proxy.request("GET", world.url(), world.authority())
    assert proxy.read_response().status == 200
    return proxy


def ask_in_a_tunnel(world: World, stack: ExitStack) -> RawConnection:
    """A kept-alive tunnel after one request inside."""
    proxy = stack.enter_context(world.gateway.open(1))
    assert proxy.connect(world.authority()).status == 200
    inside = stack.enter_context(proxy.start_tls("a.example", client_context(world, Ask())))
    assert inside.get("/", world.authority()).status == 200
    return inside


def begin_tls(world: World, stack: ExitStack) -> RawConnection:
    """A handshake of which the first flight was said, and no more."""
    arriving, leaving = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context(world, Ask()).wrap_bio(arriving, leaving, server_hostname="a.example")
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    proxy = stack.enter_context(world.gateway.open(1))
    proxy.send(leaving.read())
    return proxy


def descriptors_of(world: World) -> int:
    return len(list(Path(f"/proc/{processes_of(world.gateway)[1]}/fd").iterdir()))


def cpu_ticks(world: World) -> int:
    fields = Path(f"/proc/{processes_of(world.gateway)[1]}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


@pytest.mark.parametrize("come", [say_nothing, ask_once, ask_in_a_tunnel, begin_tls])
def test_two_hundred_idle_clients_keep_nobody_out(
    world: World, come: Callable[[World, ExitStack], RawConnection]
) -> None:
    with ExitStack() as stack:
        for number in range(200):
            come(world, stack)
            if number % 25 == 24:  # others are served throughout, and their origins dialled
                for entry in ENTRIES:
                    assert send(world, entry, Ask()).status == 200
        assert descriptors_of(world) < 256
        newest = come(world, stack)
        with suppress(*CLOSED):
            newest.send(b"")
    forget(world)
    for entry in ENTRIES:
        assert_allowed(world, send(world, entry, Ask()))
        forget(world)
    assert not any("Traceback" in line or "accept" in line for line in world.gateway.errors), (
        world.gateway.errors
    )


def test_who_is_busy_stays_and_the_longest_idle_goes(world: World) -> None:
    gate = Gate()
    world.origin.route("/held", replies.trickle([b"whole"], [gate]))
    world.origin.route(
        "/ws", replies.upgrade("websocket", [("sec-websocket-accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")])
    )
    with ExitStack() as stack:
        busy = say_nothing(world, stack)
        busy.request("GET", world.url("/held"), world.authority())
        assert busy.receive()
        tunnel = stack.enter_context(world.gateway.open(1))
        assert tunnel.connect(world.authority()).status == 200
        socket = stack.enter_context(tunnel.start_tls("a.example", client_context(world, Ask())))
        socket.request("GET", "/ws", world.authority(), WEBSOCKET_FIELDS)
        assert socket.read_response().status == 101
        oldest = ask_once(world, stack)
        for _ in range(100):
            say_nothing(world, stack)
        assert oldest.receive_until_closed()[0] == b""
        gate.open()
        assert b"whole" in busy.receive()
        socket.send(b"\x89\x80\x00\x00\x00\x00")  # a ping, which comes back
        assert socket.receive()


def agents() -> dict[str, dict[str, str]]:
    return {
        name: {"profile": "open", "token_sha256": hashlib.sha256(f"token of {name}".encode()).hexdigest()}
        for name in ("alice", "bob")
    }


@pytest.fixture(scope="module")
def agents_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Eight places, two agents."""
    folder = tmp_path_factory.mktemp("agents")
    with World(folder, python=limited(64 + 3 * LEAST_PLACES), config={"agents": agents()}) as world:
        yield world


def ask_as(world: World, stack: ExitStack, agent: str, path: str = "/") -> RawConnection:
    proxy = stack.enter_context(world.gateway.open(1))
    proxy.request(
        "GET", world.url(path), world.authority(), [("Proxy-Authorization", f"Bearer token of {agent}")]
    )
    return proxy


def test_an_agents_idle_connections_make_room_before_those_of_others(agents_world: World) -> None:
    world = agents_world
    with ExitStack() as stack:
        bobs = ask_as(world, stack, "bob")
        assert bobs.read_response().status == 200
        for _ in range(3 * LEAST_PLACES):
            assert ask_as(world, stack, "alice").read_response().status == 200
        # Bob's is idle for longest, and stays: he holds one.
        bobs.request("GET", world.url(), world.authority(), [("Proxy-Authorization", "Bearer token of bob")])
        assert bobs.read_response().status == 200


def test_one_agents_busy_connections_leave_a_quarter_to_others(agents_world: World) -> None:
    world = agents_world
    gate = Gate()
    world.origin.route("/held", replies.trickle([b"whole"], [gate]))
    with ExitStack() as stack:
        share = LEAST_PLACES - LEAST_PLACES // 4
        held = [ask_as(world, stack, "alice", "/held") for _ in range(share)]
        assert all(one.receive() for one in held)
        with suppress(*CLOSED):
            assert ask_as(world, stack, "alice").receive() == b""
        assert ask_as(world, stack, "bob").read_response().status == 200
        wait_lines(world.gateway, "event", event="too-many-connections")
        gate.open()
        assert all(b"whole" in one.receive() for one in held)


def test_without_any_descriptor_left_it_waits_and_recovers(tmp_path: Path) -> None:
    """The limit is lowered below what is in use: nothing spins until idle clients have made room."""

    with World(tmp_path) as world, ExitStack() as stack:
        worker = processes_of(world.gateway)[1]
        for _ in range(40):
            say_nothing(world, stack)
        poll_until(lambda: descriptors_of(world) > 55, "all clients accepted")
        soft, hard = resource.prlimit(worker, resource.RLIMIT_NOFILE)
        resource.prlimit(worker, resource.RLIMIT_NOFILE, (descriptors_of(world), hard))
        assert send(world, Entry.CONNECT_H1, Ask(host="denied.example")).status == 403
        before = cpu_ticks(world)
        answers = [send(world, Entry.ABSOLUTE_HTTPS, Ask()).status for _ in range(5)]
        assert set(answers) <= {200, 502}
        resource.prlimit(worker, resource.RLIMIT_NOFILE, (soft, hard))
        assert_allowed(world, send(world, Entry.CONNECT_H1, Ask()), connects=answers.count(200) + 1)
        assert cpu_ticks(world) - before < 100
    assert not any("Traceback" in line for line in world.gateway.errors), world.gateway.errors
