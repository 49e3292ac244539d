"""Lines of markdown out of a stream of text, marks and blocks."""

import re
from dataclasses import dataclass
from typing import Final

from .escape import escape_line_start, escape_text, link_target

_RULE: Final = "---"
_MAX_PREFIX: Final = 48
"""Characters of quote marks and indentation before a line; what is nested deeper is not set in further."""
_SPACES = re.compile(r" {2,}")
_BREAKS = re.compile(r" *\n(?: *\n)+ *")


@dataclass(frozen=True, slots=True)
class Indent:
    """Where a quote or item began: the prefixes before it, and how much had been written."""

    prefix: str
    lead: str
    emitted: int


@dataclass(frozen=True, slots=True)
class _Outside:
    """What waits while a cell is written."""

    lines: list[str]
    prefix: str
    lead: str
    last_prefix: str
    marks: list[tuple[str, int, str]]
    emitted: int
    heading: int
    parts: list[str]


class MarkdownWriter:
    """Text goes in in document order; `lines` come out. Blocks are apart by one blank line, list items by none."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.heading = 0
        self.emitted = 0  # blocks
        self._parts: list[str] = []
        self._marks: list[tuple[str, int, str]] = []  # mark or "a", index into parts, target of the link
        self._prefix = ""
        self._lead = ""
        self._last_prefix = ""
        self._tight = False
        self._cells: list[_Outside] = []

    # ---- within a line

    def text(self, text: str) -> None:
        """Text of the page, as it stands in the source."""
        words = text.split()
        if not words:
            self._space()
            return
        joined = escape_text(" ".join(words))
        if text[0].isspace():
            self._space()
        self._parts.append(joined)
        if text[-1].isspace():
            self._parts.append(" ")

    def raw(self, markdown: str) -> None:
        """Markdown of one line: code, a picture, a formula."""
        self._parts.append(markdown)

    def line_break(self) -> None:
        """`br`; two of them part paragraphs."""
        self._parts.append(" " if self.heading else "\n")

    def open_mark(self, mark: str, target: str = "") -> None:
        """Emphasis (`*`, `**`, `~~`), or "a" with its target."""
        self._marks.append((mark, len(self._parts), target))

    def close_mark(self) -> None:
        """Ends the mark that was opened last."""
        mark, start, target = self._marks.pop()
        self._wrap(mark, start, target)

    def _space(self) -> None:
        if self._parts and not self._parts[-1].endswith((" ", "\n")):
            self._parts.append(" ")

    def _wrap(self, mark: str, start: int, target: str) -> None:
        if not mark or (mark == "**" and self.heading) or any(outer == mark for outer, _, _ in self._marks):
            return
        parts = self._parts
        inner = "".join(parts[start:])
        core = inner.strip()
        if not core:
            return
        del parts[start:]
        if inner[0].isspace():
            parts.append(inner[0])
        if mark == "a":
            text = " ".join(core.split())
            if text.count("[") != text.count("]"):
                text = text.replace("[", "\\[").replace("]", "\\]").replace("\\\\", "\\")
            parts.append(f"[{text}]({link_target(target)})")
        elif (
            parts
            and parts[-1].endswith(mark)
            and not parts[-1].endswith("\\" + mark)
            and len(parts[-1]) > len(mark)
        ):
            parts[-1] = parts[-1][: -len(mark)] + core + mark  # two emphases side by side are one
        else:
            parts.append(f"{mark}{core}{mark}")
        if inner[-1].isspace():
            parts.append(inner[-1])

    # ---- blocks

    def flush(self) -> None:
        """Ends the paragraph; marks that are open go on in the next."""
        if self.heading:
            self._space()
        else:
            self._end_line("")

    def _end_line(self, head: str) -> None:
        if not self._parts:
            return
        marks = self._marks
        for position in range(len(marks) - 1, -1, -1):
            mark, start, target = marks[position]
            self._marks = marks[:position]
            self._wrap(mark, start, target)
        # a link around several blocks is a link on the first of them: once is enough, and a long one stays short
        self._marks = [(mark if mark != "a" else "", 0, target) for mark, _, target in marks]
        text = "".join(self._parts).strip()
        self._parts = []
        if not text:
            return
        if "  " in text:
            text = _SPACES.sub(" ", text)
        if head:
            self.block([head + " ".join(text.split())])
            return
        if "\n" not in text:
            self.block([escape_line_start(text)])
            return
        for paragraph in _BREAKS.split(text):
            lines = [escape_line_start(line.strip()) for line in paragraph.split("\n")]
            lines = [line for line in lines if line]
            if lines:
                self.block([line + "  " for line in lines[:-1]] + lines[-1:])

    def block(self, lines: list[str]) -> None:
        """Lines that belong together; the prefix of quotes and lists goes before each."""
        out = self.lines
        if out and not self._tight:
            common = 0
            for mine, last in zip(self._prefix, self._last_prefix, strict=False):
                if mine != last:
                    break
                common += 1
            out.append(self._prefix[:common].rstrip())
        self._tight = False
        out.append(self._lead + lines[0])
        prefix = self._prefix
        if prefix:
            out.extend((prefix + line).rstrip() if not line else prefix + line for line in lines[1:])
        else:
            out.extend(lines[1:])
        self._lead = self._last_prefix = prefix
        self.emitted += 1

    def rule(self) -> None:
        """A line across, between blocks; not twice in a row, nor in cells."""
        self.flush()
        if self.lines and self.lines[-1] != _RULE and not self._cells and not self.heading:
            self.block([_RULE])

    def begin_heading(self, level: int) -> None:
        """`h1` to `h6`; what is inside becomes one line."""
        self.flush()
        self.heading = level

    def end_heading(self) -> None:
        """Ends it."""
        level, self.heading = self.heading, 0
        self._end_line("" if self._cells else "#" * level + " ")

    def begin_indent(self, marker: str, prefix: str, *, tight: bool = False) -> Indent:
        """A quote or list item: marker before its first line, prefix before the others."""
        self.flush()
        indent = Indent(self._prefix, self._lead, self.emitted)
        self._lead += marker
        if len(self._prefix) < _MAX_PREFIX:
            self._prefix += prefix
        self._tight = self._tight or tight
        return indent

    def end_indent(self, indent: Indent) -> None:
        """Ends it; one that stayed empty leaves no trace."""
        self.flush()
        self._prefix = indent.prefix
        self._lead = indent.lead if indent.emitted == self.emitted else indent.prefix
        self._tight = False

    # ---- cells

    @property
    def in_cell(self) -> bool:
        """Whether what is written goes into a table cell."""
        return bool(self._cells)

    def begin_cell(self) -> None:
        """What follows, up to `end_cell`, becomes the text of a cell."""
        self._cells.append(
            _Outside(
                self.lines,
                self._prefix,
                self._lead,
                self._last_prefix,
                self._marks,
                self.emitted,
                self.heading,
                self._parts,
            )
        )
        self.lines, self._marks, self._parts = [], [], []
        self._prefix = self._lead = self._last_prefix = ""
        self._tight, self.heading = False, 0

    def end_cell(self) -> str:
        """The cell as one line; its blocks are parted by `<br>`."""
        self.flush()
        text = "<br>".join(line.strip() for line in self.lines if line.strip())
        outside = self._cells.pop()
        self.lines, self._marks, self._parts = outside.lines, outside.marks, outside.parts
        self._prefix, self._lead, self._last_prefix = outside.prefix, outside.lead, outside.last_prefix
        self.emitted, self.heading, self._tight = outside.emitted, outside.heading, False
        return text
