"""Error bodies as one line: 2,000 bytes at a character boundary, then escaped."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetchd.core.failures import FailureKind
from fetchd.search.providers.errors import MAX_ERROR_BYTES, render_body, render_error, unreadable_error


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        pytest.param(b"", "(empty body)", id="nothing"),
        pytest.param(b"upstream down", "upstream down", id="plain text as it is"),
        pytest.param(b"a\nb\r\nc\td", r"a\nb\r\nc\td", id="the named ones"),
        pytest.param(b"\x1b[2J\x00\x7f", r"\u{001b}[2J\u{0000}\u{007f}", id="others by their number"),
        pytest.param("\x85\x9b".encode(), r"\u{0085}\u{009b}", id="C1 controls too"),
        pytest.param(rb"a\nb", r"a\nb", id="a backslash of its own is not doubled"),
        pytest.param('{"é":"世"}'.encode(), '{"é":"世"}', id="other scripts as they are"),
        pytest.param(b"\xff\xfe", "\ufffd\ufffd", id="bytes that are no UTF-8"),
        pytest.param(b"a\xe4\xb8", "a\ufffd", id="a body that ends inside a character"),
        pytest.param(b"x" * 2000, "x" * 2000, id="exactly 2,000 bytes"),
        pytest.param(b"x" * 2001, "x" * 2000, id="one more is cut"),
        pytest.param(b"x" * 1998 + "世".encode() + b"y" * 9, "x" * 1998, id="cut after one byte of three"),
        pytest.param(b"x" * 1999 + "世".encode() + b"y" * 9, "x" * 1999, id="cut after two bytes of three"),
        pytest.param(b"x" * 1997 + "世".encode() + b"y", "x" * 1997 + "世", id="cut between two characters"),
        pytest.param(b"x" * 1996 + "😀".encode() + b"y", "x" * 1996 + "😀", id="four bytes that fit"),
        pytest.param(b"x" * 1999 + b"\n" + b"y", "x" * 1999 + r"\n", id="cut first, escaped afterwards"),
        pytest.param(b"\xff" * 3000, "\ufffd" * 2000, id="binary, cut"),
    ],
)
def test_bodies(body: bytes, shown: str) -> None:
    assert render_body(body) == shown


def test_the_two_messages() -> None:
    assert render_error(502, b"upstream down").message == "backend returned 502: upstream down"
    assert render_error(503, b"").message == "backend returned 503: (empty body)"
    assert unreadable_error(500).message == "backend returned 500, and its error body could not be read"
    assert {render_error(502, b"").kind, unreadable_error(502).kind} == {FailureKind.BACKEND}


@given(st.binary(max_size=300) | st.text(max_size=300).map(lambda text: text.encode("utf-8", "replace")))
def test_any_bytes_are_one_line_without_control_characters(body: bytes) -> None:
    shown = render_body(body * 10)

    assert shown
    assert re.search(r"[\x00-\x1f\x7f-\x9f]", shown) is None
    assert len(shown) <= MAX_ERROR_BYTES * 8
