"""Text from outside, made safe for a terminal."""

import json


def escape_text(text: str) -> str:
    """`text` with everything but printable ASCII as escapes, such as ``\\x1b`` and ``\\u202e``."""
    return "".join(c if " " <= c <= "~" else c.encode("unicode_escape").decode() for c in text)


def render_json(document: object, *, terminal: bool) -> bytes:
    """One line of JSON, the same document either way.

    terminal: it goes to one, so what cannot be printed is in JSON's own escapes, such as ``\\u009b`` and ``\\u202e``:
    JSON has to escape less than moves a cursor or turns the direction of writing.
    """
    text = json.dumps(document, ensure_ascii=False)
    if terminal and not text.isprintable():
        text = "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)
    return text.encode("utf-8", "replace")
