"""Receipts `runx.receipt.v1`: what is in one, how it is signed, how its text is read. Pure.

A receipt is one JSON object in the canonical form of RFC 8785, UTF-8, no newline. `signature` is Ed25519
(RFC 8032), base64, over the canonical form of the object without that member. `previous` is ``sha256:`` and the
SHA-256, in hex, of the whole text of the receipt before, null in the first one of an installation. The text is
kept and handed out as it was signed; any other spelling of the same values is not that receipt.

URLs are in display form (SPEC 1.6), a query appears as its keyed digest; no header value, cookie or body is in.
"""

import base64
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Final

import rfc8785

from .values import AuditPosition, PageRead, RedirectHop, check_display

TYPE: Final = "runx.receipt.v1"
MAX_RECEIPT: Final = 4 << 20
"""Bytes; seven URLs of a head's 64 KiB each, three characters an octet, fit three times."""

type Json = str | int | bool | list[Any] | dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Receipt:
    """A receipt whose form is right. `text` is its canonical JSON, `hash` what the next one names it by."""

    text: bytes
    hash: str
    members: Mapping[str, Any] = field(repr=False)

    @property
    def id(self) -> str:
        return str(self.members["id"])

    @property
    def key_id(self) -> str:
        return str(self.members["key_id"])

    @property
    def previous(self) -> str | None:
        previous: str | None = self.members["previous"]
        return previous

    @property
    def digest(self) -> str:
        return str(self.members["content_digest"])

    @property
    def size(self) -> int:
        """Bytes of the body."""
        return int(self.members["bytes"])

    @property
    def signature(self) -> bytes:
        return base64.b64decode(self.members["signature"])

    @property
    def signed(self) -> bytes:
        """What the signature is over."""
        return rfc8785.dumps({name: value for name, value in self.members.items() if name != "signature"})

    @property
    def positions(self) -> tuple[tuple[str, AuditPosition], ...]:
        """(role, place) of each audit line it names: ``fetch``, ``decision``, ``redirect 1`` …"""
        audit = self.members["audit"]
        named = [(role, audit[role]) for role in ("fetch", "decision")]
        named += [(f"redirect {n}", hop["audit"]) for n, hop in enumerate(self.members["redirects"], start=1)]
        return tuple((role, AuditPosition(**place)) for role, place in named if place is not None)


def hash_receipt(text: bytes) -> str:
    """What the next receipt names this one by."""
    return f"sha256:{sha256(text).hexdigest()}"


def seal_receipt(
    read: PageRead, *, issued_at: str, previous: str | None, key_id: str, sign: Callable[[bytes], bytes]
) -> Receipt:
    """The receipt of a read. issued_at: RFC 3339, UTC, ending in Z."""
    members: dict[str, Json] = {
        "type": TYPE,
        "id": read.id,
        "issued_at": issued_at,
        "tool": read.tool,
        "agent": read.agent,
        "final_url": read.final_url,
        "query_digest": read.query_digest,
        "status": read.status,
        "content_digest": read.blob.digest,
        "bytes": read.blob.bytes,
        "fetched_at": read.fetched_at,
        "revalidated": read.revalidated,
        "redirects": [_render_hop(hop) for hop in read.redirects],
        "policy": read.policy,
        "audit": {"fetch": _render_position(read.fetch), "decision": _render_position(read.decision)},
        "key_id": key_id,
        "previous": previous,
    }
    members["signature"] = base64.b64encode(sign(rfc8785.dumps(members))).decode("ascii")
    receipt = parse_receipt(rfc8785.dumps(members))
    if isinstance(receipt, str):
        raise ValueError(f"a receipt that nobody would accept was not issued: {receipt}")  # noqa: TRY004
    return receipt


def respell(text: bytes) -> bytes:
    """The canonical form of a receipt that came by way of other JSON writers; `text` itself where it has none.

    The signature is over values: white space and the order of members on the way change nothing of what was signed.
    """
    if len(text) > MAX_RECEIPT:
        return text
    try:
        return rfc8785.dumps(json.loads(text.decode("utf-8")))
    except (ValueError, RecursionError):
        return text


def parse_receipt(text: bytes) -> Receipt | str:
    """The receipt in a text, or what is wrong with its form, for a person. Nothing is verified beyond that."""
    if len(text) > MAX_RECEIPT:
        return f"longer than {MAX_RECEIPT} bytes"
    try:
        members = json.loads(text.decode("utf-8"))
        canonical = rfc8785.dumps(members)
    except (ValueError, RecursionError) as error:  # CanonicalizationError is a ValueError
        return f"not JSON in UTF-8 that has a canonical form ({type(error).__name__})"
    if canonical != text:
        return "not the canonical text (RFC 8785) it was issued as: the same values, spelt in another way"
    fault = _find_fault(members, _RECEIPT, "")
    return fault or Receipt(text, hash_receipt(text), MappingProxyType(members))


