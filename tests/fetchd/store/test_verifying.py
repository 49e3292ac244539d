"""Verifying an installation: what was changed is named, and by the check that it breaks."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fetchd.store import AuditPosition, open_page_store
from fetchd.store.audit_lines import load_lines
from fetchd.store.receipt_checks import ReceiptCheck
from fetchd.store.verifying import ReceiptReport, ReceiptVerifier, verify_text
from proxy_addons.audit import AuditKeys, AuditLog, CallOutcome, FetchRecord, Head
from proxy_addons.audit.pruning import prune_chains
from proxy_addons.audit.retention import Retention
from tests.fetchd.store.kit import KEYS, blob_of, keep, page_read, room
from tests.proxy_addons.audit.kit import decision

FETCH: dict[str, Any] = {
    "tool": "page_read", "agent": "alice", "profile": "page_read", "policy": "page_read@0123abcd",
    "url": "https://a.example/start", "outcome": CallOutcome.SUCCESS, "status": 200,
}  # fmt: skip


def place(chain: str, head: Head) -> AuditPosition:
    return AuditPosition(chain, head.seq, head.hash)


@pytest.fixture
async def state(tmp_path: Path) -> Path:
    """Three reads with their blobs, receipts and audit lines, the gateway's in files of a few lines each."""
    keys = AuditKeys.load_or_create(tmp_path / "keys")
    gateway = AuditLog.open(tmp_path / "audit", "gateway-0", keys, rotate_bytes=1200)
    daemon = AuditLog.open(tmp_path / "audit", "daemon", keys)
    async with open_page_store(tmp_path) as store:
        for number in (1, 2, 3):
            read = page_read(number, b"page %d" % number)
            head = gateway.append_line(decision(fetch_id=read.id, agent="alice"))
            await keep(store, b"page %d" % number)
            line = daemon.append_line(FetchRecord(fetch_id=read.id, **FETCH))
            sealed = {"fetch": place("daemon", line), "decision": place("gateway-0", head), "redirects": ()}
            await store.seal(page_read(number, b"page %d" % number, **sealed))
    gateway.close()
    daemon.close()
    assert len(list((tmp_path / "audit").glob("gateway-0-*.jsonl"))) > 1
    return tmp_path


async def verify(state: Path, *, audit: bool = True) -> list[ReceiptReport]:
    async with open_page_store(state) as store:
        keys = {store.keys.public.id: store.keys.public.accepts}
        verifier = ReceiptVerifier(store.records, store.blobs, keys, state / "audit" if audit else None)
        reports = [report async for report in verifier.verify_all()]
        reads = await store.records.list_reads()
        alone = [await verifier.verify_one(read) for read in reads if read.receipt is not None]
    assert [report.render() for report in alone] == [report.render() for report in reports]
    return reports


async def test_a_whole_installation_holds(state: Path) -> None:
    reports = await verify(state)

    assert [report.held for report in reports] == [list(ReceiptCheck)] * 3
    assert all(report.ok and not report.unchecked for report in reports)


async def test_what_is_not_at_hand_is_said(state: Path) -> None:
    async with open_page_store(state) as store:
        everything = room(0, keep=False, now=1 << 62, remove=store.blobs.remove)
        await store.records.evict(everything, dry_run=False)
    reports = await verify(state, audit=False)

    assert all(report.ok for report in reports)
    assert {check: why for report in reports for check, why in report.unchecked.items()} == {
        ReceiptCheck.BLOB: "the blob was dropped to make room",
        ReceiptCheck.AUDIT: "no audit log at hand",
    }


def change_blob(state: Path) -> None:
    digest = blob_of(b"page 2").digest.removeprefix("sha256:")
    (state / "blobs" / "sha256" / digest[:2] / digest[2:]).write_bytes(b"page 3")


def remove_blob(state: Path) -> None:
    digest = blob_of(b"page 2").digest.removeprefix("sha256:")
    (state / "blobs" / "sha256" / digest[:2] / digest[2:]).unlink()


def sql(statement: str) -> Callable[[Path], None]:
    def run(state: Path) -> None:
        db = sqlite3.connect(state / "fetchd.db")
        db.execute(statement)
        db.commit()
        db.close()

    return run


def in_log(pattern: str, old: bytes, new: bytes, count: int = -1) -> Callable[[Path], None]:
    def run(state: Path) -> None:
        for path in (state / "audit").glob(pattern):
            path.write_bytes(path.read_bytes().replace(old, new, count))

    return run


def drop_line(state: Path) -> None:
    (path,) = (state / "audit").glob("daemon-*.jsonl")
    lines = path.read_bytes().splitlines(True)
    path.write_bytes(b"".join(line for line in lines if page_read(2).id.encode() not in line))


ID_2 = page_read(2).id
HASH_BROKEN = "its hash does not fit"
SIGNED_200 = (
    """UPDATE reads SET receipt = replace(receipt, '"status":200', '"status":404') WHERE number = 2"""
)
decision_2 = in_log("gateway-0-*", f'"fetch_id":"{ID_2}"'.encode(), f'"fetch_id":"{ID_2[:-1]}9"'.encode())


def drop_log_file(state: Path) -> None:
    (state / "audit" / "gateway-0-000002.jsonl").unlink()


