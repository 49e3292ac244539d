"""The rules of rendering HTML (SPEC 2): article, or the whole page, or at worst the plain text. Never fails.

1 raw                                    → whole page, raw-html
2 article of at least 100 bytes          → readability
3 otherwise                              → whole page, raw-html; if that fails, the short article as it is
4 no article either                      → whole page by html2text, raw-html; if that fails too, plain text
"""

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from fetchd.core.header import Extraction

from .article import article_markdown
from .plain_text import render_plain_text
from .whole_page import stream_markdown, whole_page_markdown

MIN_ARTICLE_BYTES: Final = 100
"""SPEC 2: bytes of trimmed markdown under which an article is taken for none."""

_SURROGATE = re.compile(r"[\ud800-\udfff]")  # from references such as &#xD800;

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Rendering:
    """Markdown without outer blank lines, and how it was made."""

    text: str
    extraction: Extraction


def render_page(html: str, url: str, *, raw: bool = False) -> Rendering:
    """`html` as markdown. url: the final URL. In this thread, for as long as it takes; never raises."""
    article = "" if raw else _trim(_attempt(article_markdown, html, url) or "")
    if len(article.encode("utf-8")) >= MIN_ARTICLE_BYTES:
        return Rendering(article, Extraction.READABILITY)
    whole = _attempt(whole_page_markdown, html, url)
    if whole is None and article:
        return Rendering(article, Extraction.RAW_HTML)
    if whole is None:
        whole = _attempt(stream_markdown, html, url)
    if whole is None:
        return render_fallback(html)
    return Rendering(_trim(whole), Extraction.RAW_HTML)


def render_fallback(html: str) -> Rendering:
    """The plain text of a page, in linear time."""
    return Rendering(render_plain_text(html), Extraction.RAW_HTML)


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
