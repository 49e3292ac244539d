"""SearXNG's dialect: commands in the query, the form, the shapes of its JSON, and what an empty answer means."""

from __future__ import annotations

import json

import pytest

from fetchd.core.failures import FailureKind
from fetchd.search.interface import Freshness, SafeSearch, SearchArguments, SearchFailure, SearchRow
from fetchd.search.providers.searxng import SEARXNG
from tests.fetchd.search.providers.tables import (
    BASE,
    parameters,
    parsed,
    reason,
    refusal,
    rejection,
    rendered,
)

DOCUMENT = {
    "query": "rust",
    "results": [
        {
            "url": "https://www.rust-lang.org/",
            "title": "Rust",
            "content": "A language.",
            "publishedDate": "2025-04-12T00:00:00",
            "pubdate": "2025-04-12 00:00:00",
            "thumbnail": "",
            "engine": "duckduckgo",
            "engines": ["duckduckgo", "brave"],
            "parsed_url": ["https", "www.rust-lang.org", "/", "", "", ""],
            "template": "default.html",
            "positions": [1, 2],
            "score": 3.0,
            "category": "general",
        },
        {"url": "https://e.example/", "title": "", "content": None, "publishedDate": None},
    ],
    "answers": [],
    "corrections": [],
    "infoboxes": [],
    "suggestions": [],
    "unresponsive_engines": [["google", "CAPTCHA"]],
}


def test_the_form() -> None:
    arguments = SearchArguments(
        "c++ & é", 3, Freshness.MONTH, None, "de-CH", SafeSearch.MODERATE, ("a.example",)
    )
    request = rendered(SEARXNG, arguments)

    assert (request.method, request.url) == ("POST", f"{BASE}/search")
    assert request.body == b"q=c%2B%2B+%26+%C3%A9&format=json&language=de-CH&time_range=month&safesearch=1"
    assert dict(request.fields)["Content-Type"] == "application/x-www-form-urlencoded"
    assert "text/html" in dict(request.fields)["Accept"]


def test_what_is_not_set_is_left_to_its_settings() -> None:
    assert parameters(rendered(SEARXNG, SearchArguments("rust"))) == {"q": "rust", "format": "json"}


@pytest.mark.parametrize(("level", "number"), [*zip(SafeSearch, "012", strict=True)])
def test_safesearch(level: SafeSearch, number: str) -> None:
    assert parameters(rendered(SEARXNG, SearchArguments("a", safesearch=level)))["safesearch"] == number


@pytest.mark.parametrize(
    "query",
    [
        "!wp paris",
        "paris !images",
        "!!g secret plans",
        "secret plans !!g",
        "!! first result",
        "paris !!",
        "paris\u2003!wp",
        "paris\x1f!wp",
        "!!! what",
        ":fr paris",
        "paris :FR",
        ":français paris",
        "how do i :wq",
        "<3 love",
        "love <850",
        "<٣ love",
        "<² love",
        "!世 a",
        "!-wp a",
    ],
)
def test_commands_are_refused_by_name(query: str) -> None:
    assert refusal(SEARXNG, SearchArguments(query)).startswith("query; words that begin with !, : or <")


@pytest.mark.parametrize(
    "query",
    [
        'how do i ":wq"',
        '"!wp" paris',
        "wow! nice",
        "a ! b",
        "a != b",
        "a :) b",
        "a : b",
        "c::d",
        "a <b> c",
        "a < 3",
        "x<3",
        "site:example.com rust",
        "-rust",
    ],
)
def test_other_punctuation_goes_out_as_written(query: str) -> None:
    assert parameters(rendered(SEARXNG, SearchArguments(query)))["q"] == query


@pytest.mark.parametrize("language", ["en", "en-US", "de-ch", "fil", "auto", "all"])
def test_languages(language: str) -> None:
    assert parameters(rendered(SEARXNG, SearchArguments("a", search_lang=language)))["language"] == language


@pytest.mark.parametrize(
    "language", ["english", "EN", "en_US", "en-USA", "e", "en&format=html", "en\n", "zh-Hant"]
)
def test_other_languages_are_refused_by_name(language: str) -> None:
    assert (
        refusal(SEARXNG, SearchArguments("a", search_lang=language))
        == "search_lang; write a code such as en or en-US"
    )


def test_rows_in_its_order() -> None:
    assert parsed(SEARXNG, DOCUMENT).rows == (
        SearchRow("https://www.rust-lang.org/", "Rust", "A language.", "2025-04-12T00:00:00"),
        SearchRow("https://e.example/"),
    )


@pytest.mark.parametrize(
    ("silent", "message"),
    [
        ([["google", "CAPTCHA"]], ": google (CAPTCHA)"),
        ([["a", "timeout"], ["b", "access denied"]], ": a (timeout); b (access denied)"),
        ([["a", "x\n\x1b[2J"]], ": a (x\\n\\u{001b}[2J)"),
        ([["a", "x"]] * 7, ": a (x); a (x); a (x); a (x); a (x) and 2 more"),
        ([["a"]], ": a"),
        ([["a" * 100, "b"]], ": " + "a" * 80),
        ([7, None], ""),
    ],
)
def test_nothing_found_because_nobody_answered_is_a_failure(silent: object, message: str) -> None:
    body = {"results": [], "unresponsive_engines": silent}
    answer = SEARXNG.parse(json.dumps(body).encode())

    logged = "no results, and not every one of its engines answered"
    assert answer == SearchFailure(FailureKind.BACKEND, logged + message, logged)


@pytest.mark.parametrize("silent", [[], None, "x", {}])
def test_nothing_found_is_no_failure(silent: object) -> None:
    assert parsed(SEARXNG, {"results": [], "unresponsive_engines": silent}).rows == ()


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ({}, "results is missing"),
        ({"results": [{"url": "u", "content": {}}]}, "result 0: content is not a string"),
        ({"results": [{"url": "u", "publishedDate": 1}]}, "result 0: publishedDate is not a string"),
        (b"<!DOCTYPE html>", "body is not JSON"),
    ],
)
def test_any_other_shape_is_malformed(document: object, why: str) -> None:
    assert reason(SEARXNG, document) == why


@pytest.mark.parametrize(
    ("status", "document", "explained"),
    [
        (
            403,
            b"<!doctype html>Forbidden",
            "its JSON format is not enabled; add json to search.formats in its settings",
        ),
        (
            429,
            b"Too Many Requests",
            "its limiter refuses this client; let its address pass, or switch the limiter off",
        ),
        (
            400,
            {"error": "Invalid value <xx> for parameter language"},
            "Invalid value <xx> for parameter language",
        ),
        (500, {"error": "search error"}, "search error"),
        (500, {"error": ""}, None),
        (500, {"error": 7}, None),
        (502, b"bad gateway", None),
    ],
)
def test_errors(status: int, document: object, explained: str | None) -> None:
    assert SEARXNG.explain(rejection(status, document)) == explained
