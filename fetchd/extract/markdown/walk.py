"""Goes over a tree, and tells a writer what begins and ends. No recursion: depth is the page's choice."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from lxml.html import HtmlElement

from fetchd.extract.links import LinkResolver

from .code import code_language, code_text, is_line_number
from .escape import code_span, escape_text, fence_for, link_target
from .formula import formula_markdown, tex_markdown
from .tables import Cell, Layout, Table, layout_tables
from .writer import MarkdownWriter

_SKIPPED: Final = frozenset(
    "script style template noscript head link meta title param track area frameset datalist svg canvas".split()
)
_MARKS: Final = {
    "b": "**", "strong": "**", "i": "*", "em": "*", "cite": "*", "dfn": "*", "var": "*",
    "s": "~~", "strike": "~~", "del": "~~",
}  # fmt: skip
_INLINE: Final = frozenset(
    "abbr acronym bdi bdo big data font ins label mark nobr output picture q rb rp rt rtc ruby samp small source "
    "span sub sup time u wbr".split()
)
_CODE: Final = frozenset("code kbd tt samp".split())
_EMBEDDED: Final = {
    "iframe": "frame",
    "video": "video",
    "audio": "audio",
    "embed": "embedded",
    "object": "object",
}
_PERMALINKS: Final = frozenset("¶ # § 🔗 ​ \u200b".split(" "))
_MAX_NUMBER: Final = 999_999_999

type _Close = Callable[[], None]


@dataclass(slots=True)
class _List:
    """number: of the next item, None for bullets."""

    number: int | None
    items: int = 0


@dataclass(slots=True, eq=False)
class _Definition:
    """A `dd` that is being read. state: the writer's; open: whether it has still to be given back."""

    state: tuple[str, str, int]
    open: bool = True


def render_tree(root: HtmlElement, links: LinkResolver, *, everything: bool = True) -> str:
    """`root` as markdown. everything: also form controls, embedded media, and pictures without a text.

    Hidden elements are expected to be gone or renamed (`visibility`).
    """
    return _Walker(root, links, everything).run()


