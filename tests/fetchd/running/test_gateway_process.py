"""The gateway as a process of the daemon's: started, told, ended; the running one used, or a private one."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme

from fetchd.core.caller import Caller
from fetchd.errors import NoGatewayError, StaleGatewayError
from fetchd.running.gateway_process import (
    Gateway,
    GatewayReloadError,
    GatewayStartError,
    choose_gateway,
    ensure_gateway,
    on_free_ports,
    start_gateway,
)
from fetchd.running.run_state import RunState, load_or_create_secret, own_state_dir, write_run_state
from fetchd.running.serving import accepts
from fetchd.settings import LoadedConfig
from proxy_addons.policy.config import Config, parse_config
from proxy_addons.policy.config_document import render_document
from proxy_addons.policy.limits import DEFAULT_PROFILE, Profile
from tests.kit.processes import find_descendants, poll_until, read_command, wait_ended

SECRET = "5" * 64


def make_config(address: str = "127.0.0.1:0") -> Config:
    return parse_config(
        {
            "gateway": {"listeners": [{"address": address}], "workers": 1},
            "daemon": {"listen": "127.0.0.1:0"},
            "operator": {"listen": "127.0.0.1:0"},
        },
        source="test",
    )


def loaded() -> LoadedConfig:
    return LoadedConfig(make_config("127.0.0.1:3128"), "test", None)


Started = Callable[[], set[int]]


@pytest.fixture
def started() -> Started:
    """Asks for supervisors and workers of this test; those of others may run below this very process."""

    def find() -> set[int]:
        return {pid for pid in find_descendants(os.getpid()) if b"\0proxy_addons" in read_command(pid)}

    others = find()
    return lambda: find() - others


def in_place_of_python(monkeypatch: pytest.MonkeyPatch, path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setattr("fetchd.running.gateway_process.sys.executable", str(path))


async def test_a_started_gateway_says_where_it_is_and_ends_when_told(
    tmp_path: Path, started: Started
) -> None:
    gateway = await start_gateway(make_config(), "test", tmp_path / "state", SECRET)
    ((host, port, profile),) = gateway.listeners
    processes = started()

    assert (host, profile, gateway.workers, len(processes)) == ("127.0.0.1", "default", 1, 2)
    assert gateway.ca["path"] == str(tmp_path / "state" / "ca.pem")
    assert gateway.ca["created"] is True
    assert accepts(host, port)

    await gateway.stop()
    assert await gateway.wait() == 0
    wait_ended(processes, 0)
    assert not accepts(host, port)


async def test_it_takes_no_code_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where an agent may have left something. tempfile is one of many modules that the gateway imports."""
    (tmp_path / "tempfile.py").write_text("raise SystemExit('taken from the working directory')\n")
    monkeypatch.chdir(tmp_path)

    gateway = await start_gateway(make_config(), "test", tmp_path / "state", SECRET)

    await gateway.stop()
    assert await gateway.wait() == 0


