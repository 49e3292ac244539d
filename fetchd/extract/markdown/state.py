"""What the elements of a page share while it is rendered."""

from collections.abc import Callable
from dataclasses import dataclass, field

from lxml.html import HtmlElement

from fetchd.extract.links import LinkResolver

from .tables import Layout, Table
from .writer import Indent, MarkdownWriter


@dataclass(slots=True, eq=False)
class OpenList:
    """number: of the next item, None for bullets. items: written so far."""

    number: int | None
    items: int = 0


@dataclass(slots=True, eq=False)
class Definition:
    """A `dd` that is being read. open: its indentation has still to be ended."""

    indent: Indent
    open: bool = True


@dataclass(slots=True, eq=False)
class RenderState:
    """everything: also form controls, embedded media, and pictures without a text.

    layout: tables that hold no data. lists, tables, definitions: those that are open, the innermost last.
    """

    writer: MarkdownWriter
    links: LinkResolver
    layout: dict[HtmlElement, Layout]
    everything: bool
    lists: list[OpenList] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    definitions: list[Definition] = field(default_factory=list)


type Close = Callable[[], None]
"""Ends an element."""

type Handler = Callable[[RenderState, HtmlElement], Close | None]
"""Begins an element: what ends it, or None when it was dealt with whole."""


def leave_open() -> None:
    """Ends an element that leaves no mark."""


_INNER_BLOCKS = (
    "p", "div", "ul", "ol", "dl", "table", "pre", "blockquote", "h1", "h2", "h3", "h4", "h5", "h6", "section",
    "article", "figure", "details", "hr", "form", "li",
)  # fmt: skip


def has_blocks(element: HtmlElement) -> bool:
    """Whether there is more in an element than one paragraph."""
    return len(element) > 0 and next(element.iterdescendants(*_INNER_BLOCKS), None) is not None
