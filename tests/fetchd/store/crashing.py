"""Run as a program (`tests.kit.crashing`): each child keeps pages until it kills itself in code of the store.

A line is JSON: {"directory", "number", "seed", "kill_at", "keep_receipted"}. What the child was told is printed: one
line a sealed read.
"""

import asyncio
import random
from pathlib import Path
from typing import Any

import fetchd.store
from fetchd.store import AuditPosition, PageStore, StoreKeys
from fetchd.store.blobs import FileBlobs
from fetchd.store.pages import HOLD_NS
from fetchd.store.records import SqliteRecords
from proxy_addons.audit import AuditKeys, AuditLog, CallOutcome, FetchRecord
from tests.fetchd.store.kit import SECOND, START, Clock, keep, page_read
from tests.kit.crashing import run_orders

SIZES = (3, 40_000, 700_000)
"""Held in memory to the end, one piece of it, and spilt to a scratch file."""
POLICY = "page_read@0123abcd"


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
            url="https://a.example/start", outcome=CallOutcome.SUCCESS, status=200,
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
    dice = random.Random(order["seed"])
    asyncio.run(keep_pages(Path(order["directory"]), order["number"], dice, order["keep_receipted"]))


if __name__ == "__main__":
    run_orders(run_child, fetchd.store)
