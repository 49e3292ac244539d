"""Normal forms: Unicode's own, but no run of marks is longer than the sorting of it allows."""

from __future__ import annotations

import unicodedata
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetchd.core.normal_forms import MAX_MARKS, normalize_text

type Form = Literal["NFC", "NFD", "NFKC", "NFKD"]
FORMS: tuple[Form, ...] = ("NFC", "NFD", "NFKC", "NFKD")


def longest_run(text: str) -> int:
    """Of characters that are sorted among one another."""
    longest = run = 0
    for character in unicodedata.normalize("NFKD", text):
        run = run + 1 if unicodedata.combining(character) else 0
        longest = max(longest, run)
    return longest


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "marks",
    [
        pytest.param("\u0301" * 400 + "\u0316" * 400, id="above, then below"),
        pytest.param("\u0301\u0316" * 400, id="in turns"),
        pytest.param("\u0f73" * 400 + "\u0316" * 400, id="starters that decompose into marks"),
        pytest.param("\uff9e" * 400 + "\u0316" * 400, id="letters that stand for marks"),
        pytest.param("\u0344" * 400, id="two marks in one"),
        pytest.param("\U0001d165" * 400 + "\U0001d16d" * 400, id="beyond the first plane"),
        pytest.param("\u0301" * 29 + "\U0001d165" * 400 + "\u0301" * 400, id="of both kinds"),
    ],
)
def test_a_run_of_marks_is_cut(form: Form, marks: str) -> None:
    normal = normalize_text(form, f"a{marks}b")

    assert longest_run(normal) <= 3 * MAX_MARKS
    assert normal.endswith("b")


@pytest.mark.parametrize("form", FORMS)
def test_what_people_write_is_as_unicode_has_it(form: Form) -> None:
    text = "".join(f"x{chr(code)}\u0301\u0316" for code in range(0x80, 0x3100)) + "ｶﾞ Ⅷ ﬁ 𝔄 각 \U0001d15e"

    assert normalize_text(form, text) == unicodedata.normalize(form, text)


@given(st.text(), st.sampled_from(FORMS))
def test_any_text_has_one_normal_form(text: str, form: Form) -> None:
    normal = normalize_text(form, text)

    assert normalize_text(form, normal) == normal
