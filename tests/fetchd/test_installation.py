"""The installation as a whole: readiness follows the gateway's workers, and a stop drops what is under way."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from fetchd.installation import Installation, installation
from fetchd.running.run_state import RunState, StateInUseError, find_owner, own_state_dir, read_run_state
from fetchd.running.serving import AddressInUseError, accepts, listen_on
from fetchd.settings import load_config
from tests.e2e.stage import Stage, post_json
from tests.kit import replies
from tests.kit.exchange import Ending
from tests.kit.processes import find_descendants, poll_until, read_command
from tests.kit.sync import PATIENCE, Gate

START_SECONDS = 60.0


def read_readiness(state: RunState) -> int:
    host, port = state.operator
    connection = http.client.HTTPConnection(host, port, timeout=PATIENCE)
    try:
        connection.request("GET", "/readyz")
        answer = connection.getresponse()
        document = json.loads(answer.read())
        assert (
            document["ready"]
            == (answer.status == 200)
            == all(one["ok"] for one in document["checks"].values())
        )
        return answer.status
    finally:
        connection.close()


def _reads(state: RunState, wanted: int) -> bool:
    return read_readiness(state) == wanted


def find_workers() -> set[int]:
    """Workers below this process; other tests may have some too."""
    return {pid for pid in find_descendants(os.getpid()) if b"\0proxy_addons.worker" in read_command(pid)}


@asynccontextmanager
async def installed(stage: Stage, folder: Path) -> AsyncIterator[Installation]:
    async with installation(load_config(stage.config, {}), folder / "state") as running:
        yield running


async def test_readiness_follows_the_workers_and_a_stop_drops_what_is_under_way(tmp_path: Path) -> None:
    gate, others = Gate(), find_workers()
    with Stage(tmp_path) as stage:
        stage.origin.route("/silent", replies.silent(gate))
        async with installed(stage, tmp_path) as running:
            state = running.state
            assert read_run_state(tmp_path / "state") == state
            assert await asyncio.to_thread(read_readiness, state) == 200
            assert [name for _, _, name in state.listeners] == ["test", "open"]

            (worker,) = find_workers() - others
            os.kill(worker, signal.SIGKILL)
            for wanted in (503, 200):  # dead, and then started again
                is_so = partial(_reads, state, wanted)
                await asyncio.to_thread(poll_until, is_so, f"readiness {wanted}", START_SECONDS)
            assert worker not in find_workers()

            call = asyncio.create_task(
                asyncio.to_thread(
                    post_json, state.tools, "/v1/tools/web_fetch", {"url": stage.url("/silent")}
                )
            )
            await stage.origin.wait_requests(1, START_SECONDS)
        # The gate is still shut: only the stop can have ended the call and its connection.
        (connection,) = stage.origin.connections
        assert await connection.wait_closed() in (Ending.PEER_FIN, Ending.PEER_RESET)
        with pytest.raises((http.client.HTTPException, ConnectionError)):
            await call
        gate.open()

    (log,) = (tmp_path / "state" / "audit").glob("daemon*.jsonl")
    lines = [json.loads(line) for line in log.read_text("utf-8").splitlines() if line.endswith("}")]
    assert [line["outcome"] for line in lines if line["kind"] == "fetch"] == ["aborted"]
    assert read_run_state(tmp_path / "state") is None
    assert find_owner(tmp_path / "state") is None
    assert not any(accepts(host, port) for host, port in (state.tools, state.operator))


async def test_a_start_that_fails_gives_everything_back(tmp_path: Path) -> None:
    others = find_workers()
    with Stage(tmp_path) as stage, listen_on("a test", "127.0.0.1", 0) as holder:
        port = holder.getsockname()[1]
        text = stage.config.read_text().replace(
            '[operator]\nlisten = "127.0.0.1:0"', f'[operator]\nlisten = "127.0.0.1:{port}"'
        )
        stage.config.write_text(text)

        with pytest.raises(AddressInUseError) as caught:
            async with installed(stage, tmp_path):
                pytest.fail("the operator's address is taken")

    assert (caught.value.what, caught.value.port) == ("operator", port)
    assert find_owner(tmp_path / "state") is None
    assert find_workers() == others


async def test_one_installation_a_state_directory(tmp_path: Path) -> None:
    with Stage(tmp_path) as stage, own_state_dir(tmp_path / "state"):
        with pytest.raises(StateInUseError):
            async with installed(stage, tmp_path):
                pytest.fail("the directory is owned")
        assert find_owner(tmp_path / "state") == os.getpid()