class _Walker:
    def __init__(self, root: HtmlElement, links: LinkResolver, everything: bool) -> None:
        self._root: Final = root
        self._links: Final = links
        self._everything: Final = everything
        self._writer: Final = MarkdownWriter()
        self._layout: Final = layout_tables(root, _is_code_table)
        self._lists: list[_List] = []
        self._tables: list[Table] = []
        self._definitions: list[_Definition] = []

    def run(self) -> str:
        writer = self._writer
        stack: list[tuple[HtmlElement, Iterator[HtmlElement], _Close]] = []
        if self._root.text:
            writer.text(self._root.text)
        stack.append((self._root, iter(self._root), writer.flush))
        while stack:
            element, children, close = stack[-1]
            child = next(children, None)
            if child is None:
                stack.pop()
                close()
                if stack and element.tail:
                    writer.text(element.tail)
                continue
            tag = child.tag
            close_child = self._begin(child, tag) if type(tag) is str and tag not in _SKIPPED else None
            if close_child is None:
                if tag == "script":
                    self._formula_script(child)
                if child.tail:
                    writer.text(child.tail)
                continue
            if child.text:
                writer.text(child.text)
            stack.append((child, iter(child), close_child))
        return "\n".join(writer.lines)

    # Each returns what ends the element, or None when the element was dealt with whole.

    def _begin(self, element: HtmlElement, tag: str) -> _Close | None:
        writer = self._writer
        mark = _MARKS.get(tag)
        if mark is not None:
            writer.open_mark(mark)
            return writer.close_mark
        if tag in _CODE and not _has_blocks(element):
            text = (element.text or "") if not len(element) else "".join(element.itertext())
            if text.strip():
                writer.raw(code_span(text))
            else:
                writer.text(text)
            return None
        special = _SPECIAL.get(tag)
        if special is not None:
            return special(self, element)
        if tag in _INLINE:
            return None if writer.heading and "editsection" in element.get("class", "") else _nothing
        writer.flush()
        return writer.flush

    def _begin_link(self, element: HtmlElement) -> _Close | None:
        reference = element.get("href")
        target = self._links.resolve(reference) if reference else ""
        if not target or target.lower().startswith("javascript:"):
            return _nothing
        if self._writer.heading and "".join(element.itertext()).strip() in _PERMALINKS:
            return None
        self._writer.open_mark("a", target)
        return self._writer.close_mark

    def _begin_heading(self, element: HtmlElement) -> _Close:
        self._writer.begin_heading(int(element.tag[1]))
        return self._writer.end_heading

    def _begin_quote(self, element: HtmlElement) -> _Close:
        state = self._writer.begin_indent("> ", "> ")
        return lambda: self._writer.end_indent(state)

    def _begin_list(self, element: HtmlElement) -> _Close:
        writer = self._writer
        if element.tag == "ol":
            start = element.get("start", "1").strip()
            self._lists.append(_List(int(start) if start.isdecimal() and len(start) < 10 else 1))
        else:
            self._lists.append(_List(None))
        # a list right inside a list belongs to the item before it
        around = element.getparent()
        stray = around is not None and around.tag in ("ul", "ol") and len(self._lists) > 1
        state = writer.begin_indent("  ", "  ") if stray else None

        def close() -> None:
            if state is not None:
                writer.end_indent(state)
            else:
                writer.flush()
            self._lists.pop()

        if state is None:
            writer.flush()
        return close

    def _begin_item(self, element: HtmlElement) -> _Close:
        writer = self._writer
        current = self._lists[-1] if self._lists else _List(None, 0)
        value = element.get("value", "")
        if current.number is not None and value.isdecimal() and len(value) < 10:
            current.number = int(value)
        marker = "- " if current.number is None else f"{min(current.number, _MAX_NUMBER)}. "
        lines = len(writer.lines)
        tight = current.items > 0 or len(self._lists) > 1
        state = writer.begin_indent(marker, " " * len(marker), tight=tight)

        def close() -> None:
            writer.end_indent(state)
            if len(writer.lines) > lines:
                current.items += 1
                if current.number is not None:
                    current.number += 1

        return close

    def _begin_term(self, element: HtmlElement) -> _Close:
        self._end_unclosed(element)
        self._writer.flush()
        if _has_blocks(element) or (len(element) and element.find(".//code") is not None):
            return self._writer.flush
        self._writer.open_mark("**")

        def close() -> None:
            self._writer.close_mark()
            self._writer.flush()

        return close

    def _begin_definition(self, element: HtmlElement) -> _Close:
        self._end_unclosed(element)
        if _has_blocks(element):
            self._writer.flush()
            return self._writer.flush
        definition = _Definition(self._writer.begin_indent(": ", "  ", tight=True))
        self._definitions.append(definition)

        def close() -> None:
            if definition.open:
                self._writer.end_indent(definition.state)
            self._definitions.remove(definition)

        return close

    def _end_unclosed(self, element: HtmlElement) -> None:
        """libxml2 puts a `dd` into the one before it when that has no end tag."""
        around = element.getparent()
        if (
            around is not None
            and around.tag in ("dd", "dt")
            and self._definitions
            and self._definitions[-1].open
        ):
            self._writer.end_indent(self._definitions[-1].state)
            self._definitions[-1].open = False

    def _begin_table(self, element: HtmlElement) -> _Close:
        writer = self._writer
        writer.flush()
        if element in self._layout or writer.in_cell:
            return writer.flush
        table = Table()
        self._tables.append(table)

        def close() -> None:
            writer.flush()
            self._tables.pop()
            lines = table.lines()
            if lines:
                writer.block(lines)

        return close

    def _begin_row(self, element: HtmlElement) -> _Close:
        self._writer.flush()
        if self._table_of(element) is not None:
            self._tables[-1].rows.append([])
        return self._writer.flush

    def _begin_table_cell(self, element: HtmlElement) -> _Close | None:
        writer = self._writer
        table = self._table_of(element)
        if table is None:
            if is_line_number(element):
                return None
            if self._layout.get(_table_around(element)) is Layout.LINES:
                writer.text(" ")
                return _nothing
            writer.flush()
            return writer.flush
        writer.begin_cell()

        def close() -> None:
            text = writer.end_cell()
            if not table.rows:
                table.rows.append([])
            heads = element.tag == "th" or _is_in_head(element)
            table.rows[-1].append(Cell(text, _span(element, "colspan"), _span(element, "rowspan"), heads))

        return close

    def _table_of(self, element: HtmlElement) -> Table | None:
        """The table that is being read, when the element is of it and not of a layout table or a cell inside."""
        if not self._tables:
            return None
        around = _table_around(element)
        return None if around is None or around in self._layout or self._writer.in_cell else self._tables[-1]

    def _code_block(self, element: HtmlElement) -> None:
        writer = self._writer
        text = code_text(element)
        if not text.strip():
            return
        if writer.in_cell or writer.heading:
            writer.flush()
            spans = [code_span(line) for line in text.split("\n") if line.strip()]
            writer.raw("<br>".join(spans))
            writer.flush()
            return
        writer.flush()
        fence = fence_for(text)
        writer.block([fence + code_language(element), *text.split("\n"), fence])

    def _formula(self, element: HtmlElement) -> None:
        text = formula_markdown(element)
        display = element.get("display") == "block" and not self._writer.in_cell and not self._writer.heading
        if display:
            self._writer.flush()
        self._writer.raw(text if text.startswith("$") else escape_text(text))
        if display:
            self._writer.flush()

    def _formula_script(self, element: HtmlElement) -> None:
        kind = element.get("type", "").lower()
        if kind.startswith("math/tex"):
            self._writer.raw(tex_markdown(element.text or "", display="mode=display" in kind))

    def _image(self, element: HtmlElement) -> None:
        text = " ".join((element.get("alt") or "").split())
        source = _image_source(element)
        if source.startswith("data:") or not source:
            if text and self._everything:
                self._writer.text(text)
            return
        if not text and (not self._everything or element.get("alt") is not None):
            return
        text = text.replace("[", "\\[").replace("]", "\\]")
        self._writer.raw(f"![{text}]({link_target(self._links.resolve(source))})")

    def _embedded(self, element: HtmlElement) -> _Close | None:
        if not self._everything:
            return None
        source = element.get("src") or element.get("data") or ""
        if not source:
            inner = element.find("source")
            source = (inner.get("src") or "") if inner is not None else ""
        if source and not source.startswith(("data:", "about:", "javascript:")):
            self._writer.flush()
            name = " ".join((element.get("title") or _EMBEDDED[element.tag]).split())
            self._writer.open_mark("a", self._links.resolve(source))
            self._writer.text(name)
            self._writer.close_mark()
        self._writer.flush()
        return self._writer.flush if element.tag == "object" else None

    def _input(self, element: HtmlElement) -> None:
        kind = element.get("type", "text").lower()
        if kind == "checkbox" and element.getparent() is not None and self._lists:
            self._writer.raw("[x] " if element.get("checked") is not None else "[ ] ")
        elif kind in ("submit", "button", "reset") and self._everything:
            self._writer.text(f" {element.get('value', '')} ")

    def _control(self, element: HtmlElement) -> _Close | None:
        """button, select, textarea."""
        if not self._everything and element.tag != "button":
            return None
        self._writer.flush()
        return self._writer.flush

    def _option(self, element: HtmlElement) -> _Close | None:
        if not self._everything:
            return None
        self._writer.text(" ")
        return lambda: self._writer.text(" ")

    def _line_break(self, element: HtmlElement) -> None:
        self._writer.line_break()

    def _rule(self, element: HtmlElement) -> None:
        self._writer.flush()
        if not self._writer.in_cell:
            self._writer.block(["---"])

    def _begin_raised(self, element: HtmlElement) -> _Close:
        """`sup` of a number after a number or letter is a power; else it is read on as it stands."""
        text = (element.text or "").strip()
        if (
            len(element) == 0
            and text.lstrip("-+−").isalnum()
            and len(text) < 4
            and not text.isalpha()
            or text in ("n", "x")
        ):
            before = element.getprevious()
            last = before.tail if before is not None else getattr(element.getparent(), "text", "")
            if last and last[-1].isalnum() and (last[-1].isdigit() or len(last.split()[-1]) == 1):
                self._writer.raw("^")
        return _nothing

    def _begin_summary(self, element: HtmlElement) -> _Close:
        self._writer.flush()
        self._writer.open_mark("**")

        def close() -> None:
            self._writer.close_mark()
            self._writer.flush()

        return close


