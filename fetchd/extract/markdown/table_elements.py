"""Tables of data as rows of pipes, and tables of layout as what is in them."""

from lxml.html import HtmlElement

from .code import is_line_number
from .state import Close, RenderState, leave_open
from .tables import Cell, Layout, Table

_MAX_SPAN = 1000


def begin_table(state: RenderState, element: HtmlElement) -> Close:
    """`table`."""
    writer = state.writer
    writer.flush()
    if element in state.layout or writer.in_cell:
        return writer.flush
    table = Table()
    state.tables.append(table)

    def close() -> None:
        writer.flush()
        state.tables.pop()
        lines = table.lines()
        if lines:
            writer.block(lines)

    return close


def begin_row(state: RenderState, element: HtmlElement) -> Close:
    """`tr`."""
    state.writer.flush()
    table = _data_table(state, element)
    if table is not None:
        table.rows.append([])
    return state.writer.flush


def begin_cell(state: RenderState, element: HtmlElement) -> Close | None:
    """`td`, `th`."""
    writer = state.writer
    table = _data_table(state, element)
    if table is None:
        if is_line_number(element):
            return None
        if state.layout.get(_table_around(element)) is Layout.LINES:
            writer.text(" ")
            return leave_open
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


def is_code_table(table: HtmlElement) -> bool:
    """Line numbers in one cell, code in the next."""
    name = table.get("class") or ""
    if "highlight" not in name and "rouge" not in name and table.find(".//pre") is None:
        return False
    return any(is_line_number(cell) for cell in table.iter("td"))


def _data_table(state: RenderState, element: HtmlElement) -> Table | None:
    """The table that is being read, when the element is of it and not of a layout table or a cell inside."""
    if not state.tables or state.writer.in_cell:
        return None
    around = _table_around(element)
    return None if around is None or around in state.layout else state.tables[-1]


def _table_around(element: HtmlElement) -> HtmlElement | None:
    around = element.getparent()
    while around is not None and around.tag in ("tr", "tbody", "thead", "tfoot"):
        around = around.getparent()
    return around if around is not None and around.tag == "table" else None


def _is_in_head(element: HtmlElement) -> bool:
    row = element.getparent()
    around = row.getparent() if row is not None else None
    return around is not None and around.tag == "thead"


def _span(element: HtmlElement, name: str) -> int:
    value = element.get(name, "1").strip()
    return min(int(value), _MAX_SPAN) if value.isdecimal() and len(value) < 10 else 1
