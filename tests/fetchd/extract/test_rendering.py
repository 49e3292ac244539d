"""SPEC 2: article, whole page or plain text, and the label of each. Rendering never fails."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetchd.core.header import Extraction
from fetchd.extract import rendering
from fetchd.extract.rendering import render_page

URL = "https://e.example/docs/p.html"
SENTENCE = "The gateway judges every hop before a single byte goes out to the origin. "


def article(inner: str) -> str:
    return (
        "<html><head><title>T</title></head><body><nav><a href='/x'>Home</a> <a href='/y'>About</a></nav>"
        f"<main><article><h1>Heading</h1>{inner}</article></main><footer>Imprint and so on</footer></body></html>"
    )


def test_an_article_comes_without_its_surroundings() -> None:
    page = render_page(article(f"<p>{SENTENCE * 3}</p><p>{SENTENCE[::-1] * 3}</p>"), URL)

    assert page.extraction is Extraction.READABILITY
    assert "# Heading" in page.text
    assert SENTENCE.strip() in page.text
    assert "Imprint" not in page.text


def test_raw_gives_the_whole_page() -> None:
    page = render_page(article(f"<p>{SENTENCE * 3}</p>"), URL, raw=True)

    assert page.extraction is Extraction.RAW_HTML
    assert "Imprint" in page.text
    assert SENTENCE.strip() in page.text


@pytest.mark.parametrize(
    ("html", "text"),
    [
        pytest.param("<html><body><p>OK</p></body></html>", "OK", id="one word (C047)"),
        pytest.param("Hello", "Hello", id="no markup at all (C047)"),
        pytest.param(
            "<title>T</title><body><h1>Down for work</h1></body>", "# Down for work", id="a heading (C047)"
        ),
        pytest.param("<div>short</div>", "short", id="a short page"),
        pytest.param("", "", id="nothing"),
        pytest.param(" \n\t ", "", id="white space"),
        pytest.param("<p>&#xD800;x", "\ufffdx", id="a reference to half a surrogate pair"),
    ],
)
def test_short_pages_come_whole(html: str, text: str) -> None:
    page = render_page(html, URL)

    assert page.extraction is Extraction.RAW_HTML
    assert text in page.text
    assert page.text == page.text.strip("\n")


@pytest.mark.parametrize(("size", "label"), [(99, Extraction.RAW_HTML), (100, Extraction.READABILITY)])
def test_the_threshold_counts_bytes_of_the_trimmed_article(
    size: int, label: Extraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 98 bytes in 49 characters, then one or two more; white space around does not count.
    monkeypatch.setattr(
        rendering, "article_markdown", lambda html, url: f"\n \n{'é' * 49}{'x' * (size - 98)}\n\n"
    )

    assert render_page("<p>whole</p>", URL).extraction is label


def test_outer_blank_lines_go_and_the_first_line_keeps_its_indentation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rendering, "article_markdown", lambda html, url: f"\n  \n    code {'x' * 100}\n \n")

    assert render_page("<p>whole</p>", URL).text == f"    code {'x' * 100}"


def _fails(html: str, url: str) -> str:
    raise RecursionError


def test_when_the_whole_page_fails_the_short_article_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering, "article_markdown", lambda html, url: "short")
    monkeypatch.setattr(rendering, "whole_page_markdown", _fails)

    assert render_page("<p>page</p>", URL) == rendering.Rendering("short", Extraction.RAW_HTML)


def test_when_everything_fails_the_plain_text_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering, "article_markdown", _fails)
    monkeypatch.setattr(rendering, "whole_page_markdown", _fails)
    monkeypatch.setattr(rendering, "stream_markdown", _fails)

    assert render_page("<p>page</p>", URL) == rendering.Rendering("page", Extraction.RAW_HTML)


def test_a_page_that_breaks_our_renderer_goes_through_html2text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering, "article_markdown", _fails)
    monkeypatch.setattr(rendering, "whole_page_markdown", _fails)

    page = render_page("<h1>One</h1><p>two <a href='/x'>three</a></p>", URL)

    assert page == rendering.Rendering("# One\n\ntwo [three](https://e.example/x)", Extraction.RAW_HTML)


@pytest.mark.parametrize(
    ("html", "raw"),
    [
        pytest.param("<div>" * 1000 + "deep" + "</div>" * 1000, False, id="1,000 nested div"),
        pytest.param("<span>" * 400 + "deep" + "</span>" * 400, False, id="400 nested span"),
        pytest.param("<b>" * 20_000 + "deep", False, id="20,000 unclosed b"),
        pytest.param("<div>" * 100_000 + "deep", True, id="100,000 unclosed div, raw"),
        pytest.param("<blockquote>" * 6_600 + "deep", True, id="80 KB of nested quotes, raw"),
        pytest.param(f"<div title='{'x' * 9_000_000}'>deep</div>", False, id="an attribute of 9 MB"),
    ],
)
def test_no_text_of_a_wild_page_is_lost(html: str, raw: bool) -> None:
    """Bug case C051."""
    page = render_page(f"<p>FIRST</p>{html}<p>NEEDLE</p>", URL, raw=raw)

    assert [word for word in page.text.replace("*", " ").split() if word in ("FIRST", "deep", "NEEDLE")] == [
        "FIRST",
        "deep",
        "NEEDLE",
    ]


@pytest.mark.parametrize("raw", [False, True])
@given(html=st.lists(
    st.sampled_from(["<p>", "</p>", "<table>", "<tr>", "<td>", "<a href='", "//[", "'>", "<!--", "<pre>", "&#", "&lt",
                     "<base href='//x'>", "<script>", "</", "<![CDATA[", "\0", "\ud800"]) | st.text(max_size=5),
    max_size=30,
).map("".join))  # fmt: skip
def test_no_page_makes_it_raise(html: str, raw: bool) -> None:
    page = render_page(html, URL, raw=raw)

    page.text.encode("utf-8")
