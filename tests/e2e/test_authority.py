"""The authority as clients meet it: one's own with its chain through a running gateway, and a whole rotation."""

from __future__ import annotations

import os
import re
import signal
import ssl
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.stage import Stage
from tests.kit import replies
from tests.kit.authorities import Ca, intermediate
from tests.kit.installed import COMMAND_SECONDS, Up, run_fetchd
from tests.kit.processes import wait_ended
from tests.kit.toml import write_toml
from tests.kit.tools import require_tool

CERTIFICATE_REFUSED = 60
"""CURLE_PEER_FAILED_VERIFICATION."""


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with Stage(tmp_path, listeners=("test",)) as stage:
        stage.origin.route("/", replies.text("through the gate"))
        yield stage


def curl(up: Up, url: str, trusted: Path, *arguments: str) -> int:
    """curl's exit status; it trusts this file and nothing else."""
    host, port = up.gateway
    done = subprocess.run(
        [
            require_tool("curl"), "-sS", "--max-time", "60", "--cacert", str(trusted),
            "--proxy-cacert", str(trusted), "-x", f"http://{host}:{port}", *arguments, url,
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.stdout == "through the gate") == (done.returncode == 0), done
    return done.returncode


def with_own(stage: Stage, own: Ca, folder: Path) -> Path:
    """The stage's configuration with an authority of one's own in files beside it."""
    own.write(folder)
    document = tomllib.loads(stage.config.read_text("utf-8"))
    document["tls"] |= {"ca_certificate": "corp.pem", "ca_key": "corp.key"}
    return write_toml(folder / "own.toml", document)


# -- one's own


@pytest.mark.parametrize(
    "own",
    [
        pytest.param(
            Ca("low", issuer=intermediate(path_length=1, odd_key_id=True), odd_key_id=True),
            id="two below a root",
        ),
        pytest.param(Ca("corp root"), id="a root"),
    ],
)
def test_clients_that_trust_the_root_alone_trust_its_leaves(stage: Stage, tmp_path: Path, own: Ca) -> None:
    config = with_own(stage, own, tmp_path)
    stranger = tmp_path / "stranger.pem"
    stranger.write_bytes(Ca("corp root").pem)
    with Up(tmp_path, "--config", str(config), "--workers", "1") as up:
        assert up.ca_path.read_bytes().count(b"BEGIN") == 1
        assert curl(up, stage.url(), up.ca_path, "--http1.1") == 0
        assert curl(up, stage.url(), up.ca_path, "--http2") == 0
        assert curl(up, stage.url(), stranger) == CERTIFICATE_REFUSED

        host, port = up.gateway
        name = stage.url().removeprefix("https://").removesuffix("/")
        shown = subprocess.run(
            [
                require_tool("openssl"), "s_client", "-proxy", f"{host}:{port}", "-connect", name, "-servername",
                name.partition(":")[0], "-CAfile", str(up.ca_path), "-showcerts", "-x509_strict",
                "-verify_return_error",
            ],
            input="", capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert "Verify return code: 0 (ok)" in shown.stdout, shown.stderr
        length = own.chain.count(b"BEGIN CERTIFICATE")
        assert shown.stdout.count("BEGIN CERTIFICATE") == length, "the leaf and all between it and the root"


def test_the_daemon_and_a_private_gateway_work_with_it(stage: Stage, tmp_path: Path) -> None:
    config = with_own(stage, intermediate(), tmp_path)
    stage.origin.route("/page", replies.text("a page of text"))
    done = run_fetchd(
        "fetch",
        stage.url("/page"),
        "--config",
        str(config),
        "--state-dir",
        str(tmp_path / "state"),
        folder=tmp_path,
    )

    assert (done.returncode, "a page of text" in done.stdout) == (0, True), done.stderr


def test_files_that_change_while_it_runs_change_nothing_until_the_next_start(
    stage: Stage, tmp_path: Path
) -> None:
    """A worker that is started again signs as the others do."""
    config = with_own(stage, intermediate(), tmp_path)
    with Up(tmp_path, "--config", str(config), "--workers", "1") as up:
        Ca("another root").write(tmp_path)
        _, worker = up.gateway_processes
        os.kill(worker, signal.SIGKILL)
        wait_ended([worker])
        assert (
            curl(up, stage.url(), up.ca_path, "--retry", "20", "--retry-connrefused", "--retry-delay", "1")
            == 0
        )
        former = tmp_path / "former.pem"
        former.write_bytes(up.ca_path.read_bytes())
    with Up(tmp_path, "--config", str(config), "--workers", "1") as up:
        assert curl(up, stage.url(), up.ca_path) == 0
        assert curl(up, stage.url(), former) == CERTIFICATE_REFUSED
        assert any("held another certificate and was rewritten" in line for line in up.said)


SPOILED: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "a loose key": (lambda d: (d / "corp.key").chmod(0o644), "ca_key", "other users may read"),
    "a passphrase": (lambda d: write_key(d, Ca("x").key_pem(b"secret")), "ca_key", "it is encrypted"),
    "another key": (lambda d: write_key(d, Ca("x").key_pem()), "ca_certificate", "is not that of"),
    "no authority": (
        lambda d: Ca("x", ca=False, may_sign=False).write(d), "ca_certificate", "may not sign others",
    ),
}  # fmt: skip


def write_key(folder: Path, pem: bytes) -> None:
    (folder / "corp.key").write_bytes(pem)


@pytest.mark.parametrize("case", SPOILED)
def test_what_cannot_be_used_is_one_line_before_anything_listens(
    stage: Stage, tmp_path: Path, case: str
) -> None:
    spoil, key, words = SPOILED[case]
    config = with_own(stage, intermediate(), tmp_path)
    spoil(tmp_path)
    done = run_fetchd("up", "--config", str(config), "--state-dir", str(tmp_path / "state"), folder=tmp_path)

    assert (done.returncode, done.stdout) == (2, "")
    assert (
        done.stderr.startswith(f"Error: {config}: tls.{key}: {tmp_path}/corp.")
        and done.stderr.count("\n") == 1
    )
    assert words in done.stderr
    assert not (tmp_path / "state").exists()


# -- rotation


def test_a_client_that_gets_the_bundle_in_time_notices_nothing(stage: Stage, tmp_path: Path) -> None:
    arguments = ("--config", str(stage.config), "--workers", "1")
    old, bundle = tmp_path / "old.pem", tmp_path / "bundle.pem"
    with Up(tmp_path, *arguments) as up:
        old.write_bytes(up.ca_path.read_bytes())
        assert up.run("ca", "rotate", "--prepare").returncode == 0
        bundle.write_bytes(up.ca_path.read_bytes())
        refused = up.run("ca", "rotate")
        assert (refused.returncode, refused.stdout) == (2, "")
        assert re.fullmatch(
            rf"Error: a gateway runs on {up.state} \(process \d+\); stop it first: fetchd stop\n",
            refused.stderr,
        )
        assert [curl(up, stage.url(), one) for one in (old, bundle)] == [0, 0]
    with Up(tmp_path, *arguments) as up:
        assert [curl(up, stage.url(), one) for one in (old, bundle, up.ca_path)] == [0, 0, 0]
    assert up.run("ca", "rotate").returncode == 0
    with Up(tmp_path, *arguments) as up:
        assert [curl(up, stage.url(), one) for one in (old, bundle, up.ca_path)] == [
            CERTIFICATE_REFUSED,
            0,
            0,
        ]
        assert not any("rewritten" in line for line in up.said)
    ssl.create_default_context(cafile=str(up.ca_path))


def test_workers_of_a_killed_gateway_are_waited_for(stage: Stage, tmp_path: Path) -> None:
    """`up` is gone and its lock with it; what it started may still serve for a moment."""
    with Up(tmp_path, "--config", str(stage.config), "--workers", "1") as up:
        up.run("ca", "rotate", "--prepare")
        supervisor, *_ = processes = up.gateway_processes
        os.kill(supervisor, signal.SIGSTOP)
        up.process.kill()
        up.process.wait(COMMAND_SECONDS)  # not what it said: its children still hold the other end
        try:
            refused = up.run("ca", "rotate")
        finally:
            os.kill(supervisor, signal.SIGCONT)
        assert (refused.returncode, refused.stderr) == (
            2, f"Error: a gateway on {up.state} has not ended yet; wait for it, then repeat\n",
        )  # fmt: skip
        wait_ended(processes)
        assert up.run("ca", "rotate").returncode == 0
