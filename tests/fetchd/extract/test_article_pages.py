"""On a page that says it is an article, comments and the articles after it are none of it; elsewhere they stay."""

from __future__ import annotations

import pytest

from fetchd.extract.article_pages import MIN_ARTICLE, drop_others
from fetchd.extract.segments import segment_page
from fetchd.extract.tree import parse_page

OWN = f"<div><p>own {'x' * (MIN_ARTICLE - 4)}</p></div>"
THIN = f"<div><p>thin {'x' * (MIN_ARTICLE - 6)}</p></div>"
COMMENTS = (
    "<ol class=comment-list><li class=comment><p>theirs</p></li></ol><div id=comments><p>and theirs</p></div>"
)
ARTICLE = "<meta property=og:type content=article>"


def texts(head: str, body: str) -> list[str]:
    """First words of the blocks that stay when all were kept."""
    root = parse_page(f"<html><head>{head}</head><body>{body}</body></html>").root
    assert root is not None
    page = segment_page(root)
    kept = [True] * len(page.blocks)
    drop_others(page, kept)
    return [block.text.split()[0] for block, keep in zip(page.blocks, kept, strict=True) if keep]


@pytest.mark.parametrize(
    ("head", "body", "stays"),
    [
        pytest.param(ARTICLE, OWN + COMMENTS, ["own"], id="comments below an article"),
        pytest.param("", OWN + COMMENTS, ["own", "theirs", "and"], id="a page that does not say what it is"),
        pytest.param(
            "<meta property=og:type content=website>", OWN + COMMENTS, ["own", "theirs", "and"], id="a thread"
        ),
        pytest.param(ARTICLE, THIN + COMMENTS, ["thin", "theirs", "and"], id="too little beside them"),
        pytest.param(ARTICLE, OWN + "<p class=commentary>more</p>", ["own", "more"], id="another word"),
        pytest.param(
            ARTICLE,
            f"<article>{OWN}</article><article>{OWN.replace('own', 'next')}</article><p>after</p>",
            ["own", "after"],
            id="the first of several articles, and what is in none",
        ),
        pytest.param(
            ARTICLE,
            f"<article>{THIN}</article><article>{OWN}</article><article>{OWN}</article>",
            ["own"],
            id="the first that is long enough",
        ),
        pytest.param(
            ARTICLE, f"<article>{THIN}</article><article>{THIN}</article>", ["thin", "thin"], id="none is"
        ),
        pytest.param(
            ARTICLE,
            f"<article>{OWN}<article><p>within</p></article></article>",
            ["own", "within"],
            id="one within another belongs to it",
        ),
        pytest.param(
            "", f"<article>{OWN}</article><article>{OWN}</article>", ["own", "own"], id="a page of articles"
        ),
    ],
)
def test_what_stays(head: str, body: str, stays: list[str]) -> None:
    assert texts(head, body) == stays
