"""Pages as the use cases offer them to the search index once they were handed out: frozen values. Pure."""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from .core.read_packet import JsonText
from .extract.slices import SlicePlan

MAX_TEXT: Final = 200_000
"""Characters of a text that are offered: five times what one call of web_fetch gives, some 30,000 words."""
MAX_HEAD: Final = 256 << 10
"""Characters of a page's own text in which its title, language and date are looked for."""

_HALF_ESCAPE: Final = re.compile(r"(?<!\\)((?:\\\\)*)\\(?:u[0-9a-fA-F]{0,3})?\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedPage:
    """A page of web_fetch. url: the final one. text: before any cut to what was asked for, `MAX_TEXT` at most. html:
    the beginning of the page's own text; "" when it was no HTML. asked_at: nanoseconds since 1970, when the call
    began."""

    agent: str
    url: str = field(repr=False)
    asked_at: int
    text: str = field(repr=False)
    html: str = field(default="", repr=False)

    @property
    def held(self) -> int:
        """Characters kept in memory for it."""
        return len(self.text) + len(self.html)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPage:
    """A page of page_read, its body in the store. plan: how its text is made of it, None when it cannot be.
    text: where the read has made it; None otherwise."""

    agent: str
    url: str = field(repr=False)
    asked_at: int
    blob: str
    size: int
    path: Path
    plan: SlicePlan | None
    text: str | None = field(default=None, repr=False)

    @property
    def held(self) -> int:
        """Characters kept in memory for it."""
        return len(self.text or "")


type OfferedPage = FetchedPage | KeptPage


def cut_extracted(extracted: object) -> str | None:
    """The beginning of a text slice, without making a value of a large one; None for what is no text."""
    if isinstance(extracted, str):
        return extracted[:MAX_TEXT]
    if not isinstance(extracted, JsonText) or not extracted.data.startswith(b'"'):
        return None
    piece = extracted.data[1 : 1 + 4 * MAX_TEXT].decode("utf-8", "ignore")
    if len(extracted.data) <= 1 + 4 * MAX_TEXT:
        piece = piece[:-1]
    try:
        text = json.loads(f'"{_HALF_ESCAPE.sub(r"\1", piece)}"')
    except ValueError:
        return None
    return str(text)[:MAX_TEXT]
