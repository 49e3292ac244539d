"""Whether a quote stands on a page: what counts, and what does not."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetchd.web_access.quoting import read_words, split_quote, stands_in

PAGE = """# What **Rust** is

Rust\u00a0is a *systems* language \u2014 it\u2019s [fast](https://docs.rs/a_(b)), \u201csafe\u201d and
con\u00adcurrent. The \ufb01rst ver\u200bsion came in 2015. `cargo build` makes it.
\u65e5\u672c\u8a9e\u306e\u672c\u6587\u3002
"""

QUOTES = [
    # what it says, quote, whether it stands there
    ("as it is", "The first version came in 2015.", True),
    ("white space and lines", "Rust is a  systems\nlanguage", True),
    ("typographic marks", 'it\'s fast, "safe" and concurrent', True),
    ("a dash of another length", "systems language - it's fast", True),
    ("markup inside", "**Rust** is a _systems_ language", True),
    ("another letter case", "RUST IS A SYSTEMS LANGUAGE", True),
    ("soft hyphens, ligatures, zero width", "concurrent. The \ufb01rst version", True),
    ("cut inside a word", "ystems language \u2014 it\u2019s fas", True),
    ("an ellipsis at the end", "Rust is a systems...", True),
    ("an ellipsis between parts in order", "Rust is a \u2026 The first version", True),
    ("[...] between parts", "Rust is a [...] came in 2015", True),
    ("parts in another order", "The first version ... Rust is a systems", False),
    ("across a link", "it's fast safe and", True),
    ("without spaces between words", "\u65e5\u672c\u8a9e\u306e\u672c\u6587", True),
    ("a word changed", "Rust is a scripting language", False),
    ("a word left out", "Rust is a language", False),
    ("a word added", "Rust is a new systems language", False),
    ("a number changed", "The first version came in 2016", False),
    ("words from elsewhere", "Zig is faster", False),
]


@pytest.mark.parametrize(("what", "quote", "found"), QUOTES, ids=[row[0] for row in QUOTES])
def test_what_counts_of_a_quote(what, quote, found):
    assert stands_in(split_quote(quote), read_words(PAGE)) is found


@pytest.mark.parametrize("quote", ["", " \n", "...", "\u2026", "\u201c\u201d", "**", "\u200b"])
def test_a_quote_without_a_word_says_nothing(quote):
    assert split_quote(quote) == []


@given(st.text(), st.text(alphabet=st.characters(categories=["L", "N"]), min_size=1), st.text())
def test_what_is_on_a_page_is_found_there(before, quote, after):
    words = read_words(f"{before} {quote} {after}")
    assert stands_in(split_quote(quote), words)


@pytest.mark.parametrize("page", ["](" * 100_000, "](" + "(" * 200_000, "[a](b(" * 50_000, "*" * 500_000])
def test_a_page_made_to_be_slow_is_not(page):
    began = time.process_time()
    read_words(page)
    assert time.process_time() - began < 5