_SPECIAL: Final[dict[str, Callable[[_Walker, HtmlElement], _Close | None]]] = {
    "a": _Walker._begin_link,
    **dict.fromkeys(("h1", "h2", "h3", "h4", "h5", "h6"), _Walker._begin_heading),
    "blockquote": _Walker._begin_quote,
    **dict.fromkeys(("ul", "ol", "menu", "dir"), _Walker._begin_list),
    "li": _Walker._begin_item,
    "dt": _Walker._begin_term,
    "dd": _Walker._begin_definition,
    "table": _Walker._begin_table,
    "tr": _Walker._begin_row,
    "td": _Walker._begin_table_cell,
    "th": _Walker._begin_table_cell,
    **dict.fromkeys(("pre", "listing", "xmp", "plaintext"), _Walker._code_block),
    "math": _Walker._formula,
    "img": _Walker._image,
    **dict.fromkeys(_EMBEDDED, _Walker._embedded),
    "input": _Walker._input,
    **dict.fromkeys(("button", "select", "textarea"), _Walker._control),
    "option": _Walker._option,
    "br": _Walker._line_break,
    "hr": _Walker._rule,
    "sup": _Walker._begin_raised,
    "summary": _Walker._begin_summary,
}

_INNER_BLOCKS: Final = frozenset(
    "p div ul ol dl table pre blockquote h1 h2 h3 h4 h5 h6 section article figure details hr form li".split()
)


