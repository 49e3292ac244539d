"""How a request is refused, and words of it that a refusal may repeat."""

from collections.abc import Sequence
from typing import Any

from .tools import WebTool

MAX_SHOWN = 60
MAX_ENTRIES = 10_000
"""Of any list that is looked at entry by entry: tools, plugins, models."""


class HeldError(ValueError):
    """The request is refused. The message is the refusal's: it names the tool and the way out."""


def text_of(value: object) -> str:
    """A word to look up; what is none is in no table."""
    return value if isinstance(value, str) else ""


def list_of(value: object, name: str) -> Sequence[Any]:
    """A member that is a list, or is not there."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise HeldError(f'"{name}" is no list')
    if len(value) > MAX_ENTRIES:
        raise HeldError(f'"{name}" has more than {MAX_ENTRIES} entries')
    return value


def quoted(word: object) -> str:
    """A word of the body as a message may show it: bounded, and in characters that say nothing to a terminal."""
    if not isinstance(word, str):
        return "of no name"
    shown = "".join(c if "!" <= c <= "~" and c != '"' else "?" for c in word[:MAX_SHOWN])
    return f'"{shown}"'


def spoken(web: WebTool) -> str:
    """A web tool as messages call it."""
    return web.name.replace("_", " ")
