"""A page cut into blocks."""

from __future__ import annotations

import pytest

from fetchd.extract.segments import Page, segment_page
from fetchd.extract.tree import parse_page


def _cut(html: str) -> Page:
    root = parse_page(html).root
    assert root is not None
    return segment_page(root)


@pytest.mark.parametrize(
    ("html", "blocks"),
    [
        pytest.param(
            "<p>a <b>b</b> c</p><p>d", [("p", "a b c"), ("p", "d")], id="inline elements do not cut"
        ),
        pytest.param(
            "<div>a<p>b</p>c</div>", [("div", "a"), ("p", "b"), ("div", "c")], id="text around a block"
        ),
        pytest.param("<p>a<br>b", [("p", "a b")], id="a line break is a space"),
        pytest.param(
            "<p>a<script>b</script>c<noscript>d</noscript>", [("p", "ac")], id="scripts are no text"
        ),
        pytest.param("<p> \n <p>a", [("p", "a")], id="white space is no block"),
        pytest.param("<p><img src=x>", [("p", "")], id="a picture is one"),
        pytest.param("<a href=x><h2>a</h2></a>", [("h2", "a")], id="a link around a block"),
        pytest.param("<my-card>a</my-card>", [("my-card", "a")], id="an unknown element is a block"),
    ],
)
def test_blocks(html: str, blocks: list[tuple[str, str]]) -> None:
    assert [(block.frame.tag, block.text) for block in _cut(html).blocks] == blocks


def test_link_text_is_counted_through_what_is_in_the_link() -> None:
    page = _cut("<p>abc <a href=x>de <b>f</b> <i hidden></i>g</a> h</p>")

    assert page.blocks[0].link_chars == len("de f g")


def test_frames_sum_up_what_is_in_them() -> None:
    page = _cut(
        f"<div class='post-body mainContent' id=x1><p>{'long text, ' * 20}</p><ul><li><a>b</a></ul></div>"
    )
    outer = next(frame for frame in page.frames if frame.tag == "div")

    assert outer.tokens == {"post", "body", "main", "content"}
    assert (outer.blocks, outer.link_chars, outer.first) == (2, 1, 0)
    assert outer.chars == outer.long_chars + 1 == len(page.blocks[0].text) + 1