def _table_around(element: HtmlElement) -> HtmlElement | None:
    """The table that a row or cell is of; None for a stray one."""
    around = element.getparent()
    while around is not None and around.tag in ("tr", "tbody", "thead", "tfoot"):
        around = around.getparent()
    return around if around is not None and around.tag == "table" else None


def _nothing() -> None:
    """Ends an element that leaves no mark."""


def _has_blocks(element: HtmlElement) -> bool:
    return len(element) > 0 and next(element.iterdescendants(*_INNER_BLOCKS), None) is not None


def _is_in_head(element: HtmlElement) -> bool:
    row = element.getparent()
    around = row.getparent() if row is not None else None
    return around is not None and around.tag == "thead"


def _span(element: HtmlElement, name: str) -> int:
    value = element.get(name, "1").strip()
    return min(int(value), 1000) if value.isdecimal() and len(value) < 10 else 1


def _is_code_table(table: HtmlElement) -> bool:
    """Line numbers in one cell, code in the next."""
    name = table.get("class") or ""
    if "highlight" not in name and "rouge" not in name and table.find(".//pre") is None:
        return False
    return any(is_line_number(cell) for cell in table.iter("td"))


def _image_source(element: HtmlElement) -> str:
    """src, or where pages that load late keep it."""
    source = (element.get("src") or "").strip()
    if source and not source.startswith("data:"):
        return source
    for name in ("data-src", "data-original", "data-lazy-src", "data-url"):
        late = (element.get(name) or "").strip()
        if late:
            return late
    choices = (element.get("srcset") or element.get("data-srcset") or "").split()
    return choices[0] if choices and not choices[0].startswith("data:") else source