async def test_it_is_given_no_key(tmp_path: Path, started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    """What faces the network holds nothing that it does not need."""
    document = {
        **render_document(make_config()),
        "search": {"brave": {"key_env": "BRAVE_KEY"}, "gateway": {"key_file": "/gateway.key"}},
    }
    for name in ("BRAVE_KEY", "ANTHROPIC_API_KEY", "FETCHD_OTHER_KEY"):
        monkeypatch.setenv(name, f"canary-{name}")
    gateway = await start_gateway(parse_config(document, source="test"), "test", tmp_path / "state", SECRET)
    try:
        found = [Path(f"/proc/{pid}/environ").read_bytes() for pid in started()]
    finally:
        await gateway.stop()

    assert len(found) > 1
    for environ in found:
        assert b"canary" not in environ and b"PATH=" in environ


async def test_a_taken_address_is_told_apart(tmp_path: Path, started: Started) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        taken = f"127.0.0.1:{holder.getsockname()[1]}"
        with pytest.raises(GatewayStartError) as caught:
            await start_gateway(make_config(taken), "test", tmp_path / "state", SECRET)

    assert (str(caught.value), caught.value.in_use) == (f"address {taken}: in use", taken)
    assert started() == set()


@pytest.mark.parametrize(
    "script",
    [
        pytest.param("exit 1", id="ends at once"),
        pytest.param("echo nonsense", id="says what is no JSON"),
        pytest.param("echo '[]'", id="says another thing"),
        pytest.param("exec <&- >&-", id="closes both ends"),
    ],
)
async def test_a_gateway_that_has_no_word_for_us_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    in_place_of_python(monkeypatch, tmp_path / "python", script)

    with pytest.raises(GatewayStartError, match=r"^the gateway did not start; its reason is above$"):
        await start_gateway(make_config(), "test", tmp_path, SECRET)


async def test_a_cancelled_start_leaves_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_place_of_python(monkeypatch, tmp_path / "python", f"echo $$ > {tmp_path}/pid; cat > /dev/null")
    start = asyncio.create_task(start_gateway(make_config(), "test", tmp_path, SECRET))
    pid = tmp_path / "pid"
    await asyncio.to_thread(poll_until, lambda: pid.exists() and bool(pid.read_text().strip()), "a start")

    start.cancel()
    with pytest.raises(asyncio.CancelledError):
        await start

    wait_ended([int(pid.read_text())], 0)


async def test_private_gateways_side_by_side(tmp_path: Path, started: Started) -> None:
    async with (
        ensure_gateway(loaded(), tmp_path / "state") as one,
        ensure_gateway(loaded(), tmp_path / "state") as other,
    ):
        assert one.port != other.port
        assert one.secret == other.secret
        assert accepts(one.host, one.port) and accepts(other.host, other.port)
        assert len(started()) == 4

    assert started() == set()
    assert not (tmp_path / "state" / "run.json").exists()


async def test_the_running_gateway_is_used(tmp_path: Path) -> None:
    secret = load_or_create_secret(tmp_path)
    state = RunState(
        os.getpid(), "2026", "c", (("127.0.0.1", 7, "default"), ("127.0.0.1", 8, "open")), ("127.0.0.1", 2),
        ("127.0.0.1", 3), 1, "x", "y",
    )  # fmt: skip
    with own_state_dir(tmp_path):
        write_run_state(tmp_path, state)
        for no_start in (False, True):
            async with ensure_gateway(loaded(), tmp_path, no_start=no_start) as gateway:
                assert gateway == Gateway("127.0.0.1", 7, secret)

        # What goes wrong while it is used is no word about the gateway.
        with pytest.raises(ConnectionResetError):
            async with ensure_gateway(loaded(), tmp_path):
                raise ConnectionResetError
        (tmp_path / "keys" / "daemon-secret").unlink()
        with pytest.raises(NoGatewayError, match=r"^the gateway's secret cannot be read: "):
            async with ensure_gateway(loaded(), tmp_path):
                pytest.fail("there is no secret")


async def test_no_start_says_how_to_start_one(tmp_path: Path) -> None:
    with pytest.raises(NoGatewayError) as caught:
        async with ensure_gateway(loaded(), tmp_path / "state", no_start=True):
            pytest.fail("there is no gateway")

    assert str(caught.value) == "no gateway at 127.0.0.1:3128; start one with: fetchd up"
    assert not (tmp_path / "state").exists()


async def test_a_private_gateway_that_cannot_start_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(NoGatewayError, match=r"no private gateway could be started: .*Not a directory"):
        async with ensure_gateway(loaded(), tmp_path / "file" / "state"):
            pytest.fail("there is no gateway")


def test_a_private_gateway_keeps_all_but_where_it_listens() -> None:
    config = parse_config(
        {
            "gateway": {
                "listeners": [{"address": "127.0.0.1:1", "profile": "wide"}, {"address": "127.0.0.1:2"}],
                "workers": 8,
                "default_profile": "wide",
            },
            "dns": {"nameservers": ["127.0.0.1:5353"]},
            "profiles": {"wide": {"byte_cap": 1024}},
        },
        source="test",
    )

    changed = on_free_ports(LoadedConfig(config, "test", None))

    assert [(one.host, one.port, one.profile) for one in changed.gateway.listeners] == [
        ("127.0.0.1", 0, "wide")
    ]
    assert changed.gateway.workers == 1
    assert (changed.daemon.endpoint.port, changed.operator.endpoint.port) == (0, 0)
    assert (changed.dns, changed.tls, changed.profiles) == (config.dns, config.tls, config.profiles)


def test_the_secret_is_in_no_repr() -> None:
    assert SECRET not in repr(Gateway("127.0.0.1", 1, SECRET))


# -- a reload


def with_profile(cap: int) -> Config:
    return parse_config(
        {**render_document(make_config()), "profiles": {"one": {"byte_cap": cap}}}, source="test"
    )


async def test_a_running_gateway_takes_other_rules_or_says_why_not(tmp_path: Path) -> None:
    gateway = await start_gateway(with_profile(1), "test", tmp_path / "state", SECRET)
    try:
        await asyncio.gather(*(gateway.reload(with_profile(cap), "test") for cap in range(2, 6)))
        elsewhere = make_config("127.0.0.1:1")
        with pytest.raises(GatewayReloadError, match=r"^gateway\.listeners cannot change while"):
            await gateway.reload(elsewhere, "test")
        await gateway.reload(with_profile(7), "test")
    finally:
        await gateway.stop()
    with pytest.raises(GatewayReloadError, match=r"^the gateway has ended$"):
        await gateway.reload(with_profile(8), "test")


SAYS = """read line; echo '{"event": "ready", "listeners": [], "workers": 1, "ca": {}}'; read line"""


@pytest.mark.parametrize(
    ("script", "message"),
    [
        pytest.param("exit 0", "the gateway has ended", id="it ends"),
        pytest.param("exec <&- >&-; sleep 60", "the gateway has ended", id="it closes both ends"),
        pytest.param(
            """echo '{"event": "restarted", "worker": 0}'; echo '[]'; echo nonsense;
            echo '{"event": "refused", "message": "no"}'; read line""",
            "no",
            id="other words come between",
        ),
    ],
)
async def test_what_a_gateway_may_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, message: str
) -> None:
    in_place_of_python(monkeypatch, tmp_path / "python", f"{SAYS}; {script}")
    gateway = await start_gateway(make_config(), "test", tmp_path, SECRET)
    try:
        with pytest.raises(GatewayReloadError) as caught:
            await gateway.reload(make_config(), "test")
    finally:
        monkeypatch.setattr(
            "fetchd.running.gateway_process.STOP_SECONDS", 0.1
        )  # one of them ends only when killed
        await gateway.stop()

    assert str(caught.value) == message


