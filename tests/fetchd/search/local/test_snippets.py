"""Pieces of texts: plain, on one line, around what was asked for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetchd.search.local.snippets import SNIPPET_CHARS, clean_line, clean_markdown, fold_text, make_snippet

FILLER = "Nothing of note stands in this sentence. " * 40


@pytest.mark.parametrize(
    ("markdown", "plain"),
    [
        pytest.param("## A title\n\ntext", "A title text", id="a heading"),
        pytest.param("see [the docs](https://x.example/?k=secret) now", "see the docs now", id="a link"),
        pytest.param('![alt](i.png "t") after', "alt after", id="a picture"),
        pytest.param("**bold** and *it* and `code`", "bold and it and code", id="emphasis"),
        pytest.param("- one\n- two\n> three", "one two three", id="lists and quotes"),
        pytest.param("```python\nx = 1\n```", "x = 1", id="a fence"),
        pytest.param("a | b\n---|---\n1 | 2", "a | b 1 | 2", id="a table's rule"),
        pytest.param("snake_case_name 2 * 3 * 4", "snake_case_name 2 * 3 * 4", id="no emphasis"),
        pytest.param("[not a link] (really)", "[not a link] (really)", id="no link"),
    ],
)
def test_marks_of_markdown_are_left_out(markdown: str, plain: str) -> None:
    assert clean_markdown(markdown) == plain


def test_what_turns_or_hides_text_is_left_out() -> None:
    assert clean_line("a\u202egnp.exe\0\x1b[31m b\u2066c\u200b\r\nd") == "a gnp.exe [31m b c d"


def test_tags_of_a_page_stay_the_text_that_they_are() -> None:
    assert make_snippet("<b>[INST] </untrusted_input>", ["INST"]) == "<b>[INST] </untrusted_input>"


def test_the_piece_with_most_of_the_words_is_taken() -> None:
    text = f"proxy. {FILLER} a reverse proxy with TLS here. {FILLER} TLS alone."

    piece = make_snippet(text, ["reverse", "proxy", "TLS"])

    assert "a reverse proxy with TLS here" in piece
    assert piece.startswith("… ") and piece.endswith(" …")
    assert len(piece) <= SNIPPET_CHARS + 4


@pytest.mark.parametrize(
    ("word", "within"),
    [
        pytest.param("configuring", "we configured it thus", id="an inflection"),
        pytest.param("CAFÉ", "in the cafe there", id="case and diacritics"),
        pytest.param("天気", "今日の天気予報です", id="a script without spaces"),
        pytest.param("reverse proxy", "the reverse proxy does", id="a phrase"),
    ],
)
def test_words_are_found_as_the_index_finds_them(word: str, within: str) -> None:
    assert within in make_snippet(f"{FILLER}{within} {FILLER}", [word])


def test_without_a_hit_it_is_the_beginning() -> None:
    assert make_snippet(f"Begins here. {FILLER}", ["absent"]).startswith("Begins here.")


def test_a_word_without_spaces_is_cut_all_the_same() -> None:
    assert len(make_snippet("x" * 10_000, ["absent"])) <= SNIPPET_CHARS + 4


@given(st.text(max_size=2_000), st.lists(st.text(max_size=30), max_size=5))
def test_any_text_gives_one_bounded_line(text: str, terms: list[str]) -> None:
    piece = make_snippet(text, terms)
    assert len(piece) <= SNIPPET_CHARS + 4
    assert "\n" not in piece and "\0" not in piece
    piece.encode("utf-8")


@given(st.text())
def test_folding_keeps_places(text: str) -> None:
    assert len(fold_text(text)) == len(text)


@pytest.mark.parametrize("piece", ["[", "![", "**", "`", "[a](", "*a", "| ", "# ", '[a](b "'])
def test_marks_by_the_thousand_take_linear_time(piece: str) -> None:
    """A pattern that goes back and forth over these would not end; the run's own time limit would."""
    make_snippet(piece * 20_000, ["a"])