def _render_hop(hop: RedirectHop) -> Json:
    return {
        "from": hop.source,
        "to": hop.target,
        "status": hop.status,
        "verdict": hop.verdict,
        "policy": hop.policy,
        "audit": _render_position(hop.audit),
    }


def _render_position(position: AuditPosition | None) -> Json:
    if position is None:
        return None
    return {"chain": position.chain, "seq": position.seq, "hash": position.hash}


# ------------------------------------------------------------------------------------------------------ form


@dataclass(frozen=True, slots=True)
class _Form:
    """What a member may be: a type, and a pattern for text or a table for objects. `null`: it may be null."""

    kind: type
    pattern: str = ""
    table: "Mapping[str, _Form] | None" = None
    items: "_Form | None" = None
    null: bool = False
    display: bool = False


_TIME: Final = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z"
_DIGEST: Final = r"sha256:[0-9a-f]{64}"
_POSITION: Final = {
    "chain": _Form(str, r"[a-z][a-z0-9-]{0,63}"),
    "seq": _Form(int),
    "hash": _Form(str, r"[0-9a-f]{64}", null=True),
}
_HOP: Final = {
    "from": _Form(str, display=True),
    "to": _Form(str, display=True),
    "status": _Form(int),
    "verdict": _Form(str, r"[a-z_]{1,32}"),
    "policy": _Form(str, r"[!-~]{1,200}"),
    "audit": _Form(dict, table=_POSITION, null=True),
}
_RECEIPT: Final[Mapping[str, _Form]] = MappingProxyType(
    {
        "type": _Form(str, re.escape(TYPE)),
        "id": _Form(str, r"[0-9A-Za-z_.-]{1,64}"),
        "issued_at": _Form(str, _TIME),
        "tool": _Form(str, r"[a-z_]{1,64}"),
        "agent": _Form(str, r"[!-~]{1,200}"),
        "final_url": _Form(str, display=True),
        "query_digest": _Form(str, r"hmac-sha256:[0-9a-f]{32}", null=True),
        "status": _Form(int),
        "content_digest": _Form(str, _DIGEST),
        "bytes": _Form(int),
        "fetched_at": _Form(str, _TIME),
        "revalidated": _Form(bool),
        "redirects": _Form(list, items=_Form(dict, table=_HOP)),
        "policy": _Form(str, r"[!-~]{1,200}"),
        "audit": _Form(
            dict,
            table={
                "fetch": _Form(dict, table=_POSITION),
                "decision": _Form(dict, table=_POSITION, null=True),
            },
        ),
        "key_id": _Form(str, r"[0-9a-f]{16}"),
        "previous": _Form(str, _DIGEST, null=True),
        "signature": _Form(str, r"[A-Za-z0-9+/]{85}[AQgw]=="),  # 64 bytes; the last letter holds two bits
    }
)
"""Every member of a receipt and what it may be."""


def _find_fault(value: object, table: Mapping[str, _Form], where: str) -> str | None:
    if not isinstance(value, dict):
        return f"{where.removesuffix('.') or 'the receipt'} is not an object"
    names = [*table, *(name for name in value if name not in table)]
    for name in names:
        if name not in table:
            return f"it has a member that no receipt has: {where}{ascii(name)[1:-1][:100]}"
        if name not in value:
            return f"{where}{name} is missing"
        if fault := _find_member_fault(value[name], table[name], f"{where}{name}"):
            return fault
    return None


def _find_member_fault(value: object, form: _Form, where: str) -> str | None:
    if value is None and form.null:
        return None
    if type(value) is not form.kind:  # bool is an int, but not here
        return f"{where} is no {form.kind.__name__}"
    if isinstance(value, str) and form.pattern and re.fullmatch(form.pattern, value, re.ASCII) is None:
        return f"{where} is not as receipts write it"
    if isinstance(value, str) and form.display and not _is_display(value):
        return f"{where} is no URL in display form"
    if isinstance(value, int) and value < 0:
        return f"{where} is negative"
    if form.table is not None:
        return _find_fault(value, form.table, f"{where}.")
    if form.items is not None and isinstance(value, list):
        items = form.items
        faults = (_find_member_fault(one, items, f"{where}[{n}]") for n, one in enumerate(value))
        return next(filter(None, faults), None)
    return None


def _is_display(url: str) -> bool:
    try:
        check_display(url)
    except ValueError:
        return False
    return True
