"""Tables: cells to rows of pipes, and which tables are there for the layout of a page alone."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from lxml.html import HtmlElement

_MAX_FILLERS: Final = 4
"""Cells that spans may add, for each real one: spans of thousands are a way to blow up a page."""


@dataclass(slots=True)
class Cell:
    """text: one line of markdown, pipes not yet escaped."""

    text: str
    columns: int = 1
    rows: int = 1
    heads: bool = False


@dataclass(slots=True)
class Table:
    """Rows while they are read."""

    rows: list[list[Cell]] = field(default_factory=list)

    def lines(self) -> list[str]:
        """The pipe table, with its delimiter row; none without text.

        Spans are filled with empty cells up to the cells of the widest row. The first row is the header when
        its cells say so; else the header is empty, since markdown has no table without one.
        """
        rows = [row for row in self.rows if row]
        if not any(cell.text for row in rows for cell in row):
            return []
        width = max(len(row) for row in rows)
        grid = _spread(rows, width)
        grid_heads = [bool(row) and all(cell.heads for cell in row) for row in rows]
        kept = [(texts, heads) for texts, heads in zip(grid, grid_heads, strict=True) if any(texts)]
        body = [texts for texts, _ in kept]
        width = max(len(texts) for texts in body)
        header = body.pop(0) if kept[0][1] and width > 0 else []
        lines = [_line(header + [""] * (width - len(header))), "|" + " --- |" * width]
        lines += [_line(texts) for texts in body]
        return lines


class Layout(Enum):
    """How a table is written that holds no data."""

    BLOCKS = auto()
    """Each cell as what it holds."""
    LINES = auto()
    """Each row as a line."""


def layout_tables(root: HtmlElement, is_code: Callable[[HtmlElement], bool]) -> dict[HtmlElement, Layout]:
    """Tables that only place things.

    BLOCKS: around other tables, of one column, of code beside line numbers, or with the role of presentation.
    LINES: without header cells, and indented by empty cells that span columns, or with borders and spaces turned
    off (border, cellpadding and cellspacing of 0).
    """
    layout: dict[HtmlElement, Layout] = {}
    for table in root.iter("table"):
        around = table.getparent()
        while around is not None and around.tag != "table":
            around = around.getparent()
        if around is not None:
            layout[around] = Layout.BLOCKS
    for table in root.iter("table"):
        if table not in layout:
            found = _classify(table, is_code)
            if found is not None:
                layout[table] = found
    return layout


def _classify(table: HtmlElement, is_code: Callable[[HtmlElement], bool]) -> Layout | None:
    """Looks at each cell once: tables within were sorted out before."""
    rows = indented = 0
    columns = False
    for row in table.iter("tr"):
        filled = 0
        for cell in row:
            if cell.tag not in ("td", "th"):
                continue
            if _has_text(cell):
                filled += 1
            elif cell.get("colspan", "1") != "1":
                indented += 1
        columns = columns or filled > 1
        rows += 1
    if is_code(table):
        return Layout.BLOCKS
    if table.find(".//th") is not None:
        return None if columns or rows > 1 else Layout.BLOCKS
    if not columns or table.get("role") in ("presentation", "none"):
        return Layout.BLOCKS
    plain = all(table.get(name) == "0" for name in ("border", "cellpadding", "cellspacing"))
    return Layout.LINES if plain or indented * 4 > rows else None


def _has_text(cell: HtmlElement) -> bool:
    return any(text and not text.isspace() for text in cell.itertext())


def _spread(rows: list[list[Cell]], width: int) -> list[list[str]]:
    budget = _MAX_FILLERS * sum(map(len, rows)) + 64
    grid: list[list[str]] = []
    below: dict[int, int] = {}  # column → rows that a cell above still covers
    for row in rows:
        texts: list[str] = []
        for cell in row:
            while below.get(len(texts), 0) > 0 and budget > 0:
                below[len(texts)] -= 1
                texts.append("")
                budget -= 1
            columns = max(1, min(cell.columns, width - len(texts)))
            if cell.rows > 1:
                for column in range(len(texts), len(texts) + columns):
                    below[column] = min(cell.rows, 1000) - 1
            texts.append(cell.text)
            fill = min(columns - 1, budget)
            budget -= fill
            texts += [""] * fill
        grid.append(texts)
    return grid


def _line(texts: list[str]) -> str:
    return "| " + " | ".join(text.replace("|", "\\|") for text in texts) + " |"
