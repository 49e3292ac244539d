"""The log of a whole installation survives: a full disk, rotation under load, workers killed under load.

After each, `fetchd audit verify` says exactly what is whole, and every answer that a client got has its lines.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.stage import Stage, post_json
from tests.kit import replies
from tests.kit.installed import Up
from tests.kit.processes import poll_until
from tests.kit.toml import write_toml

CLIENTS = 4
TMPFS_BYTES = 48 << 20
MEBIBYTE = bytes(1 << 20)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with Stage(tmp_path) as stage:
        stage.plain.route("/page", replies.text("a page"))
        stage.origin.route("/page", replies.text("a page"))
        yield stage


def configure(stage: Stage, folder: Path, workers: int, **audit: object) -> Path:
    document = {**stage._document(), "audit": audit}
    document["gateway"] = {**document["gateway"], "workers": workers}
    return write_toml(folder / "survival.toml", document)


@dataclass
class Asked:
    """What clients were answered: statuses, the ids of allowed answers, the rules of refusals."""

    statuses: Counter[int] = field(default_factory=Counter)
    allowed: set[str] = field(default_factory=set)
    rules: Counter[str] = field(default_factory=Counter)
    broken: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, answer: http.client.HTTPResponse) -> None:
        with self.lock:
            self.statuses[answer.status] += 1
            if answer.headers["fetchd-verdict"] == "allowed":
                self.allowed.add(answer.headers["fetchd-id"])
            else:
                self.rules[answer.headers["fetchd-rule"]] += 1


def ask(up: Up, url: str, number: int, asked: Asked) -> None:
    """One client's requests, one after the other; one whose connection breaks goes on with another."""
    host, port, _ = up.run_state["listeners"][1]
    connection = http.client.HTTPConnection(host, port, timeout=60)
    for _ in range(number):
        try:
            connection.request("GET", url)
            answer = connection.getresponse()
            answer.read()
            asked.take(answer)
        except (OSError, http.client.HTTPException):
            asked.broken += 1
            connection.close()
    connection.close()


@contextmanager
def load(up: Up, url: str, each: int) -> Iterator[Asked]:
    """Several clients at work while the block runs, and until they have all asked `each` times."""
    asked = Asked()
    clients = [threading.Thread(target=ask, args=(up, url, each, asked)) for _ in range(CLIENTS)]
    for client in clients:
        client.start()
    yield asked
    for client in clients:
        client.join()


def verify(up: Up) -> dict[str, Any]:
    done = up.run("audit", "verify", "--json")
    assert done.stdout, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    assert (done.returncode == 0) is report["ok"]
    return report


def logged(up: Up) -> set[str]:
    """Ids of the hops that the log lets through."""
    return {line["fetch_id"] for line in up.audit("decision", verdict="allowed")}


def findings(report: dict[str, Any]) -> list[str]:
    return [finding["detail"] for chain in report["chains"] for finding in chain["findings"]]


