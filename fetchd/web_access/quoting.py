"""Whether a quoted text stands on a page, whatever became of its spacing and typography on the way. Pure.

Both are read as their words alone, in order: letter case, punctuation, quotation marks, dashes, white space, soft
hyphens and markdown count for nothing, compatibility forms (ligatures, full width, non-breaking spaces) are what
they stand for. A quote that is cut, also inside a word, is a quote; one with an ellipsis is its parts, in order.
What is left is to be found in one piece: a word changed, added or left out is another text.
"""

import re
from typing import Final

from fetchd.core.normal_forms import normalize_text

_TARGETS: Final = re.compile(r"\]\([^()\s]*(?:\([^()\s]*\)[^()\s]*)*\)")
"""Of markdown links: addresses that stand between words nobody sees them between."""
_MARKS: Final = re.compile("[*_`\\\\~\u00ad\u200b-\u200f\u2060\ufeff]")
"""Markup inside words, and characters without a width."""
_WORDS: Final = re.compile(r"[^\W_]+")
_ELLIPSIS: Final = re.compile(r"\[?(?:\u2026|\.{3,})\]?")


def read_words(text: str) -> str:
    """The words of a text, each after one space."""
    plain = normalize_text("NFKC", _MARKS.sub("", _TARGETS.sub("] ", text))).casefold()
    return "".join(f" {word}" for word in _WORDS.findall(plain))


def split_quote(quote: str) -> list[str]:
    """The words of each part of a quote; none where it says nothing."""
    return [words for part in _ELLIPSIS.split(quote) if (words := read_words(part).strip())]


def stands_in(parts: list[str], words: str) -> bool:
    """Whether all parts stand in a page's words, one after the other."""
    start = 0
    for part in parts:
        found = words.find(part, start)
        if found < 0:
            return False
        start = found + len(part)
    return True
