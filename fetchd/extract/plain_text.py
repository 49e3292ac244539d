"""Every visible word of a page in linear time and memory: the fallback for pages no other renderer survives.

A flat scan without a tree, so that neither depth nor breakage matters. Comments, and the contents of scripts,
styles and the like, are left out; block elements end a line.
"""

import re
from collections.abc import Iterator
from html import unescape

_HIDDEN = frozenset({"script", "style", "template", "iframe", "object", "svg"})
_INLINE = frozenset(
    "a abbr b bdi bdo big cite code data del dfn em font i img ins kbd label mark q s samp small span strike "
    "strong sub sup time tt u var wbr".split()
)
_OPENING = re.compile(r"<(?:(/?)([a-zA-Z][^\s/>]{0,64})|[!?/])")
_SPACES = re.compile(r"[ \t\r\f\v]+")
_LINES = re.compile(r" ?\n[ \n]*")


def render_plain_text(html: str) -> str:
    """The visible text of `html`, one line a block, outer white space trimmed. Never raises."""
    text = unescape("".join(_visible_parts(html)))
    return _LINES.sub("\n", _SPACES.sub(" ", text)).strip()


def _visible_parts(html: str) -> Iterator[str]:
    position = 0
    hidden: str | None = None
    closings = _Closings(html)
    while (found := _OPENING.search(html, position)) is not None:
        start = found.start()
        if hidden is None:
            yield html[position:start]
        if html.startswith("<!--", start) and closings.has("-->", start + 4):
            position = closings.after("-->", start + 4)
            continue
        if not closings.has(">", start):
            position = start  # nothing from here on is a tag
            break
        position = closings.after(">", start)
        if found[2] is None:  # a declaration or a bogus comment
            continue
        closes, name = bool(found[1]), found[2].lower()
        if hidden is not None:
            if closes and name == hidden:
                hidden = None
                yield "\n"
        elif not closes and name in _HIDDEN and closings.has(f"</{name}", position):
            hidden = name
        elif name not in _INLINE:
            yield "\n"
    if hidden is None:
        yield html[position:]


class _Closings:
    """Looks for endings. One that is not there is remembered, or a page of openings costs its square."""

    __slots__ = ("_absent", "_html", "_lower")

    def __init__(self, html: str) -> None:
        self._html = html
        self._lower = ""
        self._absent: set[str] = set()

    def after(self, ending: str, position: int) -> int:
        """The position after the next `ending`, which is there."""
        return self._html.index(ending, position) + len(ending)

    def has(self, ending: str, position: int) -> bool:
        """Whether `ending` (lower case) follows, in any ASCII letter case."""
        if ending in self._absent:
            return False
        if not self._lower:
            self._lower = self._html.translate(_LOWER)
        if self._lower.find(ending, position) < 0:
            self._absent.add(ending)
            return False
        return True


_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
"""Keeps positions: str.lower turns some single letters into two."""
