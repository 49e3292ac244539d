"""Queries as expressions: what counts as what, and that nothing is an operator of FTS5."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fetchd.search.local.query import MAX_TERMS, Query, parse_query, render_all, render_any, render_term


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("reverse proxy", Query(("reverse", "proxy")), id="words"),
        pytest.param("a b a", Query(("a", "b")), id="a word again"),
        pytest.param('"reverse proxy" tls', Query(("tls",), ("reverse proxy",)), id="a phrase and a word"),
        pytest.param("“reverse proxy”", Query((), ("reverse proxy",)), id="a phrase in typographic quotes"),
        pytest.param('"reverse proxy', Query(("reverse", "proxy")), id="a quote that does not end"),
        pytest.param('""', Query(), id="nothing in quotes"),
        pytest.param("a AND b OR c NOT d", Query(("a", "AND", "b", "OR", "c", "NOT", "d")), id="operators"),
        pytest.param("-word +word", Query(("-word", "+word")), id="signs say nothing"),
        pytest.param("title:x body : y*", Query(("title", "x", "body", "y")), id="columns and prefixes"),
        pytest.param("NEAR(a b, 2)", Query(("NEAR", "a", "b", "2")), id="nearness"),
        pytest.param("don't x-y foo.bar C++", Query(("don't", "x-y", "foo.bar", "C++")), id="held together"),
        pytest.param("foo/bar,baz", Query(("foo", "bar", "baz")), id="apart at slashes and commas"),
        pytest.param("site:docs.example foo", Query(("foo",), (), ("docs.example",)), id="a site"),
        pytest.param("SITE:a.example SITE:b.example x", Query(("x",), (), ("a.example", "b.example")), id="sites"),
        pytest.param("site: foo", Query(("site", "foo")), id="no site"),
        pytest.param("東京天気", Query(("東京", "京天", "天気")), id="pairs of characters"),
        pytest.param("日", Query(("日",)), id="one character alone"),
        pytest.param("python東京", Query(("python", "東京")), id="two scripts in one word"),
        pytest.param("!!! ... \U0001f600", Query(), id="nothing that could be found"),
        pytest.param("\0a\ud800b", Query(("a", "b")), id="no characters"),
    ],
)  # fmt: skip
def test_what_a_query_is_read_as(text: str, expected: Query) -> None:
    assert parse_query(text) == expected


def test_the_number_of_words_is_bounded() -> None:
    query = parse_query(" ".join(f'w{n} "p{n} q"' for n in range(100)))

    assert len(query.terms) == MAX_TERMS


@pytest.mark.parametrize(
    ("query", "everything", "anything"),
    [
        pytest.param(Query(("a", "b")), '"a" AND "b"', '("a" OR "b")', id="words"),
        pytest.param(Query(("a",), ("p q",)), '"p q" AND "a"', '"p q" AND ("a")', id="with a phrase"),
        pytest.param(Query((), ("p q",)), '"p q"', '"p q"', id="a phrase alone"),
        pytest.param(Query(), "", "", id="nothing"),
    ],
)
def test_expressions(query: Query, everything: str, anything: str) -> None:
    assert render_all(query) == everything
    assert render_any(query, query.words) == anything


def test_a_quote_in_a_term_is_doubled() -> None:
    assert render_term('a" OR "b') == '"a"" OR ""b"'


@pytest.fixture(scope="module")
def table() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute("CREATE VIRTUAL TABLE t USING fts5(title, body)")
        db.execute("INSERT INTO t VALUES ('title', 'the only page')")
        yield db


@given(text=st.text(max_size=400))
@example('"')
@example('""" OR title:"')
@example("t MATCH 'x'; DROP TABLE t --")
@example("{title body} : x")
@example("^x y*")
def test_no_query_is_a_syntax_error(table: sqlite3.Connection, text: str) -> None:
    query = parse_query(text)
    for expression in (render_all(query), render_any(query, query.words)):
        if expression:
            table.execute("SELECT count(*) FROM t WHERE t MATCH ?", (expression,)).fetchone()


@given(
    words=st.lists(
        st.sampled_from(["AND", "OR", "NOT", "NEAR", "(", ")", '"', "*", "^", ":", "-", "+", "{", "}", "a"])
    )
)
def test_no_row_of_operators_is_a_syntax_error(table: sqlite3.Connection, words: list[str]) -> None:
    query = parse_query(" ".join(words))
    if expression := render_all(query):
        table.execute("SELECT count(*) FROM t WHERE t MATCH ?", (expression,)).fetchone()
