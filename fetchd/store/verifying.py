"""Verifies receipts of an installation: one, or all of them as a chain, beside blobs and audit log.

What is at hand is looked at, what is not is said to be unchecked. The checks themselves are `receipt_checks`.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from fetchd.errors import BlobDamagedError, BlobMissingError
from proxy_addons.audit.chain import SignatureCheck

from .audit_lines import find_beginnings, load_lines
from .interface import Blobs, Records
from .receipt_checks import (
    Finding,
    ReceiptCheck,
    check_audit_line,
    check_blob,
    check_form,
    check_link,
    check_signature,
)
from .receipts import Receipt, hash_receipt
from .values import Blob, StoredRead

_BATCH: Final = 500


@dataclass(slots=True)
class ReceiptReport:
    """What was found of one receipt. `held`: checks that were made and hold; `unchecked`: why others were not."""

    id: str
    held: list[ReceiptCheck] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    unchecked: dict[ReceiptCheck, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether nothing fails; a receipt whose form is wrong fails."""
        return not self.findings

    def add(self, check: ReceiptCheck, *findings: Finding | None) -> None:
        """One check's outcome."""
        found = [finding for finding in findings if finding is not None]
        self.findings += found
        if not found:
            self.held.append(check)

    def render(self) -> dict[str, object]:
        """A JSON object."""
        return {
            "id": self.id,
            "ok": self.ok,
            "held": [check.value for check in self.held],
            "findings": [
                {"check": finding.check.value, "detail": finding.detail} for finding in self.findings
            ],
            "unchecked": {check.value: why for check, why in self.unchecked.items()},
        }


def verify_text(text: bytes, keys: Mapping[str, SignatureCheck], blob: Blob | None) -> ReceiptReport:
    """A receipt on its own, with the public keys alone and, if given, what its body turned out to be."""
    receipt = check_form(text)
    if isinstance(receipt, Finding):
        return ReceiptReport("unreadable", findings=[receipt])
    report = _begin(receipt, keys)
    if blob is not None:
        report.add(ReceiptCheck.BLOB, check_blob(receipt, blob))
    else:
        report.unchecked[ReceiptCheck.BLOB] = "no body given"
    report.unchecked[ReceiptCheck.CHAIN] = report.unchecked[ReceiptCheck.AUDIT] = "on its own"
    return report


