"""Links against the final URL or the page's base element."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetchd.extract.article import article_markdown
from fetchd.extract.links import LinkResolver
from fetchd.extract.whole_page import whole_page_markdown

URL = "https://e.example/docs/p.html"
SENTENCE = "The gateway judges every hop before a single byte goes out to the origin. "


@pytest.mark.parametrize(
    ("head", "link"),
    [
        pytest.param("", "https://e.example/docs/x.html", id="the page's own path is the base"),
        pytest.param(
            "<base href='https://cdn.example/d/'>", "https://cdn.example/d/x.html", id="another host"
        ),
        pytest.param('<BASE target=_top href="/v2/">', "https://e.example/v2/x.html", id="a relative base"),
        pytest.param("<base href=/v2/>", "https://e.example/v2/x.html", id="without quotes"),
        pytest.param("<base href='javascript:1'>", "https://e.example/docs/x.html", id="a script is no base"),
        pytest.param("<base href='data:text/html,x'>", "https://e.example/docs/x.html", id="nor is data"),
        pytest.param(
            "<base href='https://[/'>", "https://e.example/docs/x.html", id="nor what does not parse"
        ),
        pytest.param(
            "<!-- <base href='/old/'> --><script>'<base href=/js/>'</script>",
            "https://e.example/docs/x.html",
            id="nor a comment or a script",
        ),
        pytest.param(
            "<base><base href='/v2/'>", "https://e.example/v2/x.html", id="the first with href counts"
        ),
    ],
)
def test_the_base_of_a_page(head: str, link: str) -> None:
    """Bug case C049, in both renderings."""
    html = f"<html><head>{head}</head><body><article><p>{SENTENCE * 4}<a href='x.html'>here</a></p></article></body>"

    assert f"[here]({link})" in whole_page_markdown(html, URL)
    assert f"[here]({link})" in article_markdown(html, URL)


@pytest.mark.parametrize(
    ("reference", "absolute"),
    [
        ("", URL),
        ("?q=1#f", "https://e.example/docs/p.html?q=1#f"),
        ("#top", "#top"),
        ("//c.example", "https://c.example/"),
        ("/a/../b", "https://e.example/b"),
        ("/a b", "https://e.example/a%20b"),
        (" x ", "https://e.example/docs/x"),
        ("https://o.example/%7Ex?a=(b)#c", "https://o.example/%7Ex?a=(b)#c"),
        ("HTTPS://O.example/../x", "https://o.example/x"),
        ("mailto:a@b.example", "mailto:a@b.example"),
        ("https://[broken", "https://[broken"),
        ("../" * 5000, "../" * 5000),
    ],
)
def test_references(reference: str, absolute: str) -> None:
    assert LinkResolver(URL).resolve(reference) == absolute


def test_an_unreadable_page_url_leaves_links_alone() -> None:
    assert LinkResolver("p.html").resolve("x") == "x"


def test_one_broken_link_costs_only_itself() -> None:
    assert "[b](https://e.example/docs/x)" in whole_page_markdown("<a href='//['>a</a> <a href=x>b</a>", URL)


def test_a_long_base_does_not_blow_up_a_page_of_short_links() -> None:
    links = LinkResolver(URL, "https://e.example/" + "a/" * 4000)
    resolved = [links.resolve("x") for _ in range(1000)]

    assert resolved[0].endswith("a/x") and resolved[-1] == "x"
    assert sum(map(len, resolved)) < 1 << 20


@given(st.text(max_size=40))
def test_any_reference(reference: str) -> None:
    LinkResolver(URL).resolve(reference)
