"""The yardstick itself: what counts as a word, a cell, an item, and how scores are made of them."""

from __future__ import annotations

import pytest

from benchmarks.extract.scores import (
    StructureTally,
    plain_words,
    read_structure,
    share_found,
    shingle_counts,
    shingle_f1,
    word_f1,
)


@pytest.mark.parametrize(
    ("markdown", "text"),
    [
        pytest.param("a [b](https://c.example/d_(e)) f", "a b f", id="links give their text"),
        pytest.param("a [b](<https://c.example/(d>) e", "a b e", id="in angle brackets too"),
        pytest.param("a ![b](c.png) d", "a  d", id="pictures give nothing"),
        pytest.param("[![a](b)](c)", "", id="nor does a picture that is a link"),
        pytest.param("```python\nx_y\n```", "\nx_y\n", id="fences are no words"),
        pytest.param("a\\_b\\*", "a_b*", id="escapes are undone"),
    ],
)
def test_plain_words(markdown: str, text: str) -> None:
    assert plain_words(markdown) == text


@pytest.mark.parametrize(
    ("text", "truth", "score"),
    [
        pytest.param("a b c", "a b c", 1.0, id="the same"),
        pytest.param("C, b; A!", "a b c", 1.0, id="order, case and signs do not count"),
        pytest.param("a b", "c d", 0.0, id="nothing shared"),
        pytest.param("a a b", "a b b", 2 / 3, id="words count as often as they are there"),
        pytest.param("a b x y", "a b", 2 / 3, id="half of it noise"),
        pytest.param("", "a", 0.0, id="nothing found"),
    ],
)
def test_word_f1(text: str, truth: str, score: float) -> None:
    assert word_f1(text, truth) == pytest.approx(score)


def test_shingles() -> None:
    both, only, missed = shingle_counts("a b c d e x", "a b c d e")

    assert (both, only, missed) == (2 / 3, 1 / 3, 0.0)
    assert shingle_f1([(both, only, missed)]) == pytest.approx(0.8)


def test_snippets_are_found_whatever_the_white_space() -> None:
    assert share_found(["a  B", "c"], "x A\nb y") == [True, False]


def test_structure() -> None:
    bags = read_structure(
        "# A [b](c)\n\n- one\n  - two *x*\n- three\n\n| h | i |\n| --- | --- |\n|  | `j` |\n\n```py\nk\n  l \n```\n"
    )

    assert {name: sorted(bag) for name, bag in bags.items()} == {
        "code": ["k\n  l"],
        "cells": ["h", "i", "j"],
        "headings": ["a b"],
        "items": ["one", "three", "two x"],
    }


def test_recall_and_precision_are_over_all_pages() -> None:
    tally = StructureTally()
    tally.add("# a\n\n# b", "# a")
    tally.add("", "# c\n\n# d")

    assert tally.recall("headings") == pytest.approx(1 / 3)
    assert tally.precision("headings") == 0.5
    assert (tally.recall("code"), tally.precision("code")) == (1.0, 1.0)
