"""The extractors that are compared: HTML and URL in, markdown (or what they have instead) out."""

from __future__ import annotations

from collections.abc import Callable

import html2text
import readability
import trafilatura
from resiliparse.extract.html2text import extract_plain_text

from fetchd.extract.article import article_markdown

type System = Callable[[str, str], str]


def extract_trafilatura(html: str, url: str) -> str:
    """As markdown, with everything that it can keep."""
    return (
        trafilatura.extract(
            html,
            url=url,
            output_format="markdown",
            include_tables=True,
            include_links=True,
            include_formatting=True,
        )
        or ""
    )


def extract_readability(html: str, url: str) -> str:
    """It gives HTML; html2text makes markdown of it."""
    summary = readability.Document(html, url=url).summary(html_partial=True)
    renderer = html2text.HTML2Text(baseurl=url, bodywidth=0)
    renderer.backquote_code_style = True
    renderer.ignore_images = True
    return renderer.handle(summary)


def extract_resiliparse(html: str, url: str) -> str:
    """It gives plain text with bullets."""
    return extract_plain_text(html, main_content=True, preserve_formatting=True, alt_texts=False)


SYSTEMS: dict[str, System] = {
    "fetchd": article_markdown,
    "trafilatura": extract_trafilatura,
    "readability-lxml": extract_readability,
    "resiliparse": extract_resiliparse,
}
