"""Receipts: what is in one, and that no change of it goes unseen (a property of every byte)."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from fetchd.store import AuditPosition, Receipt, StoreKeys
from fetchd.store.receipt_checks import (
    Finding,
    ReceiptCheck,
    check_audit_line,
    check_blob,
    check_form,
    check_link,
    check_signature,
)
from fetchd.store.receipts import hash_receipt, parse_receipt, seal_receipt
from proxy_addons.audit import CallOutcome, FetchRecord
from proxy_addons.audit.chain import START, seal_line
from tests.fetchd.store.kit import KEYS, blob_of, page_read
from tests.proxy_addons.audit.kit import decision

ISSUED = "2026-11-30T20:00:01.500Z"
TRUSTED = {KEYS.public.id: KEYS.public.accepts}


def seal(previous: str | None = None, keys: StoreKeys = KEYS, **changes: Any) -> Receipt:
    return seal_receipt(
        page_read(**changes), issued_at=ISSUED, previous=previous, key_id=keys.public.id, sign=keys.sign
    )


RECEIPT = seal()


def first_finding(text: bytes) -> Finding | None:
    receipt = check_form(text)
    return receipt if isinstance(receipt, Finding) else check_signature(receipt, TRUSTED)


def test_a_receipt_says_what_was_read() -> None:
    members = json.loads(RECEIPT.text)

    assert members.pop("signature")
    assert members == {
        "type": "runx.receipt.v1",
        "id": "00000000000000000001",
        "issued_at": ISSUED,
        "tool": "page_read",
        "agent": "alice",
        "final_url": "https://a.example/page",
        "query_digest": "hmac-sha256:" + "ab" * 16,
        "status": 200,
        "content_digest": blob_of(b"page").digest,
        "bytes": 4,
        "fetched_at": "2026-11-30T20:00:00.000Z",
        "revalidated": False,
        "redirects": [
            {
                "from": "https://a.example/start",
                "to": "https://a.example/page",
                "status": 301,
                "verdict": "allowed",
                "policy": "page_read@0123abcd",
                "audit": {"chain": "gateway-0", "seq": 7, "hash": "0" * 64},
            }
        ],
        "policy": "page_read@0123abcd",
        "audit": {
            "fetch": {"chain": "daemon", "seq": 11, "hash": "1" * 64},
            "decision": {"chain": "gateway-1", "seq": 9, "hash": None},
        },
        "key_id": KEYS.public.id,
        "previous": None,
    }
    assert RECEIPT.text == rfc8785.dumps(json.loads(RECEIPT.text))
    assert RECEIPT.hash == hash_receipt(RECEIPT.text)
    assert first_finding(RECEIPT.text) is None


def test_the_signature_verifies_with_the_public_key_alone() -> None:
    """As docs/store.md tells others to do it."""
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    members = json.loads(RECEIPT.text)
    signature = base64.b64decode(members.pop("signature"))
    key: Any = load_pem_public_key(KEYS.public.render_pem())

    key.verify(signature, rfc8785.dumps(members))


@given(st.integers(0, len(RECEIPT.text) - 1), st.integers(1, 255))
def test_any_change_of_any_byte_is_found(place: int, difference: int) -> None:
    text = bytearray(RECEIPT.text)
    text[place] ^= difference

    assert first_finding(bytes(text)) is not None


@given(st.integers(0, len(RECEIPT.text)), st.binary(min_size=1, max_size=4))
def test_any_byte_put_in_is_found(place: int, added: bytes) -> None:
    assert first_finding(RECEIPT.text[:place] + added + RECEIPT.text[place:]) is not None


@given(st.integers(0, len(RECEIPT.text) - 1), st.integers(1, 8))
def test_any_byte_taken_out_is_found(place: int, count: int) -> None:
    assert first_finding(RECEIPT.text[:place] + RECEIPT.text[place + count :]) is not None


def test_every_single_bit_matters() -> None:
    unseen = []
    for bit in range(8 * len(RECEIPT.text)):
        text = bytearray(RECEIPT.text)
        text[bit // 8] ^= 1 << bit % 8
        if first_finding(bytes(text)) is None:
            unseen.append(bit)
    assert unseen == []


def resigned(change: Any) -> bytes:
    """A receipt that the key's owner changed and signed again."""
    members = json.loads(RECEIPT.text)
    members.pop("signature")
    change(members)
    members["signature"] = base64.b64encode(KEYS.sign(rfc8785.dumps(members))).decode()
    return rfc8785.dumps(members)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param(lambda m: m.pop("bytes"), "bytes is missing", id="a member less"),
        pytest.param(lambda m: m.update(cookie="x"), "a member that no receipt has: cookie", id="a member more"),
        pytest.param(lambda m: m.update(type="runx.receipt.v2"), "type is not as", id="another type"),
        pytest.param(lambda m: m.update(bytes="4"), "bytes is no int", id="text for a number"),
        pytest.param(lambda m: m.update(status=True), "status is no int", id="true for a number"),
        pytest.param(lambda m: m.update(bytes=-1), "bytes is negative", id="a negative number"),
        pytest.param(lambda m: m.update(revalidated=0), "revalidated is no bool", id="0 for false"),
        pytest.param(lambda m: m.update(final_url="https://a/?q"), "final_url is no URL in display", id="a query"),
        pytest.param(lambda m: m.update(final_url="https://u@a/"), "final_url is no URL in display", id="user info"),
        pytest.param(lambda m: m["redirects"][0].pop("to"), "redirects[0].to is missing", id="half a redirect"),
        pytest.param(lambda m: m["audit"].update(fetch=None), "audit.fetch is no dict", id="no audit line"),
        pytest.param(lambda m: m.update(previous="x"), "previous is not as", id="no hash before"),
        pytest.param(lambda m: m.update(issued_at="today"), "issued_at is not as", id="no time"),
    ],
)  # fmt: skip
def test_what_is_no_receipt_is_said_so_though_it_is_signed(change: Any, said: str) -> None:
    finding = first_finding(resigned(change))

    assert finding is not None and finding.check is ReceiptCheck.FORM
    assert said in finding.detail


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(b"", "not JSON in UTF-8", id="nothing"),
        pytest.param(b"[]", "the receipt is not an object", id="a list"),
        pytest.param(b"\xff", "not JSON in UTF-8", id="no UTF-8"),
        pytest.param(b"[" * 100_000, "not JSON in UTF-8", id="nested without end"),
        pytest.param(b'{"a":1.0}', "not the canonical text", id="a number spelt in another way"),
        pytest.param(b'{"a":1,"a":1}', "not the canonical text", id="a member twice"),
        pytest.param(b'{"a":NaN}', "not JSON in UTF-8", id="no number"),
        pytest.param(b'{"a":' + b"9" * 400 + b"}", "not JSON in UTF-8", id="a number beyond doubles"),
        pytest.param(b"9" * 5000, "not JSON in UTF-8", id="a number of 5,000 digits"),
        pytest.param(RECEIPT.text + b"\n", "not the canonical text", id="a newline"),
        pytest.param(
            json.dumps(json.loads(RECEIPT.text), indent=1).encode(), "same values, spelt", id="indented"
        ),
    ],
)
def test_texts_that_are_no_receipts(text: bytes, said: str) -> None:
    found = parse_receipt(text)
    assert isinstance(found, str) and said in found


