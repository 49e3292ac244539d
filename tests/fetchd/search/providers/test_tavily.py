"""Tavily's dialect: what goes out, what is refused by name, and the shapes of its reference."""

from __future__ import annotations

import pytest

from fetchd.search.interface import Freshness, SearchArguments, SearchRow
from fetchd.search.providers.tavily import TAVILY
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
    "query": "Who is Leo Messi?",
    "follow_up_questions": None,
    "answer": None,
    "images": [],
    "results": [
        {
            "title": "Lionel Messi Facts",
            "url": "https://www.britannica.com/facts/Lionel-Messi",
            "content": "Lionel Messi, an Argentine footballer",
            "score": 0.81025416,
            "raw_content": None,
            "favicon": "https://britannica.com/favicon.png",
        },
        {
            "title": "News",
            "url": "https://n.example/",
            "content": "c",
            "published_date": "Mon, 02 Nov 2026 10:00 GMT",
        },
    ],
    "response_time": 1.67,
    "usage": {"credits": 1},
    "request_id": "123e4567-e89b-12d3-a456-426614174111",
}


def test_every_argument_has_its_key() -> None:
    arguments = SearchArguments(
        "rust «async»", 20, Freshness.DAY, "US", None, None, ("a.example", "*.b.example"), ("c.example",)
    )
    request = rendered(TAVILY, arguments)

    assert (request.method, request.url) == ("POST", f"{BASE}/search")
    assert request.secret_field == ("Authorization", "Bearer ")
    assert parameters(request) == {
        "query": "rust «async»",
        "include_usage": True,
        "max_results": 20,
        "time_range": "day",
        "country": "united states",
        "include_domains": ["a.example", "*.b.example"],
        "exclude_domains": ["c.example"],
    }


def test_what_is_not_set_is_left_to_tavily() -> None:
    assert parameters(rendered(TAVILY, SearchArguments("rust"))) == {"query": "rust", "include_usage": True}


@pytest.mark.parametrize(
    ("freshness", "range_"), [*zip(Freshness, ("day", "week", "month", "year"), strict=True)]
)
def test_freshness(freshness: Freshness, range_: str) -> None:
    assert parameters(rendered(TAVILY, SearchArguments("a", freshness=freshness)))["time_range"] == range_


@pytest.mark.parametrize(
    ("country", "name"),
    [
        ("us", "united states"),
        ("GB", "united kingdom"),
        ("ba", "bosnia and herzegovina"),
        ("zw", "zimbabwe"),
        ("af", "afghanistan"),
        ("South Korea", "south korea"),
    ],
)
def test_countries_by_code_or_name(country: str, name: str) -> None:
    assert parameters(rendered(TAVILY, SearchArguments("a", country=country)))["country"] == name


@pytest.mark.parametrize("country", ["xx", "", "usa", "hk", "us\n", '","topic":"news'])
def test_countries_it_does_not_know_are_refused(country: str) -> None:
    assert refusal(TAVILY, SearchArguments("a", country=country)).startswith(
        "country; write the two-letter code"
    )


def test_an_answer_of_the_reference() -> None:
    answer = parsed(TAVILY, DOCUMENT)

    assert answer.rows == (
        SearchRow(
            "https://www.britannica.com/facts/Lionel-Messi",
            "Lionel Messi Facts",
            "Lionel Messi, an Argentine footballer",
        ),
        SearchRow("https://n.example/", "News", "c", "Mon, 02 Nov 2026 10:00 GMT"),
    )
    assert answer.credits == 1


@pytest.mark.parametrize("usage", [{}, None, {"credits": "1"}])
def test_no_credits_are_none(usage: object) -> None:
    assert parsed(TAVILY, {"results": [], "usage": usage}).credits is None


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ({}, "results is missing"),
        ({"results": [], "usage": 1}, "usage is not an object"),
        ({"results": [{"url": "u", "content": 1}]}, "result 0: content is not a string"),
        ({"results": [{"url": "u", "published_date": 1}]}, "result 0: published_date is not a string"),
        ([], "body is not an object"),
    ],
)
def test_any_other_shape_is_malformed(document: object, why: str) -> None:
    assert reason(TAVILY, document) == why


@pytest.mark.parametrize(
    ("status", "document", "explained"),
    [
        (401, {"detail": {"error": "Unauthorized"}}, "its key was not accepted: Unauthorized"),
        (429, {"detail": {"error": "Too many"}}, "too many requests: Too many"),
        (432, {"detail": {"error": "plan"}}, "the limit of its plan is reached: plan"),
        (433, {"detail": {"error": "paygo"}}, "the pay-as-you-go limit is reached: paygo"),
        (400, {"detail": {"error": "Query is too long."}}, "Query is too long."),
        (400, {"detail": "text"}, "text"),
        (422, {"detail": [{"loc": ["body", "country"], "msg": "bad"}, {"msg": "worse"}, 7]}, "bad, worse"),
        (401, {"detail": {}}, "its key was not accepted"),
        (500, {"detail": {}}, None),
        (500, {}, None),
        (502, b"<html>", None),
    ],
)
def test_errors(status: int, document: object, explained: str | None) -> None:
    assert TAVILY.explain(rejection(status, document)) == explained
