"""Links of a page made absolute: against its final URL, or its first `<base href>` (HTML, 4.2.3)."""

import re
from typing import Final

import ada_url
from lxml.html import HtmlElement

from proxy_addons.policy.targets import TargetParseError, parse_target

_REFUSED_BASES: Final = ("data:", "javascript:")
_MAX_LINK: Final = 8192
"""Characters of a link that is still resolved; longer ones are data, left as they are."""
_GROWTH: Final = 1 << 19
"""Characters that resolving may add to a page, beyond its own length: a long base makes every link long."""

_ABSOLUTE = re.compile(r"https?://[a-z0-9.-]+/[!#-;=?-\[\]_a-z~]*", re.ASCII)
_ROOTED = re.compile(r"/(?!/)(?!\.)[!#-\-0-;=?-\[\]_a-z~/]*", re.ASCII)
_ORIGIN = re.compile(r"https?://[^/?#]+")


class LinkResolver:
    """`resolve` is the WHATWG parser with the base of one page."""

    __slots__ = ("_base", "_budget", "_origin")

    def __init__(self, url: str, declared: str | None = None, *, page_chars: int = 0) -> None:
        """url: the final URL; one that cannot be read leaves links as they are. declared: the page's own base."""
        self._budget = page_chars + _GROWTH
        try:
            self._base = parse_target(url).href
        except TargetParseError:
            self._base = ""
        if self._base and declared is not None:
            base = _join(declared, self._base)
            if base and not base.startswith(_REFUSED_BASES):
                self._base = base
        origin = _ORIGIN.match(self._base)
        self._origin = origin[0] if origin is not None else ""

    @classmethod
    def of_tree(cls, root: HtmlElement, url: str, page_chars: int) -> "LinkResolver":
        """The resolver of a page that came from `url`. page_chars: its length, which bounds what links may add."""
        base = next((element for element in root.iter("base") if element.get("href") is not None), None)
        return cls(url, None if base is None else base.get("href"), page_chars=page_chars)

    def resolve(self, reference: str) -> str:
        """`reference` as an absolute URL with its fragment; as it stands when it cannot be read.

        A fragment alone stays one: it points into the text at hand.
        """
        reference = reference.strip()
        if not self._base or len(reference) > _MAX_LINK or reference.startswith("#"):
            return reference
        if _ABSOLUTE.fullmatch(reference) and "/." not in reference:
            return reference
        if self._budget < 0:
            return reference
        if self._origin and _ROOTED.fullmatch(reference) and "/." not in reference:
            absolute = self._origin + reference
        else:
            absolute = _join(reference, self._base) or reference
        self._budget -= len(absolute) - len(reference)
        return absolute


def _join(reference: str, base: str) -> str:
    try:
        return ada_url.join_url(base, reference)
    except ValueError:
        return ""