async def test_an_answer_that_comes_too_late_is_not_taken_for_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = """read line; echo '{"event": "reloaded"}'; echo '{"event": "refused", "message": "second"}'; read line"""
    in_place_of_python(monkeypatch, tmp_path / "python", f"{SAYS}; {late}")
    gateway = await start_gateway(make_config(), "test", tmp_path, SECRET)
    try:
        monkeypatch.setattr("fetchd.running.gateway_process.RELOAD_SECONDS", 0.0)
        with pytest.raises(GatewayReloadError, match="did not answer within"):
            await gateway.reload(make_config(), "test")
        monkeypatch.undo()
        with pytest.raises(GatewayReloadError, match=r"^second$"):
            await gateway.reload(make_config(), "test")
    finally:
        await gateway.stop()


# -- which listener the daemon uses


@pytest.mark.parametrize(
    ("listeners", "tls", "found"),
    [
        pytest.param([("127.0.0.1", 1, "a"), ("::1", 2, "b")], [], ("127.0.0.1", 1, False), id="the first"),
        pytest.param(
            [("127.0.0.1", 1, "a"), ("::1", 2, "b")], [True, False], ("::1", 2, False), id="a plain one"
        ),
        pytest.param([("::1", 1, "a"), ("::1", 2, "b")], [True, True], ("::1", 1, True), id="all are TLS"),
        pytest.param([("0.0.0.0", 1, "a")], [False], ("127.0.0.1", 1, False), id="every IPv4 address"),
        pytest.param([("::", 1, "a")], [False], ("::1", 1, False), id="every IPv6 address"),
    ],
)
def test_where_the_daemon_sends_its_hops(
    tmp_path: Path, listeners: list[tuple[str, int, str]], tls: list[bool], found: tuple[str, int, bool]
) -> None:
    trustme.CA().cert_pem.write_to_path(tmp_path / "ca.pem")
    gateway = choose_gateway(listeners, tls, SECRET, str(tmp_path / "ca.pem"), None)

    assert (gateway.host, gateway.port, gateway.tls is not None) == found


async def test_a_running_gateway_that_lacks_a_name_is_one_line(tmp_path: Path) -> None:
    load_or_create_secret(tmp_path)
    state = RunState(
        os.getpid(), "2026", "c", (("127.0.0.1", 7, "default"),), ("127.0.0.1", 2), ("127.0.0.1", 3), 1, "x", "y",
        profiles={"default": "v"}, agents={"bot": "default"},
    )  # fmt: skip
    with own_state_dir(tmp_path):
        write_run_state(tmp_path, state)
        for caller in (Caller("local", DEFAULT_PROFILE), Caller("bot", DEFAULT_PROFILE)):
            async with ensure_gateway(loaded(), tmp_path, caller=caller):
                pass
        for caller, what in (
            (Caller("local", Profile("news")), "profile news"),
            (Caller("eve", DEFAULT_PROFILE), "agent eve"),
        ):
            with pytest.raises(StaleGatewayError) as caught:
                async with ensure_gateway(loaded(), tmp_path, caller=caller):
                    pytest.fail("it is not known there")
            assert str(caught.value) == f"the running gateway has no {what}; first: fetchd reload"
