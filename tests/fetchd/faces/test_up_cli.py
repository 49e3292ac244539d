"""`fetchd up | status | stop` as processes: what is printed, what goes wrong in one line, and how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from fetchd.faces.up_text import describe_profile, render_start
from fetchd.running.run_state import RunState, own_state_dir
from proxy_addons.policy.config import parse_config
from proxy_addons.policy.limits import DEFAULT_PROFILE
from tests.kit.installed import COMMAND_SECONDS, FREE_PORTS, ONE_WORKER, Up, run_fetchd
from tests.kit.processes import poll_until, wait_ended

ARGUMENTS = (*FREE_PORTS, *ONE_WORKER)
PUBLIC = (".pub", ".pub.pem", "-cert.pem", ".lock")
"""Ends of names in keys/ that hold nothing secret."""


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with Up(tmp_path_factory.mktemp("up with spaces"), *ARGUMENTS) as running:
        yield running


@pytest.fixture
def taken() -> Iterator[str]:
    """An address that somebody listens on."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        yield f"127.0.0.1:{holder.getsockname()[1]}"


def is_free(address: tuple[str, int]) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError:
            return False
        return True


def assert_nothing_left(up: Up, *addresses: tuple[str, int]) -> None:
    assert all(map(is_free, addresses))
    assert not (up.state / "run.json").exists()
    assert up.run("status").returncode == 3


# -- what is printed


def test_up_says_what_listens_where_and_ends_with_ready(up: Up) -> None:
    state = up.run_state
    printed = {line[:10].strip(): line[10:].strip() for line in up.said if not line.startswith(" ")}

    assert printed["gateway"].split() == [f"http://127.0.0.1:{up.gateway[1]}", "profile", "default"]
    assert printed["tools"].startswith(f"http://127.0.0.1:{up.tools[1]} ")
    assert printed["operator"].startswith(f"http://127.0.0.1:{up.operator[1]} ")
    assert printed["search"].split(maxsplit=1) == [
        "local", "the pages that were read here, not the web; for that: docs/search.md"
    ]  # fmt: skip
    assert printed["workers"] == "1"
    assert printed["CA"] == f"{up.ca_path}, expires {state['ca_expires'][:10]} (made now)"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", state["ca_expires"][:10])
    assert up.said[-2] == (
        "default profile: https, GET/HEAD, no logins, 8 MiB and 20 s an answer; "
        "for git, pip, npm use another profile"
    )
    assert up.said[-1] == "ready"
    assert up.errors == []


