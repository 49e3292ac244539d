"""config/fetchd.service: valid, hardened as far as systemd can tell, and an installation works under it."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fetchd.running.service_manager import READY, STOPPING, tell_service_manager
from tests.deployment.unit_sandbox import allowed_calls
from tests.e2e.stage import Stage, post_json
from tests.kit import replies
from tests.kit.corpora import REPOSITORY
from tests.kit.installed import Up
from tests.kit.tools import require_tool

UNIT = REPOSITORY / "config" / "fetchd.service"
INSTALLED = "/opt/fetchd/bin/fetchd"
MOST_EXPOSED = 15
"""systemd's figure times ten, of 100 for a service that holds nothing back; ours is 11."""


@pytest.fixture(scope="module")
def analyze() -> str:
    return str(require_tool("systemd-analyze"))


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The unit, with a command that is there."""
    path = tmp_path / UNIT.name
    path.write_text(UNIT.read_text("utf-8").replace(INSTALLED, sys.executable), "utf-8")
    return path


def test_systemd_finds_nothing_to_say_of_it(analyze: str, unit: Path) -> None:
    done = subprocess.run(
        [analyze, "verify", "--man=no", "--recursive-errors=no", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_systemd_finds_nothing_to_say_of_an_agents_network(analyze: str, tmp_path: Path) -> None:
    path = tmp_path / "fetchd-agent@bot.service"
    text = (UNIT.parent / "fetchd-agent@.service").read_text("utf-8")
    path.write_text(text.replace("/opt/fetchd/namespace.sh", str(UNIT.parent / "namespace.sh")), "utf-8")
    done = subprocess.run(
        [analyze, "verify", "--man=no", "--recursive-errors=no", str(path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_systemd_would_say_so_of_a_misspelt_setting(analyze: str, unit: Path) -> None:
    unit.write_text(unit.read_text("utf-8").replace("ProtectSystem=strict", "ProtectSystem=very"), "utf-8")
    done = subprocess.run(
        [analyze, "verify", "--man=no", "--recursive-errors=no", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert "Failed to parse" in done.stderr


def test_it_is_less_exposed_than_the_limit(analyze: str, unit: Path) -> None:
    command = [analyze, "security", "--offline=true", "--no-pager", f"--threshold={MOST_EXPOSED}", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    exposed = [line for line in done.stdout.splitlines() if line.startswith("✗")]

    assert done.returncode == 0, "\n".join(exposed)


def test_it_uses_the_commands_there_are() -> None:
    text = UNIT.read_text("utf-8")

    assert re.findall(rf"^Exec\w+={INSTALLED} (.*)$", text, re.MULTILINE) == ["up", "reload"]


# -- the word to the service manager


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    """The socket on which a service manager waits."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as waiting:
        waiting.bind(str(tmp_path / "notify"))
        waiting.settimeout(60)
        yield waiting


def test_a_service_manager_is_told_what_was_said(manager: socket.socket) -> None:
    told = tell_service_manager(READY, "STATUS=well", environ={"NOTIFY_SOCKET": manager.getsockname()})

    assert (told, manager.recv(100)) == (True, b"READY=1\nSTATUS=well")


def test_an_abstract_socket_does_as_well() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as waiting:
        waiting.bind(f"\0fetchd-test-{os.getpid()}")
        told = tell_service_manager(STOPPING, environ={"NOTIFY_SOCKET": f"@fetchd-test-{os.getpid()}"})
        assert (told, waiting.recv(100)) == (True, b"STOPPING=1")


@pytest.mark.parametrize("address", ["", "/nowhere/notify", "vsock:2:1234", "notify", "/" + "long" * 100])
def test_where_nobody_waits_nothing_happens(address: str) -> None:
    assert tell_service_manager(READY, environ={"NOTIFY_SOCKET": address}) is False


# -- an installation in the unit's sandbox


def test_an_installation_serves_under_the_system_calls_that_the_unit_leaves(
    analyze: str, tmp_path: Path, manager: socket.socket
) -> None:
    """Gateway, tools and page reads; and it says when it is ready and when it ends."""
    cli = (sys.executable, "-m", "tests.deployment.unit_sandbox", str(UNIT))
    with Stage(tmp_path) as stage:
        stage.origin.route("/page", replies.text("read in the sandbox"))
        notify = {"NOTIFY_SOCKET": str(manager.getsockname())}
        with Up(tmp_path, "--config", str(stage.config), cli=cli, variables=notify) as up:
            told = manager.recv(1000).decode()
            fetched = post_json(up.tools, "/v1/tools/web_fetch", {"url": stage.url("/page")})
            read = post_json(up.tools, "/v1/tools/page_read", {"url": stage.url("/page")})
            ready = up.run("status", "--ready")
            assert up.end() == 0

    assert told.startswith("READY=1\nSTATUS=serving 127.0.0.1:")
    assert "read in the sandbox" in fetched.content
    assert (fetched.document["failure"], read.status) == (None, 200)
    assert (ready.returncode, ready.stdout) == (0, "ready\n")
    assert manager.recv(100) == b"STOPPING=1"
    assert up.errors == []


def test_the_unit_leaves_no_call_that_changes_the_machine(analyze: str) -> None:
    calls = allowed_calls(UNIT)

    assert {"connect", "openat", "setrlimit", "fsync"} <= calls
    assert calls & {"mount", "setuid", "chroot", "ptrace", "bpf", "init_module", "reboot", "keyctl"} == set()
