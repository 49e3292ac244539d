"""The links of a page: absolute, in order, each once, and nothing but http and https."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetchd.extract.page_links import extract_links

URL = "https://a.example/dir/page?x=1"

ROWS: dict[str, tuple[str, list[str]]] = {
    "none": ("<p>no links", []),
    "nothing at all": ("", []),
    "relative": ('<a href="b">', ["https://a.example/dir/b"]),
    "rooted, white space around": ('<a href=" /b ">', ["https://a.example/b"]),
    "another host": ('<a href="//b.example/c">', ["https://b.example/c"]),
    "http is kept": ('<a href="http://b.example/">', ["http://b.example/"]),
    "a query alone": ('<a href="?y">', ["https://a.example/dir/page?y"]),
    "empty: the page itself": ('<a href="">', ["https://a.example/dir/page?x=1"]),
    "a fragment: the page itself at that place": ('<a href="#top">', ["https://a.example/dir/page?x=1#top"]),
    "in order, each once": (
        '<a href="c"><a href="b"><a href="c"><a href="/dir/c">',
        ["https://a.example/dir/c", "https://a.example/dir/b"],
    ),
    "the base of the page": ('<base href="/other/"><a href="b">', ["https://a.example/other/b"]),
    "a fragment under a base leads there": (
        '<base href="/other/"><a href="#x">',
        ["https://a.example/other/#x"],
    ),
    "the first base that has a place": (
        '<base target=_top><base href="/o/"><a href="b">',
        ["https://a.example/o/b"],
    ),
    "areas of maps": ('<map><area href="b"></map>', ["https://a.example/dir/b"]),
    "no href": ("<a name=x>", []),
    "mail": ('<a href="mailto:a@b.example">', []),
    "script": ('<a href="JavaScript:alert(1)">', []),
    "data": ('<a href="data:text/html,x">', []),
    "ftp": ('<a href="ftp://a.example/">', []),
    "no URL": ('<a href="https://[x/">', []),
    "stylesheets and images are no links": ('<link href="a.css"><img src="b.png">', []),
    "letters beyond ASCII": ('<a href="/ü">', ["https://a.example/%C3%BC"]),
}


@pytest.mark.parametrize("sentence", ROWS)
def test_links(sentence: str) -> None:
    html, links = ROWS[sentence]
    assert extract_links(html, URL) == links


TEXTS: dict[str, tuple[str, list[dict[str, str]]]] = {
    "the text of a link": (
        '<a href="/b"> To <b>b</b>\n</a>',
        [{"url": "https://a.example/b", "text": "To b"}],
    ),
    "an image says what it shows": (
        '<a href="/b"><img alt="B"></a>',
        [{"url": "https://a.example/b", "text": "B"}],
    ),
    "a label": ('<a href="/b" aria-label="B"></a>', [{"url": "https://a.example/b", "text": "B"}]),
    "the first text that there is": (
        '<a href="/b"><img></a><a href="/c">C</a><a href="/b">B</a><a href="/b">later</a>',
        [{"url": "https://a.example/b", "text": "B"}, {"url": "https://a.example/c", "text": "C"}],
    ),
    "an area's alt": ('<area href="/b" alt="B">', [{"url": "https://a.example/b", "text": "B"}]),
    "no text": ('<a href="/b"></a>', [{"url": "https://a.example/b", "text": ""}]),
}


@pytest.mark.parametrize("sentence", TEXTS)
def test_links_with_their_text(sentence: str) -> None:
    html, links = TEXTS[sentence]
    assert extract_links(html, URL, with_text=True) == links


def test_no_link_of_many_is_lost() -> None:
    """A long base makes each of them long."""
    page = f'<base href="https://a.example/{"x" * 2000}/">' + "".join(f'<a href="{n}">' for n in range(3000))
    links = extract_links(page, URL)
    assert len(links) == 3000
    assert all(isinstance(link, str) and link.startswith("https://a.example/xxx") for link in links)


@given(st.lists(st.text(max_size=40), max_size=8))
def test_whatever_stands_there_what_comes_out_is_absolute_and_once(references: list[str]) -> None:
    from html import escape

    page = "".join(f'<a href="{escape(reference)}">x</a>' for reference in references)
    links = extract_links(page, URL)
    assert len(links) == len({str(link) for link in links})
    assert all(str(link).lower().startswith(("https://", "http://")) for link in links)