def test_the_printed_lines_set_the_environment_as_a_shell_reads_them(up: Up) -> None:
    exports = "\n".join(line for line in up.said if line.startswith("  export "))
    done = subprocess.run(
        ["sh", "-c", f"{exports}\nenv"], env={"PATH": os.environ["PATH"]},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = dict(line.partition("=")[::2] for line in done.stdout.splitlines())

    proxy = f"http://127.0.0.1:{up.gateway[1]}"
    assert [found[name] for name in ("HTTPS_PROXY", "HTTP_PROXY", "http_proxy")] == [proxy] * 3
    for name in ("SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"):
        assert found[name] == str(up.ca_path)
    assert found["NO_PROXY"] == "localhost,127.0.0.1,::1"


def test_the_state_directory_is_the_owners_alone(up: Up) -> None:
    modes = {
        str(path.relative_to(up.state)): path.stat().st_mode & 0o777
        for path in (up.state, *up.state.rglob("*"))
    }

    assert modes["."] == modes["keys"] == modes["audit"] == 0o700
    private = [name for name in modes if name.startswith("keys/") and not name.endswith(PUBLIC)]
    assert "keys/daemon-secret" in private
    assert {name: oct(modes[name]) for name in private} == dict.fromkeys(private, oct(0o600))


def test_status_shows_the_same(up: Up) -> None:
    done = up.run("status")
    document = json.loads(up.run("status", "--json").stdout)

    assert done.returncode == 0
    assert done.stdout.count(" accepting") == 3
    assert document["running"] is True
    assert document["pid"] == up.process.pid
    assert document["listeners"] == [["127.0.0.1", up.gateway[1], "default"]]
    assert document["accepting"] == {
        f"127.0.0.1:{port}": True for _, port in (up.gateway, up.tools, up.operator)
    }


def test_a_reload_keeps_what_the_command_line_said(up: Up) -> None:
    """There is no file at all, and the built-in addresses are others."""
    before = up.run_state
    done = up.run("reload")

    assert (done.returncode, done.stdout) == (0, "reloaded; nothing has changed\n")
    assert up.run_state == {**before, "reloaded": up.run_state["reloaded"]}
    assert up.run("status").stdout.count(" accepting") == 3


def test_without_anything_running_status_is_3_and_stop_is_no_error(tmp_path: Path) -> None:
    state = ("--state-dir", str(tmp_path / "state"))

    done = run_fetchd("status", *state, folder=tmp_path)
    assert (done.returncode, done.stdout) == (
        3, f"not running on {tmp_path}/state; start it with: fetchd up\n",
    )  # fmt: skip
    done = run_fetchd("status", "--json", *state, folder=tmp_path)
    assert (done.returncode, json.loads(done.stdout)["running"]) == (3, False)
    done = run_fetchd("stop", *state, folder=tmp_path)
    assert (done.returncode, done.stdout) == (0, f"not running on {tmp_path}/state\n")
    assert not (tmp_path / "state").exists()


def test_the_profile_line_follows_the_profile() -> None:
    config = parse_config(
        {
            "profiles": {
                "git": {
                    "methods": ["GET", "POST"], "request_body": True, "request_cap": 1024,
                    "credential_hosts": ["github.com"], "byte_cap": 5000, "total_timeout": 2.5,
                }
            }
        },
        source="test",
    )  # fmt: skip

    assert describe_profile(config.profiles["git"]) == (
        "git profile: https, GET/POST, logins to named hosts, 5000 bytes and 2.5 s an answer"
    )


def test_what_is_printed_of_an_ipv6_listener() -> None:
    state = RunState(
        1, "2026-01-01", "c", (("::1", 3128, "default"),), ("::1", 3129), ("::1", 3130), 1, "/s/ca.pem",
        "2029-01-01T00:00:00+00:00",
    )  # fmt: skip
    said = render_start(
        state, Path("/s"), DEFAULT_PROFILE, ca_created=False, notes=("mended",), search=("brave", "local")
    )

    assert "HTTPS_PROXY=http://[::1]:3128 " in said
    assert "CA        /s/ca.pem, expires 2029-01-01\n" in re.sub(r" +\n", "\n", said)
    assert "note      mended" in said
    assert re.search(r"^search +brave, local *$", said, re.MULTILINE)


# -- what goes wrong, in one line


@pytest.mark.parametrize("flag", ["--gateway", "--tools", "--operator"])
def test_a_port_in_use_is_one_line_naming_port_and_flag(tmp_path: Path, taken: str, flag: str) -> None:
    arguments = list(ARGUMENTS)
    arguments[arguments.index(flag) + 1] = taken

    done = run_fetchd("up", "--state-dir", str(tmp_path / "s"), *arguments, folder=tmp_path)

    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == (
        f"Error: address {taken}: in use; choose another port with {flag} 127.0.0.1:PORT\n"
    )


def test_one_port_for_two_listeners_blames_the_second(tmp_path: Path, taken: str) -> None:
    """Also where the port could belong to either: the flag is that of the listener that did not get it."""
    arguments = ("--tools", "127.0.0.1:0", "--operator", taken, "--gateway", "127.0.0.1:0")
    config = tmp_path / "c.toml"
    config.write_text(f'[daemon]\nlisten = "{taken}"\n')

    done = run_fetchd(
        "up", "--config", str(config), "--state-dir", str(tmp_path / "s"), *arguments, folder=tmp_path
    )

    assert done.returncode == 2
    assert "--operator" in done.stderr and "--tools" not in done.stderr


def test_a_second_listener_in_use_points_to_the_file(tmp_path: Path, taken: str) -> None:
    config = tmp_path / "c.toml"
    config.write_text(
        f'[gateway]\nlisteners = [{{ address = "127.0.0.1:0" }}, {{ address = "{taken}" }}]\nworkers = 1\n'
    )
    ports = ("--tools", "127.0.0.1:0", "--operator", "127.0.0.1:0")

    done = run_fetchd(
        "up", "--config", str(config), "--state-dir", str(tmp_path / "s"), *ports, folder=tmp_path
    )

    assert done.returncode == 2
    assert done.stderr == (
        f"Error: address {taken}: in use; choose another port in gateway.listeners of {config}\n"
    )


def test_an_unknown_key_names_file_key_and_form_before_anything_listens(tmp_path: Path, taken: str) -> None:
    config = tmp_path / "c.toml"
    config.write_text(f'[gateway]\nworker = 2\n[daemon]\nlisten = "{taken}"\n')

    done = run_fetchd("up", "--config", str(config), "--state-dir", str(tmp_path / "s"), folder=tmp_path)

    assert done.returncode == 2
    assert done.stderr.startswith(f"Error: {config}: gateway.worker: ")
    assert "workers" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "s").exists()


