"""Lists, as they are given: well nested, badly nested, and of definitions."""

from typing import Final

from lxml.html import HtmlElement

from .state import Close, Definition, OpenList, RenderState, has_blocks

_DIGITS: Final = 9
"""Of an item's number, in CommonMark."""


def begin_list(state: RenderState, element: HtmlElement) -> Close:
    """`ul`, `ol`. A list right in a list belongs to the item before it."""
    writer = state.writer
    around = element.getparent()
    stray = bool(state.lists) and around is not None and around.tag in ("ul", "ol")
    writer.flush()
    indent = writer.begin_indent("  ", "  ") if stray else None
    state.lists.append(OpenList((_number(element, "start") or 1) if element.tag == "ol" else None))

    def close() -> None:
        writer.flush()
        if indent is not None:
            writer.end_indent(indent)
        state.lists.pop()

    return close


def begin_item(state: RenderState, element: HtmlElement) -> Close:
    """`li`; one outside of any list is a bullet."""
    writer = state.writer
    current = state.lists[-1] if state.lists else OpenList(None)
    if current.number is None:
        marker = "- "
    else:
        value = _number(element, "value")
        current.number = current.number if value is None else value
        marker = f"{current.number}. "
    emitted = writer.emitted
    tight = current.items > 0 or len(state.lists) > 1
    indent = writer.begin_indent(marker, " " * len(marker), tight=tight)

    def close() -> None:
        writer.end_indent(indent)
        if writer.emitted > emitted:
            current.items += 1
            if current.number is not None:
                current.number = min(current.number + 1, 10**_DIGITS - 1)

    return close


def begin_term(state: RenderState, element: HtmlElement) -> Close:
    """`dt`: in bold, unless it is more than a word or two of text."""
    _end_unclosed(state, element)
    writer = state.writer
    writer.flush()
    if has_blocks(element) or (len(element) and element.find(".//code") is not None):
        return writer.flush
    writer.open_mark("**")

    def close() -> None:
        writer.close_mark()
        writer.flush()

    return close


def begin_definition(state: RenderState, element: HtmlElement) -> Close:
    """`dd`: `: ` before it; one of several blocks stands as it is."""
    _end_unclosed(state, element)
    writer = state.writer
    if has_blocks(element):
        writer.flush()
        return writer.flush
    definition = Definition(writer.begin_indent(": ", "  ", tight=True))
    state.definitions.append(definition)

    def close() -> None:
        if definition.open:
            writer.end_indent(definition.indent)
        state.definitions.remove(definition)

    return close


def _end_unclosed(state: RenderState, element: HtmlElement) -> None:
    """libxml2 puts a `dd` into the one before it when that has no end tag."""
    around = element.getparent()
    if around is not None and around.tag in ("dd", "dt") and state.definitions and state.definitions[-1].open:
        state.writer.end_indent(state.definitions[-1].indent)
        state.definitions[-1].open = False


def _number(element: HtmlElement, name: str) -> int | None:
    value = element.get(name, "").strip()
    return int(value) if value.isdecimal() and len(value) <= _DIGITS else None
