"""Processes killed (SIGKILL) anywhere in a read leave a store that opens, verifies, and has every page it proves."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fetchd.store import PageStore, StoreKeys
from fetchd.store.blobs import FileBlobs
from fetchd.store.receipt_checks import ReceiptCheck
from fetchd.store.records import SqliteRecords
from fetchd.store.verifying import ReceiptVerifier
from proxy_addons.audit import AuditKeys, AuditLog
from tests.fetchd.store.kit import Clock

DROPPED = "the blob was dropped to make room"


async def check(state: Path, promised: dict[str, str], *, may_drop: bool) -> int:
    """The store opens, no receipt is without its blob, none that was handed out is lost; → how many there are."""
    AuditLog.open(
        state / "audit", "daemon", AuditKeys.load_or_create(state / "keys")
    ).close()  # repairs its end
    records, made = await SqliteRecords.open(state / "fetchd.db"), StoreKeys.load_or_create(state / "keys")
    later = Clock(1 << 62)  # no read is under way any more
    store = PageStore(FileBlobs.open(state / "blobs"), records, made, clock=later)
    try:
        await store.start()
        assert list((state / "blobs" / "scratch").iterdir()) == []
        keys = {store.keys.public.id: store.keys.public.accepts}
        verifier = ReceiptVerifier(store.records, store.blobs, keys, state / "audit")
        seen = {}
        async for report in verifier.verify_all():
            assert report.ok, [str(finding) for finding in report.findings]
            assert may_drop or ReceiptCheck.BLOB in report.held
            assert report.unchecked.get(ReceiptCheck.BLOB, DROPPED) == DROPPED
            seen[report.id] = report
        reads = {read.id: read.blob.digest for read in await store.records.list_reads(limit=1 << 30)}
        assert promised.items() <= reads.items(), "a receipt that was handed out is lost"
        for blob in store.blobs.list():
            async with store.blobs.open_verified(blob.digest):
                pass
        indexed = {blob.digest: blob.bytes for blob in await store.records.list_blobs(limit=1 << 30)}
        assert indexed == {blob.digest: blob.bytes for blob in store.blobs.list()}
    finally:
        await store.close()
    return len(seen)


async def kill_readers(state: Path, rounds: int, seed: int, *, keep_receipted: bool) -> None:
    dice = random.Random(seed)
    promised: dict[str, str] = {}
    with subprocess.Popen(
        [sys.executable, "-m", "tests.fetchd.store.crashing"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as forker:
        assert forker.stdin is not None and forker.stdout is not None
        for number in range(rounds):
            order = {
                "directory": str(state),
                "number": number,
                "seed": dice.random(),
                "kill_at": dice.choice([50, 300, 1000, 4000]) + dice.randrange(1000),
                "keep_receipted": keep_receipted,
            }
            print(json.dumps(order), file=forker.stdin, flush=True)
            while (line := forker.stdout.readline().split())[0] != "end":
                promised[line[0]] = line[1]
            assert int(line[1]) == signal.SIGKILL, "the reader failed by itself"
            if number % 10 == 9 or number == rounds - 1:
                kept = await check(state, promised, may_drop=not keep_receipted)
        forker.stdin.close()
    assert kept >= len(promised) > rounds / 4


@pytest.mark.parametrize("keep_receipted", [True, False], ids=["all is kept", "room is made"])
async def test_killed_readers_leave_no_receipt_without_its_blob(tmp_path: Path, keep_receipted: bool) -> None:
    await kill_readers(tmp_path, 25, 1, keep_receipted=keep_receipted)


@pytest.mark.soak
@pytest.mark.parametrize("keep_receipted", [True, False], ids=["all is kept", "room is made"])
async def test_500_killed_readers_leave_no_receipt_without_its_blob(
    tmp_path: Path, keep_receipted: bool
) -> None:
    await kill_readers(tmp_path, 250, 2, keep_receipted=keep_receipted)