def test_an_address_that_agents_elsewhere_could_reach_is_refused(tmp_path: Path) -> None:
    done = run_fetchd("up", "--state-dir", str(tmp_path / "s"), "--gateway", "0.0.0.0:3128", folder=tmp_path)

    assert done.returncode == 2
    assert done.stderr.startswith("Error: command line: gateway.listeners")
    assert not (tmp_path / "s").exists()


def test_a_state_directory_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    state = tmp_path / "file" / "state"

    done = run_fetchd("up", "--state-dir", str(state), *ARGUMENTS, folder=tmp_path)

    assert done.returncode == 2
    assert done.stderr == f"Error: state directory {state}: Not a directory\n"


def test_a_damaged_secret_is_one_line_naming_the_file(tmp_path: Path) -> None:
    secret = tmp_path / "s" / "keys" / "daemon-secret"
    secret.parent.mkdir(parents=True, mode=0o700)
    secret.write_text("hello")

    done = run_fetchd("up", "--state-dir", str(tmp_path / "s"), *ARGUMENTS, folder=tmp_path)

    assert done.returncode == 2
    assert done.stderr == f"Error: {secret} holds no secret; remove it and start again\n"


def test_a_second_up_on_the_same_state_is_refused_and_disturbs_nothing(up: Up) -> None:
    before = up.run_state

    done = up.run("up", *ARGUMENTS)

    assert done.returncode == 2
    assert done.stderr == (
        f"Error: already running on {up.state} (process {up.process.pid}); stop it with: fetchd stop\n"
    )
    assert up.run_state == before
    assert up.run("status").returncode == 0


def test_while_it_starts_a_second_up_is_refused_and_status_says_so(tmp_path: Path) -> None:
    with own_state_dir(tmp_path / "state"):
        done = run_fetchd("up", "--state-dir", str(tmp_path / "state"), *ARGUMENTS, folder=tmp_path)
        status = run_fetchd("status", "--state-dir", str(tmp_path / "state"), folder=tmp_path)

    assert done.returncode == 2
    assert "already running" in done.stderr
    assert (status.returncode, status.stdout) == (
        3, f"starting or stopping on {tmp_path}/state (process {os.getpid()})\n",
    )  # fmt: skip


# -- the end


def test_a_clean_stop_leaves_nothing(tmp_path: Path) -> None:
    with Up(tmp_path, *ARGUMENTS) as up:
        addresses = (up.gateway, up.tools, up.operator)
        assert len(up.gateway_processes) == 2
        status = up.end(signal.SIGTERM)

    assert status == 0
    assert up.said[-2:] == ["ready", "stopped"]
    assert up.errors == []
    assert_nothing_left(up, *addresses)
    assert "whole" in up.run("audit", "verify").stdout


