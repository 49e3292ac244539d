"""What of a block, its neighbours and its page tells content from boilerplate, as numbers."""

import math
import re
from collections import Counter
from collections.abc import Mapping
from typing import Final

from lxml import etree

from . import surroundings
from .segments import Block, Page
from .surroundings import Surroundings

_MARKS = re.compile(r"[.,;:!?…](?=\s|$|[\"'”)\u2019])|[。、\uff0c\uff01\uff1f]")
_END = re.compile(r"[.!?…。:;\uff01\uff1f][\"'”)\]\u2019]*$")
_CAPITAL = re.compile(r"\b[A-Z]")
_DIGIT = re.compile(r"\d")
_WORD = re.compile(r"\w+")

_KINDS: Final = {
    "p": 1, "h1": 2, "h2": 3, "h3": 3, "h4": 4, "h5": 4, "h6": 4, "li": 5, "td": 6, "th": 6, "pre": 7,
    "blockquote": 8, "dt": 9, "dd": 9, "figcaption": 10, "button": 11, "div": 12, "section": 12,
}  # fmt: skip
_TYPES: Final = {"article": 1, "website": 2, "product": 3}
_OPEN_GRAPH_TYPE = etree.XPath("string((/html/head/meta[@property='og:type']/@content)[1])")
_NO_NEIGHBOUR: Final = (0.0, 0.0, -1.0)

NAMES: Final = (
    *"chars words link_share marks_per_word ends_sentence capitals digits kind images".split(),
    *surroundings.NAMES,
    *"best_before best_after position from_end h1_before h1_distance".split(),
    *"prev_chars prev_links prev_kind next_chars next_links next_kind prev2_chars next2_chars".split(),
    *"around_chars same_text in_title".split(),
    *"best_links page_chars page_links page_long page_blocks page_articles page_type page_comments".split(),
    "outside_comments",
)
"""chars, words and blocks are logarithms; links and shares 0..1; prev, next: the blocks before and after; up1 to up3:
the frames around, each the next that holds clearly more; best: the frame around most of the long text."""


def block_features(page: Page, weights: Mapping[str, float]) -> list[list[float]]:
    """A row of NAMES for each block. weights: of words in class, id and role names."""
    blocks, root = page.blocks, page.frames[0]
    around = Surroundings(page, weights)
    page_row = _page_row(page, around)
    best_first, best_last = around.best.first, around.best.first + around.best.blocks
    total = max(root.chars, 1)
    title = " ".join((root.element.findtext("head/title") or "").split()).lower()
    heading = next((n for n, block in enumerate(blocks) if block.frame.tag == "h1"), -1)
    same = Counter(block.text for block in blocks)
    shapes = [_shape(block) for block in blocks]
    chars = [shape[0] for shape in shapes]
    last = len(blocks) - 1
    rows = []
    for n, block in enumerate(blocks):
        text = block.text
        rows.append(
            [
                *_text_row(block, shapes[n]),
                *around.row(block.frame),
                max(0, best_first - n),
                max(0, n - best_last),
                block.start / total,
                min(total - block.start, 5000),
                1.0 if heading < 0 or n < heading else 0.0,
                min(n - heading, 200) if heading >= 0 else -1,
                *(shapes[n - 1] if n else _NO_NEIGHBOUR),
                *(shapes[n + 1] if n < last else _NO_NEIGHBOUR),
                chars[n - 2] if n > 1 else 0.0,
                chars[n + 2] if n + 1 < last else 0.0,
                max(chars[max(0, n - 4) : n + 5]),
                min(same[text], 10),
                1.0 if 10 < len(text) < 300 and text.lower() in title else 0.0,
                *page_row,
            ]
        )
    return rows


def _shape(block: Block) -> tuple[float, float, float]:
    size = len(block.text)
    return math.log2(1 + size), block.link_chars / size if size else 0.0, _KINDS.get(block.frame.tag, 0)


def _text_row(block: Block, shape: tuple[float, float, float]) -> list[float]:
    text = block.text
    words = len(_WORD.findall(text))
    return [
        shape[0],
        math.log2(1 + words),
        shape[1],
        len(_MARKS.findall(text)) / (words + 1),
        1.0 if _END.search(text, max(0, len(text) - 20)) else 0.0,
        len(_CAPITAL.findall(text)) / (words + 1),
        len(_DIGIT.findall(text)) / max(len(text), 1),
        shape[2],
        min(len(block.images), 5),
    ]


def _page_row(page: Page, around: Surroundings) -> list[float]:
    root, best = page.frames[0], around.best
    total = max(root.chars, 1)
    return [
        best.link_chars / max(best.chars, 1),
        math.log2(1 + total),
        root.link_chars / total,
        root.long_chars / total,
        math.log2(1 + len(page.blocks)),
        min(around.articles, 20),
        _TYPES.get(_OPEN_GRAPH_TYPE(root.element).strip().lower(), 0),
        around.comment_chars / total,
        math.log2(1 + total - around.comment_chars),
    ]