@given(st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_a_text_is_a_receipt_or_a_reason_and_nothing_else(text: bytes) -> None:
    assert isinstance(parse_receipt(text), str)


@pytest.mark.parametrize("field", ["url", "final_url"])
@pytest.mark.parametrize(
    "url",
    ["https://a.example/p?token=s", "https://a.example/#s", "https://u:s@a.example/", "a.example", ""],
)
def test_a_url_that_carries_more_never_gets_near_a_receipt(field: str, url: str) -> None:
    with pytest.raises(ValueError, match="never reaches a record or receipt"):
        page_read(1, b"page", **{field: url})


def test_a_receipt_nobody_would_accept_is_not_issued() -> None:
    with pytest.raises(ValueError, match="was not issued: agent"):
        seal(agent="two words")


# ---- one check each


def test_another_key() -> None:
    other = StoreKeys.generate()
    finding = check_signature(seal(keys=other), TRUSTED)

    assert finding == Finding(
        ReceiptCheck.SIGNATURE, f"signed with a key that is not at hand: {other.public.id}"
    )


def test_a_signature_by_another_key_under_this_ones_name() -> None:
    other = StoreKeys.generate()
    forged = seal_receipt(
        page_read(), issued_at=ISSUED, previous=None, key_id=KEYS.public.id, sign=other.sign
    )
    finding = check_signature(forged, TRUSTED)

    assert finding is not None and "it does not hold" in finding.detail


def test_the_body() -> None:
    assert check_blob(RECEIPT, blob_of(b"page")) is None
    finding = check_blob(RECEIPT, blob_of(b"pagE"))
    assert finding is not None and str(finding).startswith("blob: the body has the digest sha256:")


@pytest.mark.parametrize(
    ("own", "before", "said"),
    [
        pytest.param(None, None, None, id="the first"),
        pytest.param("sha256:" + "1" * 64, "sha256:" + "1" * 64, None, id="follows"),
        pytest.param("sha256:" + "1" * 64, None, "it names one before it", id="those before are gone"),
        pytest.param(None, "sha256:" + "1" * 64, "claims to be the first", id="a second first"),
        pytest.param(
            "sha256:" + "1" * 64, "sha256:" + "2" * 64, "does not name the receipt before", id="another"
        ),
    ],
)
def test_the_chain(own: str | None, before: str | None, said: str | None) -> None:
    finding = check_link(seal(own), before)

    assert (finding is None) if said is None else (finding is not None and said in finding.detail)


def fetch_line(**changes: Any) -> tuple[bytes, AuditPosition]:
    record: dict[str, Any] = {
        "tool": "page_read", "agent": "alice", "profile": "page_read", "policy": "page_read@0123abcd",
        "fetch_id": "00000000000000000001", "url": "https://a.example/start", "outcome": CallOutcome.SUCCESS,
        "status": 200,
    }  # fmt: skip
    line, head = seal_line("daemon", START, "2026-11-30T20:00:01.000000Z", FetchRecord(**(record | changes)))
    return line, AuditPosition("daemon", head.seq, head.hash)


def test_the_audit_line_it_was_issued_on() -> None:
    line, place = fetch_line()
    assert check_audit_line(seal(fetch=place), "fetch", place, line) is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"fetch_id": "00000000000000000002"}, "says another fetch_id"),
        ({"agent": "bob"}, "says another agent"),
        ({"tool": "web_fetch"}, "says another tool"),
        ({"status": 404}, "says another status"),
        ({"policy": "page_read@ffffffff"}, "says another policy"),
    ],
)
def test_an_audit_line_about_something_else(changes: dict[str, Any], said: str) -> None:
    line, place = fetch_line(**changes)
    finding = check_audit_line(seal(fetch=place), "fetch", place, line)

    assert finding is not None and said in finding.detail and "line 1 of daemon (fetch)" in finding.detail


def test_an_audit_line_that_was_replaced_removed_or_damaged() -> None:
    line, place = fetch_line()
    receipt = seal(fetch=place)
    other, _ = fetch_line(ms=1.0)
    gateway, _ = seal_line("daemon", START, "2026-11-30T20:00:01.000000Z", decision())

    for raw, said in (
        (None, "is missing"),
        (other, "is not the line the receipt was issued on"),
        (line.replace(b"alice", b"alicf"), "its hash does not fit its text"),
        (gateway, "is a decision line"),
    ):
        finding = check_audit_line(receipt, "fetch", place, raw)
        assert finding is not None and said in finding.detail, said


def test_one_flipped_bit_in_an_audit_line_is_found() -> None:
    line, place = fetch_line()
    receipt = seal(fetch=place)
    for place_of_bit in range(0, 8 * len(line), 3):
        raw = bytearray(line)
        raw[place_of_bit // 8] ^= 1 << place_of_bit % 8
        assert check_audit_line(receipt, "fetch", place, bytes(raw)) is not None, place_of_bit
