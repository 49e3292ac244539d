"""The daemon killed while it reads pages: no receipt without its blob, nothing handed out that is not kept."""

from __future__ import annotations

import asyncio
import hashlib
import http.client
import json
import random
import signal
import threading
from pathlib import Path

import pytest

from fetchd.store import open_page_store
from tests.e2e.stage import Stage
from tests.e2e.test_page_read import PAGE_READ
from tests.kit.exchange import Exchange
from tests.kit.installed import Up
from tests.kit.sync import Watch

READERS = 3
READS_A_KILL = 10


async def numbered(exchange: Exchange) -> None:
    """A page of its own for each query; some of them large enough to come in many pieces."""
    number = exchange.request.target.rpartition("?")[2]
    body = number.encode() * (200_000 if int(number) % 4 == 0 else 200)
    await exchange.respond(200, [("content-type", "text/plain")], body)


class Reader(threading.Thread):
    """Reads one page after the other until the daemon is gone; keeps what it was handed."""

    def __init__(self, up: Up, stage: Stage, numbers: range, handed: dict[str, str], watch: Watch) -> None:
        super().__init__(daemon=True)
        self._tools, self._stage = up.tools, stage
        self._numbers, self._handed, self._watch = numbers, handed, watch

    def run(self) -> None:
        connection = http.client.HTTPConnection(*self._tools, timeout=60)
        try:
            for number in self._numbers:
                url = self._stage.url(f"/numbered?{number}")
                connection.request("POST", PAGE_READ, json.dumps({"url": url, "extract": "metadata"}))
                document = json.loads(connection.getresponse().read())
                with self._watch:
                    result = document["provider_operation"]["data"]["result"]
                    self._handed[document["fetch_id"]] = result["content_digest"]
        except (OSError, http.client.HTTPException, ValueError):
            pass  # the daemon was killed
        finally:
            connection.close()


def read_and_kill(folder: Path, kills: int, seed: int) -> None:
    """`kills` times: some reads by several clients at once, and SIGKILL in the middle of others."""
    dice, handed, watch = random.Random(seed), dict[str, str](), Watch()
    with Stage(folder) as stage:
        stage.origin.route("/numbered", numbered)
        for kill in range(kills):
            before = len(handed)
            with Up(folder, "--config", str(stage.config)) as up:
                readers = [
                    Reader(up, stage, range(kill * 10**6 + one * 10**5, 10**9), handed, watch)
                    for one in range(READERS)
                ]
                for reader in readers:
                    reader.start()
                wanted = before + READS_A_KILL + dice.randrange(5)
                _wait(watch, handed, wanted)
                up.process.send_signal(signal.SIGKILL)
                for reader in readers:
                    reader.join(60)
        with Up(folder, "--config", str(stage.config)) as up:
            receipts, blobs = up.run("receipt", "verify"), up.run("blob", "verify")
            assert (receipts.returncode, blobs.returncode) == (0, 0), (
                receipts.stdout[-2000:],
                blobs.stdout[-2000:],
            )
            asyncio.run(assert_kept(up.state, handed))


def _wait(watch: Watch, handed: dict[str, str], wanted: int) -> None:
    watch.wait_sync(lambda: len(handed) >= wanted, f"{wanted} reads", 120)


async def assert_kept(state: Path, handed: dict[str, str]) -> None:
    """Every page that a caller was told of is there, and so is its receipt."""
    async with open_page_store(state, tidy=False) as store:
        for read_id, digest in handed.items():
            read = await store.find_read(read_id)
            assert read is not None, read_id
            assert read.receipt is not None
            assert read.blob.digest == digest
            body = await store.read_blob(digest, 1 << 24)
            assert f"sha256:{hashlib.sha256(body).hexdigest()}" == digest


def test_a_daemon_that_is_killed_keeps_what_it_handed_out(tmp_path: Path) -> None:
    read_and_kill(tmp_path, kills=5, seed=1)


@pytest.mark.soak
def test_one_that_is_killed_again_and_again_does_too(tmp_path: Path) -> None:
    read_and_kill(tmp_path, kills=50, seed=2)
