"""What is not the article on a page that says it is one (og:type): its comments, and the articles that follow it.

Both read like content, and on other pages they are: a thread is made of comments, a front page of articles. So
likelihoods cannot tell them off, and the page's own word must.

1  other text than the comments is kept, enough for an article        → the kept comments go
2  text is kept in several `article` elements side by side            → of those the first that is long enough stays
"""

from collections import Counter
from typing import Final

from lxml import etree

from .segments import Block, Frame, Page

COMMENTS: Final = frozenset(("comment", "comments", "commentlist", "disqus", "replies", "respond"))
"""Words in the names of elements that hold what readers wrote."""
MIN_ARTICLE: Final = 300
"""Characters of running text from which on something passes for an article."""
_RUNNING: Final = frozenset(("p", "li", "blockquote", "pre"))
_TYPE = etree.XPath("string((/html/head/meta[@property='og:type']/@content)[1])")


def drop_others(page: Page, kept: list[bool]) -> None:
    """Takes out of `kept` what the page's article is not."""
    if _TYPE(page.frames[0].element) != "article":
        return
    blocks = page.blocks
    in_comments = [_is_in_comments(block.frame) for block in blocks]
    own = sum(
        len(block.text)
        for block, keep, theirs in zip(blocks, kept, in_comments, strict=True)
        if keep and not theirs and block.frame.tag in _RUNNING
    )
    if own >= MIN_ARTICLE:
        kept[:] = [keep and not theirs for keep, theirs in zip(kept, in_comments, strict=True)]
    _keep_first_article(blocks, kept)


def _keep_first_article(blocks: list[Block], kept: list[bool]) -> None:
    articles = [_outermost_article(block.frame) for block in blocks]
    sizes: Counter[Frame] = Counter()
    for block, keep, article in zip(blocks, kept, articles, strict=True):
        if keep and article is not None and (block.frame.tag in _RUNNING or block.frame.tag == "div"):
            sizes[article] += len(block.text)
    # A counter keeps the order in which its keys were met: that of the page.
    first = next((article for article, size in sizes.items() if size >= MIN_ARTICLE), None)
    if first is not None:
        kept[:] = [
            keep and (article is None or article is first)
            for keep, article in zip(kept, articles, strict=True)
        ]


def _is_in_comments(frame: Frame | None) -> bool:
    while frame is not None:
        if not COMMENTS.isdisjoint(frame.tokens):
            return True
        frame = frame.parent
    return False


def _outermost_article(frame: Frame | None) -> Frame | None:
    found = None
    while frame is not None:
        if frame.tag == "article":
            found = frame
        frame = frame.parent
    return found
