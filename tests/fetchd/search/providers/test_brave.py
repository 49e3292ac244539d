"""Brave's dialect: what goes out, what is refused by name, and the shapes of its reference."""

from __future__ import annotations

import pytest

from fetchd.search.interface import Freshness, SafeSearch, SearchArguments, SearchRow
from fetchd.search.providers.brave import BRAVE, MAX_TARGET
from tests.fetchd.search.providers.tables import (
    BASE,
    KEY,
    parameters,
    parsed,
    reason,
    refusal,
    rejection,
    rendered,
)

ALWAYS = {"text_decorations": "false", "spellcheck": "false", "result_filter": "web"}

ROW = {
    "title": "Top Python Web Frameworks",
    "url": "https://example.com/python-frameworks",
    "is_source_local": False,
    "description": "A guide to Python web frameworks",
    "age": "2 days ago",
    "page_age": "2025-04-12T14:22:41",
    "profile": {"name": "Example", "url": "https://example.com", "long_name": "example.com", "img": "i"},
    "language": "en",
    "family_friendly": True,
    "type": "search_result",
    "subtype": "generic",
    "meta_url": {"scheme": "https", "netloc": "example.com", "hostname": "example.com", "path": "/p"},
    "thumbnail": {"src": "https://…", "original": "https://…/img.jpg"},
    "extra_snippets": ["One.", "Two."],
}

DOCUMENT = {
    "type": "search",
    "query": {"original": "python", "spellcheck_off": True, "more_results_available": True},
    "mixed": {"type": "mixed", "main": [{"type": "web", "index": 0, "all": False}], "top": [], "side": []},
    "web": {"type": "search", "results": [ROW], "family_friendly": True},
}


def test_every_argument_has_its_parameter() -> None:
    arguments = SearchArguments(
        'c++ & "a=b"#é',
        20,
        Freshness.YEAR,
        "de",
        "en-gb",
        SafeSearch.OFF,
        ("docs.python.org", "*.Bücher.example"),
        ("pinterest.com",),
    )
    request = rendered(BRAVE, arguments)

    assert request.method == "GET"
    assert request.url.startswith(f"{BASE}/res/v1/web/search?q=c%2B%2B+%26+%22a%3Db%22%23%C3%A9&count=20&")
    assert request.secret_field == ("X-Subscription-Token", "")
    assert KEY not in request.url
    assert parameters(request) == ALWAYS | {
        "q": 'c++ & "a=b"#é',
        "count": "20",
        "freshness": "py",
        "country": "de",
        "search_lang": "en-gb",
        "safesearch": "off",
        "goggles": "$discard\n$site=docs.python.org\n$site=xn--bcher-kva.example\n$discard,site=pinterest.com",
    }


def test_what_is_not_set_is_left_to_brave() -> None:
    assert parameters(rendered(BRAVE, SearchArguments("rust"))) == ALWAYS | {"q": "rust"}


def test_a_block_list_alone_discards_nothing_else() -> None:
    found = parameters(rendered(BRAVE, SearchArguments("rust", exclude_domains=("a.example", "b.example"))))

    assert found["goggles"] == "$discard,site=a.example\n$discard,site=b.example"


def test_what_is_too_long_for_a_url_goes_out_as_JSON() -> None:
    domains = tuple(f"{'a' * 60}.{'b' * 60}{number}.example"[:120] for number in range(10, 30))
    request = rendered(BRAVE, SearchArguments("世" * 400, include_domains=domains, exclude_domains=domains))

    assert (request.method, request.url) == ("POST", f"{BASE}/res/v1/web/search")
    found = parameters(request)
    assert found["q"] == "世" * 400
    assert found["text_decorations"] is False and found["spellcheck"] is False
    assert len(found["goggles"].split("\n")) == 41
    assert len(request.body) > MAX_TARGET


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (SearchArguments("a " * 51), "query; write it in at most 50 words"),
        (SearchArguments("a", country="xx"), "country; write one of ALL, AR, AT, "),
        (SearchArguments("a", country="germany"), "country; write one of ALL, "),
        (SearchArguments("a", country="us&safesearch=off"), "country; write one of ALL, "),
        (SearchArguments("a", search_lang="xx"), "search_lang; write one of ar, bg, "),
        (SearchArguments("a", search_lang="ja"), "search_lang; write jp"),
        (SearchArguments("a", search_lang="EN"), "search_lang; write en"),
        (SearchArguments("a", search_lang="zh"), "search_lang; write zh-hans or zh-hant"),
        (
            SearchArguments("a", include_domains=("ok.example", "a,boost=10")),
            "include_domains; write host names",
        ),
        (SearchArguments("a", include_domains=("$discard",)), "include_domains; write host names"),
        (
            SearchArguments("a", exclude_domains=("a.example\\n$discard",)),
            "exclude_domains; write host names",
        ),
        (SearchArguments("a", exclude_domains=("a.example|b",)), "exclude_domains; write host names"),
        (SearchArguments("a", exclude_domains=("a@b.example",)), "exclude_domains; write host names"),
    ],
)
def test_values_that_are_refused_by_name(arguments: SearchArguments, why: str) -> None:
    assert refusal(BRAVE, arguments).startswith(why)


def test_fifty_words_and_known_codes_pass() -> None:
    assert parameters(rendered(BRAVE, SearchArguments("a " * 50, country="ALL", search_lang="jp")))["q"]


