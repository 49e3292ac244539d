"""Rules replaced while the gateway runs: every request is judged by one version, and what stands is judged again."""

from __future__ import annotations

import copy
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from proxy_addons.policy.agents import digest_token
from proxy_addons.policy.config import parse_config
from tests.gateway.expect import contacts, forget
from tests.gateway.footprint import processes_of
from tests.gateway.kept import KeptClient
from tests.gateway.paths import ABSOLUTE, Ask, Entry, send
from tests.gateway.test_identity import basic
from tests.kit import replies
from tests.kit.client import Response
from tests.kit.gateway import World
from tests.kit.sync import Gate

KEPT = [
    Entry.ABSOLUTE_HTTP,
    Entry.ABSOLUTE_HTTPS,
    Entry.CONNECT_H1,
    Entry.CONNECT_H2,
    Entry.CONNECT_PLAIN,
    Entry.TLS_LISTENER,
    Entry.TLS_LISTENER_CONNECT,
]
TOKEN = "fetchd.alice.0123456789abcdef0123456789abcdef"
ALICE = basic("alice", TOKEN)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with World(tmp_path_factory.mktemp("reload"), workers=2, listeners=("open",)) as world:
        yield world


@pytest.fixture
def world(shared: World) -> Iterator[World]:
    forget(shared)
    yield shared
    assert shared.gateway.reload(shared.config())["event"] == "reloaded"


def changed(world: World, **limits: Any) -> dict[str, Any]:
    """The configuration with other limits of profile `open`."""
    config = copy.deepcopy(world.config())
    config["profiles"]["open"].update(limits)
    return config


def with_agent(world: World, **agent: Any) -> dict[str, Any]:
    config = copy.deepcopy(world.config())
    config["agents"] = {"alice": {"profile": "open", "token_sha256": digest_token(TOKEN), **agent}}
    return config


def version(config: dict[str, Any], profile: str = "open") -> str:
    return f"{profile}@{parse_config(config, source='test').profiles[profile].version}"


def take(world: World, config: dict[str, Any]) -> str:
    """Reload; the version of profile `open` from then on."""
    assert world.gateway.reload(config) == {"event": "reloaded"}
    return version(config)


@pytest.mark.parametrize("entry", KEPT)
def test_a_connection_from_before_is_judged_again_at_its_next_request(world: World, entry: Entry) -> None:
    before = version(world.config())
    with KeptClient(world, entry, listener=0) as client:
        first = client.get(client.url("/"))
        assert (first.status, first.header("fetchd-policy")) == (200, before)
        after = take(world, changed(world, deny_hosts=["a.example"]))
        second = client.get(client.url("/"))
        assert (second.status, second.header("fetchd-rule")) == (403, "host")
        assert second.header("fetchd-policy") == after != before
        take(world, world.config())
        third = client.get(client.url("/"))
        assert (third.status, third.header("fetchd-policy")) == (200, before)


@pytest.mark.parametrize("entry", KEPT)
def test_an_upstream_connection_from_before_is_not_used_again(world: World, entry: Entry) -> None:
    """Its peer was judged under other rules: that address is none of the allowed ones now."""
    with KeptClient(world, entry, listener=0) as client:
        assert client.get(client.url("/")).status == 200
        take(world, changed(world, exceptions=[]))
        refused = client.get(client.url("/"))
        assert (refused.status, refused.header("fetchd-rule")) == (403, "no-allowed-address")
        take(world, changed(world, byte_cap=1000))
        assert client.get(client.url("/")).status == 200
        assert contacts(world).connects == 2


def test_rules_that_are_the_same_keep_their_connections(world: World) -> None:
    with KeptClient(world, Entry.ABSOLUTE_HTTPS, listener=0) as client:
        for _ in range(3):
            assert client.get(client.url("/")).status == 200
            take(world, world.config())
        assert contacts(world).connects == 1


