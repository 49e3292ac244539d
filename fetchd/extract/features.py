"""What of a block and its surroundings tells content from boilerplate, as numbers."""

import math
import re
from collections import Counter
from collections.abc import Mapping
from typing import Final

from lxml import etree

from .segments import Block, Frame, Page

_MARKS = re.compile(r"[.,;:!?…。、，！？](?=\s|$|[\"'”’)])|[。、，！？]")
_CAPITAL = re.compile(r"\b[A-Z]")
_DIGIT = re.compile(r"\d")
_WORD = re.compile(r"\w+")
_END = re.compile(r"[.!?…。！？:;][\"'”’)\]]*$")

_KINDS: Final = {
    "p": 1, "h1": 2, "h2": 3, "h3": 3, "h4": 4, "h5": 4, "h6": 4, "li": 5, "td": 6, "th": 6, "pre": 7,
    "blockquote": 8, "dt": 9, "dd": 9, "figcaption": 10, "button": 11, "div": 12, "section": 12,
}  # fmt: skip
_FLAGS: Final = (
    "nav",
    "header",
    "footer",
    "aside",
    "form",
    "main",
    "article",
    "ul",
    "table",
    "figure",
    "dialog",
    "button",
)
_FLAG_OF: Final = {name: 1 << index for index, name in enumerate(_FLAGS)} | {"ol": 1 << _FLAGS.index("ul")}

NAMES: Final = (
    "chars words link_share marks_per_word ends_sentence capitals digits kind images "
    "nav header footer aside form main article list table figure dialog button depth "
    "token_own token_parent token_min token_max token_sum "
    "own_chars own_links own_children "
    "up1_chars up1_links up1_blocks up1_long up1_share "
    "up2_chars up2_links up2_blocks up2_long up2_share "
    "up3_chars up3_links up3_blocks up3_long up3_share "
    "twins twins_up "
    "best_in best_distance best_share best_before best_after best_links "
    "page_chars page_links page_long page_blocks page_articles "
    "position from_end h1_before h1_distance "
    "prev_chars prev_links prev_kind next_chars next_links next_kind prev2_chars next2_chars around_long same_text "
    "in_title page_type in_comments page_comments outside_comments"
).split()


_CLIMB: Final = 24
"""Levels that are climbed for a frame's surroundings."""
_COMMENTS: Final = frozenset(("comment", "comments", "commentlist", "disqus", "replies", "respond"))
_TYPES: Final = {"article": 1, "website": 2, "product": 3}
_OPEN_GRAPH_TYPE = etree.XPath("string((/html/head/meta[@property='og:type']/@content)[1])")