def test_a_row_of_the_reference() -> None:
    assert parsed(BRAVE, DOCUMENT).rows == (
        SearchRow(
            "https://example.com/python-frameworks",
            "Top Python Web Frameworks",
            "A guide to Python web frameworks",
            "2 days ago",
            "example.com",
            ("One.", "Two."),
        ),
    )
    assert parsed(BRAVE, DOCUMENT).credits is None


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"url": "u"}, SearchRow("u")),
        ({"url": "u", "page_age": "2025-04-12T14:22:41"}, SearchRow("u", age="2025-04-12T14:22:41")),
        ({"url": "u", "meta_url": None, "extra_snippets": []}, SearchRow("u")),
        ({"url": "u", "meta_url": {}}, SearchRow("u")),
    ],
)
def test_optional_fields(row: dict[str, object], expected: SearchRow) -> None:
    assert parsed(BRAVE, {"type": "search", "web": {"results": [row]}}).rows == (expected,)


@pytest.mark.parametrize(
    "document",
    [
        {"type": "search", "query": {"original": "x", "bad_results": True}, "mixed": {"main": []}},
        {"type": "search", "web": None},
        {"type": "search", "web": {"type": "search", "results": []}},
    ],
)
def test_nothing_found_is_no_failure(document: object) -> None:
    assert parsed(BRAVE, document).rows == ()


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ({}, "body is no search answer"),
        ({"type": "ErrorResponse", "error": {}}, "body is no search answer"),
        ({"type": "search", "web": []}, "web is not an object"),
        ({"type": "search", "web": {}}, "web.results is missing"),
        ({"type": "search", "web": {"results": {}}}, "web.results is not an array"),
        ({"type": "search", "web": {"results": [1]}}, "result 0 is not an object"),
        ({"type": "search", "web": {"results": [ROW, {"url": []}]}}, "result 1: url is not a string"),
        (
            {"type": "search", "web": {"results": [{"url": "u", "meta_url": 1}]}},
            "result 0: meta_url is not an object",
        ),
        (
            {"type": "search", "web": {"results": [{"url": "u", "meta_url": {"hostname": 1}}]}},
            "result 0: meta_url.hostname is not a string",
        ),
        (b"gateway timeout", "body is not JSON"),
    ],
)
def test_any_other_shape_is_malformed(document: object, why: str) -> None:
    assert reason(BRAVE, document) == why


def error(code: str, detail: str = "a detail", **meta: object) -> dict[str, object]:
    return {
        "type": "ErrorResponse",
        "error": {"id": "1", "status": 422, "code": code, "detail": detail, "meta": meta},
        "time": 1,
    }


VALIDATION = {"errors": [{"type": "enum", "loc": ["query", "country"], "msg": "m", "input": KEY}]}


@pytest.mark.parametrize(
    ("status", "document", "explained"),
    [
        (422, error("SUBSCRIPTION_TOKEN_INVALID"), "SUBSCRIPTION_TOKEN_INVALID: its key was not accepted"),
        (404, error("SUBSCRIPTION_NOT_FOUND"), "SUBSCRIPTION_NOT_FOUND: its key has no subscription"),
        (429, error("RATE_LIMITED"), "RATE_LIMITED: too many requests in a second"),
        (429, error("QUOTA_LIMITED"), "QUOTA_LIMITED: the month's quota is used up"),
        (422, error("VALIDATION", "Unable", **VALIDATION), "VALIDATION: Unable: query.country"),
        (422, {"errors": [error("VALIDATION", "d")["error"]]}, "VALIDATION: d"),
        (422, error("OTHER", ""), "OTHER"),
        (422, {"error": "text"}, None),
        (422, {"error": {"code": 7}}, None),
        (422, {"errors": []}, None),
        (422, {"errors": [7]}, None),
        (500, b"<html>", None),
        (500, [], None),
    ],
)
def test_errors_by_their_code(status: int, document: object, explained: str | None) -> None:
    assert BRAVE.explain(rejection(status, document)) == explained


@pytest.mark.parametrize(
    ("status", "document", "fields", "seconds"),
    [
        (429, error("RATE_LIMITED"), (("x-ratelimit-reset", "1, 1419704"),), 1.0),
        (429, error("RATE_LIMITED"), (("x-ratelimit-reset", "3"),), 3.0),
        (429, error("RATE_LIMITED"), (("retry-after", "2"), ("x-ratelimit-reset", "9, 9")), 2.0),
        (429, error("RATE_LIMITED"), (), 1.0),
        (429, error("RATE_LIMITED"), (("x-ratelimit-reset", "soon"),), 1.0),
        (429, error("QUOTA_LIMITED"), (("x-ratelimit-reset", "1, 1419704"),), None),
        (429, error("QUOTA_LIMITED"), (("retry-after", "2"),), None),
        (503, b"", (("retry-after", "2"),), 2.0),
        (503, b"", (), None),
        (422, error("VALIDATION"), (("x-ratelimit-reset", "1, 2"),), None),
    ],
)
def test_a_second_is_waited_for_and_a_month_is_not(
    status: int, document: object, fields: tuple[tuple[str, str], ...], seconds: float | None
) -> None:
    assert BRAVE.wait(rejection(status, document, fields)) == seconds
