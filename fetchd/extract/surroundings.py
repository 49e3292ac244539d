"""What the elements around a block say of it: their tags, the words in their names, how much text they hold."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from .article_pages import COMMENTS
from .segments import Frame, Page

_FLAGS: Final = (
    "nav", "header", "footer", "aside", "form", "main", "article", "ul", "table", "figure", "dialog", "button",
)  # fmt: skip
_FLAG_OF: Final = {name: 1 << index for index, name in enumerate(_FLAGS)} | {"ol": 1 << _FLAGS.index("ul")}
_LEVELS: Final = 3
_CLIMB: Final = 24
"""Levels that are climbed for the next frame that holds clearly more."""
_MOST_TWINS: Final = 50

NAMES: Final = (
    "nav header footer aside form main article list table figure dialog button depth "
    "token_own token_parent token_min token_max token_sum own_chars own_links own_children "
    "up1_chars up1_links up1_blocks up1_long up1_share up2_chars up2_links up2_blocks up2_long up2_share "
    "up3_chars up3_links up3_blocks up3_long up3_share twins twins_up best_in best_distance best_share in_comments"
).split()


@dataclass(slots=True)
class _Facts:
    """Of one frame. own, upper: weight of the words in its names and its parent's; least, most, tally: over all
    frames around it. meeting: depth of the last of them that the way to the best frame goes through too."""

    flags: int
    own: float
    upper: float
    least: float
    most: float
    tally: float
    in_best: bool
    meeting: int
    in_comments: bool


class Surroundings:
    """The frames of one page. `row` gives the NAMES of a frame, which its blocks share."""

    def __init__(self, page: Page, weights: Mapping[str, float]) -> None:
        """weights: of words in class, id and role names."""
        self.best: Final = best_frame(page)
        self.articles = 0
        self.comment_chars = 0
        self._total: Final = max(page.frames[0].chars, 1)
        self._twins: Final[Counter[tuple[Frame, str, frozenset[str]]]] = Counter()
        self._facts: Final[dict[Frame, _Facts]] = {}
        self._rows: Final[dict[Frame, list[float]]] = {}
        path = set()
        step: Frame | None = self.best
        while step is not None:
            path.add(step)
            step = step.parent
        for frame in page.frames:  # parents come before their children
            self._facts[frame] = self._gather(frame, weights, path)

    def _gather(self, frame: Frame, weights: Mapping[str, float], path: set[Frame]) -> _Facts:
        own = 0.0
        for token in frame.tokens:
            own += weights.get(token, 0.0)
        own = round(own, 2)  # the order of a set is not always the same
        flag = _FLAG_OF.get(frame.tag, 0)
        parent = frame.parent
        if parent is None:
            return _Facts(flag, own, 0.0, own, own, own, frame is self.best, 0, in_comments=False)
        self._twins[parent, frame.tag, frame.tokens] += 1
        self.articles += frame.tag == "article"
        around = self._facts[parent]
        in_comments = around.in_comments
        if not in_comments and not COMMENTS.isdisjoint(frame.tokens):
            in_comments = True
            self.comment_chars += frame.chars
        return _Facts(
            around.flags | flag,
            own,
            around.own,
            min(around.least, own),
            max(around.most, own),
            around.tally + own,
            around.in_best or frame is self.best,
            frame.depth if frame in path else around.meeting,
            in_comments,
        )

    def row(self, frame: Frame) -> list[float]:
        """NAMES of a frame; made once."""
        row = self._rows.get(frame)
        if row is None:
            row = self._rows[frame] = self._make_row(frame)
        return row

    def _make_row(self, frame: Frame) -> list[float]:
        log = math.log2
        facts = self._facts[frame]
        row = [1.0 if facts.flags & 1 << bit else 0.0 for bit in range(len(_FLAGS))]
        row += [min(frame.depth, 40), facts.own, facts.upper, facts.least, facts.most, facts.tally]
        row += [log(1 + frame.chars), frame.link_chars / max(frame.chars, 1), min(frame.children, 50)]
        step = frame
        chars = frame.chars
        for _ in range(_LEVELS):
            climbed = 0
            while step.parent is not None and step.chars < chars * 1.5 + 20 and climbed < _CLIMB:
                step = step.parent
                climbed += 1
            chars = step.chars
            inner = max(chars, 1)
            row += [log(1 + chars), step.link_chars / inner, log(1 + step.blocks), step.long_chars / inner]
            row.append(chars / self._total)
        row += [min(self._twins_of(frame), _MOST_TWINS), self._most_twins(frame)]
        row += [float(facts.in_best), self.best.depth - facts.meeting, self.best.chars / self._total]
        row.append(float(facts.in_comments))
        return row

    def _twins_of(self, frame: Frame) -> int:
        """Children of the same parent with the same tag and names, itself among them."""
        return self._twins[frame.parent, frame.tag, frame.tokens] if frame.parent is not None else 0

    def _most_twins(self, frame: Frame) -> int:
        """The most twins that one of the four frames around has: posts of a thread, cards of a list."""
        most = 1
        around = frame.parent
        for _ in range(4):
            if around is None or around.parent is None:
                break
            most = max(most, self._twins_of(around))
            around = around.parent
        return min(most, _MOST_TWINS)


def best_frame(page: Page) -> Frame:
    """The frame around most of the long text: each block gives points to four frames, the further the fewer."""
    for frame in page.frames:
        frame.score = 0.0
    for block in page.blocks:
        size = len(block.text)
        if size > 25 and block.link_chars * 2 < size:
            points = 1 + min(size / 100, 6) + block.text.count(",")
            step: Frame | None = block.frame
            for _ in range(4):
                if step is None:
                    break
                step.score += points
                step = step.parent
                points *= 0.6
    return max(page.frames, key=lambda frame: frame.score * (1 - frame.link_chars / max(frame.chars, 1)))
