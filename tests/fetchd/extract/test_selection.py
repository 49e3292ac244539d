"""Which blocks are kept: by their likelihoods, and by what stands beside them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml.html import HtmlElement

from fetchd.extract.content_model import load_content_model
from fetchd.extract.features import NAMES, block_features
from fetchd.extract.segments import Page, segment_page
from fetchd.extract.selection import best_limit, drop_blocks, select_blocks
from fetchd.extract.tree import parse_page

LONG = "The gateway judges every hop before a single byte goes out to the origin. " * 3


def _page(html: str) -> Page:
    root = parse_page(html).root
    assert root is not None
    return segment_page(root)


def _select(html: str, *likelihoods: float) -> list[str]:
    page = _page(html)
    kept = select_blocks(page, list(likelihoods))
    return [block.text[:12].strip() or "image" for block, keep in zip(page.blocks, kept, strict=True) if keep]


@pytest.mark.parametrize(
    ("likelihoods", "limit"),
    [
        pytest.param([0.95, 0.9, 0.1], 0.9, id="clear content sets a high limit"),
        pytest.param([0.3, 0.25, 0.05], 0.25, id="where nothing looks like content the limit is low"),
        pytest.param([0.05, 0.02], 1.0, id="but there is a floor"),
        pytest.param([], 1.0, id="nothing"),
    ],
)
def test_the_limit_is_the_one_of_the_best_expected_score(likelihoods: list[float], limit: float) -> None:
    assert best_limit(likelihoods, [50] * len(likelihoods)) == limit


def test_a_sure_set_has_a_least_limit() -> None:
    likelihoods, words = [0.99, 0.99, 0.45], [200, 200, 50]

    assert best_limit(likelihoods, words) == 0.45
    assert best_limit(likelihoods, words, sure_limit=0.5) == 0.5


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 500)), max_size=30))
def test_any_likelihoods(blocks: list[tuple[float, int]]) -> None:
    limit = best_limit([value for value, _ in blocks], [words for _, words in blocks])

    assert limit == 1.0 or limit in [value for value, _ in blocks]


@pytest.mark.parametrize(
    ("html", "likelihoods", "kept"),
    [
        pytest.param(
            f"<h2>Head</h2><p>{LONG}", (0.2, 0.9), ["Head", "The gateway"], id="a heading of kept text"
        ),
        pytest.param(
            f"<p>{LONG}<h2>Related</h2><p>other",
            (0.9, 0.3, 0.1),
            ["The gateway"],
            id="a heading of nothing kept",
        ),
        pytest.param(
            f"<h2>A</h2><h3>B</h3><p>{LONG}",
            (0.2, 0.2, 0.9),
            ["A", "B", "The gateway"],
            id="headings of headings",
        ),
        pytest.param(
            f"<h1>Title</h1><p>{LONG}", (0.2, 0.9), ["Title", "The gateway"], id="a title with the text"
        ),
        pytest.param(
            f"<header><div><h1>Title</h1></div></header><main><div><p>{LONG}</div></main>",
            (0.2, 0.9),
            ["The gateway"],
            id="a title set apart",
        ),
        pytest.param(
            f"<div><p>{LONG}<p>short<p><a href=x>link</a></div>",
            (0.9, 0.25, 0.25),
            ["The gateway", "short"],
            id="a paragraph beside a long one, but for links",
        ),
        pytest.param(
            f"<p>{LONG}<table><tr><th>A<th>B<tr><td>1<td>2</table>",
            (0.9, 0.9, 0.9, 0.9, 0.1),
            ["The gateway", "A", "B", "1", "2"],
            id="a data table stays whole",
        ),
        pytest.param(
            f"<p>{LONG}<dl><dt>T<dd>D</dl>", (0.9, 0.9, 0.3), ["The gateway", "T", "D"], id="definitions too"
        ),
        pytest.param(
            f"<p>{LONG}<p><img src=a><p>{LONG}",
            (0.9, 0.1, 0.9),
            ["The gateway", "image", "The gateway"],
            id="a picture between kept text",
        ),
        pytest.param(f"<p>{LONG}<p><img src=a>", (0.9, 0.9), ["The gateway"], id="a picture after it"),
        pytest.param(
            f"<p>{LONG}<p><img src=a alt=x>", (0.9, 0.9), ["The gateway", "image"], id="unless it has a text"
        ),
    ],
)
def test_what_is_kept(html: str, likelihoods: tuple[float, ...], kept: list[str]) -> None:
    assert _select(html, *likelihoods) == kept


def test_dropping_takes_text_and_pictures_and_leaves_the_rest() -> None:
    page = _page("<div>a<p>b <i>c</i><img src=x>d</p>e</div>")
    root: HtmlElement = page.frames[0].element

    drop_blocks(page, [True, False, True])

    assert "".join(root.itertext()) == "ae"
    assert dict(root.find(".//img").attrib) == {}


def test_the_model_fits_the_features() -> None:
    model = load_content_model()
    page = _page(
        f"<nav><a href=a>Home</a></nav><article><p>{LONG}</p></article><footer><a href=b>Terms</a></footer>"
    )

    rows = block_features(page, model.weights)
    navigation, text, footer = model.likelihoods(page)

    assert all(len(row) == len(NAMES) for row in rows)
    assert navigation < 0.3 < 0.8 < text and footer < 0.3


@given(
    st.lists(
        st.sampled_from(
            "<p> <div> </div> <a> </a> <ul> <li> <h1> <h2> <br> <table> <td> <img> <b> words, and".split()
        )
    ).map("".join)
)
def test_likelihoods_of_any_page(html: str) -> None:
    page = _page(f"{html} x")

    assert all(0 <= value <= 1 for value in load_content_model().likelihoods(page))
