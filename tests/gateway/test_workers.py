"""Workers behind one port: both serve, a killed one is replaced, and nothing outlives the one who started it."""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from proxy_addons import gateway_spec, supervisor
from proxy_addons.audit import AuditKeys, verify_directory
from tests.gateway.expect import try_send
from tests.gateway.footprint import processes_of
from tests.gateway.lines import wait_lines
from tests.gateway.paths import Ask, Entry, send
from tests.kit.gateway import GatewayProcess, World
from tests.kit.listener import CountingListener
from tests.kit.sync import PATIENCE


@pytest.fixture
def two(tmp_path: Path) -> Iterator[World]:
    with World(tmp_path, workers=2) as world:
        yield world


@contextmanager
def watched(*processes: int) -> Iterator[list[int]]:
    """File descriptors that become readable when the processes end, ours or not."""
    descriptors = [os.pidfd_open(process) for process in processes]
    try:
        yield descriptors
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def wait_ended(descriptors: list[int]) -> None:
    """Wait until all of these processes have ended."""
    for descriptor in descriptors:
        assert select.select([descriptor], [], [], PATIENCE)[0], "a process did not end"


def assert_free(world: World) -> None:
    """Nobody listens at the gateway's addresses any more."""
    for host, port, _ in world.gateway.listeners:
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((host, port))


def listening_at(port: int) -> dict[str, Any]:
    """The smallest configuration: the built-in profile at one port."""
    elsewhere = {"listen": "127.0.0.1:0"}
    listeners = [{"address": f"127.0.0.1:{port}"}]
    return {
        "gateway": {"listeners": listeners, "workers": 1},
        "daemon": elsewhere,
        "operator": elsewhere,
    }


def chains_used(world: World) -> set[str]:
    return {line["chain"] for line in world.gateway.decisions()}


def serve_until_both_have(world: World) -> None:
    """The kernel deals connections out by their ports: sooner or later both workers get one."""
    for _ in range(200):
        assert send(world, Entry.ABSOLUTE_HTTPS, Ask()).status == 200
        if chains_used(world) == {"gateway-0", "gateway-1"}:
            return
    raise AssertionError(f"200 connections all went to {chains_used(world)}")


def test_both_workers_serve_on_one_port(two: World) -> None:
    assert two.gateway.events[0]["workers"] == 2
    environments = [Path(f"/proc/{process}/environ").read_bytes() for process in processes_of(two.gateway)]
    assert len(environments) == 3
    for name, value in supervisor.ALLOCATOR.items():
        assert sum(f"{name}={value}\0".encode() in one for one in environments) == 2
    serve_until_both_have(two)


def test_a_killed_worker_is_replaced_and_the_log_of_both_verifies(two: World) -> None:
    serve_until_both_have(two)
    before = processes_of(two.gateway)
    with watched(before[1]) as descriptors:
        os.kill(before[1], signal.SIGKILL)
        wait_ended(descriptors)
    # Until the new worker listens, the kernel knows of one alone: not one request is lost to the dead.
    answers = [try_send(two, Entry.ABSOLUTE_HTTPS, Ask()) for _ in range(5)]
    two.gateway.wait_event("restarted")

    assert [answer is not None and answer.status for answer in answers] == [200] * 5
    after = processes_of(two.gateway)
    assert len(after) == 3 and before[1] not in after
    resumed = wait_lines(two.gateway, "event", event="resumed")
    assert len(resumed) == 1
    serve_until_both_have(two)
    assert two.gateway.stop() == 0
    keys = AuditKeys.load_or_create(two.gateway.state / "keys")
    report = verify_directory(two.gateway.state / "audit", [keys.public])
    assert report.ok, report.render()
    assert {chain.chain for chain in report.chains} == {"gateway-0", "gateway-1"}


def test_a_line_that_a_killed_worker_left_half_written_is_repaired(two: World) -> None:
    serve_until_both_have(two)
    chain = two.gateway.lines("event", event="opened")[0]["chain"]
    pid = two.gateway.lines("event", event="opened", chain=chain)[0]["facts"]["pid"]
    (path,) = (two.gateway.state / "audit").glob(f"{chain}*.jsonl")
    with watched(pid) as descriptors:
        os.kill(pid, signal.SIGSTOP)
        with path.open("ab") as log:
            log.write(b'{"kind":"decision","chain":"' + chain.encode())
        os.kill(pid, signal.SIGKILL)
        wait_ended(descriptors)
    two.gateway.wait_event("restarted")
    assert two.gateway.stop() == 0
    keys = AuditKeys.load_or_create(two.gateway.state / "keys")
    report = verify_directory(two.gateway.state / "audit", [keys.public])
    assert report.ok, report.render()


@pytest.mark.parametrize("way", ["its input ends", "SIGTERM", "SIGINT"])
def test_a_stop_leaves_nothing_behind(two: World, way: str) -> None:
    serve_until_both_have(two)
    processes = processes_of(two.gateway)
    with two.gateway.open() as idle, watched(*processes) as descriptors:
        if way != "its input ends":
            os.kill(processes[0], signal.Signals[way])
        code = two.gateway.stop()
        wait_ended(descriptors)
        assert idle.receive_until_closed()[0] == b""
    assert code == 0
    assert_free(two)
    assert len(two.gateway.lines("checkpoint", reason="stop")) == 2


def test_workers_end_by_themselves_when_their_supervisor_is_killed(two: World) -> None:
    parent, *workers = processes_of(two.gateway)
    with watched(*workers) as descriptors:
        os.kill(parent, signal.SIGKILL)
        wait_ended(descriptors)
    assert_free(two)


def test_a_taken_port_is_named_in_the_one_event(tmp_path: Path) -> None:
    with CountingListener() as taken, GatewayProcess(listening_at(taken.port), tmp_path) as gateway:
        assert gateway.process.wait(PATIENCE) == 1
        gateway.wait_event("ended")
        failed, ended = gateway.events
    assert failed == {
        "event": "failed",
        "message": f"address 127.0.0.1:{taken.port}: in use",
        "in_use": f"127.0.0.1:{taken.port}",
    }
    assert ended == {"event": "ended"}


def test_a_port_that_another_gateway_shares_is_taken_too(tmp_path: Path) -> None:
    """Both bind with SO_REUSEPORT: without a check the kernel would deal out clients to two policies."""
    with GatewayProcess(listening_at(0), tmp_path / "one") as first:
        _, port, _ = first.listeners[0]
        with GatewayProcess(listening_at(port), tmp_path / "other") as second:
            assert second.events[0]["in_use"] == f"127.0.0.1:{port}"


async def test_a_state_directory_serves_one_gateway_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "LOCK_SECONDS", 0.0)
    spec = gateway_spec.parse_gateway_spec(
        json.dumps({"config": listening_at(0), "state_dir": str(tmp_path)})
    )
    with (tmp_path / "gateway.lock").open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(gateway_spec.SupervisorError, match="another gateway runs on"):
            await supervisor.Supervisor(spec).run()


def test_the_secret_is_on_no_command_line_and_in_no_message(two: World) -> None:
    serve_until_both_have(two)
    secret = two.gateway._told["secret"]
    assert isinstance(secret, str)
    lines = [Path(f"/proc/{process}/cmdline").read_bytes() for process in processes_of(two.gateway)]
    environments = [Path(f"/proc/{process}/environ").read_bytes() for process in processes_of(two.gateway)]
    assert not any(secret.encode() in text for text in (*lines, *environments))
    assert secret not in json.dumps(two.gateway.events) + "".join(two.gateway.errors)
