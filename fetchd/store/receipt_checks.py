"""Does a receipt hold? Each check says exactly what fails. Pure: texts in, findings out.

| check | what is compared | what it needs |
|---|---|---|
| form | the text is a receipt in canonical form | the receipt |
| signature | the signature, under the key it names | the public key |
| blob | digest and size of a body | the body's digest and size |
| chain | `previous` is the hash of the receipt before | that receipt |
| audit | the lines it names are there, whole and about this read | those lines |
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from proxy_addons.audit.chain import Fault, SignatureCheck, parse_line

from .receipts import Receipt, parse_receipt
from .values import AuditPosition, Blob


class ReceiptCheck(StrEnum):
    """What is looked at, in this order."""

    FORM = "form"
    SIGNATURE = "signature"
    BLOB = "blob"
    CHAIN = "chain"
    AUDIT = "audit"


@dataclass(frozen=True, slots=True)
class Finding:
    """What fails, in words for a person."""

    check: ReceiptCheck
    detail: str

    def __str__(self) -> str:
        return f"{self.check.value}: {self.detail}"


def check_form(text: bytes) -> Receipt | Finding:
    """A receipt's text, without a newline at the end."""
    parsed = parse_receipt(text)
    return Finding(ReceiptCheck.FORM, parsed) if isinstance(parsed, str) else parsed


def check_signature(receipt: Receipt, keys: Mapping[str, SignatureCheck]) -> Finding | None:
    """Does the signature hold? keys: key id → check."""
    accepts = keys.get(receipt.key_id)
    if accepts is None:
        return Finding(ReceiptCheck.SIGNATURE, f"signed with a key that is not at hand: {receipt.key_id}")
    if not accepts(receipt.signature, receipt.signed):
        return Finding(ReceiptCheck.SIGNATURE, "it does not hold; the receipt is not what was signed")
    return None


def check_blob(receipt: Receipt, found: Blob) -> Finding | None:
    """Is a body the one the receipt is about?"""
    if found.digest != receipt.digest:
        detail = f"the body has the digest {found.digest}, the receipt is about {receipt.digest}"
        return Finding(ReceiptCheck.BLOB, detail)
    if found.bytes != receipt.size:
        return Finding(
            ReceiptCheck.BLOB, f"the body has {found.bytes} bytes, the receipt says {receipt.size}"
        )
    return None


def check_link(receipt: Receipt, previous: str | None) -> Finding | None:
    """Does it follow the receipt with this hash? None: it has to be the first."""
    if receipt.previous == previous:
        return None
    if previous is None:
        detail = "it names one before it, and there is none; receipts are missing"
    elif receipt.previous is None:
        detail = "it claims to be the first, and there are receipts before it"
    else:
        detail = "it does not name the receipt before it; one of the two was changed, or receipts are missing between"
    return Finding(ReceiptCheck.CHAIN, detail)


_SAID: Final = {
    "fetch": {
        "fetch_id": "id", "agent": "agent", "tool": "tool", "policy": "policy", "status": "status",
        "content_digest": "content_digest",
    },
    "decision": {"fetch_id": "id", "agent": "agent"},
}  # fmt: skip
"""By kind of line: members of it that have to be what a member of the receipt is."""


def check_audit_line(receipt: Receipt, role: str, place: AuditPosition, raw: bytes | None) -> Finding | None:
    """Is `raw` (newline included, None: there is no such line) the line the receipt names in this role?"""
    name = f"line {place.seq} of {place.chain} ({role})"
    if raw is None:
        return Finding(ReceiptCheck.AUDIT, f"{name} is missing")
    line = parse_line(raw)
    if isinstance(line, Fault):
        return Finding(ReceiptCheck.AUDIT, f"{name}: {line.detail}")
    kind = "fetch" if role == "fetch" else "decision"
    if (line.kind, line.chain, line.seq) != (kind, place.chain, place.seq):
        return Finding(ReceiptCheck.AUDIT, f"{name} is a {line.kind} line, number {line.seq} of {line.chain}")
    if place.hash is not None and line.hash != place.hash:
        return Finding(
            ReceiptCheck.AUDIT, f"{name} is not the line the receipt was issued on; its hash is another"
        )
    said = json.loads(raw)
    for member, own in _SAID[kind].items():
        # null: the line does not say; a redirect's line has another status than the receipt
        if said.get(member) is not None and said[member] != receipt.members[own]:
            return Finding(ReceiptCheck.AUDIT, f"{name} says another {member} than the receipt")
    return None
