"""How much markdown may come out of a page."""

from typing import Final

from .plain_text import render_plain_text

FACTOR: Final = 4
MARGIN: Final = 1 << 20


def bound_markdown(markdown: str, html: str) -> str:
    """`markdown`, or where markup has blown up beyond 4 times the page plus 1 MiB (characters), its plain text."""
    return markdown if len(markdown) <= FACTOR * len(html) + MARGIN else render_plain_text(html)
