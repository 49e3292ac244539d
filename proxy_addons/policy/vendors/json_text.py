"""JSON read strictly, and changed without touching what is not meant.

Two programs that read one body differently are the oldest way past a filter; so what has two readings is none:
duplicate names, NaN and Infinity, bytes that are not UTF-8, a byte order mark, anything behind the value. What is
kept is the text itself: a change replaces the members it names and leaves every other byte, so that 1.0, 1e400
and a number of forty digits leave as they came.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

MAX_CONTAINERS = 200_000
MAX_PARTS = 2_000_000
"""Of one text: parsed, an empty object takes thirty times its two bytes, and each costs 5 microseconds to look at."""
MAX_DIGITS = 400
"""Digits of an integer that is taken for a number; longer ones are only kept as they stand."""


class JsonTextError(ValueError):
    """The body is not one JSON text that everybody reads alike. The message is fit for a caller."""


class Change(Enum):
    """What a member becomes that gets no new value."""

    REMOVED = "removed"


type Changes = Mapping[str, object]
"""Members of one object by name: a new value, `Change.REMOVED`, or again `Changes` for an object within."""


@dataclass(frozen=True, slots=True)
class Nested:
    """Changes of an object within; it is made where there is none."""

    changes: Changes


@dataclass(frozen=True, slots=True)
class Member:
    """A member as it stands: where its name, and where its value, begin and end in the text."""

    name: str
    name_start: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class JsonText:
    """A whole JSON text and its value. data: it in UTF-8. members: those of the root, where that is an object."""

    data: bytes
    text: str
    value: Any
    members: tuple[Member, ...] = ()


def read_json(data: bytes) -> JsonText:
    """Raises JsonTextError."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise JsonTextError("it is not UTF-8") from None
    if has_too_many_parts(data):
        raise JsonTextError("it has too many parts")
    if text.startswith("\ufeff"):
        raise JsonTextError("it begins with a byte order mark")
    try:
        found, end = _read_root(data, text, _skip(text, 0))
    except JsonTextError:
        raise
    except RecursionError:
        raise JsonTextError("it is nested too deeply") from None
    except ValueError:
        raise JsonTextError("it is not JSON") from None
    if _skip(text, end) != len(text):
        raise JsonTextError("it is not JSON")
    return found


def _read_root(data: bytes, text: str, at: int) -> tuple[JsonText, int]:
    """An object is read member by member: so where they stand is known without a second reading."""
    if text[at : at + 1] != "{":
        value, end = _DECODER.raw_decode(text, at)
        return JsonText(data, text, value), end
    pairs: list[tuple[str, Any]] = []
    members: list[Member] = []
    at = _skip(text, at + 1)
    ended = text[at : at + 1] == "}"
    while not ended:
        if text[at : at + 1] != '"':
            raise JsonTextError("it is not JSON")
        name, end = _DECODER.raw_decode(text, at)
        colon = _skip(text, end)
        if text[colon : colon + 1] != ":":
            raise JsonTextError("it is not JSON")
        start = _skip(text, colon + 1)
        value, end = _DECODER.raw_decode(text, start)
        pairs.append((name, value))
        members.append(Member(name, at, start, end))
        at = _skip(text, end)
        ended = text[at : at + 1] == "}"
        if not ended:
            if text[at : at + 1] != ",":
                raise JsonTextError("it is not JSON")
            at = _skip(text, at + 1)
    return JsonText(data, text, _pairs(pairs), tuple(members)), at + 1


def has_too_many_parts(data: bytes | bytearray) -> bool:
    """Whether a JSON text may come to more objects, lists and values than it pays to parse."""
    return (len(data) > MAX_CONTAINERS and data.count(b"{") + data.count(b"[") > MAX_CONTAINERS) or (
        len(data) > MAX_PARTS and data.count(b",") > MAX_PARTS
    )


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise JsonTextError("a name stands twice in one object")
    return found


def _no_constant(text: str) -> Any:
    raise JsonTextError(f"{text} is no JSON number")


