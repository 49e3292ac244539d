"""Links, headings, quotes, code, formulas, and what else stands in running text."""

from typing import Final

from lxml.html import HtmlElement

from .code import code_language, code_text
from .escape import code_span, escape_text, fence_for
from .formula import formula_markdown, tex_markdown
from .state import Close, RenderState, has_blocks, leave_open

_PERMALINKS: Final = frozenset(("¶", "#", "§", "🔗", "\u200b", ""))
_SIGNS: Final = "-+\u2212"


def begin_link(state: RenderState, element: HtmlElement) -> Close | None:
    """`a`. In a heading, the mark that links to it is left out."""
    reference = element.get("href")
    target = state.links.resolve(reference) if reference else ""
    if not target or target[:11].lower() == "javascript:":
        return leave_open
    writer = state.writer
    if writer.heading and len(element) == 0 and (element.text or "").strip() in _PERMALINKS:
        return None
    writer.open_mark("a", target)
    return writer.close_mark


def begin_heading(state: RenderState, element: HtmlElement) -> Close:
    """`h1` to `h6`."""
    state.writer.begin_heading(int(element.tag[1]))
    return state.writer.end_heading


def begin_quote(state: RenderState, element: HtmlElement) -> Close:
    """`blockquote`."""
    writer = state.writer
    indent = writer.begin_indent("> ", "> ")
    return lambda: writer.end_indent(indent)


def begin_bold_line(state: RenderState, element: HtmlElement) -> Close:
    """`summary`: a paragraph of its own, in bold."""
    writer = state.writer
    writer.flush()
    writer.open_mark("**")

    def close() -> None:
        writer.close_mark()
        writer.flush()

    return close


def begin_quotation(state: RenderState, element: HtmlElement) -> Close:
    """`q`: its quotation marks are the browser's."""
    state.writer.raw('"')
    return lambda: state.writer.raw('"')


def begin_raised(state: RenderState, element: HtmlElement) -> Close:
    """`sup` of a short number after a digit or a single letter is a power; else it is read on as it stands."""
    text = (element.text or "").strip()
    if len(element) == 0 and len(text) < 4 and (text in ("n", "x") or text.lstrip(_SIGNS).isdigit()):
        before = element.getprevious()
        around = element.getparent()
        last = before.tail if before is not None else around.text if around is not None else ""
        if last and last[-1].isalnum() and (last[-1].isdigit() or len(last.split()[-1]) == 1):
            state.writer.raw("^")
    return leave_open


def begin_code(state: RenderState, element: HtmlElement) -> Close | None:
    """`code`, `kbd`, `samp`, `tt` within a line; around blocks they are no more than a font."""
    if has_blocks(element):
        return leave_open
    text = "".join(element.itertext()) if len(element) else element.text or ""
    if text.strip():
        state.writer.raw(code_span(text))
    else:
        state.writer.text(text)
    return None


def code_block(state: RenderState, element: HtmlElement) -> None:
    """`pre`: a fence; in a cell or heading, which are one line, spans."""
    writer = state.writer
    text = code_text(element)
    if not text.strip():
        return
    writer.flush()
    if writer.in_cell or writer.heading:
        writer.raw("<br>".join(code_span(line) for line in text.split("\n") if line.strip()))
        writer.flush()
        return
    fence = fence_for(text)
    writer.block([fence + code_language(element), *text.split("\n"), fence])


def formula(state: RenderState, element: HtmlElement) -> None:
    """`math`."""
    writer = state.writer
    text = formula_markdown(element)
    display = element.get("display") == "block" and not writer.in_cell and not writer.heading
    if display:
        writer.flush()
    writer.raw(text if text.startswith("$") else escape_text(text))
    if display:
        writer.flush()


def formula_script(state: RenderState, element: HtmlElement) -> None:
    """A script that is TeX; any other is no text."""
    kind = element.get("type", "").lower()
    if kind.startswith("math/tex"):
        state.writer.raw(tex_markdown(element.text or "", display="mode=display" in kind))


def line_break(state: RenderState, element: HtmlElement) -> None:
    """`br`."""
    state.writer.line_break()


def rule(state: RenderState, element: HtmlElement) -> None:
    """`hr`."""
    state.writer.rule()
