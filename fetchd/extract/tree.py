"""HTML text to a tree, whole: libxml2 is fast, but stops at its limits and drops the rest of the page.

Its limits are 256 levels and 10 MB a node. A page beyond them is not refused; that it was cut short is told in
the parser's log alone, which is looked at here. Such a page is parsed again with the limits lifted (2,048
levels, a gigabyte a node) after the tags of elements nested too deeply are taken out, as browsers flatten
pages beyond 512 levels: structure is lost down there, text is not.
"""

import re
from dataclasses import dataclass
from typing import Final

from lxml import etree
from lxml.html import HtmlElement, HTMLParser

MAX_DEPTH: Final = 200
"""Nested elements kept of a page that libxml2 gives up on, not counting those of which several nest in one."""

_TAG = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9:-]*)(?:\s[^<>]*|/)?>")
_NOT_NESTING: Final = frozenset(
    "area base body br caption col colgroup dd dt embed head hr html img input li link meta option p param "
    "rp rt source tbody td tfoot th thead tr track wbr".split()
)
"""Void elements, and those whose end tag may be left out: what a parser closes by itself does not nest."""
_RAW_TEXT: Final = frozenset(
    "script style textarea title template noscript xmp iframe noembed noframes".split()
)
"""Without their tags their content would become text of the page."""
_METADATA: Final = frozenset("base basefont bgsound link meta noscript script style template title".split())
"""What a head may hold; anything else ends it (HTML, 13.2.6.4.4)."""
_UNREADABLE = re.compile("[\0\ud800-\udfff]")


class PageTooWildError(ValueError):
    """No parser at hand gives the whole page; its plain text can still be read."""


@dataclass(frozen=True, slots=True)
class ParsedPage:
    """root: None when there is nothing in the page. wild: it was beyond the limits, so its structure means little."""

    root: HtmlElement | None
    wild: bool


def parse_page(html: str) -> ParsedPage:
    """The tree of a page with all its text. Raises PageTooWildError."""
    text = _UNREADABLE.sub("\ufffd", html)
    root, whole = _parse(text, huge=False)
    if whole:
        return ParsedPage(root, wild=False)
    root, whole = _parse(flatten_tags(text), huge=True)
    if not whole:
        raise PageTooWildError("nested too deeply, even without its innermost tags")
    return ParsedPage(root, wild=True)


def flatten_tags(html: str, limit: int = MAX_DEPTH) -> str:
    """`html` without the tags of elements nested deeper than `limit`; all else stays. Linear."""
    kept: list[str] = []
    position = depth = 0
    for tag in _TAG.finditer(html):
        name = tag[2].lower()
        if name in _NOT_NESTING or name in _RAW_TEXT:
            continue
        if tag[1]:
            drop = depth > limit
            depth = max(0, depth - 1)
        else:
            depth += 1
            drop = depth > limit
        if drop:
            kept.append(html[position : tag.start()])
            # what was a block of its own does not run into its neighbour
            kept.append(" ")
            position = tag.end()
    kept.append(html[position:])
    return "".join(kept)


def _parse(text: str, *, huge: bool) -> tuple[HtmlElement | None, bool]:
    parser = HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, huge_tree=huge)
    try:
        root = etree.fromstring(text.encode("utf-8"), parser)
    except etree.ParserError:
        root = None  # lxml's word for an empty document
    if root is not None:
        _end_head(root)
    return root, not any(entry.type == etree.ErrorTypes.ERR_RESOURCE_LIMIT for entry in parser.error_log)


def _end_head(root: HtmlElement) -> None:
    """Move what no head may hold into the body: libxml2 leaves elements it does not know (nav, article) in the head
    of a page that does not write its tags.
    """
    head = root.find("head")
    if head is None:
        return
    first = next((at for at, child in enumerate(head) if child.tag not in _METADATA), None)
    if first is None:
        return
    body = root.find("body")
    if body is None:
        body = etree.SubElement(root, "body")
    misplaced = head[first:]
    if body.text:  # text before the body's first element stays behind what comes from the head
        last = misplaced[-1]
        last.tail = (last.tail or "") + body.text
        body.text = None
    for at, child in enumerate(misplaced):
        body.insert(at, child)
