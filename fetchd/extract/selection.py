"""Which blocks of a page are kept as its content, and how the others are taken out of the tree."""

from typing import Final

from .article_pages import drop_others
from .segments import Block, Frame, Page
from .title import find_title

_PROSE: Final = frozenset(("p", "pre", "blockquote"))
_HEADINGS: Final = {"h1": 1, "h2": 2, "h3": 3, "h4": 4, "h5": 5, "h6": 6}
_MIN_LIKELIHOOD: Final = 0.08
"""Below this a block is never content, however little else there is."""
_RAISE: Final = 1.35
"""Factor on the odds while the limit is sought: an unsure block is better kept than lost."""
_SURE: Final = 0.85
_SURE_LIMIT: Final = 0.5
"""Where the best set is expected to be as good as _SURE, nothing below _SURE_LIMIT is kept, but on small pages."""
_SMALL_PAGE: Final = 1500
"""Characters."""
_LONG_PARAGRAPH: Final = 80
_MIN_SIBLING: Final = 0.2
"""The likelihood of a paragraph without links that is kept because it stands beside a long one."""


def select_blocks(page: Page, likelihoods: list[float]) -> list[bool]:
    """For each block whether it is kept.

    The set is the one with the best expected F1 of words: with p the likelihood and n the words of a block, the
    blocks above the limit that makes 2 * sum(p * n) / (sum(n) + sum over all of p * n) the greatest. So the limit
    is low on a page of which nothing looks like content, and high where much does. Data tables and definition
    lists stand or fall as one.
    """
    shared = _shared_by_group(page, likelihoods)
    words = [len(block.text.split()) for block in page.blocks]
    limit = best_limit(shared, words, sure_limit=_SURE_LIMIT if page.frames[0].chars >= _SMALL_PAGE else 0.0)
    kept = [value >= limit for value in shared]
    _keep_siblings(page.blocks, kept, shared)
    drop_others(page, kept)
    _settle_headings(page.blocks, kept, shared)
    title = find_title(page, kept)
    if title is not None:
        kept[title] = True
    _settle_images(page.blocks, kept)
    return kept


def best_limit(likelihoods: list[float], words: list[int], *, sure_limit: float = 0.0) -> float:
    """The likelihood from which on blocks are kept. sure_limit: the least it is where the best set is a sure one."""
    odds = [_raised(value) for value in likelihoods]
    order = sorted(range(len(words)), key=lambda n: -odds[n])
    expected = sum(odds[n] * words[n] for n in order)
    right = kept = best = 0.0
    limit = 1.0
    for n in order:
        if likelihoods[n] < _MIN_LIKELIHOOD:
            break
        right += odds[n] * words[n]
        kept += words[n]
        score = 2 * right / (kept + expected) if kept else 0.0
        if score >= best:
            best, limit = score, likelihoods[n]
    return max(limit, sure_limit) if best >= _SURE else limit


def _raised(likelihood: float) -> float:
    odds = likelihood * _RAISE
    return odds / (odds + 1 - likelihood) if likelihood < 1 else 1.0


def drop_blocks(page: Page, kept: list[bool]) -> None:
    """Takes the text and images of the others out of the tree; elements left empty render as nothing."""
    for block, keep in zip(page.blocks, kept, strict=True):
        if keep:
            continue
        for element, is_tail in block.slots:
            if is_tail:
                element.tail = None
            else:
                element.text = None
        for image in block.images:
            image.attrib.clear()


def _shared_by_group(page: Page, likelihoods: list[float]) -> list[float]:
    shared = list(likelihoods)
    done = -1
    for frame in page.frames:
        if frame.first < done or not (frame.tag == "dl" or (frame.tag == "table" and _is_data(frame, page))):
            continue
        done = frame.first + frame.blocks
        span = range(frame.first, done)
        words = [len(page.blocks[n].text.split()) + 1 for n in span]
        mean = sum(likelihoods[n] * count for n, count in zip(span, words, strict=True)) / max(sum(words), 1)
        for n in span:
            shared[n] = mean
    return shared


def _is_data(table: Frame, page: Page) -> bool:
    """Cells are short and hold nothing but text."""
    if table.blocks < 4:
        return False
    blocks = page.blocks[table.first : table.first + table.blocks]
    inside = sum(1 for block in blocks if block.frame.tag in ("td", "th", "p", "li"))
    return inside * 10 >= len(blocks) * 9 and table.chars / table.blocks < 200


def _settle_headings(blocks: list[Block], kept: list[bool], likelihoods: list[float]) -> None:
    """A heading stays with what it heads, and goes with it.

    The title of a page stays when it stands with the text; one set apart is found by `title.find_title`.
    """
    follows: list[bool] = [False] * 8  # by level: whether something kept follows before the next such heading
    text_frames: set[int] = set()  # around kept text after this
    for n in range(len(blocks) - 1, -1, -1):
        frame = blocks[n].frame
        level = _HEADINGS.get(frame.tag)
        if level is None:
            if kept[n] and blocks[n].text:
                follows = [True] * 8
                around = frame.parent
                for _ in range(2):
                    if around is not None:
                        text_frames.add(id(around))
                        around = around.parent
            continue
        if not blocks[n].text:
            continue
        if (
            follows[level]
            and likelihoods[n] > _MIN_LIKELIHOOD
            and (level > 1 or id(frame.parent) in text_frames)
        ):
            kept[n] = True
        if kept[n]:
            for outer in range(1, level):
                follows[outer] = True
        for deeper in range(level, 8):
            follows[deeper] = False


def _keep_siblings(blocks: list[Block], kept: list[bool], likelihoods: list[float]) -> None:
    around = {
        id(block.frame.parent)
        for block, keep in zip(blocks, kept, strict=True)
        if keep and block.frame.tag == "p" and len(block.text) > _LONG_PARAGRAPH
    }
    for n, block in enumerate(blocks):
        frame = block.frame
        if (
            likelihoods[n] >= _MIN_SIBLING
            and frame.tag in _PROSE
            and not block.link_chars
            and id(frame.parent) in around
        ):
            kept[n] = True


def _settle_images(blocks: list[Block], kept: list[bool]) -> None:
    """A picture on its own stays between kept text, or with a text of its own beside kept text of the same parent."""
    following: Block | None = None
    near: list[Block | None] = [None] * len(blocks)
    for n in range(len(blocks) - 1, -1, -1):
        near[n] = following
        if blocks[n].text:
            following = blocks[n] if kept[n] else None
    preceding: Block | None = None
    for n, block in enumerate(blocks):
        if block.text:
            preceding = block if kept[n] else None
            continue
        after = near[n]
        kept[n] = preceding is not None and after is not None
        if not kept[n] and any((image.get("alt") or "").strip() for image in block.images):
            beside = preceding or after
            kept[n] = beside is not None and block.frame.parent in (beside.frame, beside.frame.parent)
