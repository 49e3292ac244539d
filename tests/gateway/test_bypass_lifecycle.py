"""Bypasses 36 to 41 of docs/bypasses.md: what a policy is at start, in a restart, at the end, and with no files left.

There is no reload yet: a gateway has the profiles it was started with until it ends.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import stat
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from proxy_addons.policy.config import ConfigError, parse_config
from tests.gateway.expect import NOBODY, assert_allowed, assert_refused, contacts, ended, forget
from tests.gateway.kept import KeptClient
from tests.gateway.paths import ALL, WEBSOCKET_FIELDS, Ask, Entry, client_context, send
from tests.kit import replies
from tests.kit.gateway import GatewayProcess, World
from tests.kit.sync import PATIENCE


def workers_of(world: World) -> list[int]:
    """The processes that the supervisor started."""
    pid = world.gateway.process.pid
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


# -- 36: what happens to the policy while it is in force


def test_case_36_what_becomes_of_the_configuration_later_changes_nothing(tmp_path: Path) -> None:
    """The gateway is told its configuration once; no file of it is read again, not even by a new worker."""
    with World(tmp_path) as world:
        (worker,) = workers_of(world)
        for number in (1, 2):
            assert_refused(world, send(world, Entry.CONNECT_H1, Ask(host="denied.example")), "host", 403)
            forget(world)
            assert_allowed(world, send(world, Entry.CONNECT_H1, Ask()))
            forget(world)
            if number == 1:
                os.kill(worker, signal.SIGKILL)
                world.gateway.wait_event("restarted")
        assert workers_of(world) != [worker]


HALF: dict[str, Any] = {"gateway": {"listeners": [{"address": "127.0.0.1:0", "profile": "missing"}]}}


@pytest.mark.parametrize(
    "told", ["", "{", '{"config": {}}', '{"config": {"profiles": {"x": {"ports": "all"}}}}']
)
def test_case_36_a_gateway_that_is_told_half_a_configuration_does_not_start(
    tmp_path: Path, told: str
) -> None:
    class Told(GatewayProcess):
        def __init__(self) -> None:
            super().__init__({}, tmp_path / "state")

    gateway = Told()
    gateway._told = told  # type: ignore[assignment]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.kit.gateway.json.dumps", lambda value: value)
        with gateway:
            assert gateway.events[0]["event"] == "failed"
            assert gateway.process.wait(PATIENCE) == 1


# -- 37: lists left empty, switches left out, keys misspelt

REFUSED_TABLES: dict[str, dict[str, Any]] = {
    "a key misspelt": {"deny_host": ["denied.example"]},
    "a list that is none": {"deny_hosts": "denied.example"},
    "a null": {"deny_hosts": None},
    "a switch that is a word": {"request_body": "no"},
    "a port that is a word": {"ports": ["https"]},
    "a pattern that is none": {"deny_hosts": ["https://denied.example/"]},
    "a range that is none": {"blocked_extra": ["10.0.0.0/33"]},
    "a limit below nothing": {"byte_cap": -1},
    "an exception without an address": {"exceptions": [{"host": "a.example"}]},
    "a redirect cap": {"max_redirects": 50},
    "literals let in": {"ip_literals": True},
}


@pytest.mark.parametrize("what", REFUSED_TABLES)
def test_case_37_a_profile_that_does_not_say_what_it_means_is_refused(what: str) -> None:
    (key,) = REFUSED_TABLES[what]
    with pytest.raises(ConfigError, match=key):
        parse_config({"profiles": {"p": REFUSED_TABLES[what]}}, source="test")


def test_case_37_default_may_only_be_tightened() -> None:
    assert (
        parse_config({"profiles": {"default": {"byte_cap": 1000}}}, source="test")
        .profiles["default"]
        .byte_cap
        == 1000
    )
    for wider in (
        {"byte_cap": 1 << 30},
        {"ports": [443, 8443]},
        {"schemes": ["http", "https"]},
        {"request_body": True},
    ):
        with pytest.raises(ConfigError):
            parse_config({"profiles": {"default": wider}}, source="test")


def test_case_37_a_listener_of_an_unknown_profile_does_not_start(tmp_path: Path) -> None:
    with GatewayProcess(HALF, tmp_path) as gateway:
        assert gateway.events[0]["event"] == "failed"
        assert "missing" in gateway.events[0]["message"]


@pytest.fixture(scope="module")
def strict_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """`none` allows no host, `bare` says nothing but where the origin may be reached."""
    profiles: dict[str, dict[str, Any]] = {
        "none": {"allow_hosts": [], "schemes": ["http", "https"]}, "bare": {"deny_hosts": []},
    }  # fmt: skip
    with World(
        tmp_path_factory.mktemp("strict"), profiles=profiles, listeners=("none", "open", "bare")
    ) as world:
        yield world


@pytest.mark.parametrize("entry", ALL)
def test_case_37_an_empty_allow_list_allows_nothing(strict_world: World, entry: Entry) -> None:
    forget(strict_world)
    answer = send(strict_world, entry, Ask(), listener=0)
    assert_refused(strict_world, answer, "host", 403)
    forget(strict_world)
    assert_allowed(strict_world, send(strict_world, entry, Ask()))


@pytest.mark.parametrize(
    ("ask", "rule", "status"),
    [
        (Ask(method="POST", body=b"x"), "method", 403),
        (Ask(headers=[("Content-Length", "1")]), "request-cap", 413),
        (Ask(headers=WEBSOCKET_FIELDS), "upgrade", 403),
        (Ask(host="127.0.0.1"), "ip-literal", 403),
        (Ask(port=22), "port", 403),
    ],
    ids=["methods", "bodies", "upgrades", "literals", "ports"],
)
def test_case_37_what_a_profile_leaves_out_is_off(
    strict_world: World, ask: Ask, rule: str, status: int
) -> None:
    forget(strict_world)
    answer = send(strict_world, Entry.CONNECT_H1, ask, listener=2)
    assert_refused(strict_world, answer, rule, status)
    forget(strict_world)
    assert_allowed(strict_world, send(strict_world, Entry.CONNECT_H1, Ask(), listener=2))


# -- 38: what was opened under a policy ends with it


def test_case_38_connections_end_with_the_gateway_that_let_them_in(tmp_path: Path) -> None:
    """The only change of policy is a new start, and nothing outlives the old one."""
    with World(tmp_path) as world, ExitStack() as stack:
        world.origin.route("/ws", replies.upgrade("websocket", [ACCEPT]))
        standing = []
        for entry in (Entry.ABSOLUTE_HTTPS, Entry.CONNECT_H1, Entry.CONNECT_H2, Entry.TLS_LISTENER):
            client = stack.enter_context(KeptClient(world, entry))
            assert client.get(client.url("/")).status == 200
            standing.append(client.h2_connection() if entry is Entry.CONNECT_H2 else client.connection())
        proxy = stack.enter_context(world.gateway.open(1))
        assert proxy.connect(world.authority()).status == 200
        websocket = stack.enter_context(proxy.start_tls("a.example", client_context(world, Ask())))
        websocket.request("GET", "/ws", world.authority(), WEBSOCKET_FIELDS)
        assert websocket.read_response().status == 101
        assert world.gateway.stop() == 0
        for connection in (*standing, websocket):
            ended(connection)
        asyncio.run(world.origin.wait_closed())
        assert world.origin.accepts == 5


ACCEPT = ("sec-websocket-accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")


# -- 39: no file descriptors left


def test_case_39_idle_clients_may_want_every_descriptor_and_the_gateway_recovers_closed(
    tmp_path: Path,
) -> None:
    """Under 64 descriptors and 200 idle clients nothing passes unjudged; when they leave, all is as before.

    The idle ones make room (test_client_places.py), so a newcomer is judged all the same.
    """
    with World(tmp_path) as world:
        (worker,) = workers_of(world)
        _, hard = resource.prlimit(worker, resource.RLIMIT_NOFILE)
        assert_allowed(world, send(world, Entry.CONNECT_H1, Ask()))
        forget(world)
        resource.prlimit(worker, resource.RLIMIT_NOFILE, (64, hard))
        idle = [world.gateway.open(1) for _ in range(200)]
        with world.gateway.open(1) as newcomer:
            newcomer.request("GET", world.url("/", "denied.example"), world.authority("denied.example"))
            assert newcomer.read_response().header("fetchd-rule") == "host"
            newcomer.request("GET", world.url(), world.authority())
            answer = newcomer.read_response()
            assert answer.status in (200, 502, 503), answer
            assert answer.status == 200 or answer.header("fetchd-verdict") == "refused"
            for connection in idle:
                connection.close()
        forget(world)
        assert_refused(world, send(world, Entry.CONNECT_H1, Ask(host="denied.example")), "host", 403)
        forget(world)
        assert_allowed(world, send(world, Entry.CONNECT_H1, Ask()))
        assert workers_of(world) == [worker]


# -- 41: whose files are read


PLANTED = [
    "json.py",
    "socket.py",
    "mitmproxy.py",
    "proxy_addons.py",
    "sitecustomize.py",
    "dns.py",
    "certifi.py",
]


def test_case_41_nothing_is_imported_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent may write to the directory that the gateway was started in."""
    writable = tmp_path / "work"
    writable.mkdir()
    for name in PLANTED:
        (writable / name).write_text(
            f"open({str(tmp_path / 'ran')!r}, 'a').write(__name__ + ' ')\nraise SystemExit(9)\n"
        )
    (writable / "fetchd.toml").write_text("[profiles.default]\nhosts = 1\n")
    monkeypatch.chdir(writable)
    (tmp_path / "world").mkdir()
    with World(tmp_path / "world") as world:
        assert_allowed(world, send(world, Entry.CONNECT_H1, Ask()))
    assert not (tmp_path / "ran").exists()


