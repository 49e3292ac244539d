"""Pages that broke other tools, each under the 8 MiB of a body: an answer comes, it is bounded, no text is lost.

No times are asserted: a rendering that is not linear takes minutes on these, and the run would end red.
"""

from collections.abc import Callable

import pytest

from fetchd.extract import article_markdown, whole_page_markdown

URL = "https://e.example/a/b.html"
LONG = 7_900_000

PAGES = [
    pytest.param(lambda: "<div>" * 300 + "deep" + "</div>" * 300, id="300 nested div"),
    pytest.param(lambda: "<div>" * 5000 + "deep" + "</div>" * 5000, id="5,000 nested div"),
    pytest.param(lambda: "<div>" * 100_000 + "deep" + "</div>" * 100_000, id="100,000 nested div"),
    pytest.param(lambda: "<span>" * 400 + "deep" + "</span>" * 400, id="400 nested span"),
    pytest.param(lambda: "<blockquote>" * 6666 + "deep", id="80 KB of nested quotes"),
    pytest.param(lambda: "<p>" + "word " * (LONG // 5) + "deep", id="a line of 7.9 MiB"),
    pytest.param(lambda: "<p>deep " + "w" * LONG, id="a word of 7.9 MiB"),
    pytest.param(lambda: f"<script>{'x' * LONG}</script>deep", id="a script of 7.9 MiB"),
    pytest.param(lambda: f"<p title='{'x' * LONG}'>deep</p>", id="an attribute of 7.9 MiB"),
    pytest.param(lambda: f"<p>a{' ' * 3_000_000}deep</p>", id="3 million spaces"),
    pytest.param(lambda: "<p>text number one" * 100_000 + "<p>deep", id="100,000 unclosed p"),
    pytest.param(
        lambda: f"<table>{'<tr><td>a<td>b</tr>' * 50_000}<tr><td>deep<td>c</table>", id="50,000 table rows"
    ),
    pytest.param(
        lambda: f"<table>{'<tr><td colspan=1000>a<td>b</tr>' * 3000}<tr><td>deep<td>c</table>",
        id="3,000 rows of colspan 1000",
    ),
    pytest.param(
        lambda: f"<table><tr>{'<td rowspan=1000>a' * 1000}</tr>{'<tr><td>b</tr>' * 3000}<tr><td>deep</table>",
        id="1,000 columns of rowspan 1000",
    ),
    pytest.param(lambda: "<p>" + "<a href=/x>text</a> " * 200_000 + "deep", id="200,000 links"),
    pytest.param(
        lambda: f"<base href='https://e.example/{'a/' * 4000}'><p>{'<a href=x>l</a> ' * 100_000}deep",
        id="100,000 links on a base of 8 KB",
    ),
    pytest.param(
        lambda: f"<a href='{'h' * 8000}'>{'<div>x</div>' * 100_000}<p>deep</a>",
        id="a long link around blocks",
    ),
    pytest.param(lambda: "<ul><li>x" * 20_000 + "deep", id="20,000 nested lists"),
    pytest.param(
        lambda: "<ul><li>" * 100 + "<li>x" * 100_000 + "<li>deep", id="a long list set in 100 times"
    ),
    pytest.param(lambda: "<table><tr><td>" * 20_000 + "deep", id="20,000 nested tables"),
    pytest.param(lambda: "<p>" + "<i hidden></i>x " * 100_000 + "deep", id="100,000 hidden elements"),
    pytest.param(lambda: "<p>" + "[" * 1_000_000 + " deep", id="a million brackets"),
    pytest.param(lambda: "<p>" + "*a " * 500_000 + "deep", id="half a million stars"),
    pytest.param(lambda: f"<pre>{'`' * 1_000_000} deep</pre>", id="a million back-ticks"),
    pytest.param(lambda: "<p>" + "<b><i>" * 90 + "x" * 1_000_000 + " deep", id="a long text in 180 marks"),
    pytest.param(lambda: "<div title='<'>" * 20_000 + "deep", id="tags that cannot be taken out"),
    pytest.param(lambda: f"<math>{'<msup>' * 5000}deep</math>", id="a formula of 5,000 levels"),
]


@pytest.mark.parametrize("render", [article_markdown, whole_page_markdown])
@pytest.mark.parametrize("make", PAGES)
def test_nothing_is_lost_and_nothing_blows_up(
    make: Callable[[], str], render: Callable[[str, str], str]
) -> None:
    page = f"<p>FIRST</p>{make()}<p>NEEDLE"

    text = render(page, URL)

    words = ("FIRST", "deep", "NEEDLE")
    positions = [text.find(word) for word in words]
    assert -1 not in positions, [word for word in words if word not in text]
    assert positions == sorted(positions)
    assert len(text) <= 4 * len(page) + (1 << 20)
