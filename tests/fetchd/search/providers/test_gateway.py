"""The search gateway's dialect: SPEC 4's request and its answer, shape by shape."""

from __future__ import annotations

import pytest

from fetchd.search.interface import Freshness, SafeSearch, SearchArguments, SearchRow
from fetchd.search.providers.dialect import Settings
from fetchd.search.providers.gateway import GATEWAY, render_request
from fetchd.search.results import find_blank_url
from tests.fetchd.search.providers.tables import BASE, KEY, parameters, parsed, reason, rendered


def test_the_set_arguments_go_out_as_written() -> None:
    arguments = SearchArguments(
        "  rust «async»\n",
        5,
        Freshness.WEEK,
        "us",
        "en",
        SafeSearch.STRICT,
        ("example.com", "Bücher.example"),
        ("example.org",),
    )
    request = rendered(GATEWAY, arguments)

    assert (request.method, request.url) == ("POST", f"{BASE}/v1/search")
    assert request.secret_field == ("Authorization", "Bearer ")
    assert request.secret is not None and request.secret.reveal() == KEY
    assert request.body.decode() == (
        '{"query":"  rust «async»\\n","count":5,"freshness":"pw","country":"us","search_lang":"en",'
        '"safesearch":"strict","include_domains":["example.com","Bücher.example"],'
        '"exclude_domains":["example.org"]}'
    )


def test_unset_arguments_and_empty_lists_are_left_out() -> None:
    assert rendered(GATEWAY, SearchArguments("rust")).body == b'{"query":"rust"}'
    assert parameters(rendered(GATEWAY, SearchArguments("rust", include_domains=()))) == {"query": "rust"}


def test_without_a_key_there_is_no_credential() -> None:
    request = render_request(SearchArguments("rust"), Settings(BASE))

    assert getattr(request, "secret_field", "") is None


def test_rows_have_six_fields_and_unknown_ones_are_ignored() -> None:
    answer = parsed(
        GATEWAY,
        {
            "query": "rust",
            "results": [
                {
                    "title": "Rust",
                    "url": "https://www.rust-lang.org/",
                    "description": "A language.",
                    "age": "2 days ago",
                    "site_name": "www.rust-lang.org",
                    "extra_snippets": ["Fast.", "Safe."],
                    "rank": {"a": [1]},
                },
                {"url": "https://e.example", "title": None, "age": None, "extra_snippets": None},
            ],
            "credits": 2,
            "more": [None],
        },
    )

    assert answer.rows == (
        SearchRow(
            "https://www.rust-lang.org/",
            "Rust",
            "A language.",
            "2 days ago",
            "www.rust-lang.org",
            ("Fast.", "Safe."),
        ),
        SearchRow("https://e.example"),
    )
    assert answer.credits == 2


@pytest.mark.parametrize("value", [None, "2", True, -1, [], 1e300])
def test_credits_of_another_kind_are_no_credits(value: object) -> None:
    assert parsed(GATEWAY, {"results": [], "credits": value}).credits is None


@pytest.mark.parametrize("row", [{}, {"url": None}, {"url": ""}, {"url": " \t"}])
def test_a_row_that_leads_nowhere_is_handed_on_for_the_search_to_fail(row: dict[str, object]) -> None:
    answer = parsed(GATEWAY, {"results": [{"url": "https://a.example"}, row]})

    assert not answer.rows[1].url.strip()


@pytest.mark.parametrize(
    ("rows", "index"),
    [
        pytest.param(
            [
                {"title": "a"},
                {"title": "b", "url": "https://b.example/", "content": None},
                {"title": "c", "url": "javascript:1"},
                {"title": 7, "url": "https://d.example/"},
                None,
            ],
            0,
            id="C073",
        ),
        pytest.param([{"url": "u"}, {"url": " "}, {"url": ""}, 7], 1, id="the first of two"),
    ],
)
def test_a_row_that_leads_nowhere_is_told_before_the_shape_of_a_later_one(rows: object, index: int) -> None:
    answer = parsed(GATEWAY, {"results": rows})

    found = find_blank_url(answer.rows)
    assert found is not None
    assert found.message == f"malformed search response: result {index} has an empty url"


def test_the_shape_of_a_row_is_told_before_a_later_one_that_leads_nowhere() -> None:
    assert reason(GATEWAY, {"results": [{"url": "u", "title": 7}, {}]}) == "result 0: title is not a string"


@pytest.mark.parametrize(
    ("document", "why"),
    [
        (b"", "body is not JSON"),
        (b"<html>", "body is not JSON"),
        (b'{"results": []', "body is not JSON"),
        (b'{"results": [NaN]}', "body is not JSON"),
        (b'{"results": []} x', "body is not JSON"),
        (b"[" * 200_000, "body is not JSON"),
        (b'{"results": [' + b"9" * 200_000 + b"]}", "body is not JSON"),
        (b"\xff\xfe", "body is not UTF-8"),
        ('{"results": []}'.encode("utf-16"), "body is not UTF-8"),
        ([], "body is not an object"),
        ("rust", "body is not an object"),
        (None, "body is not an object"),
        (7, "body is not an object"),
        ({}, "results is missing"),
        ({"results": None}, "results is missing"),
        ({"results": {}}, "results is not an array"),
        ({"results": "rust"}, "results is not an array"),
        ({"results": [None]}, "result 0 is not an object"),
        ({"results": [{"url": "https://a.example"}, []]}, "result 1 is not an object"),
        ({"results": [{"url": 7}]}, "result 0: url is not a string"),
        ({"results": [{"url": "u"}, {"url": "u", "title": 7}]}, "result 1: title is not a string"),
        ({"results": [{"url": "u", "description": ["x"]}]}, "result 0: description is not a string"),
        ({"results": [{"url": "u", "age": 3}]}, "result 0: age is not a string"),
        ({"results": [{"url": "u", "site_name": {}}]}, "result 0: site_name is not a string"),
        (
            {"results": [{"url": "u", "extra_snippets": "x"}]},
            "result 0: extra_snippets is not an array of strings",
        ),
        (
            {"results": [{"url": "u", "extra_snippets": [1]}]},
            "result 0: extra_snippets is not an array of strings",
        ),
    ],
)
def test_any_other_shape_is_malformed(document: object, why: str) -> None:
    assert reason(GATEWAY, document) == why


def test_a_byte_order_mark_is_no_matter() -> None:
    assert GATEWAY.parse(b'\xef\xbb\xbf{"results": []}') == parsed(GATEWAY, {"results": []})
