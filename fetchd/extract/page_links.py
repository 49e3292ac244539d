"""The links of a page (SPEC 5): absolute, in the order they stand, each once; http and https only."""

import re
from typing import Final

from lxml.html import HtmlElement

from proxy_addons.policy.targets import TargetParseError, parse_target

from .links import LinkResolver
from .metadata import clean
from .tree import parse_page

_HTTP = re.compile(r"https?://", re.IGNORECASE)
_TAGS: Final = ("a", "area")
_UNBOUNDED: Final = 1 << 40
"""No link is left unresolved, and so lost, because the page has many."""


def extract_links(html: str, url: str, *, with_text: bool = False) -> list[str] | list[dict[str, str]]:
    """What `a` and `area` elements lead to; with_text: objects {url, text}. Raises PageTooWildError.

    url: the final URL, which `<base href>` may replace. A link that is given twice stands where it stood first, with
    the first text that there is.
    """
    root = parse_page(html).root
    if root is None:
        return []
    resolver = LinkResolver.of_tree(root, url, _UNBOUNDED)
    here = resolver.resolve("") or url
    found: dict[str, str] = {}
    for element in root.iter(*_TAGS):
        href = element.get("href")
        if href is None:
            continue
        reference = href.strip()
        absolute = (
            here.partition("#")[0] + reference if reference.startswith("#") else resolver.resolve(reference)
        )
        if _HTTP.match(absolute) and not found.get(absolute) and _is_url(absolute):
            found[absolute] = _text_of(element) if with_text else ""
    if not with_text:
        return list(found)
    return [{"url": one, "text": text} for one, text in found.items()]


def _is_url(text: str) -> bool:
    """Whether it parses: what cannot be resolved is left as it stood."""
    try:
        parse_target(text)
    except TargetParseError:
        return False
    return True


def _text_of(element: HtmlElement) -> str:
    """Its text; of one without, what its image or label says."""
    text = clean("".join(element.itertext()))
    if not text:
        image = next((one.get("alt") for one in element.iter("img") if one.get("alt")), None)
        text = clean(image or element.get("aria-label") or element.get("alt") or element.get("title"))
    return text
