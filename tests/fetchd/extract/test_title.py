"""A title that stands apart from its article is kept; names of sites and sections are not taken for one."""

from __future__ import annotations

import pytest

from fetchd.extract import article_markdown
from fetchd.extract.segments import segment_page
from fetchd.extract.selection import select_blocks
from fetchd.extract.title import MAX_BETWEEN, find_title
from fetchd.extract.tree import parse_page

LONG = "The gateway judges every hop before a single byte goes out to the origin, and tells the agent why it did. "
URL = "https://news.example/2026/gates"
TITLE = "How a gate is kept"
HEAD = f"<title>{TITLE} | The Daily Gate</title>"
BODY = f"<main><div class=text><p>{LONG * 2}</p><p>{LONG * 2}</p></div></main>"


def page(head: str, top: str, body: str = BODY) -> str:
    return f"<html><head>{head}</head><body>{top}{body}</body></html>"


def find(html: str, likelihood: float = 0.01) -> str | None:
    """The title that is found where every block but the long ones is as likely as this."""
    root = parse_page(html).root
    assert root is not None
    read = segment_page(root)
    kept = [len(block.text) > 200 for block in read.blocks]
    found = find_title(read, kept)
    likelihoods = [0.95 if keep else likelihood for keep in kept]
    chosen = select_blocks(read, likelihoods)
    assert found is None or chosen[found]
    return None if found is None else read.blocks[found].text


@pytest.mark.parametrize(
    "html",
    [
        pytest.param(page(HEAD, f"<header><h1>{TITLE}</h1></header>"), id="in a header"),
        pytest.param(
            page(HEAD, f"<header><h1>{TITLE}</h1><p>By A. Warden</p><time>1 May</time></header>"),
            id="before who wrote it and when",
        ),
        pytest.param(
            page(f"<title>The Daily Gate: {TITLE}</title>", f"<div><h1>{TITLE}</h1></div>"),
            id="named at the end of <title>",
        ),
        pytest.param(
            page(
                f"<title>x</title><meta property=og:title content='{TITLE}'>", f"<div><h1>{TITLE}</h1></div>"
            ),
            id="named by og:title alone",
        ),
        pytest.param(
            page(HEAD, f"<div><h1><a href='{URL}'>{TITLE.upper()}</a></h1></div>"),
            id="a link to itself, in capitals",
        ),
        pytest.param(
            page(HEAD, f"<header><h1><a href=/>The Daily Gate</a></h1></header><div><h1>{TITLE}</h1></div>"),
            id="beside the site's name, an h1 too",
        ),
        pytest.param(
            page(HEAD, f"<div><h1>{TITLE}</h1></div><p>{'x' * MAX_BETWEEN}</p>"), id="just near enough"
        ),
    ],
)
def test_a_title_set_apart_is_found(html: str) -> None:
    found = find(html)

    assert found is not None and found.lower() == TITLE.lower()


@pytest.mark.parametrize(
    "html",
    [
        pytest.param(
            page("<title>The Daily Gate</title>", "<header><h1><a href=/>The Daily Gate</a></h1></header>"),
            id="a link to the front page",
        ),
        pytest.param(
            page(
                "<title>Gates | The Daily Gate</title>",
                "<header><h1><a href='https://news.example/'>The Daily Gate</a></h1></header>",
            ),
            id="a link to the front page, written out",
        ),
        pytest.param(
            page(
                f"{HEAD}<meta property=og:site_name content='The Daily Gate'>",
                "<header><h1>The Daily Gate</h1></header>",
            ),
            id="the site's name, and the page says so",
        ),
        pytest.param(
            page(HEAD, "<header><h1>News from the wall</h1></header>"), id="not what the page is called"
        ),
        pytest.param(page("<title>Gates - x</title>", "<h1>Gates</h1>"), id="one word"),
        pytest.param(page(HEAD, f"<nav><h1>{TITLE}</h1></nav>"), id="in a navigation"),
        pytest.param(page(HEAD, f"<aside><div><h1>{TITLE}</h1></div></aside>"), id="beside the page"),
        pytest.param(page(HEAD, "", f"{BODY}<footer><h1>{TITLE}</h1></footer>"), id="after the text"),
        pytest.param(page(HEAD, f"<div><h1>{TITLE}</h1></div><div><h1>{TITLE}</h1></div>"), id="twice"),
        pytest.param(
            page(HEAD, f"<div><h1>{TITLE}</h1></div>" + f"<p>{'x' * 190}</p>" * 11),
            id="too far from the text",
        ),
        pytest.param(page(HEAD, f"<h2>{TITLE}</h2>"), id="an h2"),
        pytest.param(page(HEAD, "<h1></h1>"), id="nothing in it"),
        pytest.param(page(HEAD, f"<h1>{TITLE}</h1>", "<p>short</p>"), id="no text that it could head"),
    ],
)
def test_what_is_no_title(html: str) -> None:
    assert find(html) is None


def test_an_article_that_has_its_title_gets_no_second_one() -> None:
    html = page(HEAD, f"<div><h1>{TITLE}</h1></div>", f"<h1>{LONG * 3}</h1>{BODY}")

    assert find(html) is None


def test_the_article_begins_with_its_title() -> None:
    html = f"""<html><head>{HEAD}<meta property=og:site_name content="The Daily Gate"></head><body>
<header class=site-header><a href=/>The Daily Gate</a><nav><ul><li><a href=/a>World</a></ul></nav></header>
<header class=hero><div class=hero-inner><h1>{TITLE}</h1><div class=meta><a href=/w>A. Warden</a></div></div></header>
<div class=layout><div class=entry-content><p>{LONG * 2}</p><p>{LONG[::-1]} {LONG}</p><p>{LONG * 3}</p></div></div>
<footer><p>Copyright The Daily Gate. <a href=/terms>Terms of use</a></p></footer></body></html>"""

    article = article_markdown(html, URL)

    assert article.startswith(f"# {TITLE}\n\n")
    assert "World" not in article and "Terms" not in article and "Daily" not in article