def test_case_41_keys_and_log_are_for_their_owner_alone(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        assert_allowed(world, send(world, Entry.CONNECT_H1, Ask()))
        state = tmp_path / "state"
        secret = [state, *(state / "keys").rglob("*"), *(state / "audit").rglob("*")]
        modes = {path: stat.S_IMODE(path.stat().st_mode) for path in secret}
    assert any(path.suffix == ".jsonl" for path in modes) and len(modes) > 4
    public = {"audit-signing.pub.pem", "mitmproxy-ca-cert.pem"}  # in a directory of their owner all the same
    assert {path.name for path, mode in modes.items() if mode & 0o077} <= public
    assert b"PRIVATE" not in (state / "ca.pem").read_bytes()


@pytest.mark.parametrize("entry", ALL)
@pytest.mark.parametrize("path", ["/ca.pem", "/mitmproxy-1.crl", "/cert/pem"])
def test_case_41_no_path_through_the_gateway_leads_to_its_files(
    strict_world: World, entry: Entry, path: str
) -> None:
    """What looks like a file of the proxy is one more path of the origin."""
    forget(strict_world)
    answer = send(strict_world, entry, Ask(path))
    assert_allowed(strict_world, answer)
    assert [request.path for request in entry.origin(strict_world).requests] == [path]
    forget(strict_world)
    assert contacts(strict_world) == NOBODY
