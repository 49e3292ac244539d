"""The arguments of web_fetch (SPEC 2): `url`, then `max_chars`, then `raw`; the first broken one is reported.

JSON text is read here and not by a framework, because the rules look at how a number is written:

    {"url": "https://docs.rs/"}                                  → max_chars 40000, raw false
    {"url": "https://docs.rs/", "max_chars": 1, "raw": null}     → max_chars 1, raw false
    {"url": "https://docs.rs/", "max_chars": 99999999999999}     → max_chars 40000
    max_chars of 5.0, 5e0, "5", true, 0, -1                      → a hard failure

Unknown keys are ignored. Of a key that stands twice the last one counts, as in every common JSON reader.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Never

from proxy_addons.policy.limits import MAX_CHARS

from .failures import Message, ToolFailure, fail

_MAX_DIGITS = 18
"""Integers with more digits are far over every ceiling; reading them exactly costs time by their length."""


@dataclass(frozen=True, slots=True)
class FetchArguments:
    """A call that may start: `url` exactly as supplied, not judged yet; 1 <= max_chars <= 40,000."""

    url: str
    max_chars: int = MAX_CHARS
    raw: bool = False


def parse_arguments(text: str | bytes) -> FetchArguments | ToolFailure:
    """The arguments from the JSON text of a call, UTF-8 if bytes; what is no JSON object has no url."""
    try:
        decoded = text.decode("utf-8") if isinstance(text, bytes) else text
        value = json.loads(decoded, parse_int=_parse_integer, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return fail(Message.MISSING_URL)
    return read_arguments(value)


def read_arguments(value: object) -> FetchArguments | ToolFailure:
    """The arguments from a value that a JSON reader made, with int and float kept apart."""
    if not isinstance(value, Mapping):
        return fail(Message.MISSING_URL)
    url = value.get("url")
    if not isinstance(url, str):
        return fail(Message.MISSING_URL)
    max_chars = value.get("max_chars")
    if max_chars is None:
        max_chars = MAX_CHARS
    elif isinstance(max_chars, bool) or not isinstance(max_chars, int) or max_chars < 1:
        return fail(Message.MAX_CHARS)
    raw = value.get("raw")
    if raw is None:
        raw = False
    elif not isinstance(raw, bool):
        return fail(Message.RAW)
    return FetchArguments(url, min(max_chars, MAX_CHARS), raw)


def _parse_integer(digits: str) -> int:
    return int(digits[: _MAX_DIGITS + 1])


def _refuse_constant(name: str) -> Never:
    raise ValueError(f"{name} is not JSON")
