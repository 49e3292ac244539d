"""What of a page a reader does not see. One rule for both renderings; all else is text of the page.

    gone     the `hidden` attribute (but `until-found`), style display:none, templates, scripts, styles, comments
    unseen   aria-hidden="true"; style visibility:hidden, font-size:0, opacity:0, or a place far off the screen
    noscript what is in it

Text that is gone is left out always. Unseen text is left out unless it is more than half of the page: pages fade
in from opacity 0, and put aria-hidden around everything while a dialog is open. noscript is left out unless it is
longer than all the rest: then the page is made for scripts, which we do not run. `<div hidden id="S:1">` is how
React streams what it then shows, so it stays. `details` that are closed stay. Style sheets are not read.
"""

import re
from enum import Enum, auto
from typing import Final

from lxml import etree
from lxml.html import HtmlElement

HIDDEN_TAG: Final = "template"
"""Hidden elements are renamed to this, which every reader of the tree skips; taking them out is quadratic."""

_MARKED = etree.XPath("//*[@hidden or @style or @aria-hidden]")
_VISIBLE = etree.XPath("/html/body//text()[not(parent::script or parent::style or ancestor::noscript)]")
_TEXT_LENGTH = etree.XPath("string-length(.)")
_MAX_MEASURED: Final = 50
"""Marked elements whose text is measured; the wrapper around a page comes early."""

_MIN_NOSCRIPT: Final = 1000
"""Characters; shorter ones say that a page needs scripts."""

_END = r"\s*(?:;|!|$)"
_GONE = re.compile(r"(?:^|[;\s])display\s*:\s*none", re.IGNORECASE)
_UNSEEN = re.compile(
    r"(?:^|[;\s])(?:visibility\s*:\s*(?:hidden|collapse)"
    rf"|(?:font-size|opacity)\s*:\s*0(?:\.0*)?(?:px|em|rem|pt|%)?{_END}"
    rf"|(?:left|top|right|text-indent|margin-left)\s*:\s*-\d{{3,}}(?:\.\d*)?(?:px|em|rem|pt|%)?{_END})",
    re.IGNORECASE,
)
_STREAMED = re.compile(r"S:[0-9a-f]+\Z")


class _Mark(Enum):
    NONE = auto()
    UNSEEN = auto()
    GONE = auto()


def hide_unseen(root: HtmlElement) -> None:
    """Renames hidden elements of the tree to HIDDEN_TAG, and noscript that shows to div."""
    _show_noscript(root)
    total = -1.0
    measured = 0
    for element in _MARKED(root):
        mark = _mark_of(element)
        if mark is _Mark.NONE or element.tag in ("html", "body"):
            continue
        if mark is _Mark.UNSEEN and measured < _MAX_MEASURED:
            measured += 1
            if total < 0:
                total = _TEXT_LENGTH(root)
            if _TEXT_LENGTH(element) * 2 > total:
                continue
        element.tag = HIDDEN_TAG


def _mark_of(element: HtmlElement) -> _Mark:
    hidden = element.get("hidden")
    if hidden is not None and hidden.lower() != "until-found":
        return _Mark.NONE if _STREAMED.match(element.get("id", "")) else _Mark.GONE
    style = element.get("style")
    if style is not None:
        if _GONE.search(style):
            return _Mark.GONE
        if _UNSEEN.search(style):
            return _Mark.UNSEEN
    return _Mark.UNSEEN if element.get("aria-hidden", "").lower() == "true" else _Mark.NONE


def _show_noscript(root: HtmlElement) -> None:
    longest, chars = None, _MIN_NOSCRIPT
    for element in root.iter("noscript"):
        length = _TEXT_LENGTH(element)
        if length > chars:
            longest, chars = element, length
    if longest is None:
        return
    for text in _VISIBLE(root):
        chars -= len(text.strip())
        if chars <= 0:
            return
    longest.tag = "div"
