"""Structure kept: the article of a page, and the whole page, share one renderer (public bug cases of other tools)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from fetchd.extract import article_markdown, whole_page_markdown

URL = "https://e.example/docs/p.html"
SENTENCE = "The gateway judges every hop before a single byte goes out to the origin. "

ROWS = [
    pytest.param(
        "<h2>Two</h2><h6>Six</h6><h3> a\n b </h3>", "## Two\n\n###### Six\n\n### a b", id="headings"
    ),
    pytest.param("<h2><b>Bold</b> <i>it</i></h2>", "## Bold *it*", id="a heading needs no bold"),
    pytest.param("<h2>Title <a href='#t'>¶</a></h2>", "## Title", id="the mark that links to a heading goes"),
    pytest.param(
        "<h2><a href=x>Title</a></h2>", "## [Title](https://e.example/docs/x)", id="a heading that links"
    ),
    pytest.param("<p>a<br>b<br><br>c", "a  \nb\n\nc", id="line breaks, two of which part paragraphs"),
    pytest.param(
        "<b>a</b><b>b</b> <em> c </em>d", "**ab** *c* d", id="emphasis side by side, and with spaces"
    ),
    pytest.param(
        "<strong><b>a</b></strong> <del>b</del>", "**a** ~~b~~", id="emphasis within the same emphasis"
    ),
    pytest.param("<p>same</p><p>same</p>", "same\n\nsame", id="repeated paragraphs stay"),
    pytest.param("a <hr> b", "a\n\n---\n\nb", id="a rule"),
    pytest.param("a <hr> <hr> b", "a\n\n---\n\nb", id="rules in a row are one"),
    pytest.param(
        "<q>a</q> H<sub>2</sub>O 10<sup>6</sup> 1<sup>st</sup>",
        '"a" H2O 10^6 1st',
        id="quotations, raised and lowered",
    ),
    # --- lists
    pytest.param("<ul><li>a<li>b</ul>", "- a\n- b", id="bullets"),
    pytest.param("<ol start=9><li>a<li>b<li value=20>c</ol>", "9. a\n10. b\n20. c", id="numbers as given"),
    pytest.param(
        "<ul><li>a<ol><li>b<ul><li>c</ul></ol><li>d</ul>", "- a\n  1. b\n     - c\n- d", id="nested lists"
    ),
    pytest.param(
        "<ul><li>a</li><ul><li>b</li></ul><li>c</li></ul>", "- a\n  - b\n- c", id="a list right in a list"
    ),
    pytest.param("<li>a</li><li>b</li>", "- a\n\n- b", id="items without a list"),
    pytest.param("<ul><li><p>a</p><p>b</p></li><li>c</ul>", "- a\n\n  b\n- c", id="paragraphs in an item"),
    pytest.param("<ul><li></li><li> </li><li>a</ul>", "- a", id="empty items leave no trace"),
    pytest.param(
        "<ul><li>a<pre>x\n  y</pre></li></ul>", "- a\n\n  ```\n  x\n    y\n  ```", id="code in an item"
    ),
    pytest.param(
        "<ul><li><input type=checkbox checked>a<li><input type=checkbox>b</ul>",
        "- [x] a\n- [ ] b",
        id="tasks",
    ),
    pytest.param("<dl><dt>T<dd>D<dd>E<dt>U<dd>F</dl>", "**T**\n: D\n: E\n\n**U**\n: F", id="definitions"),
    pytest.param("<dl><dt>T<dd><p>D</p><p>E</p></dl>", "**T**\n\nD\n\nE", id="definitions of paragraphs"),
    # --- quotes
    pytest.param(
        "<blockquote><p>a</p><p>b</p></blockquote>c", "> a\n>\n> b\n\nc", id="a quote of paragraphs"
    ),
    pytest.param(
        "<blockquote>a<blockquote>b</blockquote></blockquote>", "> a\n>\n> > b", id="a quote in a quote"
    ),
    pytest.param("<blockquote><ul><li>a<li>b</ul></blockquote>", "> - a\n> - b", id="a list in a quote"),
    pytest.param("<ul><li><blockquote>a</blockquote></ul>", "- > a", id="a quote in an item"),
    # --- code
    pytest.param(
        "<pre><code class='language-python'>def f():\n    return 1\n</code></pre>",
        "```python\ndef f():\n    return 1\n```",
        id="code with its language and indentation",
    ),
    pytest.param(
        "<div class='highlight-rust'><pre>fn</pre></div>", "```rust\nfn\n```", id="a language around"
    ),
    pytest.param("<pre data-lang=TS>x</pre>", "```ts\nx\n```", id="a language as data"),
    pytest.param("<pre class='brush: js; x'>x</pre>", "```js\nx\n```", id="a brush"),
    pytest.param("<pre class='hljs xml'>x</pre>", "```xml\nx\n```", id="a language alone"),
    pytest.param(
        "<pre class='code-block wrapper'>x</pre>", "```\nx\n```", id="other classes are no language"
    ),
    pytest.param("<pre>a ``` b</pre>", "````\na ``` b\n````", id="back-ticks inside make the fence longer"),
    pytest.param("<pre>\n\n  a\n\n  b  \n\n</pre>", "```\n  a\n\n  b\n```", id="blank lines within stay"),
    pytest.param("<pre>a<br>b<div>c</div><div>d</div></pre>", "```\na\nb\nc\nd\n```", id="lines as elements"),
    pytest.param(
        "<pre><code><span class='line'><span class=lineno>1</span>a</span>\n<span class='line'>b</span></code></pre>",
        "```\na\nb\n```",
        id="line numbers go",
    ),
    pytest.param(
        "<table class=highlight><tr><td class=gutter><pre>1\n2</pre></td><td><pre>a\nb</pre></td></table>",
        "```\na\nb\n```",
        id="line numbers as a column go too",
    ),
    pytest.param(
        "<pre><button>Copy</button>a</pre>",
        "```\na\n```",
        id="a button goes",
    ),
    pytest.param(
        "<pre>a <button>b c d e f g h i j k l m n o p q r s t u v w x y z and on to the last word</button></pre>",
        "```\na b c d e f g h i j k l m n o p q r s t u v w x y z and on to the last word\n```",
        id="a button that is never closed holds the rest of the page",
    ),
    pytest.param("<pre><button>a</button></pre>", "```\na\n```", id="a button that is all there is stays"),
    pytest.param(
        "<pre><div>bash<button>Copy</button></div><code class=language-sh>a</code></pre>",
        "```sh\na\n```",
        id="a header with the language and a button goes",
    ),
    pytest.param("<pre>1 &lt; 2 *x* _y_</pre>", "```\n1 < 2 *x* _y_\n```", id="nothing in code is escaped"),
    pytest.param("<code>a `b` c</code>", "``a `b` c``", id="back-ticks in a code span"),
    pytest.param("<code>`</code> <kbd>Ctrl</kbd>", "`` ` `` `Ctrl`", id="a code span that is one; keys"),
    # --- tables
    pytest.param(
        "<table><tr><th>A<th>B<tr><td>1<td>2</table>", "| A | B |\n| --- | --- |\n| 1 | 2 |", id="a table"
    ),
    pytest.param(
        "<table><tr><td>1<td>2<tr><td>3<td>4</table>",
        "|  |  |\n| --- | --- |\n| 1 | 2 |\n| 3 | 4 |",
        id="a table without a header is still one",
    ),
    pytest.param(
        "<table><tr><th>a|b<th><code>c|d</code><tr><td>x<td>y</table>",
        "| a\\|b | `c\\|d` |\n| --- | --- |\n| x | y |",
        id="pipes in cells",
    ),
    pytest.param(
        "<table><tr><th>A<th>B<tr><td><td>2<tr><td>3<td></table>",
        "| A | B |\n| --- | --- |\n|  | 2 |\n| 3 |  |",
        id="empty cells",
    ),
    pytest.param(
        "<table><tr><th>A<th>B<tr><td>1<td><ul><li>x<li>y</ul></table>",
        "| A | B |\n| --- | --- |\n| 1 | - x<br>- y |",
        id="a list in a cell",
    ),
    pytest.param(
        "<table><tr><th>A<th>B<tr><td><p>x</p><p><b>y</b></p><td>a<br>b</table>",
        "| A | B |\n| --- | --- |\n| x<br>**y** | a<br>b |",
        id="paragraphs and breaks in cells",
    ),
    pytest.param(
        "<table><tr><th colspan=2>A<th>B<tr><td>1<td>2<td>3</table>",
        "| A |  | B |\n| --- | --- | --- |\n| 1 | 2 | 3 |",
        id="a cell over two columns",
    ),
    pytest.param(
        "<table><tr><th>A<th>B<tr><td rowspan=2>1<td>2<tr><td>3</table>",
        "| A | B |\n| --- | --- |\n| 1 | 2 |\n|  | 3 |",
        id="a cell over two rows",
    ),
    pytest.param(
        "<table><thead><tr><td>A<td>B</thead><tbody><tr><td>1<td>2</tbody></table>",
        "| A | B |\n| --- | --- |\n| 1 | 2 |",
        id="a head of ordinary cells",
    ),
    pytest.param("<table><tr><td> <td></table>a", "a", id="a table of nothing"),
    pytest.param(
        "<table><tr><td><p>a</p><td><table><tr><th>A<th>B<tr><td>1<td>2</table></table>",
        "a\n\n| A | B |\n| --- | --- |\n| 1 | 2 |",
        id="a table around a table is layout",
    ),
    pytest.param(
        "<table><tr><td><h2>a</h2><tr><td><p>b</table>", "## a\n\nb", id="so is one of a single column"
    ),
    pytest.param(
        "<table border=0 cellpadding=0 cellspacing=0><tr><td>1.<td><a href=/x>T</a><tr><td><td>2 points</table>",
        "1. [T](https://e.example/x)\n\n2 points",
        id="rows placed by a table are lines",
    ),
    # --- links and pictures
    pytest.param(
        "<a href='/wiki/A_(b)'>A</a>", "[A](<https://e.example/wiki/A_(b)>)", id="a link with parentheses"
    ),
    pytest.param("<a href='javascript:x()'>a</a> <a>b</a>", "a b", id="links to nothing are text"),
    pytest.param("<a href=#n>a</a>", "[a](#n)", id="a link within the page"),
    pytest.param("<a href=x>[1]</a>", "[[1]](https://e.example/docs/x)", id="brackets in a link"),
    pytest.param(
        "<a href=/x><h3>Card</h3><p>text</p></a>",
        "### [Card](https://e.example/x)\n\ntext",
        id="a link around blocks",
    ),
    pytest.param("<img src=a.png alt='A [b]'>", "![A \\[b\\]](https://e.example/docs/a.png)", id="a picture"),
    pytest.param(
        "<img src=data:,x data-src=/l.png alt=L>", "![L](https://e.example/l.png)", id="a late picture"
    ),
    pytest.param(
        "<picture><source srcset=b.webp><img srcset='/c.png 2x' alt=C></picture>",
        "![C](https://e.example/c.png)",
        id="a picture of a set",
    ),
    # --- formulas
    pytest.param(
        "<math><mfrac><mi>a</mi><mrow><mi>b</mi><mo>+</mo><mn>1</mn></mrow></mfrac><mo>=</mo><msup>"
        "<mi>x</mi><mn>2</mn></msup>"
        "</math>",
        "a/(b + 1) = x^2",
        id="MathML as text",
    ),
    pytest.param(
        "<math><semantics><mi>x</mi><annotation encoding='application/x-tex'>\\bar{x}</annotation></semantics>"
        "</math>",
        "$\\bar{x}$",
        id="a formula that has its TeX",
    ),
    pytest.param("a <script type='math/tex; mode=display'>y_1</script>", "a $$y_1$$", id="TeX for a script"),
    # --- text that looks like marks
    pytest.param("a &lt;div&gt; &amp;amp; b", "a \\<div> \\&amp; b", id="tags and references in the text"),
    pytest.param("*a* _b_ snake_case 2 * 3", "\\*a\\* \\_b\\_ snake_case 2 * 3", id="stars and underscores"),
    pytest.param("[a](b) `c` [1]", "[a\\](b) \\`c\\` [1]", id="links and code"),
    pytest.param("[[]() [a[b]c](d)", "[[\\]() [a[b]c\\](d)", id="links in brackets"),
    pytest.param("<p># a<p>> b<p>---", "\\# a\n\n\\> b\n\n\\---", id="the start of a line"),
]


def article(inner: str) -> str:
    return f"<body><article><p>{SENTENCE * 3}</p>{inner}<p>{SENTENCE * 3}</p></article></body>"


@pytest.mark.parametrize(("html", "markdown"), ROWS)
def test_whole_page(html: str, markdown: str) -> None:
    assert whole_page_markdown(html, URL) == markdown


@pytest.mark.parametrize(("html", "markdown"), ROWS)
def test_article(html: str, markdown: str) -> None:
    text = article_markdown(article(html), URL)

    around = (SENTENCE * 3).strip()
    assert text == f"{around}\n\n{markdown}\n\n{around}"


@pytest.mark.parametrize(
    ("html", "markdown"),
    [
        pytest.param("<button>Buy</button><select><option>1<option>2</select>", "Buy\n\n1 2", id="controls"),
        pytest.param(
            "<textarea>t</textarea><input type=submit value=Go>", "t\n\nGo", id="what is written in them"
        ),
        pytest.param("<iframe src=/v title=Film></iframe>", "[Film](https://e.example/v)", id="frames"),
        pytest.param(
            "<video><source src=v.mp4></video>", "[video](https://e.example/docs/v.mp4)", id="films"
        ),
        pytest.param("<img src=a.png>", "![](https://e.example/docs/a.png)", id="pictures without a text"),
        pytest.param("<img src=a.png alt=''>", "", id="but not those that are marked as ornament"),
    ],
)
def test_the_whole_page_keeps_also(html: str, markdown: str) -> None:
    assert whole_page_markdown(html, URL) == markdown
    assert "Buy" in article_markdown(article("<p>Buy now.</p>"), URL)


_PIECES = st.sampled_from(
    "<p> </p> <ul> <ol> <li> </ul> <table> <tr> <td> <th> </table> <a href=x> </a> <b> </b> <pre> </pre> <h2> </h2> "
    "<blockquote> </blockquote> <dl> <dt> <dd> <code> </code> <br> <img src=a alt=b> <sup> </sup> <math> <msup> "
    "<details> <summary> <script> </script> <td colspan=9> <select> <option> <hr> <a href='//['> "
    "<button> | ` * _ [".split()
)


@given(st.lists(_PIECES | st.text(max_size=4), max_size=40).map("".join))
def test_any_markup_renders_and_its_words_stay(html: str) -> None:
    page = f"{html}</script></pre></select></option></table></a> needle"

    text = whole_page_markdown(page, URL)

    assert "needle" in text
    assert len(text) <= 4 * len(page) + (1 << 20)
    article_markdown(page, URL)


@given(st.text(alphabet="ab*_`[]()<>&#|\\~-=1. \n", max_size=30))
def test_text_reads_back_as_it_was(text: str) -> None:
    """A CommonMark parser shows the words of a paragraph, marks and all, as the page did."""
    page = " ".join(["x", *text.split(), "x"])
    html = page.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")

    markdown = whole_page_markdown(f"<p>{html}</p>", URL)

    inline = MarkdownIt("commonmark").enable(["strikethrough"]).parse(markdown)
    shown = "".join(child.content for token in inline for child in token.children or ())
    assert shown == page
