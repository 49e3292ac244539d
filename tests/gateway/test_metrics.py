"""The numbers of a real gateway: each hop counted once, under reloads and deaths of workers too."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.gateway.expect import try_send
from tests.gateway.footprint import processes_of
from tests.gateway.lines import wait_lines, wait_until
from tests.gateway.paths import ALL, WEBSOCKET_FIELDS, Ask, Entry, send
from tests.gateway.test_budgets import ACCEPT
from tests.gateway.test_workers import serve_until_both_have, watched
from tests.kit import replies
from tests.kit.gateway import World
from tests.kit.sync import PATIENCE, Gate

OPEN = 1


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    watch = {"mode": "monitor", "allow_hosts": ["a.example"]}
    small = {"requests_per_minute": 1, "bytes_per_day": 10_000}
    with World(
        tmp_path_factory.mktemp("metrics"),
        profiles={"watch": watch, "small": small},
        listeners=("test", "open", "watch", "small"),
    ) as world:
        world.origin.route("/five", replies.text("12345"))
        yield world


def rows(report: dict[str, Any], name: str) -> dict[tuple[str, ...], Any]:
    return {tuple(row[0]): row[1] for row in report["metrics"].get(name, [])}


class Since:
    """What was counted since this was made."""

    def __init__(self, world: World) -> None:
        self._world, self._before = world, world.gateway.report()

    def counted(self, name: str) -> dict[tuple[str, ...], Any]:
        now, before = rows(self._world.gateway.report(), name), rows(self._before, name)
        return {key: value - before.get(key, 0) for key, value in now.items() if value != before.get(key, 0)}

    def wait(self, name: str, wanted: dict[tuple[str, ...], Any]) -> None:
        """A close line, and what is counted with it, may come a moment after the answer."""
        wait_until(lambda: self.counted(name), lambda found: found == wanted, f"{name}: {wanted}")

    def phases(self) -> dict[str, int]:
        found = {}
        for name in ("dns", "connect", "tls", "first_byte", "total"):
            now, before = ([row for row in report["metrics"].get("fetchd_hop_seconds", []) if row[0] == [name]]
                           for report in (self._world.gateway.report(), self._before))  # fmt: skip
            count = sum(now[0][1]) - (sum(before[0][1]) if before else 0) if now else 0
            if count:
                found[name] = count
        return found


ALLOWED = ("allowed", "", "open")


@pytest.mark.parametrize("entry", [one for one in ALL if one is not Entry.WEBSOCKET])
def test_an_allowed_hop_is_counted_once(world: World, entry: Entry) -> None:
    since = Since(world)
    world.plain.route("/five", replies.text("12345"))
    assert send(world, entry, Ask("/five"), listener=OPEN).status == 200
    since.wait("fetchd_hops_total", {ALLOWED: 1})
    assert since.counted("fetchd_answer_wire_bytes_total") == {("open",): 5}
    assert since.counted("fetchd_dns_lookups_total") == {("allowed",): 1}
    assert since.counted("fetchd_origin_connections_total") == {("connected",): 1}
    tls = {"tls": 1} if entry.scheme == "https" else {}
    assert since.phases() == {"dns": 1, "connect": 1, **tls, "first_byte": 1, "total": 1}
    assert since.counted("fetchd_client_connections_accepted_total") == {(): 1}


def test_hops_on_a_kept_connection_dial_once(world: World) -> None:
    since = Since(world)
    with world.gateway.open(OPEN) as proxy:
        for _ in range(3):
            assert proxy.get(world.plain_url("/x"), f"a.example:{world.plain.port}").status == 200
    since.wait("fetchd_hops_total", {ALLOWED: 3})
    assert since.phases() == {"dns": 1, "connect": 1, "first_byte": 3, "total": 3}


REFUSED: dict[str, tuple[Ask, str]] = {
    "a host": (Ask(host="denied.example"), "host"),
    "a method": (Ask(method="DELETE"), "method"),
    "a port": (Ask(port=22), "port"),
    "an address": (Ask(host="10.0.0.7"), "ip-literal"),
    "a name without addresses": (Ask(host="nowhere.example"), "dns-failed"),
}


@pytest.mark.parametrize("entry", [Entry.ABSOLUTE_HTTPS, Entry.CONNECT_H1, Entry.CONNECT_H2])
@pytest.mark.parametrize("sentence", REFUSED)
def test_a_refused_hop_is_counted_once_by_its_rule(world: World, sentence: str, entry: Entry) -> None:
    ask, rule = REFUSED[sentence]
    since = Since(world)
    try_send(world, entry, ask, listener=0)
    since.wait("fetchd_hops_total", {("refused", rule, "test"): 1})
    looked = {(rule,): 1} if rule == "dns-failed" else {}
    assert since.counted("fetchd_dns_lookups_total") == looked


def test_a_hop_that_a_rule_stops_under_way_is_counted_as_refused_alone(world: World) -> None:
    since = Since(world)
    world.origin.route("/big", replies.chunked([bytes(8 << 20), bytes(1)]))
    try_send(world, Entry.ABSOLUTE_HTTPS, Ask("/big"), listener=0)
    since.wait("fetchd_hops_total", {("refused", "byte-cap", "test"): 1})


def test_what_is_only_reported_is_counted_beside(world: World) -> None:
    since = Since(world)
    assert send(world, Entry.CONNECT_H1, Ask(host="b.example"), listener=2).status == 200
    since.wait("fetchd_hops_total", {("allowed", "", "watch"): 1})
    assert since.counted("fetchd_hops_reported_total") == {("host", "watch"): 1}


def test_budgets_are_counted_by_profile(world: World) -> None:
    since = Since(world)
    assert send(world, Entry.ABSOLUTE_HTTPS, Ask("/five"), listener=3).status == 200
    assert send(world, Entry.ABSOLUTE_HTTPS, Ask("/five"), listener=3).status == 429
    since.wait("fetchd_hops_total", {("allowed", "", "small"): 1, ("refused", "budget", "small"): 1})
    assert since.counted("fetchd_budget_refusals_total") == {("requests_per_minute", "small"): 1}
    assert since.counted("fetchd_budget_bytes_total") == {("small",): 5}


def test_what_is_open_is_a_gauge(world: World) -> None:
    gate = Gate()
    world.origin.route("/late", replies.silent(gate, replies.text("now")))
    idle = rows(world.gateway.report(), "fetchd_client_connections_open")[()]
    with world.gateway.open(OPEN) as proxy:
        proxy.request("GET", world.url("/late"), world.authority())
        wait_until(
            lambda: rows(world.gateway.report(), "fetchd_hops_open"),
            lambda found: found == {(): 1},
            "an open hop",
        )
        assert rows(world.gateway.report(), "fetchd_client_connections_open")[()] == idle + 1
        gate.open()
        assert proxy.read_response().status == 200
    wait_until(
        lambda: rows(world.gateway.report(), "fetchd_hops_open"),
        lambda found: found == {(): 0},
        "no open hop",
    )


def test_a_websocket_is_counted_when_it_is_over_and_its_line_says_that_it_was_one(world: World) -> None:
    since = Since(world)
    world.origin.route("/ws", replies.upgrade("websocket", [ACCEPT]))
    with world.gateway.open(OPEN) as proxy:
        proxy.connect(world.authority())
        inside = proxy.start_tls("a.example", world.gateway.ca_path)
        inside.request("GET", "/ws", world.authority(), WEBSOCKET_FIELDS)
        answer = inside.read_response()
        assert answer.status == 101
        assert since.counted("fetchd_hops_total") == {}
        inside.send(b"\x88\x82\x00\x00\x00\x00\x03\xe8")
        inside.receive_until_closed()
    since.wait("fetchd_hops_total", {ALLOWED: 1})
    (line,) = wait_lines(world.gateway, "close", fetch_id=answer.header("fetchd-id"))
    assert line["status"] == 101


def test_the_log_and_the_numbers_tell_the_same(world: World) -> None:
    hops = rows(world.gateway.report(), "fetchd_hops_total")
    lines = world.gateway.lines("decision", verdict="refused")
    closes = world.gateway.lines("close")
    assert sum(hops.values()) == len(lines) + len(closes)
    assert {key[2] for key in hops} <= {"test", "open", "watch", "small"}
    chain = rows(world.gateway.report(), "fetchd_audit_lines_total")
    assert chain[("gateway-0",)] >= len(lines) + 2 * len(closes)


def test_a_reload_keeps_what_was_counted(world: World) -> None:
    before = rows(world.gateway.report(), "fetchd_hops_total")
    assert world.gateway.reload(world.config())["event"] == "reloaded"
    assert rows(world.gateway.report(), "fetchd_hops_total") == before


# ---------------------------------------------------------------------------------------------- two workers


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with World(tmp_path_factory.mktemp("two"), workers=2) as world:
        yield world


def test_a_worker_that_hangs_is_told_and_holds_nobody_up(two: World) -> None:
    serve_until_both_have(two)
    before = two.gateway.report()
    pid = processes_of(two.gateway)[1]
    os.kill(pid, signal.SIGSTOP)
    try:
        found = two.gateway.report()
        assert (found["alive"], rows(found, "fetchd_workers_alive")) == (1, {(): 1})
        assert len(rows(found, "fetchd_worker_resident_bytes")) == 1
        for key, value in rows(before, "fetchd_hops_total").items():
            assert rows(found, "fetchd_hops_total")[key] >= value
    finally:
        os.kill(pid, signal.SIGCONT)
    wait_until(two.gateway.report, lambda told: told["alive"] == 2, "both again")


def test_numbers_may_be_asked_for_while_rules_are_replaced(two: World) -> None:
    stdin = two.gateway.process.stdin
    assert stdin is not None
    for _ in range(20):
        stdin.write('{"report": true}\n')
    changed = two.config()
    changed["profiles"]["more"] = {}
    assert two.gateway.reload(changed)["event"] == "reloaded"
    assert two.gateway.report()["alive"] == 2
    wait_lines(two.gateway, "event", 2, event="reload")


def test_a_killed_worker_takes_no_counter_with_it(two: World) -> None:
    serve_until_both_have(two)
    wait_until(
        lambda: two.gateway.report(),
        lambda told: sum(rows(told, "fetchd_hops_total").values()) == len(two.gateway.decisions()),
        "all hops",
    )
    before = two.gateway.report()
    assert (before["alive"], before["configured"]) == (2, 2)
    assert len(rows(before, "fetchd_worker_resident_bytes")) == 2
    victim = processes_of(two.gateway)[1]
    with watched(victim) as descriptors:
        os.kill(victim, signal.SIGKILL)
        assert select.select(descriptors, [], [], PATIENCE)[0]
    two.gateway.wait_event("restarted")
    found = wait_until(two.gateway.report, lambda told: told["alive"] == 2, "two workers")
    assert rows(found, "fetchd_worker_restarts_total") == {(): 1}
    for name in ("fetchd_hops_total", "fetchd_audit_lines_total", "fetchd_worker_cpu_seconds_total"):
        for key, value in rows(before, name).items():
            assert rows(found, name)[key] >= value, (name, key)
    send(two, Entry.ABSOLUTE_HTTPS, Ask())
    wait_until(
        lambda: sum(rows(two.gateway.report(), "fetchd_hops_total").values()),
        lambda found: found == len(two.gateway.decisions()),
        "one more hop",
    )
