"""The piece of a text that shows best why it was found: plain, on one line, bounded. Pure.

Markdown's own marks and the addresses of links are left out. What the page says stays what it says: it is a
stranger's text, and reaches a model in the envelope only.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final

from .segmenting import compose_text

SNIPPET_CHARS: Final = 300
SEARCHED_CHARS: Final = 60_000
"""Of a longer text the beginning is looked at."""
_MAX_HITS: Final = 100
"""Places of one word that are looked at."""
_CLEANED: Final = 6
"""How many times the length of a piece is cleaned: addresses of links may take most of it."""

_FENCE: Final = re.compile(r"^[ \t]*(?:```|~~~)[^\n]*$", re.MULTILINE)
_LINE_MARK: Final = re.compile(r"^[ \t]*(?:#{1,6}[ \t]+|>[ \t]?|[-*+][ \t]+|\|)", re.MULTILINE)
_RULE: Final = re.compile(r"^[ \t|:=*_-]{3,}$", re.MULTILINE)
_LINK: Final = re.compile(r"!?\[([^\[\]\n]{0,500})\]\([^()\s]{0,2000}(?:\s\"[^\"\n]{0,500}\")?\)")
_EMPHASIS: Final = re.compile(r"(\*\*|__|\*|`)(?=\S)([^*`_\n]{1,300})(?<=\S)\1")
_UNSHOWN: Final = re.compile(
    "[\0-\x1f\x7f-\x9f\u00ad\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
_SPACES: Final = re.compile(r"\s+")


def make_snippet(text: str, terms: Iterable[str], size: int = SNIPPET_CHARS) -> str:
    """About `size` characters of `text`, around most of `terms`; its beginning where there is none of them.

    Looked for in the text as it is; then only what stands around is cleaned, and looked at once more.
    """
    stems = {stem for term in terms if (stem := _stem(fold_text(compose_text(term)).strip()))}
    more = len(text) > SEARCHED_CHARS
    text = text[:SEARCHED_CHARS]
    first, end = 0, len(text)
    if len(text) > _CLEANED * size:
        place = _best_start(fold_text(text), stems, size)
        first = _line_start(text, max(0, place - size))
        end = min(len(text), first + _CLEANED * size)
    plain = clean_markdown(text[first:end])
    before, after = first > 0, more or end < len(text)
    if len(plain) > size:
        start = _best_start(fold_text(plain), stems, size)
        stop = start + size
        if start:
            start, before = _next_word(plain, start), True
        if stop < len(plain):
            space = plain.rfind(" ", stop - 30, stop)
            stop, after = (space if space > start else stop), True
        plain = plain[start:stop].strip()
    return f"{'… ' if before else ''}{plain}{' …' if after else ''}"


def clean_markdown(text: str) -> str:
    """The words of a markdown text on one line."""
    text = _FENCE.sub("", text)
    text = _RULE.sub("", _LINE_MARK.sub("", text))
    text = _LINK.sub(r"\1", text)
    text = _EMPHASIS.sub(r"\2", text)
    return clean_line(text)


def clean_line(text: str) -> str:
    """On one line, without control characters and those that turn the direction of writing."""
    return _SPACES.sub(" ", _UNSHOWN.sub(" ", text)).strip()


def fold_text(text: str) -> str:
    """Lower case, without diacritics, as many characters as before."""
    if text.isascii():
        return text.lower()
    table = _folding()
    for letter in set(text) & table.keys():
        text = text.replace(letter, table[letter])
    return text


@cache
def _folding() -> dict[str, str]:
    """Letters of the alphabets that have case or diacritics, capital ones of ASCII among them."""
    table = {}
    for code in (*range(0x24F + 1), *range(0x370, 0x530), *range(0x1E00, 0x2000)):
        base = unicodedata.normalize("NFD", chr(code))[0].lower()
        if base != chr(code) and len(base) == 1:
            table[chr(code)] = base
    return table


def _best_start(folded: str, stems: Iterable[str], size: int) -> int:
    """Where a piece begins that has most stems, and most of them; 0 where there is none."""
    hits = sorted(hit for stem in stems for hit in _find_all(folded, stem))
    if not hits:
        return 0
    best, best_score, first = hits[0][0], (0, 0), 0
    seen: dict[str, int] = {}
    for place, stem in hits:
        seen[stem] = seen.get(stem, 0) + 1
        while place - hits[first][0] > size * 2 // 3:
            gone = hits[first][1]
            seen[gone] -= 1
            if not seen[gone]:
                del seen[gone]
            first += 1
        score = (len(seen), sum(seen.values()))
        if score > best_score:
            best, best_score = hits[first][0], score
    start = max(0, best - size // 5)
    return min(start, max(0, len(folded) - size))


def _find_all(folded: str, stem: str) -> Iterator[tuple[int, str]]:
    """The first of its places."""
    place = folded.find(stem)
    for _ in range(_MAX_HITS):
        if place < 0:
            return
        yield place, stem
        place = folded.find(stem, place + len(stem))


def _stem(term: str) -> str:
    """What a word and its inflections have in common, roughly: the index finds both."""
    if term.isascii() and " " not in term and len(term) > 5:
        return term[: max(4, len(term) - 3)]
    return term


def _line_start(text: str, place: int) -> int:
    """The line's beginning or, where that is far, the next word's."""
    if place == 0:
        return 0
    line = text.rfind("\n", max(0, place - SNIPPET_CHARS), place)
    return line + 1 if line >= 0 else _next_word(text, place)


def _next_word(plain: str, start: int) -> int:
    space = plain.find(" ", start, start + 30)
    return space + 1 if space >= 0 else start