@pytest.mark.parametrize("entry", [entry for entry in KEPT if entry in ABSOLUTE])
def test_a_connection_that_is_no_tunnel_says_that_its_token_was_revoked(world: World, entry: Entry) -> None:
    """Each request on it may be another agent's. What was under way, and tunnels: test_revoking.py."""
    take(world, with_agent(world))
    with KeptClient(world, entry, listener=0, credentials=[ALICE]) as client:
        assert client.get(client.url("/")).status == 200
        take(world, world.config())
        refused = client.get(client.url("/"))
        assert (refused.status, refused.header("fetchd-rule")) == (407, "identity")


def test_the_first_agent_closes_the_door_to_the_nameless(world: World) -> None:
    """Else an agent would lose its profile by leaving out its token."""
    with KeptClient(world, Entry.ABSOLUTE_HTTPS, listener=0) as client:
        assert client.get(client.url("/")).status == 200
        take(world, with_agent(world))
        assert client.get(client.url("/")).status == 407
    config = with_agent(world)
    config["gateway"]["listeners"][0]["anonymous"] = True
    take(world, config)
    assert send(world, Entry.ABSOLUTE_HTTPS, Ask(), listener=0).status == 200


def test_an_agent_moved_to_another_profile_is_judged_under_it(world: World) -> None:
    take(world, with_agent(world))
    with KeptClient(world, Entry.CONNECT_H1, listener=0, credentials=[ALICE]) as client:
        assert client.get(client.url("/")).header("fetchd-policy") == version(world.config())
        take(world, with_agent(world, profile="test"))
        assert client.get(client.url("/")).header("fetchd-policy") == version(world.config(), "test")


def test_an_answer_under_way_comes_whole(world: World) -> None:
    gate = Gate()

    async def slow(exchange: Any) -> None:
        await exchange.start(200, [("content-length", "4")])
        await exchange.data(b"ab")
        await gate.wait()
        await exchange.data(b"cd")
        await exchange.end()

    world.origin.route("/slow", slow)
    with world.gateway.open(0) as proxy:
        proxy.request("GET", world.url("/slow"), world.authority())
        head = proxy.receive()
        assert b" 200 " in head.partition(b"\r\n")[0]
        take(world, changed(world, allow_hosts=[]))
        gate.open()
        body = head.partition(b"\r\n\r\n")[2]
        while len(body) < 4:
            body += proxy.receive()
        assert body == b"abcd"
        proxy.request("GET", world.url("/"), world.authority())
        assert proxy.read_response().status == 403


BAD: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "an unknown key": (lambda c: c["profiles"]["open"].update(hosts=[]), "profiles.open.hosts: no such key"),
    "a listener more": (
        lambda c: c["gateway"]["listeners"].append({"address": "127.0.0.1:0"}),
        "gateway.listeners cannot change",
    ),
    "a listener elsewhere": (
        lambda c: c["gateway"]["listeners"][0].update(address="127.0.0.1:1"),
        "gateway.listeners cannot change",
    ),
    "another number of workers": (lambda c: c["gateway"].update(workers=1), "gateway.workers cannot change"),
    "another nameserver": (
        lambda c: c["dns"].update(nameservers=["127.0.0.1:1"]), "dns.nameservers cannot change"
    ),
    "other roots": (lambda c: c["tls"].update(extra_ca=[]), "tls cannot change"),
    "the tools elsewhere": (
        lambda c: c["daemon"].update(listen="127.0.0.1:1"), "daemon.listen cannot change"
    ),
    "an agent without its profile": (
        lambda c: c.update(agents={"a": {"profile": "none"}}), "agents.a.profile: there is no profile none"
    ),
    "not even a table": (lambda c: c.update(profiles=3), "profiles: write each profile as a table"),
}  # fmt: skip


@pytest.mark.parametrize("sentence", BAD)
def test_what_cannot_be_taken_is_refused_whole(world: World, sentence: str) -> None:
    spoil, message = BAD[sentence]
    config = changed(world, deny_hosts=["a.example"])
    spoil(config)
    outcome = world.gateway.reload(config)
    assert (outcome["event"], message in str(outcome["message"])) == ("refused", True), outcome
    answer = send(world, Entry.ABSOLUTE_HTTPS, Ask(), listener=0)
    assert (answer.status, answer.header("fetchd-policy")) == (200, version(world.config()))


