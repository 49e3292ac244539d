r"""JSON-RPC messages from JSON text, with the arguments of a call as they were written.

Python reads no integer of more than 4,300 digits, and neither does the SDK; an argument may have more (SPEC 2: any
larger integer is lowered). So the digits of such a number are cut before anyone reads it: it stays far above every
limit that it can meet.

Half a surrogate pair (`"\ud800"`) is JSON. In the arguments of a call it is the tool's to judge. A message that has
one elsewhere is none, because no answer in UTF-8 could name it.
"""

import json
import re
from dataclasses import dataclass
from typing import Final, Never

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

TOOL_CALL: Final = "tools/call"
MAX_DIGITS: Final = 4_000
_KEPT_DIGITS: Final = 40
_LONG_INTEGER: Final = re.compile(rb"(?<![0-9])[0-9]{%d}" % (MAX_DIGITS + 1))
"""From the first digit of a number on: from every digit, a message full of numbers that are almost as long would take
seconds."""
_ESCAPED_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class UnreadableMessageError(Exception):
    """No JSON-RPC message; `answer` is what its sender gets (JSON-RPC 2.0, 5.1)."""

    def __init__(self, code: int, message: str, request_id: str | int | None = None) -> None:
        super().__init__(message)
        error = ErrorData(code=code, message=message)
        self.answer: Final = JSONRPCError(jsonrpc="2.0", id=request_id, error=error)


@dataclass(frozen=True, slots=True)
class PlainMessage:
    """A message for a reader that takes neither long integers nor half surrogate pairs.

    text: as it came, or with those replaced. arguments: then those of the call as they came, any JSON value.
    """

    text: bytes
    arguments: tuple[object] | None = None


def parse_plain(text: bytes) -> PlainMessage:
    """The message in `text`, which is one for sure. Raises UnreadableMessageError."""
    value, halved = _read_value(text)
    _validate(value, halved=halved)
    if not halved and _LONG_INTEGER.search(text) is None:
        return PlainMessage(text)
    try:
        plain = json.dumps(value, ensure_ascii=False)
    except RecursionError:
        raise UnreadableMessageError(PARSE_ERROR, "Parse error") from None
    return PlainMessage(_SURROGATE.sub("\ufffd", plain).encode("utf-8"), _find_arguments(value))


def parse_message(line: bytes | None) -> JSONRPCMessage:
    """The message on a line. None: a line that was too long to keep. Raises UnreadableMessageError."""
    if line is None:
        raise UnreadableMessageError(INVALID_REQUEST, "message too long")
    value, halved = _read_value(line)
    return _validate(value, halved=halved)


def _read_value(text: bytes) -> tuple[object, bool]:
    """The JSON value, and whether half a surrogate pair is in it. Raises UnreadableMessageError."""
    try:
        # Decoded here: json.loads would guess at UTF-16 and take it.
        value = json.loads(text.decode("utf-8"), parse_int=_parse_integer, parse_constant=_refuse_constant)
        return value, _ESCAPED_SURROGATE.search(text) is not None and _has_surrogate(value)
    except (ValueError, RecursionError):
        raise UnreadableMessageError(PARSE_ERROR, "Parse error") from None


def _validate(value: object, *, halved: bool) -> JSONRPCMessage:
    """The message of a JSON value; raises UnreadableMessageError."""
    if halved and _has_surrogate(_without_arguments(value)):
        raise _no_message(None)
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


def _find_arguments(value: object) -> tuple[object] | None:
    """What a tool is called with."""
    params = value.get("params") if isinstance(value, dict) and value.get("method") == TOOL_CALL else None
    return (params["arguments"],) if isinstance(params, dict) and "arguments" in params else None


def _without_arguments(value: object) -> object:
    if _find_arguments(value) is None or not isinstance(value, dict):
        return value
    return {**value, "params": {**value["params"], "arguments": None}}


def _has_surrogate(value: object) -> bool:
    return _SURROGATE.search(json.dumps(value, ensure_ascii=False)) is not None


def _parse_integer(digits: str) -> int:
    return int(digits if len(digits) <= MAX_DIGITS else digits[:_KEPT_DIGITS])


def _refuse_constant(name: str) -> Never:
    raise ValueError(f"{name} is not JSON")