@pytest.mark.parametrize(
    ("change", "broken", "said"),
    [
        pytest.param(change_blob, {2}, "blob: sha256:", id="a blob changed"),
        pytest.param(remove_blob, {2}, "is missing", id="a blob removed"),
        pytest.param(sql(SIGNED_200), {2, 3}, "signature: it does not hold", id="a receipt changed"),
        pytest.param(
            sql("UPDATE reads SET receipt = '{}' WHERE number = 2"), {2, 3}, "form: ", id="a receipt emptied"
        ),
        pytest.param(
            sql("DELETE FROM reads WHERE number = 2"),
            {3},
            "chain: it does not name the receipt before it",
            id="a receipt removed",
        ),
        pytest.param(
            sql("DELETE FROM reads WHERE number = 1"),
            {2},
            "chain: it names one before it",
            id="the first removed",
        ),
        pytest.param(
            sql("UPDATE reads SET agent = 'mallory' WHERE number = 2"),
            {2},
            "the record it is kept with says another agent",
            id="a record changed",
        ),
        pytest.param(
            sql("UPDATE reads SET number = 10 WHERE number = 1"), {1, 2}, "chain: ", id="reads reordered"
        ),
        pytest.param(
            in_log("daemon-*", b"alice", b"alicf"), {1, 2, 3}, HASH_BROKEN, id="audit lines changed"
        ),
        pytest.param(drop_line, {2}, "of daemon (fetch) is missing", id="an audit line removed"),
        pytest.param(decision_2, {2}, f"(decision): {HASH_BROKEN}", id="a decision changed"),
        pytest.param(drop_log_file, {1, 2, 3}, "is missing", id="an audit file removed"),
    ],
)
async def test_a_change_is_named(
    state: Path, change: Callable[[Path], None], broken: set[int], said: str
) -> None:
    change(state)

    reports = await verify(state)

    bad = {report.id: [str(finding) for finding in report.findings] for report in reports if not report.ok}
    assert bad and set(bad) <= {page_read(number).id for number in broken}, bad
    assert any(said in detail for details in bad.values() for detail in details), bad


async def test_a_read_without_a_receipt_is_no_gap_in_the_chain(tmp_path: Path) -> None:
    async with open_page_store(tmp_path) as store:
        await keep(store, b"page")
        for number in range(1, 6):
            read = page_read(number)
            await (store.note(read) if number in (1, 3) else store.seal(read))
        keys = {store.keys.public.id: store.keys.public.accepts}
        verifier = ReceiptVerifier(store.records, store.blobs, keys, None)

        assert [report.ok async for report in verifier.verify_all()] == [True] * 3
        reads = await store.records.list_reads()
        assert (await verifier.verify_one(reads[1])).ok
        with pytest.raises(ValueError, match="has no receipt"):
            await verifier.verify_one(reads[0])


async def test_a_dropped_blob_is_no_loss_though_a_crash_left_its_row(state: Path) -> None:
    """When it comes back its row is entered before its file is placed."""
    blob = blob_of(b"page 2")
    async with open_page_store(state) as store:
        everything = room(0, keep=False, now=1 << 62, remove=store.blobs.remove)
        await store.records.evict(everything, dry_run=False)
        await store.records.claim(blob, 1 << 62, room(100))
    reports = await verify(state)

    assert all(report.ok for report in reports)
    assert reports[1].unchecked[ReceiptCheck.BLOB] == "the blob was dropped to make room"


async def test_a_receipt_on_its_own_needs_the_public_key_and_no_more(state: Path) -> None:
    async with open_page_store(state) as store:
        (read, *_) = await store.records.list_reads()
        public = store.keys.public
    text = read.receipt or b""

    report = verify_text(text, {public.id: public.accepts}, blob_of(b"page 1"))
    assert report.ok and report.held == [ReceiptCheck.FORM, ReceiptCheck.SIGNATURE, ReceiptCheck.BLOB]
    assert (
        verify_text(text, {public.id: public.accepts}, None).unchecked[ReceiptCheck.BLOB] == "no body given"
    )
    other = verify_text(text, {KEYS.public.id: KEYS.public.accepts}, blob_of(b"page 2"))
    assert [finding.check for finding in other.findings] == [ReceiptCheck.SIGNATURE, ReceiptCheck.BLOB]
    assert verify_text(b"{}", {}, None).id == "unreadable"


async def test_lines_that_retention_removed_are_unchecked_and_those_that_are_left_are_looked_at(
    state: Path,
) -> None:
    keys = AuditKeys.load_or_create(state / "keys")
    prune_chains(state / "audit", keys, Retention(keep_bytes=0), leave={"daemon"})
    whole = await verify(state)
    line = next((state / "audit").glob("daemon-*.jsonl"))
    line.write_bytes(line.read_bytes().replace(b"alice", b"mallo"))
    changed = await verify(state)

    assert all(report.ok for report in whole)
    assert [ReceiptCheck.AUDIT in report.held for report in whole] == [False, True, True]
    assert whole[0].unchecked[ReceiptCheck.AUDIT].startswith("its lines are older than what the log keeps")
    assert all(finding.check is ReceiptCheck.AUDIT for report in changed for finding in report.findings)
    assert not any(report.ok for report in changed)


def test_lines_are_found_by_number_and_what_is_not_there_is_left_out(tmp_path: Path) -> None:
    log = AuditLog.open(tmp_path, "daemon", AuditKeys.generate(), rotate_bytes=1500)
    heads = [log.append_line(decision()) for _ in range(12)]
    log.close()
    assert len(list(tmp_path.glob("daemon-*.jsonl"))) > 3

    found = load_lines(tmp_path, [("daemon", head.seq) for head in heads] + [("daemon", 999), ("other", 1)])

    assert set(found) == {("daemon", head.seq) for head in heads}
    for head in heads:
        assert head.hash.encode() in found["daemon", head.seq]
