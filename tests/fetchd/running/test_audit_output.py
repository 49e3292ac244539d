"""`[audit] stdout`: the log on standard output, whoever reads it and however slowly; and retention as it runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fetchd.running.audit_output import OutputClosedError, audit_output, write_all
from proxy_addons.audit import AuditKeys
from tests.e2e.stage import Stage, post_json
from tests.kit import replies
from tests.kit.installed import CLI, COMMAND_SECONDS, Up, environment, run_fetchd
from tests.kit.processes import poll_until
from tests.kit.toml import write_toml
from tests.proxy_addons.audit.kit import raw_lines, write_chain


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with Stage(tmp_path) as stage:
        stage.origin.route("/page", replies.text("a page"))
        yield stage


def configure(stage: Stage, folder: Path, workers: int = 1, **audit: object) -> Path:
    document = {**stage._document(), "audit": {"stdout": True, **audit}}
    document["gateway"] = {**document["gateway"], "workers": workers}
    return write_toml(folder / "printing.toml", document)


class Printing:
    """`fetchd up` whose standard output is `output`."""

    def __init__(self, folder: Path, config: Path, output: int) -> None:
        self.state = folder / "state"
        self.process = subprocess.Popen(
            [*CLI, "up", "--state-dir", str(self.state), "--config", str(config)],
            cwd=folder, env=environment(), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.said: list[str] = []
        self._ready = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as stream:
            for line in stream:
                self.said.append(line.rstrip("\n"))
                if line == "ready\n":
                    self._ready.set()
        self._ready.set()

    def wait_ready(self) -> dict[str, Any]:
        """What run.json says."""
        assert self._ready.wait(COMMAND_SECONDS)
        assert "ready" in self.said, "\n".join(self.said)
        return json.loads((self.state / "run.json").read_text("utf-8"))

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        status = self.process.wait(COMMAND_SECONDS)
        self._reader.join(COMMAND_SECONDS)
        return status


@contextmanager
def printing(folder: Path, config: Path, output: int) -> Iterator[tuple[Printing, dict[str, Any]]]:
    up = Printing(folder, config, output)
    try:
        yield up, up.wait_ready()
    finally:
        if up.process.poll() is None:
            up.end()


def fill(pipe: int) -> None:
    """Until not a byte more fits; whoever writes next has to wait."""
    os.set_blocking(pipe, False)
    try:
        while True:
            os.write(pipe, b"x" * 4096)
    except BlockingIOError:
        os.set_blocking(pipe, True)


def fetch(state: dict[str, Any], stage: Stage) -> int:
    host, port = state["tools"]
    return post_json((host, port), "/v1/tools/web_fetch", {"url": stage.url("/page")}).status


def test_every_line_of_every_process_is_printed_whole_and_nothing_else(tmp_path: Path, stage: Stage) -> None:
    """Two workers and the daemon write at the same time; what up says itself is on standard error."""
    output = tmp_path / "output"
    with (
        output.open("wb") as file,
        printing(tmp_path, configure(stage, tmp_path, 2), file.fileno()) as (up, state),
    ):
        threads = [threading.Thread(target=lambda: [fetch(state, stage) for _ in range(5)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert up.end() == 0
    printed = output.read_bytes().splitlines(True)

    assert up.said[-2:] == ["ready", "stopped"]
    for chain in ("gateway-0", "gateway-1", "daemon"):
        assert [line for line in printed if json.loads(line)["chain"] == chain] == raw_lines(
            tmp_path / "state" / "audit", chain
        )
    assert len(printed) > 60


def test_nobody_who_reads_slowly_or_not_at_all_holds_up_a_request(tmp_path: Path, stage: Stage) -> None:
    """The pipe is full from the beginning. Nothing is lost: the next start prints what this one could not."""
    reading, writing = os.pipe()
    fill(writing)
    with printing(tmp_path, configure(stage, tmp_path), writing) as (up, state):
        assert [fetch(state, stage) for _ in range(20)] == [200] * 20
        ready = run_fetchd("status", "--ready", "--state-dir", str(up.state), folder=tmp_path)
        assert ready.returncode == 0
        assert up.end() == 0
    os.close(reading)
    os.close(writing)
    assert any("standard output takes no lines" in line for line in up.said)

    output = tmp_path / "output"
    with output.open("wb") as file, printing(tmp_path, configure(stage, tmp_path), file.fileno()) as (up, _):
        up.end()
    printed = output.read_bytes().splitlines(True)
    for chain in ("gateway-0", "daemon"):
        assert [line for line in printed if json.loads(line)["chain"] == chain] == raw_lines(
            tmp_path / "state" / "audit", chain
        )


def test_a_reader_that_goes_away_ends_the_printing_and_nothing_else(tmp_path: Path, stage: Stage) -> None:
    reading, writing = os.pipe()
    with printing(tmp_path, configure(stage, tmp_path), writing) as (up, state):
        os.close(reading)
        assert fetch(state, stage) == 200
        poll_until(lambda: any("no longer printed" in line for line in up.said), "a word on it")
        assert fetch(state, stage) == 200
        assert up.end() == 0
    os.close(writing)


def test_a_second_up_on_the_same_state_prints_nothing(tmp_path: Path, stage: Stage) -> None:
    """Else it would move the place of the first."""
    config = configure(stage, tmp_path)
    with (tmp_path / "output").open("wb") as file, printing(tmp_path, config, file.fileno()) as (up, _):
        second = run_fetchd("up", "--state-dir", str(up.state), "--config", str(config), folder=tmp_path)

    assert (second.returncode, second.stdout) == (2, "")
    assert "already running" in second.stderr


def test_retention_follows_the_configuration_of_a_reload(tmp_path: Path, stage: Stage) -> None:
    """Chains of earlier commands go; every chain is whole afterwards, and says what went."""
    config = configure(stage, tmp_path, stdout=False)
    with Up(tmp_path, "--config", str(config)) as up:
        audit = up.state / "audit"
        # Written with a clock of 2026-01-01: older than thirty days.
        keys = AuditKeys.load_or_create(up.state / "keys")
        write_chain(audit, 30, "fetch-0", rotate_bytes=2200, keys=keys)
        old = sorted(path.name for path in audit.glob("fetch-0-*.jsonl"))[:-1]
        configure(stage, tmp_path, stdout=False, keep_days=30)
        done = up.run("reload")
        shown = up.run("audit", "prune", "--dry-run", "--config", str(config))
        pruned = up.run("audit", "prune", "--config", str(config))
        verified = up.run("audit", "verify")

    assert "audit.keep_days" in done.stdout
    assert [(line.split()[0], line[-8:]) for line in shown.stdout.splitlines()] == [
        (name, "would go") for name in old
    ]
    assert (pruned.returncode, [line.split()[0] for line in pruned.stdout.splitlines()]) == (0, old)
    assert not set(old) & {path.name for path in audit.iterdir()}
    assert (verified.returncode, "BROKEN" in verified.stdout) == (0, False)
    assert "were removed by retention, as the chain says, signed" in verified.stdout


# -- the writing itself


def test_a_descriptor_that_does_not_wait_gets_all_of_it_all_the_same() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    data = os.urandom(1 << 20)
    got = bytearray()

    def read() -> None:
        while len(got) < len(data):
            got.extend(os.read(reading, 65536))

    reader = threading.Thread(target=read)
    reader.start()
    write_all(writing, data)
    reader.join()
    os.close(reading)
    with pytest.raises(OutputClosedError, match="Broken pipe"):
        write_all(writing, b"x")
    os.close(writing)

    assert got == data


def test_what_was_written_before_the_end_is_printed_before_the_end(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    with audit_output(tmp_path, writing):
        write_chain(tmp_path, 5)
    os.close(writing)
    with open(reading, "rb") as file:  # noqa: PTH123 (a descriptor)
        assert file.read().splitlines(True) == raw_lines(tmp_path)


def test_the_place_is_kept_each_second(tmp_path: Path) -> None:
    """A killed process may repeat about a second's lines, and no more."""
    code = (
        "import sys, time; from pathlib import Path; from fetchd.running.audit_output import audit_output\n"
        "with audit_output(Path(sys.argv[1])):\n    time.sleep(600)\n"
    )
    with (tmp_path / "output").open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path)], env=environment(), stdout=file
        )
        cursor = tmp_path / "stdout.cursor"
        poll_until(cursor.exists, "its start")
        write_chain(tmp_path, 5)
        poll_until(lambda: b'"seq": 8' in cursor.read_bytes(), "the place after all lines")
        process.kill()
        process.wait()
    with audit_output(tmp_path, os.open(tmp_path / "output", os.O_WRONLY | os.O_APPEND)):
        pass

    assert (tmp_path / "output").read_bytes().splitlines(True) == raw_lines(tmp_path)
