"""Text from outside, made safe for a terminal."""


def escape_text(text: str) -> str:
    """`text` with everything but printable ASCII as escapes, such as ``\\x1b`` and ``\\u202e``."""
    return "".join(c if " " <= c <= "~" else c.encode("unicode_escape").decode() for c in text)
