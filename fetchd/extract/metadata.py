"""What a page says of itself (SPEC 5): title, description, canonical URL, declared language.

Each from the first of: the page's own elements, Open Graph, JSON-LD; null where none says it. `sources` tells which
did.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Final

from lxml.html import HtmlElement

from .links import LinkResolver
from .tree import parse_page

_SPACES = re.compile(r"\s+")
_HTTP = re.compile(r"https?://", re.IGNORECASE)
_LANGUAGE = re.compile(r"[A-Za-z]{1,8}([-_][A-Za-z0-9]{1,8}){0,8}")
MAX_VALUE: Final = 10_000
"""Characters of any one value."""
MAX_LINKED_DATA: Final = 64
"""Scripts of JSON-LD that are looked at, and objects of each."""
_MAX_SCRIPT: Final = 1 << 20

FIELDS: Final = ("title", "description", "canonical", "language")

type Found = tuple[str, str]
"""A value, and where it is from."""


def extract_metadata(html: str, url: str, content_type: str | None) -> dict[str, object]:
    """url: the final URL. content_type: the essence of the answer's Content-Type. Raises PageTooWildError."""
    root = parse_page(html).root
    if root is None:
        return empty_metadata(content_type)
    page = _Page(root, LinkResolver.of_tree(root, url, len(html)))
    found: dict[str, Found | None] = {name: _first(page, name) for name in FIELDS}
    values: dict[str, object] = {name: one[0] if one is not None else None for name, one in found.items()}
    values["content_type"] = content_type
    sources = {name: one[1] for name, one in found.items() if one is not None}
    if content_type is not None:
        sources["content_type"] = "header"
    return {**values, "sources": sources}


def empty_metadata(content_type: str | None) -> dict[str, object]:
    """Of a page that is no HTML: what the answer's head said."""
    sources = {"content_type": "header"} if content_type is not None else {}
    return {**dict.fromkeys(FIELDS), "content_type": content_type, "sources": sources}


class _Page:
    """The elements that are asked for, found once."""

    def __init__(self, root: HtmlElement, links: LinkResolver) -> None:
        self.root, self.links = root, links
        self.metas: dict[str, str] = {}
        for meta in root.iter("meta"):
            name = (meta.get("name") or meta.get("property") or "").strip().lower()
            content = clean(meta.get("content"))
            if name and content and name not in self.metas:
                self.metas[name] = content
        self.linked_data = list(_read_linked_data(root))

    def absolute(self, reference: str | None) -> str | None:
        """A reference as an absolute http or https URL, else None."""
        text = (reference or "").strip()
        resolved = self.links.resolve(text) if text and not text.startswith("#") else ""
        return resolved[:MAX_VALUE] if _HTTP.match(resolved) else None

    def linked(self, *names: str) -> str | None:
        """The first text that JSON-LD has under one of these names."""
        for name in names:
            for thing in self.linked_data:
                value = thing.get(name)
                if isinstance(value, dict):
                    value = value.get("@id") or value.get("url") or value.get("name")
                if isinstance(value, str) and clean(value):
                    return clean(value)
        return None


def _first(page: _Page, name: str) -> Found | None:
    for source, read in _READERS[name]:
        value = read(page)
        if value:
            return value, source
    return None


def _own_title(page: _Page) -> str | None:
    """The first title that is no title of a drawing."""
    for title in page.root.iter("title"):
        if next(title.iterancestors("svg"), None) is None:
            return clean("".join(title.itertext()))
    return None


def _own_canonical(page: _Page) -> str | None:
    for link in page.root.iter("link"):
        if "canonical" in (link.get("rel") or "").lower().split():
            return page.absolute(link.get("href"))
    return None


def _own_language(page: _Page) -> str | None:
    return _language(page.root.get("lang") or page.root.get("xml:lang"))


def _language(text: str | None) -> str | None:
    """A language tag (RFC 5646) with hyphens, else None."""
    tag = (text or "").strip()
    return tag.replace("_", "-") if _LANGUAGE.fullmatch(tag) else None


type Reader = Callable[[_Page], str | None]
OWN, OPEN_GRAPH, LINKED_DATA = "html", "open-graph", "json-ld"
_READERS: Final[dict[str, tuple[tuple[str, Reader], ...]]] = {
    "title": (
        (OWN, _own_title),
        (OPEN_GRAPH, lambda page: page.metas.get("og:title")),
        (LINKED_DATA, lambda page: page.linked("headline", "name")),
    ),
    "description": (
        (OWN, lambda page: page.metas.get("description")),
        (OPEN_GRAPH, lambda page: page.metas.get("og:description")),
        (LINKED_DATA, lambda page: page.linked("description")),
    ),
    "canonical": (
        (OWN, _own_canonical),
        (OPEN_GRAPH, lambda page: page.absolute(page.metas.get("og:url"))),
        (LINKED_DATA, lambda page: page.absolute(page.linked("mainEntityOfPage", "url"))),
    ),
    "language": (
        (OWN, _own_language),
        (OPEN_GRAPH, lambda page: _language(page.metas.get("og:locale"))),
        (LINKED_DATA, lambda page: _language(page.linked("inLanguage"))),
    ),
}


def clean(text: str | None) -> str:
    """White space run together, ends trimmed, bounded."""
    return _SPACES.sub(" ", text or "").strip()[:MAX_VALUE]


def _read_linked_data(root: HtmlElement) -> Iterator[dict[str, object]]:
    """The objects of JSON-LD scripts, and of their graphs; what is no JSON is passed over."""
    scripts = (
        one for one in root.iter("script") if (one.get("type") or "").strip().lower() == "application/ld+json"
    )
    for script, _ in zip(scripts, range(MAX_LINKED_DATA), strict=False):
        text = script.text or ""
        if len(text) > _MAX_SCRIPT:
            continue
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            continue
        things = value if isinstance(value, list) else [value]
        for thing in things[:MAX_LINKED_DATA]:
            if isinstance(thing, dict):
                yield thing
                graph = thing.get("@graph")
                if isinstance(graph, list):
                    yield from (one for one in graph[:MAX_LINKED_DATA] if isinstance(one, dict))
