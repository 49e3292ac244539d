"""SPEC 4: rows to text, to the byte."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetchd.core.failures import FailureKind
from fetchd.search.arguments import WHITE_SPACE
from fetchd.search.interface import SearchFailure, SearchRow
from fetchd.search.results import NOT_RENDERED, find_blank_url, render_results

FULL = SearchRow(
    "https://www.rust-lang.org/",
    "Rust",
    "A language",
    "2 days ago",
    "www.rust-lang.org",
    ("Fast.", "Safe."),
)


@pytest.mark.parametrize(
    ("query", "rows", "text"),
    [
        pytest.param("x", [], '{"query":"x","results":[]}', id="nothing found"),
        pytest.param(
            "rust",
            [FULL, SearchRow("https://b.example/")],
            '{"query":"rust","results":['
            '{"title":"Rust","url":"https://www.rust-lang.org/","description":"A language",'
            '"age":"2 days ago","site_name":"www.rust-lang.org","extra_snippets":["Fast.","Safe."]},'
            '{"title":"","url":"https://b.example/","description":""}]}',
            id="all six fields, and the three that are always there",
        ),
        pytest.param(
            "x",
            [SearchRow("u", age="", site_name="", extra_snippets=())],
            '{"query":"x","results":[{"title":"","url":"u","description":""}]}',
            id="what holds nothing is left out",
        ),
        pytest.param(
            ' é😀"\\\n\x00\x7f ',
            [SearchRow("javascript:1", "<b>t</b>", "\u2028")],
            '{"query":" é😀\\"\\\\\\n\\u0000\x7f ","results":'
            '[{"title":"<b>t</b>","url":"javascript:1","description":"\u2028"}]}',
            id="raw UTF-8, the query's own text",
        ),
    ],
)
def test_the_text(query: str, rows: list[SearchRow], text: str) -> None:
    assert render_results(query, rows) == text


@pytest.mark.parametrize(
    "row",
    [
        SearchRow("https://a.example/\ud800"),
        SearchRow("u", title="\udfff"),
        SearchRow("u", description="\ud800"),
        SearchRow("u", age="\ud800"),
        SearchRow("u", site_name="\ud800"),
        SearchRow("u", extra_snippets=("a", "\ud800")),
        SearchRow("u", title=object()),  # type: ignore[arg-type]
        SearchRow("u", title=float("nan")),  # type: ignore[arg-type]
    ],
)
def test_what_has_no_utf_8_is_not_rendered(row: SearchRow) -> None:
    assert render_results("x", [FULL, row]) == NOT_RENDERED
    assert (NOT_RENDERED.kind, NOT_RENDERED.message) == (
        FailureKind.BACKEND,
        "the results could not be rendered",
    )


@pytest.mark.parametrize("blank", ["", " ", "\r\n", WHITE_SPACE])
@pytest.mark.parametrize("index", [0, 1, 19])
def test_a_row_that_leads_nowhere_fails_the_search(blank: str, index: int) -> None:
    rows = [FULL] * 20
    rows[index] = SearchRow(blank, "t")
    rows.append(SearchRow(""))
    message = f"malformed search response: result {index} has an empty url"
    assert find_blank_url(rows) == SearchFailure(FailureKind.BACKEND, message)


def test_rows_that_lead_somewhere_are_no_failure() -> None:
    assert find_blank_url([]) is None
    assert find_blank_url([FULL, SearchRow("x"), SearchRow("\x1c")]) is None


ROWS = st.builds(
    SearchRow,
    st.text(),
    st.text(),
    st.text(),
    st.none() | st.text(),
    st.none() | st.text(),
    st.lists(st.text(), max_size=3).map(tuple),
)


@given(st.text(), st.lists(ROWS, max_size=5))
def test_any_rows_are_read_back_as_they_were(query: str, rows: list[SearchRow]) -> None:
    text = render_results(query, rows)
    assert isinstance(text, str)
    document = json.loads(text)
    assert document["query"] == query and list(document) == ["query", "results"]
    for row, shown in zip(rows, document["results"], strict=True):
        assert (shown["title"], shown["url"], shown["description"]) == (row.title, row.url, row.description)
        assert list(shown)[:3] == ["title", "url", "description"]
        rest = [key for key in ("age", "site_name", "extra_snippets") if getattr(row, key)]
        assert list(shown)[3:] == rest
        assert all(
            shown[key] == (list(v) if isinstance(v := getattr(row, key), tuple) else v) for key in rest
        )
