"""Text of others, made visible: what a template shows of a log line goes through here.

Jinja escapes what HTML reads as markup. This adds what a reader would misread: characters that cannot be seen, that
turn the direction of text (U+202E), or that end a line are shown as escapes, marked as such.
"""

from typing import Final

from markupsafe import Markup, escape

MAX_SHOWN: Final = 2_200
"""Log lines cut their texts at 2,048 characters."""
MAX_LINE: Final = 20_000
MAX_IN_ROW: Final = 300


def is_plain(character: str) -> bool:
    """Whether a character is shown as it is: printable, and not one that only changes how others look."""
    return character.isprintable() and character not in _INVISIBLE


_INVISIBLE: Final = frozenset(
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0"
    + "".join(map(chr, (*range(0xFE00, 0xFE10), *range(0x180B, 0x1810), *range(0xE0100, 0xE01F0))))
)
"""Printable by category, and nothing to see all the same: fillers, and selectors of variants."""


def show(text: object, most: int = MAX_SHOWN) -> Markup:
    """As HTML, apart from its surroundings in direction (bdi). most: characters."""
    whole = str(text)
    if not whole:
        return Markup("")
    if len(whole) <= most and _is_plain_text(whole):
        return Markup("<bdi>{}</bdi>").format(whole)
    parts: list[Markup] = []
    plain = ""
    for character in whole[:most]:
        if is_plain(character):
            plain += character
            continue
        parts.append(escape(plain) + Markup('<span class="hidden-char">{}</span>').format(_name(character)))
        plain = ""
    parts.append(escape(plain))
    if len(whole) > most:
        parts.append(Markup("…"))
    return Markup("<bdi>{}</bdi>").format(Markup("").join(parts))


def show_short(text: object) -> Markup:
    """In a row among others, which one long address must not push out of sight."""
    return show(text, MAX_IN_ROW)


def show_long(text: object) -> Markup:
    """A whole line of the log."""
    return show(text, MAX_LINE)


def show_plain(text: object) -> str:
    """As text without markup, for attributes and files: escapes in place of what cannot be seen."""
    cut = str(text)[:MAX_SHOWN]
    return cut if _is_plain_text(cut) else "".join(one if is_plain(one) else _name(one) for one in cut)


def _is_plain_text(text: str) -> bool:
    """Nearly all texts: nothing in them has to be looked at by itself."""
    return text.isascii() and text.isprintable()


def _name(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
