"""The rules of rendering HTML (SPEC 2): article, or the whole page, or at worst the plain text. Never fails.

1 too wild for a tree, or for its size   → plain text, labelled raw-html
2 raw                                    → whole page, raw-html
3 article of at least 100 bytes          → readability
4 otherwise                              → whole page, raw-html; if that fails, the short article as it is
"""

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from fetchd.core.header import Extraction

from .article import article_markdown
from .plain_text import render_plain_text
from .whole_page import whole_page_markdown

MIN_ARTICLE_BYTES: Final = 100
"""SPEC 2: bytes of trimmed markdown under which an article is taken for none."""

MAX_DEPTH: Final = 200
"""Nested elements. libxml2 stops at 255 and drops what follows without an error."""

MAX_TREE_CHARS: Final = 9_000_000
"""libxml2 drops everything after a text node of 10,000,000 bytes, also without an error."""

_TAG = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9]*)")
_NOT_NESTING: Final = frozenset(
    "area base body br caption col colgroup dd dt embed head hr html img input li link meta option p param "
    "rp rt source tbody td tfoot th thead tr track wbr".split()
)
"""Void elements, and those whose end tag may be left out: what a parser closes by itself does not nest."""

_SURROGATE = re.compile(r"[\ud800-\udfff]")  # from references such as &#xD800;

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Rendering:
    """Markdown without outer blank lines, and how it was made."""

    text: str
    extraction: Extraction


def render_page(html: str, url: str, *, raw: bool = False) -> Rendering:
    """`html` as markdown. url: the final URL. In this thread, for as long as it takes; never raises."""
    if is_too_wild(html):
        return render_fallback(html)
    article = "" if raw else _trim(_attempt(article_markdown, html, url) or "")
    if len(article.encode("utf-8")) >= MIN_ARTICLE_BYTES:
        return _render(article, html, Extraction.READABILITY)
    whole = _attempt(whole_page_markdown, html, url)
    if whole is None:
        return Rendering(article, Extraction.RAW_HTML) if article else render_fallback(html)
    return _render(_trim(whole), html, Extraction.RAW_HTML)


def render_fallback(html: str) -> Rendering:
    """The plain text of a page, in linear time."""
    return Rendering(render_plain_text(html), Extraction.RAW_HTML)


def is_too_wild(html: str) -> bool:
    """Whether tree builders would lose text of this page in silence."""
    if len(html) > MAX_TREE_CHARS:
        return True
    depth = 0
    for closes, name in _TAG.findall(html):
        if name.lower() in _NOT_NESTING:
            continue
        if not closes:
            depth += 1
            if depth > MAX_DEPTH:
                return True
        elif depth:
            depth -= 1
    return False


def _render(text: str, html: str, extraction: Extraction) -> Rendering:
    """Markup can blow up (colspan, links on a long base): over 4 times the page plus 1 MiB, plain text."""
    if len(text) > 4 * len(html) + (1 << 20):
        return render_fallback(html)
    return Rendering(text, extraction)


def _attempt(render: Callable[[str, str], str], html: str, url: str) -> str | None:
    try:
        return render(html, url)
    except Exception as error:  # noqa: BLE001 - a page may break a library in any way
        _log.info("%s failed on a page: %s", render.__name__, type(error).__name__)
        return None


def _trim(markdown: str) -> str:
    """Without outer blank lines; the first line keeps its indentation. What is no character is replaced."""
    text = _SURROGATE.sub("\ufffd", markdown.rstrip())
    blank = len(text) - len(text.lstrip())
    return text[text.rfind("\n", 0, blank) + 1 :]
