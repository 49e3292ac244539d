"""The arguments of web_search (SPEC 4), read in two stages; of the second only the first failure is reported.

1 what no reader can take: no object, an unknown key, another JSON type, another choice  → `invalid arguments`
2 bounds, in the order of the arguments                                                 → a message that names one

    {"query": "rust", "count": 5, "freshness": "pw"}     → as written; nothing is trimmed, folded or filled in
    {"query": "rust", "count": null}                     → count left out
    {"query": null}   {"query": "a", "limit": 3}   count of 5.0, 5e0, "5", true, -1      → invalid arguments
    count of 0, 21, 10**400                              → count must be between 1 and 20

Of a key that stands twice the last one counts, as everywhere here. Half a surrogate pair is no text.
"""

import json
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Never

from fetchd.core.failures import FailureKind

from .interface import Argument, Freshness, SafeSearch, SearchArguments, SearchFailure

MAX_QUERY: Final = 400
MAX_COUNT: Final = 20
MAX_TEXT: Final = 128
"""Characters of a country, a language or a host."""
MAX_DOMAINS: Final = 20

INVALID: Final = SearchFailure(FailureKind.INVALID_ARGUMENTS, "invalid arguments")

WHITE_SPACE: Final = (
    "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
)
"""Unicode's White_Space. `str.strip()` would take four control characters more."""

_NAMES: Final = frozenset(Argument)
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_NOT_BARE: Final = re.compile(rf"[/\x00-\x1f\x7f-\x9f{WHITE_SPACE}]")
_MAX_DIGITS: Final = 18
"""Integers with more digits are far over every bound; reading them exactly costs time by their length."""


def parse_search_arguments(text: str | bytes) -> SearchArguments | SearchFailure:
    """The arguments from the JSON text of a call, UTF-8 if bytes."""
    try:
        decoded = text.decode("utf-8") if isinstance(text, bytes) else text
        value = json.loads(decoded, parse_int=_parse_integer, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return INVALID
    return read_search_arguments(value)


def read_search_arguments(value: object) -> SearchArguments | SearchFailure:
    """The arguments from a value that a JSON reader made, with int and float kept apart."""
    if not isinstance(value, Mapping) or not _NAMES.issuperset(value):
        return INVALID
    try:
        query = _read_text(value.get(Argument.QUERY))
        found = SearchArguments(
            query if query is not None else _refuse("query"),
            _read_count(value.get(Argument.COUNT)),
            _read_choice(value.get(Argument.FRESHNESS), Freshness),
            _read_text(value.get(Argument.COUNTRY)),
            _read_text(value.get(Argument.SEARCH_LANG)),
            _read_choice(value.get(Argument.SAFESEARCH), SafeSearch),
            _read_texts(value.get(Argument.INCLUDE_DOMAINS)),
            _read_texts(value.get(Argument.EXCLUDE_DOMAINS)),
        )
    except _UnreadableError:
        return INVALID
    broken = find_broken_bound(found)
    return found if broken is None else SearchFailure(FailureKind.INVALID_ARGUMENTS, broken)


def find_broken_bound(arguments: SearchArguments) -> str | None:
    """The message of the first bound that does not hold (SPEC 4, second table)."""
    if is_blank(arguments.query):
        return "query must not be empty"
    if len(arguments.query) > MAX_QUERY:
        return f"query must be at most {MAX_QUERY} characters"
    if arguments.count is not None and not 1 <= arguments.count <= MAX_COUNT:
        return f"count must be between 1 and {MAX_COUNT}"
    for name, text in ((Argument.COUNTRY, arguments.country), (Argument.SEARCH_LANG, arguments.search_lang)):
        if text is not None and (is_blank(text) or len(text) > MAX_TEXT):
            return f"{name} must be a non-blank string of at most {MAX_TEXT} characters"
    for name, entries in (
        (Argument.INCLUDE_DOMAINS, arguments.include_domains),
        (Argument.EXCLUDE_DOMAINS, arguments.exclude_domains),
    ):
        if len(entries) > MAX_DOMAINS:
            return f"{name} must have at most {MAX_DOMAINS} entries"
        if not all(map(_is_bare, entries)):
            return (
                f"{name} entries must be bare hostnames: not blank, at most {MAX_TEXT} characters, no /,"
                " whitespace or control characters"
            )
    return None


def is_blank(text: str) -> bool:
    """Whether there is nothing but white space."""
    return not text.strip(WHITE_SPACE)


def _is_bare(entry: str) -> bool:
    return 0 < len(entry) <= MAX_TEXT and _NOT_BARE.search(entry) is None


# ------------------------------------------------------------------------------------------ the first stage


class _UnreadableError(Exception):
    """A value is not what its argument takes; which one, nobody is told (SPEC 4)."""


def _refuse(what: str) -> Never:
    raise _UnreadableError(what)


def _read_text(value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or _SURROGATE.search(value) is not None:
        _refuse("text")
    return value


def _read_count(value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        _refuse("count")
    return value


def _read_choice[E: StrEnum](value: object, choices: type[E]) -> E | None:
    if value is None:
        return None
    if not isinstance(value, str) or value not in list(choices):
        _refuse("choice")
    return choices(value)


def _read_texts(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        _refuse("list")
    texts = [_read_text(entry) for entry in value]
    return tuple(text if text is not None else _refuse("entry") for text in texts)


def _parse_integer(digits: str) -> int:
    return int(digits[: _MAX_DIGITS + 1])


def _refuse_constant(name: str) -> Never:
    raise ValueError(f"{name} is not JSON")
