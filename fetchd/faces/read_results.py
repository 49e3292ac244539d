"""A finished page read as JSON, the same on HTTP and the command line (SPEC 3, 5)."""

import json
import secrets
from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Final

from fetchd.core.read_failures import ReadCode, ReadFailure
from fetchd.core.read_packet import JsonText, dump_json
from fetchd.page_read import ReadOutcome

from .results import TRUST

CODE_STATUSES: Final[Mapping[ReadCode, int]] = MappingProxyType(
    {
        ReadCode.MISSING_INPUT: 400,
        ReadCode.INVALID_INPUT: 400,
        ReadCode.URL_REFUSED: 403,
        ReadCode.POLICY_DENIED: 403,
        ReadCode.BUDGET: 429,
        ReadCode.RESPONSE_TOO_LARGE: 502,
        ReadCode.HTTP_STATUS: 502,
        ReadCode.TRANSPORT: 502,
        ReadCode.EXTRACT_FAILED: 422,
        ReadCode.INTERNAL: 500,
    }
)
"""The HTTP status of each failure."""


def render_packet_json(outcome: ReadOutcome) -> tuple[bytes, ...]:
    """The packet alone, as JSON in pieces; see `render_read`."""
    return _render_pieces(outcome.packet or {})


def render_read(outcome: ReadOutcome) -> tuple[bytes, ...]:
    """The packet of a read that succeeded, and beside it what to check it by: JSON in pieces, none of them copied.

    A large slice is its own piece.
    """
    receipt = outcome.receipt
    beside = {
        "trust": TRUST,
        "fetch_id": outcome.fetch_id,
        "receipt": json.loads(receipt.text) if receipt is not None else None,
    }
    return _render_pieces({**(outcome.packet or {}), **beside})


def _render_pieces(document: Mapping[str, object]) -> tuple[bytes, ...]:
    mark, found = secrets.token_hex(16), list[bytes]()

    def take(value: object) -> str:
        if not isinstance(value, JsonText):
            raise TypeError(f"{type(value).__name__} is no JSON value")
        found.append(value.data)
        return mark

    rendered = dump_json(document, default=take)
    if not found:
        return (rendered,)
    before, _, after = rendered.partition(f'"{mark}"'.encode())
    return before, found[0], after


def render_read_problem(failure: ReadFailure, fetch_id: str) -> dict[str, object]:
    """The problem document (RFC 9457) of a read that failed; `code` is the contract's."""
    status = CODE_STATUSES[failure.code]
    return {
        "type": f"urn:fetchd:page_read:{failure.code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": failure.text,
        "code": failure.code.value,
        "kind": failure.kind.value,
        "failure": "hard",
        "rule": failure.rule,
        "facts": failure.facts,
        "fetch_id": fetch_id,
    }
