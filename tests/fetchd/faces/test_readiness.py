"""`fetchd status --ready`: what health checks of containers and services ask."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fetchd.faces.readiness import ask_readiness
from fetchd.running.run_state import RunState
from tests.kit import replies
from tests.kit.exchange import Route
from tests.kit.installed import FREE_PORTS, ONE_WORKER, Up, run_fetchd
from tests.kit.origin import Origin
from tests.kit.ports import free_port


def state_of(operator: tuple[str, int]) -> RunState:
    return RunState(1, "", "", (), ("127.0.0.1", 1), operator, 1, "", "")


def test_an_installation_that_serves_is_ready_and_one_that_ended_is_not(tmp_path: Path) -> None:
    with Up(tmp_path, *FREE_PORTS, *ONE_WORKER) as up:
        ready = up.run("status", "--ready")
        as_json = up.run("status", "--ready", "--json")

    assert (ready.returncode, ready.stdout) == (0, "ready\n")
    assert (as_json.returncode, json.loads(as_json.stdout)) == (0, {"ready": True})
    assert up.run("status", "--ready").returncode == 3


def test_before_anything_was_started_nothing_is_ready(tmp_path: Path) -> None:
    done = run_fetchd("status", "--ready", "--state-dir", str(tmp_path / "none"), folder=tmp_path)

    assert done.returncode == 3


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        pytest.param(
            replies.answer(503, b'{"ready": false, "reason": "audit"}'),
            'not ready: {"ready": false, "reason": "audit"}',
            id="it says why",
        ),
        pytest.param(replies.answer(500, b"no"), "not ready: HTTP 500", id="it says nothing of ours"),
    ],
)
def test_another_answer_is_not_ready(reply: Route, said: str) -> None:
    with Origin("127.0.0.1") as operator:
        operator.route("/readyz", reply)
        assert ask_readiness(state_of(("127.0.0.1", operator.port))) == (False, said)


def test_whoever_does_not_answer_is_not_ready() -> None:
    ready, said = ask_readiness(state_of(("127.0.0.1", free_port())))

    assert not ready
    assert said.startswith("not ready: the operator's listener did not answer: ")
