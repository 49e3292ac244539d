"""JSON-RPC messages from JSON text, with every number as it was written.

Python reads no integer of more than 4,300 digits, and neither does the SDK; an argument may have more (SPEC 2: any
larger integer is lowered). So the digits of such a number are cut before anyone reads it: it stays far above every
limit that it can meet.
"""

import json
import re
from typing import Final

from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

MAX_DIGITS: Final = 4_000
_KEPT_DIGITS: Final = 40
_LONG_INTEGER: Final = re.compile(rb"[0-9]{%d}" % (MAX_DIGITS + 1))


def shorten_integers(text: bytes) -> bytes:
    """`text` itself, unless it is JSON with an integer too long to read; then the same with that integer cut."""
    if _LONG_INTEGER.search(text) is None:
        return text
    try:
        return json.dumps(_load(text)).encode("utf-8")
    except (ValueError, RecursionError):
        return text  # the next reader says so


class UnreadableMessageError(Exception):
    """No JSON-RPC message; `answer` is what its sender gets (JSON-RPC 2.0, 5.1)."""

    def __init__(self, code: int, message: str, request_id: str | int | None = None) -> None:
        super().__init__(message)
        error = ErrorData(code=code, message=message)
        self.answer: Final = JSONRPCError(jsonrpc="2.0", id=request_id, error=error)


def parse_message(line: bytes | None) -> JSONRPCMessage:
    """The message on a line. None: a line that was too long to keep. Raises UnreadableMessageError."""
    if line is None:
        raise UnreadableMessageError(INVALID_REQUEST, "message too long")
    try:
        value = _load(line)
    except (ValueError, RecursionError):
        raise UnreadableMessageError(PARSE_ERROR, "Parse error") from None
    request_id = _find_id(value)
    try:
        message = jsonrpc_message_adapter.validate_python(value, by_name=False)
    except ValidationError:
        raise _no_message(request_id) from None
    if isinstance(message, JSONRPCNotification) and isinstance(value, dict) and "id" in value:
        raise _no_message(request_id)  # a request whose id is none, which is owed an answer
    return message


def _no_message(request_id: str | int | None) -> UnreadableMessageError:
    text = "not a single JSON-RPC 2.0 request or notification"
    return UnreadableMessageError(INVALID_REQUEST, text, request_id)


def _find_id(value: object) -> str | int | None:
    found = value.get("id") if isinstance(value, dict) else None
    return found if isinstance(found, str | int) and not isinstance(found, bool) else None


def _load(text: bytes) -> object:
    # Decoded here: json.loads would guess at UTF-16 and take it.
    return json.loads(text.decode("utf-8"), parse_int=_parse_integer)


def _parse_integer(digits: str) -> int:
    return int(digits if len(digits) <= MAX_DIGITS else digits[:_KEPT_DIGITS])
