"""The title of an article that stands apart from it: which heading it is, if any.

Page headers often hold the title: above the text, in a block of its own, among dates and share rows. Such an h1 is
content to a reader, but nothing near it is. It is taken for the article's title when all of this holds:

1  it is the only h1 with a text, or the only one that the page itself names as its title (2)
2  the page says so: its <title> or og:title is this text, begins with it, or ends with it
3  it is not the site's name (og:site_name), nor a link to the site's front page, nor in a navigation or a footer
4  the kept text comes after it, with no other kept heading of its rank, and not much else in between
"""

import re
from typing import Final

from lxml import etree

from .segments import Block, Frame, Page

MAX_CHARS: Final = 300
MIN_WORDS: Final = 2
"""A word alone is a section's or a site's name more often than a title."""
MAX_BETWEEN: Final = 2000
"""Characters of dropped text between the title and what it heads: dates, authors, share rows, a table of contents."""
_ELSEWHERE: Final = frozenset(("nav", "footer", "aside", "dialog"))
_WORD = re.compile(r"\w+")
_OPEN_GRAPH = etree.XPath("/html/head/meta[@property=$name or @name=$name]/@content")


def find_title(page: Page, kept: list[bool]) -> int | None:
    """The number of the block, which is not kept so far; None when there is none."""
    blocks = page.blocks
    first = next((n for n, keep in enumerate(kept) if keep and len(blocks[n].text) > 0), None)
    if first is None or any(keep and blocks[n].frame.tag == "h1" for n, keep in enumerate(kept)):
        return None
    named = _named_titles(page)
    found = [
        n
        for n in range(first)
        if blocks[n].frame.tag == "h1" and _is_title(blocks[n], named) and not _is_of_site(blocks[n], page)
    ]
    if len(found) != 1:
        return None
    between = sum(len(block.text) for block in blocks[found[0] + 1 : first])
    return found[0] if between <= MAX_BETWEEN else None


def _named_titles(page: Page) -> list[list[str]]:
    root = page.frames[0].element
    told = [root.findtext("head/title") or "", *_OPEN_GRAPH(root, name="og:title")]
    return [_words(text) for text in told]


def _is_title(block: Block, named: list[list[str]]) -> bool:
    words = _words(block.text)
    if len(block.text) > MAX_CHARS or len(words) < MIN_WORDS:
        return False
    size = len(words)
    return any(words in (title[:size], title[-size:]) for title in named)


def _is_of_site(block: Block, page: Page) -> bool:
    root = page.frames[0].element
    words = _words(block.text)
    if any(_words(name) == words for name in _OPEN_GRAPH(root, name="og:site_name")):
        return True
    frame: Frame | None = block.frame
    while frame is not None:
        if frame.tag in _ELSEWHERE:
            return True
        frame = frame.parent
    return any(
        (link.get("href") or "").rstrip("/").count("/") in (0, 2) for link in block.frame.element.iter("a")
    )


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())
