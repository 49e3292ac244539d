"""The provenance header: three lines and a blank one in front of the content (SPEC 2, success text)."""

from enum import StrEnum


class Extraction(StrEnum):
    """How the content was made."""

    READABILITY = "readability"
    """The main article of an HTML page as markdown."""
    RAW_HTML = "raw-html"
    """A whole HTML page as markdown."""
    PLAIN = "plain"
    """Not HTML: the decoded body as it is."""


def render_page_text(final_url: str, truncated: bool, extraction: Extraction, content: str) -> str:
    """The text of a success, before the envelope. final_url: serialized, query kept, no fragment."""
    return (
        f"url: {final_url}\ntruncated: {str(truncated).lower()}\nextraction: {extraction.value}\n\n{content}"
    )
