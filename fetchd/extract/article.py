"""The main article of a page as markdown."""

from typing import Final

import trafilatura

from .links import LinkResolver

_LINKS: Final = (("a", "href"), ("img", "src"))


def article_markdown(html: str, url: str) -> str:
    """The main article of `html`, links absolute against `url`; "" when none is found.

    In this process and thread, for as long as it takes; the caller bounds it.
    """
    tree = trafilatura.load_html(html)
    if tree is None:
        return ""
    links = LinkResolver.of_page(html, url)
    for tag, attribute in _LINKS:
        for element in tree.iter(tag):
            reference = element.get(attribute)
            if reference:
                element.set(attribute, links.resolve(reference))
    return (
        trafilatura.extract(
            tree,
            url=url,
            output_format="markdown",
            include_comments=True,
            include_tables=True,
            include_links=True,
            include_images=True,
            include_formatting=True,
            deduplicate=False,
        )
        or ""
    )
