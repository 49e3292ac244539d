"""The main article of a page as markdown."""

from typing import Final

import trafilatura
from lxml import etree

from .bounds import bound_markdown
from .content_model import load_content_model
from .links import LinkResolver
from .markdown.walk import render_tree
from .plain_text import render_plain_text
from .segments import Page, segment_page
from .selection import drop_blocks, select_blocks
from .tree import PageTooWildError, parse_page
from .visibility import hide_unseen

MAX_ELEMENTS: Final = 60_000
MAX_BLOCK_CHARS: Final = 100_000
"""A page of more elements, or with a longer run of text, is no article of anybody's: it is given as a whole, as is
a page that was beyond the limits of the parser."""
MIN_CHARS: Final = 100
"""Characters of an article under which trafilatura is asked as well: it reads what a page says of itself in JSON."""
_ELEMENTS = etree.XPath("count(//*)")
_STATED: Final = '"articleBody"'


def article_markdown(html: str, url: str) -> str:
    """The main article of `html`, links absolute against `url`; "" when the page shows no text.

    At most 4 times the page and 1 MiB. In this process and thread, for as long as it takes; never starts
    anything. Of a page that no tree can hold, the plain text.
    """
    try:
        parsed = parse_page(html)
    except PageTooWildError:
        return render_plain_text(html)
    root = parsed.root
    if root is None:
        return ""
    hide_unseen(root)
    if not parsed.wild and _ELEMENTS(root) <= MAX_ELEMENTS:
        keep_content(segment_page(root))
    links = LinkResolver.of_tree(root, url, len(html))
    article = bound_markdown(render_tree(root, links, everything=False), html).removesuffix("\n\n---")
    if len(article) < MIN_CHARS and _STATED in html:
        stated = trafilatura.extract(html, url=url, output_format="markdown", include_links=True) or ""
        if len(stated) > len(article):
            return stated
    return article


def keep_content(page: Page) -> None:
    """Takes out of the tree what is not content."""
    if all(len(block.text) <= MAX_BLOCK_CHARS for block in page.blocks):
        drop_blocks(page, select_blocks(page, load_content_model().likelihoods(page)))
