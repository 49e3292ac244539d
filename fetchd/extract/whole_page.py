"""A whole page as markdown: nothing is left out but what no reader of the page sees."""

import html2text

from .bounds import bound_markdown
from .links import LinkResolver
from .markdown.walk import render_tree
from .plain_text import render_plain_text
from .tree import PageTooWildError, parse_page
from .visibility import hide_unseen


def whole_page_markdown(html: str, url: str) -> str:
    """All of `html`, links absolute against `url`; at most 4 times the page and 1 MiB.

    In this process and thread, for as long as it takes. Of a page that no tree can hold, the plain text.
    """
    try:
        root = parse_page(html).root
    except PageTooWildError:
        return render_plain_text(html)
    if root is None:
        return ""
    hide_unseen(root)
    return bound_markdown(render_tree(root, LinkResolver.of_tree(root, url, len(html))), html)


def stream_markdown(html: str, url: str) -> str:
    """All of `html` by html2text, which builds no tree and shares no code with ours: should that fail on a page.

    May raise anything, and take long on the pages meant to.
    """
    renderer = html2text.HTML2Text(baseurl=url, bodywidth=0)
    renderer.unicode_snob = True
    renderer.backquote_code_style = True
    return bound_markdown(renderer.handle(html), html)