class ReceiptVerifier:
    """Verifies the receipts in `records`. audit: the log's directory, None to leave it out."""

    def __init__(
        self, records: Records, blobs: Blobs, keys: Mapping[str, SignatureCheck], audit: Path | None
    ) -> None:
        self._records: Final = records
        self._blobs: Final = blobs
        self._keys: Final = keys
        self._audit: Final = audit

    async def verify_one(self, read: StoredRead) -> ReceiptReport:
        """One receipt, and whether it follows the one before it. Raises StoreError, OSError, ValueError for a
        read without a receipt."""
        if read.receipt is None:
            raise ValueError(f"read {read.id} has no receipt")
        before = await self._find_before(read.number)
        (report,) = await self._verify_batch([(read, before)])
        return report

    async def verify_all(self) -> AsyncIterator[ReceiptReport]:
        """Every receipt in the order of the chain, in bounded memory. Raises StoreError, OSError."""
        previous: str | None = None
        after = 0
        while reads := await self._records.list_reads(after=after, limit=_BATCH):
            after = reads[-1].number
            batch = []
            for read in reads:
                if read.receipt is not None:
                    batch.append((read, previous))
                    previous = hash_receipt(read.receipt)
            for report in await self._verify_batch(batch):
                yield report

    async def _find_before(self, number: int) -> str | None:
        after = number
        while reads := await self._records.list_reads(after=after, limit=_BATCH, newest_first=True):
            for read in reads:
                if read.receipt is not None:
                    return hash_receipt(read.receipt)
            after = reads[-1].number
            if after == 1:
                break
        return None

    async def _verify_batch(self, batch: list[tuple[StoredRead, str | None]]) -> list[ReceiptReport]:
        parsed = [(read, previous, check_form(read.receipt or b"")) for read, previous in batch]
        receipts = [receipt for _, _, receipt in parsed if isinstance(receipt, Receipt)]
        lines, beginnings = await self._load_lines(receipts)
        reports = []
        for read, previous, receipt in parsed:
            if isinstance(receipt, Finding):
                reports.append(ReceiptReport(read.id, findings=[receipt]))
                continue
            report = _begin(receipt, self._keys)
            await self._check_blob(report, receipt)
            report.add(ReceiptCheck.CHAIN, check_link(receipt, previous), _check_row(receipt, read))
            self._check_lines(report, receipt, lines, beginnings)
            reports.append(report)
        return reports

    async def _check_blob(self, report: ReceiptReport, receipt: Receipt) -> None:
        try:
            async with self._blobs.open_verified(receipt.digest) as reader:
                report.add(ReceiptCheck.BLOB, check_blob(receipt, reader.blob))
        except BlobDamagedError as error:
            report.add(ReceiptCheck.BLOB, Finding(ReceiptCheck.BLOB, str(error)))
        except BlobMissingError:
            # The index still names it as there unless it was dropped by rule.
            listed = await self._records.list_blobs(after=receipt.digest[:-1], limit=17)
            if any(blob.digest == receipt.digest and blob.placed for blob in listed):
                report.add(ReceiptCheck.BLOB, Finding(ReceiptCheck.BLOB, f"{receipt.digest} is missing"))
            else:
                report.unchecked[ReceiptCheck.BLOB] = "the blob was dropped to make room"

    async def _load_lines(
        self, receipts: list[Receipt]
    ) -> tuple[dict[tuple[str, int], bytes], dict[str, int]]:
        """The lines that receipts name, and where chains begin of which the first files are gone."""
        if self._audit is None:
            return {}, {}
        wanted = [(place.chain, place.seq) for receipt in receipts for _, place in receipt.positions]
        lines = await asyncio.to_thread(load_lines, self._audit, wanted)
        # After the lines: what went meanwhile is then known to be gone.
        return lines, await asyncio.to_thread(find_beginnings, self._audit, [chain for chain, _ in wanted])

    def _check_lines(
        self,
        report: ReceiptReport,
        receipt: Receipt,
        lines: Mapping[tuple[str, int], bytes],
        beginnings: Mapping[str, int],
    ) -> None:
        if self._audit is None:
            report.unchecked[ReceiptCheck.AUDIT] = "no audit log at hand"
            return
        kept = [
            (role, place)
            for role, place in receipt.positions
            if (place.chain, place.seq) in lines or place.seq >= beginnings.get(place.chain, 0)
        ]
        if len(kept) < len(receipt.positions):
            report.unchecked[ReceiptCheck.AUDIT] = (
                "its lines are older than what the log keeps; fetchd audit verify says whether retention removed them"
            )
            if not kept:
                return
        checks = [
            check_audit_line(receipt, role, place, lines.get((place.chain, place.seq)))
            for role, place in kept
        ]
        if any(checks) or ReceiptCheck.AUDIT not in report.unchecked:
            report.add(ReceiptCheck.AUDIT, *checks)


def _begin(receipt: Receipt, keys: Mapping[str, SignatureCheck]) -> ReceiptReport:
    report = ReceiptReport(receipt.id, held=[ReceiptCheck.FORM])
    report.add(ReceiptCheck.SIGNATURE, check_signature(receipt, keys))
    return report


def _check_row(receipt: Receipt, read: StoredRead) -> Finding | None:
    """The record beside the receipt is what lists and lookups go by."""
    row = (
        read.id,
        read.agent,
        read.final_url,
        read.query_digest,
        read.status,
        read.blob.digest,
        read.blob.bytes,
    )
    names = ("id", "agent", "final_url", "query_digest", "status", "content_digest", "bytes")
    for name, value in zip(names, row, strict=True):
        if receipt.members[name] != value:
            return Finding(ReceiptCheck.CHAIN, f"the record it is kept with says another {name}")
    return None