@pytest.mark.parametrize(
    "line", ["", "{", "[]", '{"config": 1}', "null", '"x"', "\x00", '{"config": {}, "s": ']
)
def test_a_line_that_is_no_order_is_refused(world: World, line: str) -> None:
    assert world.gateway.process.stdin is not None
    before = len(world.gateway._outcomes())
    world.gateway.process.stdin.write(line + "\n")
    world.gateway.process.stdin.flush()
    world.gateway._watch.wait_sync(lambda: len(world.gateway._outcomes()) > before, "an outcome")
    assert world.gateway._outcomes()[-1]["event"] == "refused"
    assert send(world, Entry.ABSOLUTE_HTTPS, Ask(), listener=0).status == 200


def test_a_worker_that_is_started_anew_has_the_rules_in_force(world: World) -> None:
    after = take(world, changed(world, deny_hosts=["denied.example", "b.example"]))
    workers = processes_of(world.gateway)[1:]
    assert len(workers) == 2
    restarts = sum(event["event"] == "restarted" for event in world.gateway.events)
    for worker in workers:
        os.kill(worker, signal.SIGKILL)
    world.gateway.wait_event("restarted", restarts + 2)
    for _ in range(8):
        answer = send(world, Entry.ABSOLUTE_HTTPS, Ask(), listener=0)
        assert (answer.status, answer.header("fetchd-policy")) == (200, after)


# -- under load

A_ONLY, B_ONLY, BOTH, NEITHER = "a.example", "b.example", "c.example", "denied.example"
CLIENTS = [Entry.ABSOLUTE_HTTPS, Entry.CONNECT_H1, Entry.CONNECT_H2, Entry.TLS_LISTENER]


class Load(threading.Thread):
    """One client that asks all four hosts in turn until told to stop; what it got is kept."""

    def __init__(self, world: World, entry: Entry, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self._world, self._entry, self._stop_now = world, entry, stop
        self.seen: Counter[tuple[str, str, int]] = Counter()
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            with KeptClient(self._world, self._entry, listener=0) as client:
                while not self._stop_now.is_set():
                    for host in (A_ONLY, B_ONLY, BOTH, NEITHER):
                        self._note(host, client.get(client.url("/load", host)))
        except Exception as error:  # noqa: BLE001 (told to the test)
            self.error = error

    def _note(self, host: str, answer: Response) -> None:
        assert answer.complete
        self.seen[host, str(answer.header("fetchd-policy")), answer.status] += 1


@pytest.mark.parametrize("reloads", [20, pytest.param(200, marks=pytest.mark.soak)])
def test_reloads_under_load_mix_nothing_and_drop_nothing(world: World, reloads: int) -> None:
    """Valid ones in turn, with refused ones between: every verdict is what its own version says of that host."""
    world.origin.route("/load", replies.text("x"))
    first = changed(world, allow_hosts=[A_ONLY, BOTH], deny_hosts=[])
    second = changed(world, allow_hosts=[B_ONLY, BOTH], deny_hosts=[])
    bad = [changed(world, nonsense=1), {"profiles": 3}, {}]
    take(world, first)
    stop = threading.Event()
    clients = [Load(world, entry, stop) for entry in CLIENTS]
    for client in clients:
        client.start()
    for turn in range(reloads):
        assert world.gateway.reload((second, first)[turn % 2])["event"] == "reloaded"
        assert world.gateway.reload(bad[turn % 3])["event"] == "refused"
    stop.set()
    for client in clients:
        client.join(60)
        assert client.error is None, client.error
    seen = sum((client.seen for client in clients), Counter[tuple[str, str, int]]())
    expected = {
        (host, policy, 200 if host in allowed else 403)
        for policy, allowed in ((version(first), (A_ONLY, BOTH)), (version(second), (B_ONLY, BOTH)))
        for host in (A_ONLY, B_ONLY, BOTH, NEITHER)
    }
    assert set(seen) <= expected, seen
    assert {host for host, _, status in seen if status == 200} >= {BOTH}
    assert NEITHER not in {query.name.rstrip(".") for query in world.dns.queries}