def read_integer(text: str) -> int | float:
    """An integer of JSON; infinity for one of more than MAX_DIGITS, which takes time by the square of them."""
    return int(text) if len(text) <= MAX_DIGITS else float("inf")


_DECODER = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_no_constant, parse_int=read_integer)
_SKIPPER = json.JSONDecoder(parse_int=float)
"""Finds where a value ends, in a text that was read: faster by what it does not look at."""
_NO_SPACE = re.compile(r"[^ \t\n\r]")


def _skip(text: str, at: int) -> int:
    found = _NO_SPACE.search(text, at)
    return found.start() if found is not None else len(text)


def members_of(text: str, at: int) -> Iterator[Member]:
    """The members of the object that begins at or behind `at`, in a text that was read."""
    at = _skip(text, _skip(text, at) + 1)
    while text[at] != "}":
        name_start = at
        name, at = _DECODER.raw_decode(text, at)
        start = _skip(text, _skip(text, at) + 1)
        _, end = _SKIPPER.raw_decode(text, start)
        yield Member(name, name_start, start, end)
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)


def elements_of(text: str, at: int) -> Iterator[tuple[int, int]]:
    """Where the elements of the array at or behind `at` begin and end."""
    at = _skip(text, _skip(text, at) + 1)
    while text[at] != "]":
        _, end = _SKIPPER.raw_decode(text, at)
        yield at, end
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)


def change_object(text: str, at: int, changes: Changes) -> str:
    """The object at `at` with `changes` made; members that they do not name keep their own text."""
    parts = []
    missing = dict(changes)
    for member in members_of(text, at):
        if member.name not in changes:
            parts.append(text[member.name_start : member.end])
            continue
        change = missing.pop(member.name)
        if change is Change.REMOVED:
            continue
        is_object = text[member.start] == "{"
        new = (
            change_object(text, member.start, change.changes)
            if isinstance(change, Nested) and is_object
            else _render(change)
        )
        parts.append(text[member.name_start : member.start] + new)
    for name, change in missing.items():
        if change is not Change.REMOVED:
            parts.append(f"{json.dumps(name)}:{_render(change)}")
    return "{" + ",".join(parts) + "}"


def _render(change: object) -> str:
    if isinstance(change, Nested):
        made = ",".join(
            f"{json.dumps(name)}:{_render(value)}"
            for name, value in change.changes.items()
            if value is not Change.REMOVED
        )
        return "{" + made + "}"
    return json.dumps(change)


def change_text(json_text: JsonText, root: Changes, elements: Mapping[tuple[str, int], Changes]) -> bytes:
    """The whole text with members of its root changed, and of objects in arrays at its root: (name, place)."""
    text = json_text.text
    edits: list[tuple[int, int, str]] = []
    missing = dict(root)
    for member in json_text.members:
        if member.name in root:
            edits.append((member.start, member.end, _render(missing.pop(member.name))))
        elif any(name == member.name for name, _ in elements):
            for place, (start, end) in enumerate(elements_of(text, member.start)):
                found = elements.get((member.name, place))
                if found is not None:
                    edits.append((start, end, change_object(text, start, found)))
    added = "".join(f"{json.dumps(name)}:{_render(change)}," for name, change in missing.items())
    if added:
        behind = json_text.members[0].name_start  # what is changed stands in a member, so there is one
        edits.append((behind, behind, added))
    return _apply(json_text, edits)


def _apply(json_text: JsonText, edits: list[tuple[int, int, str]]) -> bytes:
    """What stays is copied once where it is ASCII: a fresh page of memory costs more than reading what it holds."""
    text, data = json_text.text, memoryview(json_text.data)
    in_place = text.isascii()
    parts: list[bytes | memoryview] = []
    done = 0
    for start, end, new in [*sorted(edits), (len(text), len(text), "")]:
        kept = data[done:start] if in_place else text[done:start].encode()
        parts += [kept, new.encode()]
        done = end
    return b"".join(parts)
