"""Every visible word of any page."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetchd.extract.plain_text import render_plain_text


@pytest.mark.parametrize(
    ("html", "text"),
    [
        pytest.param("a<b>b</b>c<p>d", "abc\nd", id="inline elements join, blocks end a line"),
        pytest.param("a<br>b", "a\nb", id="a line break"),
        pytest.param("<p>a</p>\n\n<div><p>b", "a\nb", id="blank lines collapse"),
        pytest.param("a<!-- b -->c", "ac", id="a comment is not shown"),
        pytest.param("a<script>b<p></SCRIPT>c<style>d</style>e", "a\nc\ne", id="nor are scripts and styles"),
        pytest.param("a<script>b", "a\nb", id="an element without an end hides nothing"),
        pytest.param("a<!-- b", "a<!-- b", id="nor does a comment without one"),
        pytest.param("1 < 2 && 3 > 2 &lt;b>", "1 < 2 && 3 > 2 <b>", id="what is no tag is text"),
        pytest.param("<title>T</title>x", "T\nx", id="the title is kept"),
        pytest.param("<!doctype html><?x?>a</>b", "ab", id="declarations"),
        pytest.param("a<a href='", "a<a href='", id="a tag that breaks off is kept"),
        pytest.param(
            "\u0130<script>x</script>y", "\u0130\ny", id="a letter that grows in lower case moves nothing"
        ),
    ],
)
def test_rendering(html: str, text: str) -> None:
    assert render_plain_text(html) == text


@given(
    st.lists(
        st.sampled_from("< > <! <!-- --> </ <a <b> </b> <p> <script> </script> & x".split())
        | st.text(max_size=3)
    ).map("".join)
)
def test_any_page(html: str) -> None:
    render_plain_text(f"{html}").encode("utf-8", "surrogatepass")


@pytest.mark.parametrize("part", ["<", "<!", "<!--", "<a ", "<script>", "<p>", "&#", "</"])
def test_a_page_of_openings_is_read_in_one_pass(part: str) -> None:
    """1 MB each; a scan that looks again for the missing end each time takes hours, and the run ends red."""
    render_plain_text(part * (1_000_000 // len(part)))
