"""Run as a program: forks a child for each line of standard input, which keeps pages until it kills itself.

A line is JSON: {"directory", "number", "seed", "kill_at", "keep_receipted"}. The child is killed (SIGKILL) by
itself when code of the store is entered, or calls something, for the `kill_at`-th time, in whichever thread: so
between any two system calls. What it was told is printed: one line a sealed read, then "end".
"""

import asyncio
import json
import os
import random
import signal
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

import fetchd.store
from fetchd.store import AuditPosition, PageStore, StoreKeys
from fetchd.store.blobs import FileBlobs
from fetchd.store.pages import HOLD_NS
from fetchd.store.records import SqliteRecords
from proxy_addons.audit import AuditKeys, AuditLog, FetchOutcome, FetchRecord
from tests.fetchd.store.kit import SECOND, START, Clock, keep, page_read

STORE = str(Path(fetchd.store.__file__).parent)
SIZES = (3, 40_000, 700_000)
"""Held in memory to the end, one piece of it, and spilt to a scratch file."""
POLICY = "page_read@0123abcd"


def kill_after(count: int) -> None:
    left = [count]

    def watch(frame: Any, event: str, _argument: object) -> None:
        if event in ("call", "c_call") and frame.f_code.co_filename.startswith(STORE):
            left[0] -= 1
            if left[0] <= 0:
                os.kill(os.getpid(), signal.SIGKILL)

    threading.setprofile(watch)
    sys.setprofile(watch)


async def keep_pages(directory: Path, number: int, dice: random.Random, keep_receipted: bool) -> None:
    clock = Clock(START + number * 1_000_000 * SECOND)
    number *= 1_000_000
    audit = AuditLog.open(directory / "audit", "daemon", AuditKeys.load_or_create(directory / "keys"))
    keys = StoreKeys.load_or_create(directory / "keys")
    records = await SqliteRecords.open(directory / "fetchd.db")
    limit = 1 << 34 if keep_receipted else 3_000_000
    store = PageStore(
        FileBlobs.open(directory / "blobs"), records, keys,
        max_bytes=limit, keep_receipted=keep_receipted, clock=clock,
    )  # fmt: skip
    await store.start()
    while True:
        number += 1
        clock.now += 2 * HOLD_NS
        # Bodies come again, so that some are there already, and some were evicted.
        body = bytes([dice.randrange(12)]) * dice.choice(SIZES)
        blob = await keep(store, body)
        record = FetchRecord(
            tool="page_read", agent="alice", profile="page_read", policy=POLICY, fetch_id=f"{number:020x}",
            url="https://a.example/start", outcome=FetchOutcome.SUCCESS, status=200,
        )  # fmt: skip
        head = audit.append_line(record)
        place = AuditPosition("daemon", head.seq, head.hash)
        read = page_read(number, body, fetch=place, decision=None, redirects=())
        if dice.random() < 0.2:
            await store.note(read)
        else:
            receipt = await store.seal(read)
            print(receipt.id, blob.digest, flush=True)
        if dice.random() < 0.1:
            await store.collect(dice.randrange(4_000_000))


def run_child(order: dict[str, Any]) -> None:
    kill_after(order["kill_at"])
    dice = random.Random(order["seed"])
    asyncio.run(keep_pages(Path(order["directory"]), order["number"], dice, order["keep_receipted"]))


def main() -> None:
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            try:
                run_child(json.loads(line))
            except BaseException:  # noqa: BLE001 - a fault of the store is no crash
                traceback.print_exc()
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        print("end", status, flush=True)


if __name__ == "__main__":
    main()