def test_a_start_can_be_stopped(tmp_path: Path) -> None:
    """In the middle of it: the state directory is owned, the gateway is not ready yet."""
    with Up(tmp_path, *ARGUMENTS).starting() as up:
        lock = up.state / "up.lock"
        poll_until(lambda: lock.exists() and bool(lock.read_text()), "an owner", COMMAND_SECONDS)

        done = up.run("stop")

        assert (done.returncode, done.stdout) == (0, "stopped\n")
        assert up.wait() == 0
    assert up.said[-1] == "stopped"
    assert up.errors == []
    assert not up.descendants


def test_after_up_is_killed_its_gateway_ends_and_the_next_up_works(tmp_path: Path) -> None:
    with Up(tmp_path, *ARGUMENTS) as up:
        addresses = (up.gateway, up.tools, up.operator)
        assert up.end(signal.SIGKILL) == -signal.SIGKILL
    assert (up.state / "run.json").exists()  # and nobody believes it
    assert up.run("status").returncode == 3
    assert all(map(is_free, addresses))

    with Up(tmp_path, *ARGUMENTS, "--gateway", f"127.0.0.1:{addresses[0][1]}") as again:
        assert again.gateway == addresses[0]
        assert "(made now)" not in "\n".join(again.said)
        assert "whole" in again.run("audit", "verify").stdout
        status = again.end(signal.SIGINT)  # Ctrl-C

    assert (status, again.said[-1], again.errors) == (0, "stopped", [])
    assert_nothing_left(again, addresses[0])


def test_the_next_up_waits_for_a_gateway_that_is_still_ending(tmp_path: Path) -> None:
    with Up(tmp_path, *ARGUMENTS) as up:
        address = up.gateway
        supervisor, worker = up.gateway_processes
        os.kill(worker, signal.SIGSTOP)  # it can neither serve nor end
        up.process.kill()
        up.wait()
    with Up(tmp_path, *ARGUMENTS, "--gateway", f"127.0.0.1:{address[1]}").starting() as again:
        poll_until(lambda: bool(again.gateway_processes), "a gateway", COMMAND_SECONDS)
        with suppress(ProcessLookupError):  # on a slow machine its supervisor has lost patience and killed it
            os.kill(worker, signal.SIGCONT)
        with again:
            assert again.gateway == address
            wait_ended([supervisor, worker])
            below = again.gateway_processes

            done = again.run("stop")

            assert (done.returncode, done.stdout) == (0, "stopped\n")
            wait_ended(below, 0)  # `stop` has waited
            assert is_free(address)
            assert again.wait() == 0


def test_when_the_gateway_is_killed_up_says_so_and_ends(tmp_path: Path) -> None:
    with Up(tmp_path, *ARGUMENTS) as up:
        addresses = (up.gateway, up.tools, up.operator)
        supervisor, *workers = up.gateway_processes
        os.kill(supervisor, signal.SIGKILL)
        status = up.wait()
        wait_ended(workers)

    assert status == 2
    assert up.errors == [
        "Error: the gateway was killed by signal 9; everything is stopped. Start again with: fetchd up"
    ]
    assert_nothing_left(up, *addresses)


def test_a_run_file_of_a_process_id_that_is_somebody_elses_now(tmp_path: Path) -> None:
    """The file names this very process, which is no `fetchd up`: nothing runs, and `stop` harms nobody."""
    up = Up(tmp_path)
    up.state.mkdir()
    state = RunState(
        os.getpid(), "2026", "c", (("127.0.0.1", 1, "default"),), ("127.0.0.1", 2), ("127.0.0.1", 3), 1, "x", "y",
    )  # fmt: skip
    (up.state / "run.json").write_text(
        json.dumps({field: getattr(state, field) for field in state.__slots__})
    )
    (up.state / "up.lock").write_text(f"{os.getpid()}\n")

    assert up.run("status").returncode == 3
    assert up.run("stop").stdout == f"not running on {up.state}\n"
    done = up.run("fetch", "https://a.example/", "--no-start")
    assert (done.returncode, done.stderr) == (
        3, "no gateway at 127.0.0.1:3128; start one with: fetchd up\n",
    )  # fmt: skip
