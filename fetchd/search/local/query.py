"""The words of a query as an FTS5 expression. Pure.

    reverse proxy         pages with both words, in any order; after them pages with one
    "reverse proxy"       pages with these words in a row, and no others
    site:example.com      pages of this host and below it only
    東京の天気              read as pairs of neighbouring characters: such scripts set no words apart

Nothing else is an operator: AND, NOT, NEAR, -, *, ^ and column names are words, or no letters. Every term reaches
FTS5 as a string in quotes, with its own quotes doubled, so no query is a syntax error.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from .segmenting import RUN, SEPARATOR, compose_text, is_searchable, segment_text, split_run

MAX_TERMS: Final = 32
"""Words of a query that are looked for; the rest is passed over."""
_PART: Final = re.compile(r'"([^"]*)"|[^\s"]+')
_QUOTES: Final = str.maketrans(dict.fromkeys("“”„‟«»", '"'))
_SITE: Final = re.compile(r"site:(.+)", re.IGNORECASE)
_WORD: Final = re.compile(r"[^\s,;:/|\\()\[\]{}<>!?=&*^~]+")
"""What stays together: FTS5 takes `don't`, `foo.bar`, `x-y` for words in a row."""


@dataclass(frozen=True, slots=True)
class Query:
    """words: each a string FTS5 may take apart. phrases: all must be there. sites: hosts, any of them."""

    words: tuple[str, ...] = ()
    phrases: tuple[str, ...] = ()
    sites: tuple[str, ...] = ()

    @property
    def terms(self) -> tuple[str, ...]:
        """All that can be found in a text."""
        return self.phrases + self.words


def parse_query(text: str) -> Query:
    """Of any text."""
    words: dict[str, None] = {}
    phrases: dict[str, None] = {}
    sites: dict[str, None] = {}
    for part in _PART.finditer(compose_text(text).translate(_QUOTES)):
        if part[1] is not None:
            if is_searchable(part[1]):
                phrases[part[1]] = None
        elif site := _SITE.fullmatch(part[0]):
            sites[site[1]] = None
        else:
            words.update(dict.fromkeys(_split_words(part[0])))
    kept = tuple(phrases)[:MAX_TERMS]
    return Query(tuple(words)[: MAX_TERMS - len(kept)], kept, tuple(sites))


def _split_words(text: str) -> list[str]:
    """The words of a text without spaces; pairs of characters of what sets no words apart."""
    words = []
    position = 0
    for run in RUN.finditer(text):
        words += _WORD.findall(text[position : run.start()])
        units = split_run(run[0])
        words += ["".join(pair) for pair in pairwise(units)] or units
        position = run.end()
    words += _WORD.findall(text[position:])
    return [word for word in words if is_searchable(word)]


def render_term(term: str) -> str:
    """A word or phrase as FTS5 is given it."""
    return '"' + segment_text(term).replace(SEPARATOR, " ").replace('"', '""') + '"'


def render_all(query: Query) -> str:
    """Everything is wanted. "" when there is nothing."""
    return " AND ".join(map(render_term, query.terms))


def render_any(query: Query, words: Sequence[str]) -> str:
    """All phrases, and one of these words at least. "" when there is nothing."""
    parts = [render_term(phrase) for phrase in query.phrases]
    if words:
        parts.append(f"({' OR '.join(map(render_term, words))})")
    return " AND ".join(parts)
