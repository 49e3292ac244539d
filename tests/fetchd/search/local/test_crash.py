"""Processes killed (SIGKILL) anywhere while they read, drop and search pages leave store and indexes in accord."""

from __future__ import annotations

import json
import random
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from fetchd.search.local.indexes import Scope
from fetchd.store.text_values import Marks, TextPage
from tests.fetchd.search.local.kit import ask, open_index
from tests.fetchd.store.kit import Clock, open_files


async def check(state: Path) -> int:
    """Each agent finds just its pages, all of them; none of a body that is gone; → how many pages there are."""
    count = 0
    async with open_files(state, clock=Clock(1 << 62)) as store:
        await store.start()
    async with open_index(state) as index:
        for agent in ("alice", "bob"):
            kept: dict[int, TextPage] = {}
            marks = Marks()
            while (changes := await index.texts.changes(agent, marks)).added:
                kept |= {page.number: page for page in changes.added}
                marks = changes.marks
            for page in kept.values():
                text = page.content.unpack()
                found = await index.indexes.search(agent, ask(f'"{text.split()[-1]}"', limit=1000))
                documents = {one.content.digest for one in found}
                assert documents == {page.content.digest}
                assert {one.agent for one in found} == {agent}
            await index.indexes.follow(agent)
            assert (await index.indexes.state(Scope(agent))).pages == len(kept)
            count += len(kept)
        usage = await index.texts.usage()
        assert sum(one.pages for one in usage) == count
    with closing(sqlite3.connect(state / "fetchd.db")) as db:
        lost = "SELECT count(*) FROM pages WHERE blob IS NOT NULL AND blob NOT IN (SELECT digest FROM blobs)"
        assert db.execute(lost).fetchone() == (0,)
        orphans = "SELECT count(*) FROM page_texts WHERE id NOT IN (SELECT text_id FROM pages)"
        assert db.execute(orphans).fetchone() == (0,)
    for path in (state / "index").glob("*.db"):
        with closing(sqlite3.connect(path, autocommit=True)) as db:
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    return count


async def kill_readers(state: Path, rounds: int, seed: int) -> None:
    dice = random.Random(seed)
    with subprocess.Popen(
        [sys.executable, "-m", "tests.fetchd.search.local.crashing"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as forker:
        assert forker.stdin is not None and forker.stdout is not None
        count = 0
        for number in range(rounds):
            kill_at = dice.choice([100, 500, 2000, 8000]) + dice.randrange(1500)
            order = {"directory": str(state), "number": number, "seed": dice.random(), "kill_at": kill_at}
            print(json.dumps(order), file=forker.stdin, flush=True)
            word, status = forker.stdout.readline().split()
            assert (word, int(status)) == ("end", signal.SIGKILL), "the reader failed by itself"
            if number % 10 == 9 or number == rounds - 1:
                count = await check(state)
        forker.stdin.close()
    assert count > 0


async def test_killed_readers_leave_indexes_that_agree_with_the_store(tmp_path: Path) -> None:
    await kill_readers(tmp_path, 20, 1)


@pytest.mark.soak
async def test_300_killed_readers_leave_indexes_that_agree_with_the_store(tmp_path: Path) -> None:
    await kill_readers(tmp_path, 300, 2)
