"""Text so that markdown shows it as it stands; only what would be read as a mark is escaped."""

import re

_SPECIAL = re.compile(r"[\\<&`*_\]~]")
_MARK = re.compile(
    r"\\(?=[!-/:-@\[-`{-~])"  # a backslash that would escape something
    r"|<(?=[A-Za-z/!?])"  # a tag
    r"|&(?=#?\w{1,32};)"  # a reference
    r"|`"
    r"|\*(?=\S)|(?<=\S)\*"
    r"|(?<![^\W_])_(?=\S)|(?<=[^\s_])_(?![^\W_])"  # within words, as in snake_case, it is no mark
    r"|~(?=~)"
    r"|\](?=[(\[])"  # the middle of a link
)
_LINE_START = re.compile(r"(?:#{1,6}(?=\s|$)|>|[-=]{3,}\s*$|~~~|\|)")
_TICKS = re.compile(r"`+")


def escape_text(text: str) -> str:
    """A run of text within a line."""
    return _MARK.sub(lambda mark: "\\" + mark[0], text) if _SPECIAL.search(text) else text


def escape_line_start(line: str) -> str:
    """The first character of a line of a paragraph, where it would make the line something else."""
    return "\\" + line if _LINE_START.match(line) else line


def code_span(text: str) -> str:
    """Inline code; its back-ticks are kept by longer ones around it. "" for nothing but white space."""
    text = " ".join(text.split())
    if not text:
        return ""
    runs = {len(run) for run in _TICKS.findall(text)}
    ticks = "`"
    while len(ticks) in runs:
        ticks += "`"
    pad = " " if text[0] == "`" or text[-1] == "`" else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"


def fence_for(text: str) -> str:
    """A fence longer than any run of back-ticks in `text`."""
    longest = max(map(len, _TICKS.findall(text)), default=0)
    return "`" * max(3, longest + 1)


def link_target(url: str) -> str:
    """The inside of the parentheses of a link."""
    if "(" in url or ")" in url or " " in url:
        return "<" + url.replace("<", "%3C").replace(">", "%3E") + ">"
    return url
