"""Slices of kept bodies: by mode and class, in worker processes, small and large, and what cannot be made."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fetchd.core.charset import UTF_8
from fetchd.core.read_arguments import ExtractMode
from fetchd.core.read_packet import JsonText, dump_json
from fetchd.extract.pool import ProcessExtractor
from fetchd.extract.slicer import SMALL_BYTES, FileSlicer
from fetchd.extract.slices import SliceError, SlicePlan, slice_body
from proxy_addons.policy.content_types import ContentClass

HTML = SlicePlan(ExtractMode.TEXT, "https://a.example/", ContentClass.HTML, "text/html", UTF_8)
JSON = replace(HTML, mode=ExtractMode.JSON, content_class=ContentClass.STRUCTURED, essence="application/json")

GOOD: dict[str, tuple[bytes, SlicePlan, object]] = {
    "an object": (b'{"a": 1}', JSON, {"a": 1}),
    "a byte order mark is passed over": (b"\xef\xbb\xbf[1]", JSON, [1]),
    "the largest number": (b"[1.7976931348623157e308]", JSON, [1.7976931348623157e308]),
    "a value alone": (b'"x"', JSON, "x"),
    "half a surrogate pair": (b'"\\ud800"', JSON, "\ud800"),
    "whatever the type says": (b"[]", replace(JSON, content_class=ContentClass.REFUSED), []),
    "links of what is no page": (b"<a href=x>", replace(JSON, mode=ExtractMode.LINKS), []),
}
BAD: dict[str, bytes] = {
    "nothing": b"",
    "two documents": b"{}{}",
    "a constant that JSON has not": b"NaN",
    "another encoding": "[1]".encode("utf-16"),
    "nested without end": b"[" * 100_000,
    "a page": b"<html>",
    "a number that no double holds": b"[1e400]",
    "another such": b'{"a": -1e999}',
    "an integer of thousands of digits": b"9" * 5000,
}


@pytest.mark.parametrize("sentence", GOOD)
def test_a_slice(sentence: str) -> None:
    body, plan, value = GOOD[sentence]
    assert slice_body(body, plan) == value


@pytest.mark.parametrize("sentence", BAD)
def test_what_is_no_json_document(sentence: str) -> None:
    with pytest.raises(SliceError, match="not one JSON document in UTF-8"):
        slice_body(BAD[sentence], JSON)


@pytest.mark.parametrize("value", [{"a": "ü"}, "\ud800", ["\U0001f600"], None])
def test_any_value_can_be_written(value: object) -> None:
    assert json.loads(dump_json(value)) == value


@pytest.fixture(scope="module")
def slicer() -> Iterator[FileSlicer]:
    with ProcessExtractor(1) as small, FileSlicer(small) as slicer:
        yield slicer


@pytest.mark.parametrize("size", [SMALL_BYTES, SMALL_BYTES + 1])
async def test_small_and_large_bodies_give_the_same_slice(
    slicer: FileSlicer, tmp_path: Path, size: int
) -> None:
    """One byte beyond, the value comes as its JSON text."""
    body = (b'<title>T</title><a href="/b">' + b" " * size)[:size]
    path = tmp_path / "body"
    path.write_bytes(body)
    found = await slicer.slice(path, size, replace(HTML, mode=ExtractMode.LINKS))
    value = json.loads(found.data) if isinstance(found, JsonText) else found
    assert isinstance(found, JsonText) is (size > SMALL_BYTES)
    assert value == ["https://a.example/b"]


async def test_an_error_of_a_worker_is_the_caller_s(slicer: FileSlicer, tmp_path: Path) -> None:
    path = tmp_path / "body"
    path.write_bytes(b"{")
    with pytest.raises(SliceError, match="not one JSON document"):
        await slicer.slice(path, 1, JSON)


async def test_a_body_that_is_gone_is_an_error_in_our_words(slicer: FileSlicer, tmp_path: Path) -> None:
    with pytest.raises(SliceError, match="too large, or too intricate"):
        await slicer.slice(tmp_path / "gone", 1, replace(HTML, mode=ExtractMode.LINKS))
