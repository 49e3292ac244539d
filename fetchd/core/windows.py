"""Windows on a text, counted in characters (SPEC 2: Unicode characters of the content, before escaping)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Window:
    """The shown part of a text; `truncated` when there is more."""

    text: str
    truncated: bool


def cut_text(text: str, max_chars: int) -> Window:
    """The leading `max_chars` characters; a text of exactly that many is whole."""
    return Window(text[:max_chars], len(text) > max_chars)
