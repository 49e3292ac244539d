"""JSON read strictly, and changed without touching what is not meant."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy_addons.policy.vendors.json_text import (
    Change,
    JsonTextError,
    Nested,
    change_object,
    change_text,
    members_of,
    read_json,
)

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)
OBJECTS = st.dictionaries(st.text(max_size=5), VALUES, max_size=6)
WRITTEN = st.tuples(OBJECTS, st.sampled_from([None, 0, 3]), st.booleans())


def write(written: tuple[Any, int | None, bool]) -> tuple[Any, str]:
    value, indent, ascii_only = written
    return value, json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode(
        "utf-8", "replace"
    ).decode()


@given(WRITTEN)
def test_a_text_is_read_as_everybody_reads_it(written: tuple[Any, int | None, bool]) -> None:
    _, text = write(written)
    assert read_json(text.encode()).value == json.loads(text)


@given(WRITTEN)
def test_members_are_found_where_they_stand(written: tuple[Any, int | None, bool]) -> None:
    _, text = write(written)
    value = json.loads(text)
    found = list(members_of(text, 0))

    assert {one.name: json.loads(text[one.start : one.end]) for one in found} == value
    assert all(
        json.loads(text[one.name_start : one.start].rstrip().removesuffix(":")) == one.name for one in found
    )


@given(WRITTEN, st.dictionaries(st.text(max_size=5), VALUES, max_size=3))
def test_a_change_is_made_and_nothing_else(
    written: tuple[Any, int | None, bool], changes: dict[str, Any]
) -> None:
    _, text = write(written)
    before = json.loads(text)

    assert json.loads(change_object(text, 0, changes)) == {**before, **changes}
    if before:
        assert json.loads(change_text(read_json(text.encode()), changes, {})) == {**before, **changes}


@given(st.lists(OBJECTS.filter(bool), min_size=1, max_size=4), st.integers(0, 3), VALUES)
def test_an_object_in_a_list_is_changed_and_no_other(entries: list[Any], place: int, value: Any) -> None:
    text = json.dumps({"first": 1.0, "tools": entries, "last": [0]}, indent=1)
    changed = change_text(read_json(text.encode()), {}, {("tools", place): {"new": value}})

    wanted = json.loads(text)
    if place < len(entries):
        wanted["tools"][place]["new"] = value
    assert json.loads(changed) == wanted
    assert b'"first": 1.0,' in changed


def test_what_is_not_named_keeps_its_own_text() -> None:
    text = '{ "a": 1.0, "b": 1E400, "c":"\\u00e9\\/", "d": 00e1 }'.replace("00e1", "0e1")
    assert change_object(text, 0, {"new": [1]}) == '{"a": 1.0,"b": 1E400,"c":"\\u00e9\\/","d": 0e1,"new":[1]}'


def test_members_within_members_are_changed_or_made() -> None:
    text = '{"filters": {"a": 1.0, "b": 2}, "n": null}'
    changes = {"filters": Nested({"b": Change.REMOVED, "c": 3}), "n": Nested({"x": 1}), "m": Nested({"y": 2})}
    assert change_object(text, 0, changes) == '{"filters": {"a": 1.0,"c":3},"n": {"x":1},"m":{"y":2}}'


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b'{"a": 1, "a": 2}', "twice"),
        (b'{"x": {"a": 1, "\\u0061": 2}}', "twice"),
        (b'{"a": NaN}', "number"),
        (b'{"a": -Infinity}', "number"),
        (b'\xef\xbb\xbf{"a": 1}', "byte order mark"),
        (b'{"a": "\xff"}', "UTF-8"),
        (b'{"a": "\xed\xa0\x80"}', "UTF-8"),
        (b'{"a": 1} {"b": 2}', "not JSON"),
        (b'{"a": 1,}', "not JSON"),
        (b"{'a': 1}", "not JSON"),
        (b'{"a": "\t"}', "not JSON"),
        (b'{"a": 01}', "not JSON"),
        (b'/* */ {"a": 1}', "not JSON"),
        (b'{"a": 1}\x00', "not JSON"),
        (b'\x0c{"a": 1}', "not JSON"),
        (b"[" * 200_000, "deeply"),
        (b"[" + b"{}," * 200_001, "parts"),
        (b"[" + b"1," * 2_000_001, "parts"),
    ],
)
def test_what_has_two_readings_has_none(data: bytes, why: str) -> None:
    with pytest.raises(JsonTextError, match=why):
        read_json(data)


PUNCTUATION = st.sampled_from([*'{}[]:,"\\ \n', "1", "null", '"a"', '"b":', "{}", "NaN", "\x0c", "\u00a0"])


@given(st.lists(PUNCTUATION, max_size=14).map("".join))
def test_what_is_read_is_what_a_strict_reader_takes(text: str) -> None:
    try:
        expected = json.loads(text, parse_constant=lambda _: 1 / 0)
    except (ValueError, ZeroDivisionError):
        expected = JsonTextError
    try:
        found = read_json(text.encode()).value
    except JsonTextError as error:
        found = expected if "twice" in str(error) else JsonTextError
    assert found == expected


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        read_json(data)
    except JsonTextError:
        return
