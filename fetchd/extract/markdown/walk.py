"""Goes over a tree and tells a writer what begins and ends. No recursion: depth is the page's choice."""

from collections.abc import Iterator
from typing import Final

from lxml.html import HtmlElement

from fetchd.extract.links import LinkResolver

from . import list_elements, media, table_elements, text_elements
from .state import Close, Handler, RenderState, leave_open
from .tables import layout_tables
from .writer import MarkdownWriter

_SKIPPED: Final = frozenset(
    "script style template noscript head link meta title param track area frameset datalist svg canvas".split()
)
_MARKS: Final = {
    "b": "**", "strong": "**", "i": "*", "em": "*", "cite": "*", "dfn": "*", "var": "*",
    "s": "~~", "strike": "~~", "del": "~~",
}  # fmt: skip
_INLINE: Final = frozenset(
    "abbr acronym bdi bdo big data font ins label mark nobr output picture rb rp rt rtc ruby small source span "
    "sub time u wbr".split()
)
_HANDLERS: Final[dict[str, Handler]] = {
    "a": text_elements.begin_link,
    **dict.fromkeys(("h1", "h2", "h3", "h4", "h5", "h6"), text_elements.begin_heading),
    "blockquote": text_elements.begin_quote,
    "summary": text_elements.begin_bold_line,
    "q": text_elements.begin_quotation,
    "sup": text_elements.begin_raised,
    **dict.fromkeys(("code", "kbd", "samp", "tt"), text_elements.begin_code),
    **dict.fromkeys(("pre", "listing", "xmp", "plaintext"), text_elements.code_block),
    "math": text_elements.formula,
    "br": text_elements.line_break,
    "hr": text_elements.rule,
    **dict.fromkeys(("ul", "ol", "menu", "dir"), list_elements.begin_list),
    "li": list_elements.begin_item,
    "dt": list_elements.begin_term,
    "dd": list_elements.begin_definition,
    "table": table_elements.begin_table,
    "tr": table_elements.begin_row,
    **dict.fromkeys(("td", "th"), table_elements.begin_cell),
    "img": media.image,
    **dict.fromkeys(media.EMBEDDED, media.embedded),
    "input": media.form_input,
    **dict.fromkeys(("button", "select", "textarea"), media.control),
    "option": media.option,
}
"""Any other element is inline when it is in _INLINE, else a block of its own."""


def render_tree(root: HtmlElement, links: LinkResolver, *, everything: bool = True) -> str:
    """`root` as markdown. everything: also form controls, embedded media, and pictures without a text.

    Hidden elements are expected to be gone or renamed (`visibility`).
    """
    writer = MarkdownWriter()
    state = RenderState(writer, links, layout_tables(root, table_elements.is_code_table), everything)
    if root.text:
        writer.text(root.text)
    stack: list[tuple[HtmlElement, Iterator[HtmlElement], Close]] = [(root, iter(root), writer.flush)]
    while stack:
        element, children, close = stack[-1]
        child = next(children, None)
        if child is None:
            stack.pop()
            close()
            if stack and element.tail:
                writer.text(element.tail)
            continue
        end = _begin(state, child)
        if end is not None:
            if child.text:
                writer.text(child.text)
            stack.append((child, iter(child), end))
        elif child.tail:
            writer.text(child.tail)
    return "\n".join(writer.lines)


def _begin(state: RenderState, element: HtmlElement) -> Close | None:
    """What ends the element; None when it was dealt with whole, or is no text."""
    tag = element.tag
    if type(tag) is not str or tag in _SKIPPED:
        if tag == "script":
            text_elements.formula_script(state, element)
        return None
    writer = state.writer
    mark = _MARKS.get(tag)
    if mark is not None:
        writer.open_mark(mark)
        return writer.close_mark
    handler = _HANDLERS.get(tag)
    if handler is not None:
        return handler(state, element)
    if tag in _INLINE:
        # the link to edit a section, which MediaWiki puts into its heading
        return None if writer.heading and "editsection" in element.get("class", "") else leave_open
    writer.flush()
    return writer.flush
