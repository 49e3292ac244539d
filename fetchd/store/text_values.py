"""What is kept of a page for searching: frozen values. Pure but for the packing of texts."""

import zlib
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final, Self

MAX_CHARS: Final = 200_000
"""Characters of a text that are kept, whoever brings it."""
MAX_TITLE: Final = 300
_MAX_UTF8: Final = 4 * MAX_CHARS


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadText:
    """A page that was read. url: the final one, query kept. Times: nanoseconds since 1970.

    asked_at: when its call began. dated_at, language: what the page says of itself. blob: the digest of its body,
    where that is kept.
    """

    agent: str
    url: str = field(repr=False)
    asked_at: int
    read_at: int
    title: str = field(repr=False)
    text: str = field(repr=False)
    language: str | None = None
    dated_at: int | None = None
    blob: str | None = None


@dataclass(frozen=True, slots=True)
class PackedText:
    """Title and text as they are kept."""

    digest: str
    title: str = field(repr=False)
    packed: bytes = field(repr=False)

    @classmethod
    def of(cls, title: str, text: str) -> Self:
        """Bounded; what UTF-8 cannot carry is replaced. Takes a few ms for a long text."""
        title, text = (
            part.encode("utf-8", "replace").decode("utf-8") for part in (title[:MAX_TITLE], text[:MAX_CHARS])
        )
        return cls(_digest(title, text), title, zlib.compress(text.encode("utf-8")))

    @property
    def bytes(self) -> int:
        """What it counts in the limits."""
        return len(self.packed) + len(self.title.encode("utf-8"))

    def unpack(self) -> str:
        """The text. Raises ValueError when it is not what the digest says."""
        try:
            inflater = zlib.decompressobj()
            text = inflater.decompress(self.packed, _MAX_UTF8).decode("utf-8")
        except (zlib.error, UnicodeDecodeError):
            raise ValueError("a kept text is damaged") from None
        if _digest(self.title, text) != self.digest:
            raise ValueError("a kept text is damaged")
        return text


@dataclass(frozen=True, slots=True)
class TextPage:
    """A page as kept: see `ReadText`. number: rises with every read."""

    number: int
    agent: str
    url: str = field(repr=False)
    read_at: int
    dated_at: int | None
    language: str | None
    content: PackedText


@dataclass(frozen=True, slots=True)
class Marks:
    """How far an index has followed: the last page, and the last removal; None: it is empty, so none concerns it."""

    page: int = 0
    removal: int | None = None


@dataclass(frozen=True, slots=True)
class TextChanges:
    """What an index at some marks has to take in to be at `marks`: first `added`, then `removed` (numbers of pages).

    more: that is not all yet. stale: the marks are not of this database, or too old; begin with an empty index.
    """

    epoch: str
    marks: Marks
    added: tuple[TextPage, ...] = ()
    removed: tuple[int, ...] = ()
    more: bool = False
    stale: bool = False


@dataclass(frozen=True, slots=True)
class TextUsage:
    """What is kept of one agent's pages. bytes: packed."""

    agent: str
    pages: int
    bytes: int


def _digest(title: str, text: str) -> str:
    return sha256(f"{len(title)}:{title}{text}".encode()).hexdigest()
