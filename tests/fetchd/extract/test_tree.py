"""The parser gives the whole page, or says that it cannot."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetchd.extract.tree import MAX_DEPTH, PageTooWildError, flatten_tags, parse_page


def _words(html: str) -> tuple[list[str], bool]:
    page = parse_page(html)
    assert page.root is not None
    return " ".join(page.root.itertext()).split(), page.wild


@pytest.mark.parametrize(
    ("html", "wild"),
    [
        pytest.param("<div>" * 200 + "deep" + "</div>" * 200, False, id="200 levels are within the limits"),
        pytest.param("<div>" * 300 + "deep" + "</div>" * 300, True, id="300 levels are not"),
        pytest.param("<i><s>" * 50_000 + "deep", True, id="100,000 levels that are never closed"),
        pytest.param(f"<p title='{'x' * 10_500_000}'>deep</p>", True, id="an attribute over 10 MB"),
        pytest.param(f"<script>{'x' * 10_500_000}</script>deep", True, id="a script over 10 MB"),
    ],
)
def test_nothing_is_cut_off_in_silence(html: str, wild: bool) -> None:
    words, was_wild = _words(f"<p>FIRST</p>{html}<p>NEEDLE</p>")

    assert [word for word in words if len(word) < 10] == ["FIRST", "deep", "NEEDLE"]
    assert was_wild is wild


@pytest.mark.parametrize(
    ("html", "words"),
    [
        pytest.param("<title>T</title><nav>one</nav><p>two", "one two", id="nav after the title"),
        pytest.param(
            "<meta charset=utf-8><main>one</main>two<section>three", "one two three", id="main, text"
        ),
        pytest.param("<script></script><img</script> one", "one", id="a tag that is none"),
        pytest.param(
            "<title>T</title><article>one</article>two<p>three", "one two three", id="article, text"
        ),
        pytest.param(
            "<head><link rel=x><footer>one</footer></head><body>two", "one two", id="a head that says so"
        ),
    ],
)
def test_what_no_head_may_hold_is_in_the_body(html: str, words: str) -> None:
    """Tags of html, head and body may be left out (HTML, 13.1.2.4)."""
    root = parse_page(html).root
    assert root is not None

    assert " ".join(root.find("body").itertext()).split() == words.split()


def test_a_page_that_stays_too_deep_is_refused() -> None:
    with pytest.raises(PageTooWildError, match="nested too deeply"):
        parse_page("<div title='<'>" * 3000)  # not a tag that is taken out: it would take part of the text


@pytest.mark.parametrize("html", ["", " \n", "<!-- x -->", "\0"])
def test_pages_of_nothing(html: str) -> None:
    page = parse_page(html)

    assert page.root is None or "".join(page.root.itertext()).strip("\ufffd \n") == ""
    assert not page.wild


def test_what_no_tree_can_hold_is_replaced() -> None:
    assert _words("a\0b \ud800 c")[0] == ["a\ufffdb", "\ufffd", "c"]


@pytest.mark.parametrize(
    ("html", "flat"),
    [
        pytest.param(
            "<div><div><div>a</div></div></div>", "<div><div> a </div></div>", id="the innermost go"
        ),
        pytest.param(
            "<b><b><b><p>a<br>", "<b><b> <p>a<br>", id="void elements and unclosed ones do not nest"
        ),
        pytest.param("<i><i><i><script>x</script>", "<i><i> <script>x</script>", id="scripts stay scripts"),
        pytest.param("</i></i><i>a", "</i></i><i>a", id="end tags of nothing"),
        pytest.param("<i><i><i a='b c'/>a <b", "<i><i> a <b", id="attributes go with their tag"),
    ],
)
def test_flattening(html: str, flat: str) -> None:
    assert flatten_tags(html, limit=2) == flat


@given(
    st.lists(st.sampled_from("<i> </i> <b x=1> </b> <p> text < > & \" ' <script> </script>".split())).map(
        "".join
    )
)
def test_flattening_within_the_limit_changes_nothing(html: str) -> None:
    assert flatten_tags(html, limit=MAX_DEPTH) == html
    flatten_tags(html, limit=1)
