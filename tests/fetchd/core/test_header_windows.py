"""SPEC 2: the provenance header, and max_chars as characters."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetchd.core.header import Extraction, render_page_text
from fetchd.core.windows import cut_text


def test_three_lines_a_blank_one_and_the_content() -> None:
    text = render_page_text("https://a.example/?q=1", True, Extraction.RAW_HTML, "# T\n\nx")

    assert text == "url: https://a.example/?q=1\ntruncated: true\nextraction: raw-html\n\n# T\n\nx"


def test_empty_content_keeps_the_blank_line() -> None:
    assert render_page_text("https://a/", False, Extraction.PLAIN, "").endswith("extraction: plain\n\n")


@pytest.mark.parametrize(
    ("text", "max_chars", "shown", "truncated"),
    [
        pytest.param("abc", 4, "abc", False, id="shorter is whole"),
        pytest.param("abc", 3, "abc", False, id="exactly max_chars is whole"),
        pytest.param("abcd", 3, "abc", True, id="one more is cut"),
        pytest.param("", 1, "", False, id="nothing is whole"),
        pytest.param(
            "\U0001f600\U0001f600", 1, "\U0001f600", True, id="a character is no UTF-16 unit and no byte"
        ),
        pytest.param("e\u0301x", 2, "e\u0301", True, id="a combining mark is a character of its own"),
    ],
)
def test_cutting(text: str, max_chars: int, shown: str, truncated: bool) -> None:
    window = cut_text(text, max_chars)

    assert (window.text, window.truncated) == (shown, truncated)


@given(st.text(), st.integers(1, 40))
def test_a_window_is_the_leading_part(text: str, max_chars: int) -> None:
    window = cut_text(text, max_chars)

    assert text.startswith(window.text)
    assert window.truncated == (window.text != text)
    assert len(window.text) == min(len(text), max_chars)
