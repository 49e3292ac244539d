"""Links of a page made absolute: against its final URL, or its `<base href>` (HTML, 4.2.3)."""

import re
from dataclasses import dataclass
from html import unescape
from typing import Self

from proxy_addons.policy.targets import Target, TargetParseError, parse_target, resolve_reference

_BASE = re.compile(r"<base\s[^>]{0,512}?\bhref\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]+))", re.IGNORECASE)
_HEAD_CHARS = 1 << 16
"""A base element further in than this is not looked for; it belongs into the head."""
_REFUSED_BASES = frozenset({"data", "javascript"})
_MAX_LINK = 8192
"""Characters of a link that is still resolved; longer ones are data, left as they are."""


@dataclass(frozen=True, slots=True)
class LinkResolver:
    """`resolve` is the WHATWG parser with `base`."""

    base: Target | None

    @classmethod
    def of_page(cls, html: str, url: str) -> Self:
        """The resolver of a page that came from `url`; with an unreadable URL links stay as they are."""
        try:
            base = parse_target(url)
        except TargetParseError:
            return cls(None)
        found = _BASE.search(html, 0, _HEAD_CHARS)
        if found is not None:
            declared = unescape(found[1] or found[2] or found[3] or "").strip()
            try:
                target = resolve_reference(declared, base)
            except TargetParseError:
                return cls(base)
            if target.scheme not in _REFUSED_BASES:
                return cls(target)
        return cls(base)

    def resolve(self, reference: str) -> str:
        """`reference` as an absolute URL with its fragment; as it stands when it cannot be read."""
        if self.base is None or len(reference) > _MAX_LINK or reference.startswith("#"):
            return reference
        link, mark, fragment = reference.strip().partition("#")
        try:
            return resolve_reference(link, self.base).href + mark + fragment
        except TargetParseError:
            return reference