# -- a full disk


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own for the state directory."""
    state = tmp_path / "state"
    state.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={TMPFS_BYTES},mode=0700", "tmpfs", str(state)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if mounted.returncode:
        pytest.skip(f"mounting is not permitted here: {mounted.stderr.strip()}")
    yield state
    subprocess.run(["umount", "--lazy", str(state)], check=True)


def fill(state: Path) -> Path:
    """Until not a byte more fits."""
    ballast = state / "ballast"
    with ballast.open("ab", buffering=0) as file:
        for block in (MEBIBYTE, bytes(4096), b"x"):
            try:
                while True:
                    file.write(block)
            except OSError:
                pass
    return ballast


def test_on_a_full_disk_hops_are_refused_and_say_why_until_there_is_room(
    tmp_path: Path, stage: Stage, small_disk: Path
) -> None:
    url = stage.plain_url("/page")
    with Up(tmp_path, "--config", str(configure(stage, tmp_path, 2))) as up:
        with load(up, url, 5) as before:
            pass
        ballast = fill(small_disk)
        stage.forget()
        with load(up, url, 10) as full:
            pass
        reached = len(stage.requests(stage.plain))
        # The ends of files may still have room for a line or two, of each worker and of the daemon.
        calls = [post_json(up.tools, "/v1/tools/web_fetch", {"url": stage.url("/page")}) for _ in range(30)]
        poll_until(lambda: up.run("status", "--ready").returncode == 1, "health that says so")
        health = up.run("status", "--ready").stdout
        during = verify(up)
        ballast.unlink()
        poll_until(lambda: up.run("status", "--ready").returncode == 0, "health that says so again")
        with load(up, url, 5) as after:
            pass
    report = verify(up)
    ballast = fill(small_disk)
    start = up.run("up", "--config", str(tmp_path / "survival.toml"))
    ballast.unlink()
    whole = verify(up)

    assert before.statuses == after.statuses == {200: 5 * CLIENTS}
    # What still fitted behind the last line was written; everything else was refused, and no origin heard of it.
    assert full.rules["audit-unavailable"] == full.statuses[503] > 0
    assert reached == len(full.allowed) == full.statuses[200]
    read = [call.document["fetch_id"] for call in calls if "a page" in call.document.get("text", "")]
    assert "a page" not in json.dumps(calls[-1].document)
    assert set(read) <= {line["fetch_id"] for line in up.audit("fetch", outcome="success")}
    assert '"audit": {"ok": false' in health
    assert findings(during) == findings(report) == []
    assert before.allowed | full.allowed | after.allowed <= logged(up)
    lost = [line["facts"]["lost"] for line in up.audit("event", event="writing-resumed")]
    assert lost and sum(lost) >= full.statuses[503]
    # Nor does it start on one; and that leaves the log as it was.
    assert (start.returncode, start.stdout, len(start.stderr.splitlines())) == (2, "", 1)
    assert "No space left on device" in start.stderr
    assert whole == report


# -- rotation and removal, under load


def rotate(tmp_path: Path, stage: Stage, workers: int, each: int) -> None:
    config = configure(stage, tmp_path, workers, keep_bytes=64 << 20)  # files of 2 MiB
    with Up(tmp_path, "--config", str(config)) as up, load(up, stage.plain_url("/page"), each) as asked:
        pass
    report = verify(up)

    assert asked.statuses == {200: each * CLIENTS}
    assert findings(report) == []
    assert max(chain["files"] for chain in report["chains"]) > 1
    assert {line["event"] for line in up.audit("event")} >= {"file-begun"}
    if not any(chain["pruned"] for chain in report["chains"]):
        assert asked.allowed <= logged(up)


def test_files_follow_each_other_under_load_without_a_gap(tmp_path: Path, stage: Stage) -> None:
    rotate(tmp_path, stage, 1, 420)


@pytest.mark.soak
def test_files_follow_each_other_and_go_under_long_load_without_a_gap(tmp_path: Path, stage: Stage) -> None:
    rotate(tmp_path, stage, 2, 16_000)


# -- killed workers, under load


def kill_workers(tmp_path: Path, stage: Stage, rounds: int) -> None:
    dice = random.Random(7)
    with Up(tmp_path, "--config", str(configure(stage, tmp_path, 2))) as up:
        answered: set[str] = set()
        for _ in range(rounds):
            _, *workers = up.gateway_processes
            with load(up, stage.plain_url("/page"), 60) as asked:
                poll_until(lambda: asked.statuses[200] > 20, "work under way")
                os.kill(dice.choice(workers), signal.SIGKILL)
            answered |= asked.allowed
            poll_until(
                lambda: len(set(up.gateway_processes) - set(workers)) == 2,  # noqa: B023
                "a worker in its place",
            )
            poll_until(lambda: up.run("status", "--ready").returncode == 0, "it to serve")
            live = verify(up)
            assert findings(live) == []
    report = verify(up)

    assert findings(report) == []
    assert answered <= logged(up), "an answer without a line"
    assert len(up.audit("event", event="resumed")) >= rounds


def test_workers_killed_under_load_leave_a_log_that_is_whole(tmp_path: Path, stage: Stage) -> None:
    kill_workers(tmp_path, stage, 2)


@pytest.mark.soak
def test_many_workers_killed_under_load_leave_a_log_that_is_whole(tmp_path: Path, stage: Stage) -> None:
    kill_workers(tmp_path, stage, 20)
