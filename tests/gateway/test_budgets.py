"""Budgets through the real gateway: both sides of each edge, agents apart, places given back (SPEC 7)."""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from proxy_addons.addons.budgets import PIECE_BYTES
from proxy_addons.policy.wire import DaemonRequest, render_daemon_fields
from tests.gateway.expect import CLOSED, NOBODY, contacts, forget
from tests.gateway.footprint import scratch_file
from tests.gateway.lines import wait_lines
from tests.gateway.paths import WEBSOCKET_FIELDS, Ask, Entry, client_context, send
from tests.gateway.test_workers import wait_ended, watched
from tests.kit import replies
from tests.kit.bodies import Coding
from tests.kit.client import RawConnection, Response
from tests.kit.client_h2 import H2Client
from tests.kit.gateway import SECRET, GatewayProcess, World
from tests.kit.processes import poll_until
from tests.kit.sync import Gate

OPENED = {
    "schemes": ["https", "http"], "methods": ["GET", "HEAD", "POST"], "request_body": True, "request_cap": 1 << 20,
    "upgrades": ["websocket"], "total_timeout": 30,
}  # fmt: skip
LIMITS: dict[str, dict[str, int]] = {
    "one": {"concurrent_hops": 1},
    "two": {"concurrent_hops": 2},
    "short": {"concurrent_hops": 1, "total_timeout": 1},
    "three": {"concurrent_hops": 3},
    "minute": {"requests_per_minute": 3},
    "day": {"bytes_per_day": 1000},
    "wide": {"bytes_per_day": 1 << 20},
    "all": {"concurrent_hops": 100, "requests_per_minute": 100, "bytes_per_day": 1 << 30},
}
PER_PROFILE = 40
ACCEPT = ("sec-websocket-accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
_paths = itertools.count()


def agents() -> dict[str, dict[str, str]]:
    """Many agents under each profile, so that every test has its own."""
    return {
        f"{profile}-{number}": {
            "profile": profile,
            "token_sha256": hashlib.sha256(f"token of {profile}-{number}".encode()).hexdigest(),
        }
        for profile in LIMITS
        for number in range(PER_PROFILE)
    }


def make_world(folder: Path, workers: int = 2) -> World:
    profiles = {name: {**OPENED, **limits} for name, limits in LIMITS.items()}
    return World(folder, profiles=profiles, workers=workers, config={"agents": agents()})


@pytest.fixture(scope="module")
def shared_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with make_world(tmp_path_factory.mktemp("budgets")) as world:
        yield world


class Agent:
    """A client with a token; each request on a connection of its own, so at whichever worker."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.fields = [("Proxy-Authorization", f"Bearer token of {name}")]

    def get(self, path: str = "/", **ask: Any) -> Response:
        return send(self.world, Entry.ABSOLUTE_HTTPS, Ask(path, headers=self.fields, **ask))

    def begin(self, stack: ExitStack, path: str) -> RawConnection:
        """A request that is sent and whose answer is not read."""
        proxy = stack.enter_context(self.world.gateway.open(1))
        proxy.request("GET", self.world.url(path), self.world.authority(), self.fields)
        return proxy

    def tunnel(self, stack: ExitStack, alpn: str = "http/1.1") -> RawConnection:
        proxy = stack.enter_context(self.world.gateway.open(1))
        assert proxy.connect(self.world.authority(), self.fields).status == 200
        return stack.enter_context(proxy.start_tls("a.example", client_context(self.world, Ask()), (alpn,)))


_numbers = {name: itertools.count() for name in LIMITS}


@pytest.fixture
def new_agent(world: World) -> Callable[[str], Agent]:
    """An agent under a profile that no test has used yet."""
    return lambda profile: Agent(world, f"{profile}-{next(_numbers[profile])}")


@pytest.fixture
def held(world: World) -> Iterator[tuple[str, Gate]]:
    """A page whose answer begins, and ends when the gate opens."""
    gate, path = Gate(), f"/held-{next(_paths)}"
    world.origin.route(path, replies.trickle([b"begun"], [gate]))
    yield path, gate
    gate.open()


def opened_gate() -> Gate:
    gate = Gate()
    gate.open()
    return gate


def hold(world: World, agent: Agent, stack: ExitStack, path: str, number: int = 1) -> None:
    """Begin so many requests, and wait until the origin has them."""
    for _ in range(number):
        assert agent.begin(stack, path).receive().startswith(b"HTTP/1.1 200 ")


def assert_spent(answer: Response, budget: str, limit: int, least: int, most: int) -> None:
    """The answer is a 429 that says which budget, its limit and when to come back."""
    assert (answer.status, answer.header("fetchd-rule")) == (429, "budget")
    seconds = int(answer.header("retry-after") or 0)
    problem = answer.json()
    assert least <= seconds <= most
    assert problem["detail"] == f"budget {budget} spent; free again in {seconds} s"
    assert (problem["failure"], problem["allowed"]) == ("soft", limit)


# --- hops under way -----------------------------------------------------------------------------------------------


def test_the_third_hop_passes_and_the_fourth_is_refused(
    world: World, new_agent: Callable[[str], Agent], held: tuple[str, Gate]
) -> None:
    alice, bob = new_agent("three"), new_agent("three")
    path, gate = held
    with ExitStack() as stack:
        hold(world, alice, stack, path, 2)
        assert alice.get().status == 200
        hold(world, alice, stack, path)
        forget(world)
        refused = [alice.get() for _ in range(8)]  # at both workers, more likely than not
        assert contacts(world) == NOBODY
        others = [bob.get() for _ in range(8)]
        gate.open()
        poll_until(lambda: alice.get().status == 200, "a place that was given back")

    for answer in refused:
        assert_spent(answer, "concurrent_hops", 3, 1, 1)
    assert {answer.status for answer in others} == {200}
    lines = wait_lines(world.gateway, "decision", 8, rule="budget", agent=alice.name)
    assert {line["detail"] for line in lines} == {"budget concurrent_hops spent; free again in 1 s"}
    assert world.gateway.lines("close", fetch_id=lines[0]["fetch_id"]) == []


def test_a_connect_takes_nothing_and_a_stream_within_takes_one_each(
    world: World, new_agent: Callable[[str], Agent], held: tuple[str, Gate]
) -> None:
    alice = new_agent("one")
    path, gate = held
    with ExitStack() as stack:
        alice.tunnel(stack)
        client = H2Client(alice.tunnel(stack, "h2"))
        assert alice.get().status == 200
        first = client.request(world.authority(), path)
        client.wait_head(first)
        second = client.read_response(client.request(world.authority(), "/"))
        assert_spent(second, "concurrent_hops", 1, 1, 1)
        assert_spent(alice.get(), "concurrent_hops", 1, 1, 1)
        gate.open()
        assert client.read_response(first).status == 200
        assert client.get(world.authority(), "/").status == 200


def wait_under_way(world: World, alice: Agent, method: str) -> None:
    """Until the newest of the agent's hops that were let through is one that has not ended."""

    def is_open() -> bool:
        lines = world.gateway.decisions(agent=alice.name, verdict="allowed", method=method)
        ended = {(line["chain"], line["decision"]) for line in world.gateway.lines("close", agent=alice.name)}
        return bool(lines) and (lines[-1]["chain"], lines[-1]["seq"]) not in ended

    poll_until(is_open, "a hop under way")


def assert_none_left(alice: Agent) -> None:
    """The agent has as many hops under way as it may."""
    assert_spent(
        alice.get(), "concurrent_hops", LIMITS[alice.name.partition("-")[0]]["concurrent_hops"], 1, 1
    )


def leave_early(world: World, alice: Agent, path: str) -> None:
    with ExitStack() as stack:
        assert alice.begin(stack, path).receive()


def leave_before_the_head(world: World, alice: Agent, path: str) -> None:
    gate = Gate()
    world.origin.route("/no-head", replies.silent(gate))
    with ExitStack() as stack:
        alice.begin(stack, "/no-head")
        wait_under_way(world, alice, "GET")
    gate.open()


def reset_a_stream(world: World, alice: Agent, path: str) -> None:
    with ExitStack() as stack:
        client = H2Client(alice.tunnel(stack, "h2"))
        stream = client.request(world.authority(), path)
        client.wait_head(stream)
        client.reset(stream)
        poll_until(lambda: alice.get().status == 200, "a place that a reset stream gave back")


def break_off(world: World, alice: Agent, path: str) -> None:
    world.origin.route("/breaks", replies.close_mid_body(b"cut", reset=True))
    with suppress(*CLOSED):
        assert not alice.get("/breaks").complete


def leave_an_upload(world: World, alice: Agent, path: str) -> None:
    with ExitStack() as stack:
        client = H2Client(alice.tunnel(stack, "h2"))
        client.request(world.authority(), "/", "POST", end=False)
        wait_under_way(world, alice, "POST")
        assert_none_left(alice)


def websocket(world: World, alice: Agent, ending: str) -> None:
    world.origin.route("/ws", replies.upgrade("websocket", [ACCEPT]))
    with ExitStack() as stack:
        inside = alice.tunnel(stack)
        inside.request("GET", "/ws", world.authority(), WEBSOCKET_FIELDS)
        assert inside.read_response().status == 101
        assert_none_left(alice)
        if ending == "closes":
            inside.send(b"\x88\x82\x00\x00\x00\x00\x03\xe8")
            inside.receive_until_closed()
        elif ending == "times out":
            inside.receive_until_closed()


def status(number: int, path: str, **ask: Any) -> Callable[[World, Agent, str], None]:
    def way(world: World, alice: Agent, _: str) -> None:
        assert alice.get(path, **ask).status == number

    return way


ENDINGS = [
    pytest.param("two", status(200, "/"), id="answered"),
    pytest.param("two", status(200, "/", method="HEAD"), id="answered without a body"),
    pytest.param("two", status(200, "/", method="POST", body=b"x" * 9), id="answered after an upload"),
    pytest.param("two", status(403, "/away"), id="its redirect refused"),
    pytest.param("two", status(502, "/", host="nowhere.example"), id="its look-up failed"),
    pytest.param("two", status(502, "/over"), id="its answer declared too large"),
    pytest.param("two", status(413, "/", method="POST", body=bytes((1 << 20) + 1)), id="its body too large"),
    pytest.param("two", break_off, id="the origin broke off"),
    pytest.param("two", leave_early, id="the client left during the answer"),
    pytest.param("two", leave_before_the_head, id="the client left before the answer"),
    pytest.param("two", leave_an_upload, id="the client left during its upload"),
    pytest.param("two", reset_a_stream, id="the client reset its stream"),
    pytest.param("short", status(504, "/silent"), id="its time was up"),
    pytest.param("two", lambda w, a, _: websocket(w, a, "closes"), id="a WebSocket was closed"),
    pytest.param("two", lambda w, a, _: websocket(w, a, "client goes"), id="the client of a WebSocket left"),
    pytest.param("short", lambda w, a, _: websocket(w, a, "times out"), id="the time of a WebSocket was up"),
]


@pytest.mark.parametrize(("profile", "end"), ENDINGS)
def test_a_hop_gives_its_place_back_once_however_it_ends(
    world: World,
    new_agent: Callable[[str], Agent],
    held: tuple[str, Gate],
    profile: str,
    end: Callable[[World, Agent, str], None],
) -> None:
    world.origin.route("/away", replies.redirect("https://denied.example/"))
    world.origin.route("/over", replies.answer(200, bytes(9 << 20)))
    gate = Gate()
    world.origin.route("/silent", replies.silent(gate))
    alice = new_agent(profile)
    with ExitStack() as stack:
        if profile == "two":  # one is held all the time: an end that counted twice would free its place
            hold(world, alice, stack, held[0])
        for _ in range(2):
            end(world, alice, held[0])
            poll_until(lambda: alice.get().status == 200, "a place that was given back")
        gate.open()
        hold(world, alice, stack, held[0])
        assert_none_left(alice)


def test_a_hook_that_fails_later_gives_the_place_back(
    world: World, new_agent: Callable[[str], Agent]
) -> None:
    """The ledger of chains, asked right after the budgets, is gone for a moment."""
    alice = new_agent("one")
    ledger = scratch_file(world.gateway, "chains.db")
    ledger.rename(ledger.with_suffix(".away"))
    try:
        failed = [alice.get() for _ in range(3)]
    finally:
        ledger.with_suffix(".away").rename(ledger)
    assert [(answer.status, answer.header("fetchd-rule")) for answer in failed] == [(503, "internal")] * 3
    assert alice.get().status == 200


@pytest.mark.parametrize("which", ["hops under way", "bytes of the day"])
def test_a_ledger_that_cannot_be_used_refuses_those_who_need_it(
    world: World, new_agent: Callable[[str], Agent], which: str
) -> None:
    alice, unlimited = new_agent("all"), Agent(world, "nobody")
    assert alice.get().status == 200
    path = (
        scratch_file(world.gateway, "budgets.db")
        if which == "hops under way"
        else world.gateway.state / "budgets.db"
    )
    path.rename(path.with_suffix(".away"))
    forget(world)
    try:
        failed = alice.get()
        assert contacts(world) == NOBODY
    finally:
        path.with_suffix(".away").rename(path)
    assert (failed.status, failed.header("fetchd-rule")) == (503, "internal")
    assert unlimited.get().status == 407
    assert alice.get().status == 200


def test_hops_of_a_killed_worker_are_free_again_and_those_of_the_other_are_not(tmp_path: Path) -> None:
    gate = Gate()
    with make_world(tmp_path) as world, ExitStack() as stack:
        world.origin.route("/held", replies.trickle([b"begun"], [gate]))
        alice = Agent(world, "three-0")
        # Three hops, not all at one worker: the kernel deals them out, so let go and try again.
        while True:
            attempt = stack.enter_context(ExitStack())
            before = len(world.gateway.decisions(agent=alice.name, verdict="allowed"))
            hold(world, alice, attempt, "/held", 3)
            lines = world.gateway.decisions(agent=alice.name, verdict="allowed")[before:]
            chains = [line["chain"] for line in lines[-3:]]
            if len(set(chains)) == 2:
                break
            attempt.close()
            poll_until(lambda: alice.get().status == 200, "the places given back")
        assert_spent(alice.get(), "concurrent_hops", 3, 1, 1)
        killed = chains[0]
        pid = world.gateway.lines("event", event="opened", chain=killed)[0]["facts"]["pid"]
        with watched(pid) as descriptors:
            os.kill(pid, signal.SIGKILL)
            wait_ended(descriptors)
        world.gateway.wait_event("restarted")

        hold(world, alice, stack, "/held", chains.count(killed))
        assert_spent(alice.get(), "concurrent_hops", 3, 1, 1)
        gate.open()


# --- requests in a minute -----------------------------------------------------------------------------------------


def test_the_third_request_of_a_minute_passes_and_the_fourth_is_refused(
    world: World, new_agent: Callable[[str], Agent]
) -> None:
    alice, bob = new_agent("minute"), new_agent("minute")
    # What the ladder and the checks of names refuse is not counted.
    assert {alice.get(host="denied.example").status for _ in range(4)} == {403}
    assert {alice.get(host_field="b.example").status for _ in range(4)} == {421}
    statuses = [alice.get().status for _ in range(3)]
    forget(world)
    refused = [alice.get() for _ in range(6)]
    assert contacts(world) == NOBODY

    assert statuses == [200] * 3
    for answer in refused:
        assert_spent(answer, "requests_per_minute", 3, 30, 61)
    assert [bob.get().status for _ in range(3)] == [200] * 3


def test_the_daemons_hops_count_for_their_agent(world: World, new_agent: Callable[[str], Agent]) -> None:
    alice, bob = new_agent("minute"), new_agent("minute")

    def by_daemon(agent: Agent) -> Response:
        told = render_daemon_fields(SECRET, DaemonRequest(agent.name, "default", "f" * 16, 0))
        fields = [(name.decode(), value.decode()) for name, value in told]
        return send(world, Entry.ABSOLUTE_HTTPS, Ask(headers=fields))

    assert [by_daemon(alice).status, alice.get().status, by_daemon(alice).status] == [200] * 3
    assert_spent(by_daemon(alice), "requests_per_minute", 3, 30, 61)
    assert_spent(alice.get(), "requests_per_minute", 3, 30, 61)
    assert by_daemon(bob).status == 200


# --- bytes of a day -----------------------------------------------------------------------------------------------


def lay(world: World, size: int) -> str:
    """A page of so many bytes."""
    path = f"/body-{next(_paths)}"
    world.origin.route(path, replies.answer(200, b"x" * size))
    return path


def test_the_last_byte_of_a_day_passes_and_then_no_hop_begins(
    world: World, new_agent: Callable[[str], Agent]
) -> None:
    alice, bob = new_agent("day"), new_agent("day")
    assert len(alice.get(lay(world, 400)).body) == 400
    assert alice.get("/", method="POST", body=b"x" * 588).status == 200  # and 12 come back
    used = 400 + 588 + len(bob.get("/").body)
    whole = alice.get(lay(world, 1000 - used))
    assert whole.complete and len(whole.body) == 1000 - used
    forget(world)
    assert_spent(alice.get(), "bytes_per_day", 1000, 1, 86_400)
    assert contacts(world) == NOBODY
    assert bob.get().status == 200


@pytest.mark.parametrize("entry", [Entry.ABSOLUTE_HTTPS, Entry.CONNECT_H2])
def test_one_byte_more_is_cut(world: World, new_agent: Callable[[str], Agent], entry: Entry) -> None:
    alice = new_agent("day")
    ask = Ask(lay(world, 1001), headers=alice.fields, connect_headers=alice.fields)
    with suppress(*CLOSED, Exception):
        answer = send(world, entry, ask)
        assert not answer.complete
        assert answer.body == b""
    (line,) = wait_lines(world.gateway, "close", agent=alice.name)
    assert (line["verdict"], line["rule"]) == ("refused", "budget")
    assert re.fullmatch(r"budget bytes_per_day spent; free again in \d+ s", line["detail"])
    assert_spent(alice.get(), "bytes_per_day", 1000, 1, 86_400)


def test_bytes_are_counted_as_they_are_on_the_wire(world: World, new_agent: Callable[[str], Agent]) -> None:
    alice = new_agent("day")
    world.origin.route("/packed", replies.encoded(b"x" * 100_000, Coding.GZIP))
    answer = alice.get("/packed")
    assert answer.complete and len(answer.body) < 1000
    assert alice.get(lay(world, 1000 - len(answer.body))).complete
    assert_spent(alice.get(), "bytes_per_day", 1000, 1, 86_400)


def test_an_upload_over_the_day_is_answered_429(world: World, new_agent: Callable[[str], Agent]) -> None:
    alice = new_agent("day")
    assert_spent(alice.get("/", method="POST", body=b"x" * 1001), "bytes_per_day", 1000, 1, 86_400)
    assert_spent(alice.get(), "bytes_per_day", 1000, 1, 86_400)


def test_a_websocket_is_cut_when_the_day_is_spent(world: World, new_agent: Callable[[str], Agent]) -> None:
    alice = new_agent("day")
    world.origin.route("/ws", replies.upgrade("websocket", [ACCEPT]))
    frame = b"\x82\xe4\x00\x00\x00\x00" + b"x" * 100  # 106 bytes; they come back unmasked, and fail as such
    with ExitStack() as stack:
        inside = alice.tunnel(stack)
        inside.request("GET", "/ws", world.authority(), WEBSOCKET_FIELDS)
        assert inside.read_response().status == 101
        with suppress(*CLOSED):
            inside.send(frame * 20)  # at once: what comes back of the first would end it
            inside.receive_until_closed()
    (line,) = wait_lines(world.gateway, "close", agent=alice.name)
    assert (line["verdict"], line["rule"]) == ("refused", "budget")
    assert_spent(alice.get(), "bytes_per_day", 1000, 1, 86_400)


def test_streams_side_by_side_never_get_more_than_the_day_and_a_piece_for_each_further_worker(
    world: World, new_agent: Callable[[str], Agent]
) -> None:
    """The bound that is stated; 16 streams of 256 KiB under a day of 1 MiB, at two workers."""
    alice = new_agent("wide")
    gate, begun = Gate(), 16
    path = f"/wide-{next(_paths)}"
    world.origin.route(path, replies.trickle([b"x", b"x" * ((256 << 10) - 1)], [opened_gate(), gate]))
    with ExitStack() as stack:
        opened = [alice.begin(stack, path) for _ in range(begun)]
        wait_lines(world.gateway, "decision", begun, agent=alice.name)
        gate.open()
        received = sum(len(one.read_response().body) for one in opened)
    assert 1 << 19 <= received <= (1 << 20) + PIECE_BYTES
    assert_spent(alice.get(), "bytes_per_day", 1 << 20, 1, 86_400)


def test_bytes_of_the_day_outlive_the_gateway_and_a_private_one_shares_them(tmp_path: Path) -> None:
    with make_world(tmp_path, workers=1) as world:
        alice = Agent(world, "day-0")
        assert alice.get(lay(world, 600)).complete
        gateway = world.gateway
        with GatewayProcess(world.config(), gateway.state, private=True) as world.gateway:
            assert alice.get(lay(world, 300)).complete
        world.gateway = gateway
        assert gateway.stop() == 0
        with GatewayProcess(world.config(), gateway.state) as world.gateway:
            again = Agent(world, "day-0")
            assert again.get(lay(world, 100)).complete
            assert_spent(again.get(), "bytes_per_day", 1000, 1, 86_400)
        assert oct((gateway.state / "budgets.db").stat().st_mode)[-3:] == "600"


def test_a_damaged_file_of_days_is_named_at_the_start(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    (state / "budgets.db").write_bytes(b"no database, but text" * 100)
    with pytest.raises(AssertionError, match="remove it"), make_world(tmp_path) as world:
        _ = world.gateway.listeners
