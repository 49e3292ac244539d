"""Text as it is indexed: folded, composed, and taken apart where a script sets no words apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetchd.search.local.segmenting import MAX_CHARS, SEPARATOR, compose_text, segment_text, split_run


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("café", "cafe\u0301", id="an accent composed or not"),
        pytest.param("café", "CAFE", id="an accent left out, and case"),
        pytest.param("Straße", "STRASSE", id="sharp s"),
        pytest.param("ёлка", "ЕЛКА", id="diaeresis in Cyrillic"),
        pytest.param("Αθήνα", "αθηνα", id="tonos in Greek"),
        pytest.param("ｆｕｌｌ", "full", id="full-width letters"),
        pytest.param("ﬁle", "file", id="a ligature"),
        pytest.param("ｶﾀｶﾅ", "カタカナ", id="half-width katakana"),
        pytest.param("ガ", "カ\u3099", id="a voiced sound composed or not"),
        pytest.param("한국", "\u1112\u1161\u11ab\u1100\u116e\u11a8", id="Hangul composed or not"),
    ],
)
def test_two_spellings_are_one_word(one: str, other: str) -> None:
    def folded(text: str) -> str:
        return segment_text(text).casefold()

    assert folded(one) == folded(other)


def test_a_voiced_sound_stays_another_letter() -> None:
    assert segment_text("が") != segment_text("か")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("東京の天気", ["東", "京", "の", "天", "気"], id="Japanese"),
        pytest.param("한국어", ["한", "국", "어"], id="Korean"),
        pytest.param("abc東京def", ["abc", "東", "京", "def"], id="beside Latin"),
        pytest.param("ที่นี่", ["ที่", "นี่"], id="Thai, marks with their letters"),
        pytest.param("हिन्दी भाषा", ["हिन्दी भाषा"], id="Hindi sets words apart itself"),
        pytest.param("𠀀𠀁", ["𠀀", "𠀁"], id="Han beyond the first plane"),
        pytest.param("plain words", ["plain words"], id="Latin"),
    ],
)
def test_characters_of_scripts_without_spaces_are_words(text: str, words: list[str]) -> None:
    assert [part for part in segment_text(text).split(SEPARATOR) if part] == words


@pytest.mark.parametrize(
    ("text", "length"),
    [
        pytest.param(
            f"a{'\u0301' * 500}{'\u0316' * 500}b", 2, id="marks whose sorting takes the square of them"
        ),
        pytest.param("\ufdfa" * MAX_CHARS, MAX_CHARS, id="characters that stand for eighteen"),
    ],
)
def test_what_a_page_takes_is_bounded_by_its_length(text: str, length: int) -> None:
    assert length == len(segment_text(text))
    assert len(compose_text(text)) <= max(length, 40)


@given(st.text())
def test_any_text_is_segmented_into_what_utf_8_carries(text: str) -> None:
    segmented = segment_text(text)
    segmented.encode("utf-8")
    assert "\0" not in segmented
    assert segment_text(compose_text(text)) == segmented
    assert isinstance(split_run(text), list)
