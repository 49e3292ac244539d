"""Scores of an extraction against its truth.

WCXB: F1 over the bag of lower-cased words. article-extraction: F1 over the bag of 4-word shingles, counts made
relative to each page, precision and recall averaged over pages. defuddle-md: recall and precision of the bodies
of code blocks, table cells, headings and list items, each an exact match but for white space, summed over pages.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from markdown_it import MarkdownIt
from markdown_it.token import Token

_WORD = re.compile(r"\w+")
_SPACES = re.compile(r"\s+")
_TARGET = r"\((?:<[^>\n]*>|(?:[^()\s]|\((?:[^()\s]|\([^()\s]*\))*\))*)(?:\s+\"[^\"\n]*\")?\)"
_IMAGE = re.compile(r"!\[[^\[\]\n]*\]" + _TARGET)
_LINK = re.compile(r"\[([^\[\]]*)\]" + _TARGET)
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
_FENCE = re.compile(r"^\s*(?:`{3,}|~{3,}).*$", re.MULTILINE)

STRUCTURES = ("code", "cells", "headings", "items")


def plain_words(markdown: str) -> str:
    """The text of markdown without its marks: links give their text, images nothing."""
    text = _FENCE.sub("", markdown)
    text = _IMAGE.sub("", text)
    text = _LINK.sub(r"\1", text)
    return _ESCAPE.sub(r"\1", text)


def word_f1(text: str, truth: str) -> float:
    """0..1; 1 when both have no words."""
    return _f1(*_overlap(_words(text), _words(truth)))


def share_found(snippets: Iterable[str], text: str) -> list[bool]:
    """For each snippet whether it is in the text; white space and letter case do not count."""
    text = _flat(text)
    return [_flat(snippet) in text for snippet in snippets]


def shingle_counts(text: str, truth: str) -> tuple[float, float, float]:
    """True positives, false positives and false negatives of 4-word shingles, as shares of their sum."""
    found, wanted = _shingles(text), _shingles(truth)
    both = (found & wanted).total()
    only, missed = found.total() - both, wanted.total() - both
    total = both + only + missed
    return (both / total, only / total, missed / total) if total else (0.0, 0.0, 0.0)


def shingle_f1(pages: Iterable[tuple[float, float, float]]) -> float:
    """F1 of the averages of precision and recall over `shingle_counts` of each page."""
    precisions, recalls = [], []
    for both, only, missed in pages:
        if both + only:
            precisions.append(both / (both + only))
        if both + missed:
            recalls.append(both / (both + missed))
    return _f1(sum(precisions) / len(precisions), sum(recalls) / len(recalls))


@dataclass(slots=True)
class StructureTally:
    """Matches, found and wanted, for each of STRUCTURES."""

    matched: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)
    wanted: Counter[str] = field(default_factory=Counter)

    def add(self, markdown: str, truth: str) -> None:
        """Count one page."""
        ours, theirs = read_structure(markdown), read_structure(truth)
        for name in STRUCTURES:
            self.matched[name] += (ours[name] & theirs[name]).total()
            self.found[name] += ours[name].total()
            self.wanted[name] += theirs[name].total()

    def recall(self, name: str) -> float:
        """0..1."""
        return self.matched[name] / self.wanted[name] if self.wanted[name] else 1.0

    def precision(self, name: str) -> float:
        """0..1."""
        return self.matched[name] / self.found[name] if self.found[name] else 1.0


def read_structure(markdown: str) -> dict[str, Counter[str]]:
    """The bags of STRUCTURES as a CommonMark parser with tables reads them."""
    bags: dict[str, Counter[str]] = {name: Counter() for name in STRUCTURES}
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(markdown)
    items: list[list[str]] = []
    for position, token in enumerate(tokens):
        match token.type:
            case "fence" | "code_block":
                body = "\n".join(line.rstrip() for line in token.content.strip("\n").split("\n"))
                bags["code"][body] += 1
            case "list_item_open":
                items.append([])
            case "list_item_close":
                text = _flat(" ".join(items.pop()))
                if text:
                    bags["items"][text] += 1
            case "inline":
                text = _inline_text(token)
                opener = tokens[position - 1].type
                if opener in ("td_open", "th_open"):
                    if text:
                        bags["cells"][text] += 1
                elif opener == "heading_open":
                    if text:
                        bags["headings"][text] += 1
                elif items:
                    items[-1].append(text)
    return bags


def _inline_text(token: Token) -> str:
    parts = []
    for child in token.children or ():
        if child.type in ("text", "code_inline"):
            parts.append(child.content)
        elif child.type in ("softbreak", "hardbreak") or (
            child.type == "html_inline" and child.content.lower().startswith("<br")
        ):
            parts.append(" ")
    return _flat("".join(parts))


def _flat(text: str) -> str:
    return _SPACES.sub(" ", text).strip().lower()


def _words(text: str) -> Counter[str]:
    return Counter(_WORD.findall(text.lower()))


def _shingles(text: str) -> Counter[tuple[str, ...]]:
    tokens = _WORD.findall(text)
    size = min(4, len(tokens)) or 1
    return Counter(tuple(tokens[start : start + size]) for start in range(len(tokens) - size + 1) if tokens)


def _overlap[T: Hashable](found: Counter[T], wanted: Counter[T]) -> tuple[float, float]:
    both = (found & wanted).total()
    if not found and not wanted:
        return 1.0, 1.0
    return both / max(found.total(), 1), both / max(wanted.total(), 1)


def _f1(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0