def block_features(page: Page, weights: Mapping[str, float]) -> list[list[float]]:
    """A row of NAMES for each block. weights: of words in class, id and role names."""
    blocks, frames = page.blocks, page.frames
    root = frames[0]
    total = max(root.chars, 1)
    log = math.log2
    best = best_frame(page)
    best_first, best_last = best.first, best.first + best.blocks
    inside_best: set[int] = set()
    info: dict[int, tuple[int, float, float, float, float, float]] = {}
    twins: Counter[tuple[int, str, frozenset[str]]] = Counter()
    articles = 0
    # flags, own weight, least, most, sum; in order of start tags, so that parents come first
    for frame in frames:
        parent = frame.parent
        own = 0.0
        for token in frame.tokens:
            own += weights.get(token, 0.0)
        flag = _FLAG_OF.get(frame.tag, 0)
        if parent is None:
            info[id(frame)] = (flag, own, own, own, own, 0)
        else:
            flags, upper, least, most, tally, _ = info[id(parent)]
            info[id(frame)] = (flags | flag, own, min(least, own), max(most, own), tally + own, upper)
            twins[id(parent), frame.tag, frame.tokens] += 1
            if parent is best or id(parent) in inside_best:
                inside_best.add(id(frame))
        if frame.tag == "article":
            articles += 1
    inside_best.add(id(best))
    best_path = set()
    step: Frame | None = best
    while step is not None:
        best_path.add(id(step))
        step = step.parent

    meeting: dict[int, int] = {}  # depth of the last frame shared with the path to the best one
    for frame in frames:
        on_path = frame.parent is None or id(frame) in best_path
        meeting[id(frame)] = frame.depth if on_path else meeting[id(frame.parent)]
    in_comments: set[int] = set()
    comment_chars = 0
    for frame in frames:
        if id(frame.parent) in in_comments:
            in_comments.add(id(frame))
        elif frame.parent is not None and not _COMMENTS.isdisjoint(frame.tokens):
            in_comments.add(id(frame))
            comment_chars += frame.chars
    comment_row = [comment_chars / total, log(1 + total - comment_chars)]
    title = " ".join((root.element.findtext("head/title") or "").split()).lower()
    page_type = _TYPES.get(_OPEN_GRAPH_TYPE(root.element).strip().lower(), 0)

    frame_rows: dict[int, list[float]] = {}
    page_row = [
        log(1 + total),
        root.link_chars / total,
        root.long_chars / total,
        log(1 + len(blocks)),
        min(articles, 20),
    ]
    best_row = [best.chars / total, best.link_chars / max(best.chars, 1)]

    same = Counter(block.text for block in blocks)
    chars_of = [log(1 + len(block.text)) for block in blocks]
    links_of = [block.link_chars / len(block.text) if block.text else 0.0 for block in blocks]
    kind_of = [_KINDS.get(block.frame.tag, 0) for block in blocks]
    heading = next((n for n, block in enumerate(blocks) if block.frame.tag == "h1"), -1)
    count = len(blocks)
    rows = []
    for n, block in enumerate(blocks):
        text = block.text
        size = max(len(text), 1)
        words = len(_WORD.findall(text))
        frame = block.frame
        key = id(frame)
        context = frame_rows.get(key)
        if context is None:
            flags, own, least, most, tally, upper = info[key]
            context = [1.0 if flags & 1 << bit else 0.0 for bit in range(len(_FLAGS))]
            context += [min(frame.depth, 40), own, upper, least, most, tally]
            context += [log(1 + frame.chars), frame.link_chars / max(frame.chars, 1), min(frame.children, 50)]
            step = frame
            chars = frame.chars
            for level in range(3):
                # the next frame up that holds clearly more
                climbed = 0
                while step.parent is not None and step.chars < chars * 1.5 + 20 and climbed < _CLIMB:
                    step = step.parent
                    climbed += 1
                chars = step.chars
                inner = max(chars, 1)
                context += [
                    log(1 + chars),
                    step.link_chars / inner,
                    log(1 + step.blocks),
                    step.long_chars / inner,
                    chars / total,
                ]
            parent = frame.parent
            context.append(min(twins[id(parent), frame.tag, frame.tokens], 50))
            upward = 1
            step = parent
            for _ in range(4):
                if step is None or step.parent is None:
                    break
                upward = max(upward, twins[id(step.parent), step.tag, step.tokens])
                step = step.parent
            context.append(min(upward, 50))
            context += [1.0 if key in inside_best else 0.0, best.depth - meeting[key], best_row[0]]
            frame_rows[key] = context
        rows.append(
            [
                chars_of[n], log(1 + words), links_of[n], len(_MARKS.findall(text)) / (words + 1),
                1.0 if _END.search(text) else 0.0, len(_CAPITAL.findall(text)) / (words + 1),
                len(_DIGIT.findall(text)) / size, kind_of[n], min(len(block.images), 5),
                *context,
                max(0, best_first - n), max(0, n - best_last), best_row[1],
                *page_row,
                block.start / total, total - block.start if total - block.start < 5000 else 5000,
                1.0 if heading < 0 or n < heading else 0.0, min(n - heading, 200) if heading >= 0 else -1,
                chars_of[n - 1] if n else 0, links_of[n - 1] if n else 0, kind_of[n - 1] if n else -1,
                chars_of[n + 1] if n + 1 < count else 0, links_of[n + 1] if n + 1 < count else 0,
                kind_of[n + 1] if n + 1 < count else -1,
                chars_of[n - 2] if n > 1 else 0, chars_of[n + 2] if n + 2 < count else 0,
                max(chars_of[max(0, n - 4) : n + 5]), min(same[text], 10),
                1.0 if 10 < size < 300 and text.lower() in title else 0.0, page_type,
                1.0 if key in in_comments else 0.0, *comment_row,
            ]
        )  # fmt: skip
    return rows


def best_frame(page: Page) -> Frame:
    """The frame around most of the long text, as readability finds it."""
    for frame in page.frames:
        frame.score = 0.0
    for block in page.blocks:
        size = len(block.text)
        if size > 25 and block.link_chars * 2 < size:
            points = 1 + min(size / 100, 6) + block.text.count(",")
            step: Frame | None = block.frame
            share = 1.0
            for _ in range(4):
                if step is None:
                    break
                step.score += points * share
                step = step.parent
                share *= 0.6
    return max(page.frames, key=lambda frame: frame.score * (1 - frame.link_chars / max(frame.chars, 1)))
