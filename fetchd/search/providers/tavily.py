"""Tavily: POST {endpoint}/search, Bearer key (the public reference, and tavily-python 0.8.5).

    {"query", "max_results", "time_range", "country", "include_domains", "exclude_domains", "include_usage": true}
    200   {"results": [{"title", "url", "content", "published_date"?}], "usage": {"credits"}}
    else  {"detail": {"error": …}}, and a list of {"loc", "msg"} in its place for a request it cannot read

A country is written as its English name there: `us` goes out as "united states" (`countries`).
"""

import json
from types import MappingProxyType
from typing import Any, Final

from fetchd.channel import ChannelRequest
from fetchd.search.capabilities import refuse
from fetchd.search.interface import (
    Argument,
    Capability,
    Freshness,
    SearchAnswer,
    SearchArguments,
    SearchFailure,
    SearchRow,
    Support,
)

from .countries import TAVILY_COUNTRIES
from .dialect import Dialect, Rejection, Settings, malformed
from .shapes import (
    Object,
    ShapeError,
    read_document,
    read_number,
    read_object,
    read_objects,
    read_rows,
    read_text,
)

NAME: Final = "tavily"

CAPABILITIES: Final = MappingProxyType(
    {
        Argument.QUERY: Capability(Support.NATIVE),
        Argument.COUNT: Capability(Support.NATIVE),
        Argument.FRESHNESS: Capability(Support.NATIVE),
        Argument.COUNTRY: Capability(Support.NATIVE),
        Argument.SEARCH_LANG: Capability(
            Support.REFUSED, "leave it out and write the query in that language"
        ),
        Argument.SAFESEARCH: Capability(Support.REFUSED, "leave it out; it has no such levels"),
        Argument.INCLUDE_DOMAINS: Capability(Support.NATIVE),
        Argument.EXCLUDE_DOMAINS: Capability(Support.NATIVE),
    }
)

TIME_RANGES: Final = MappingProxyType(
    {
        Freshness.DAY: "day",
        Freshness.WEEK: "week",
        Freshness.MONTH: "month",
        Freshness.YEAR: "year",
    }
)

_STATUSES: Final = MappingProxyType(
    {
        401: "its key was not accepted",
        429: "too many requests",
        432: "the limit of its plan is reached",
        433: "the pay-as-you-go limit is reached",
    }
)


def render_request(arguments: SearchArguments, settings: Settings) -> ChannelRequest | SearchFailure:
    """See Dialect.render."""
    body: dict[str, Any] = {"query": arguments.query, "include_usage": True}
    if arguments.count is not None:
        body["max_results"] = arguments.count
    if arguments.freshness is not None:
        body["time_range"] = TIME_RANGES[arguments.freshness]
    if arguments.country is not None:
        country = _find_country(arguments.country)
        if country is None:
            return refuse(
                NAME, Argument.COUNTRY, "write the two-letter code of a country it knows, such as us"
            )
        body["country"] = country
    if arguments.include_domains:
        body["include_domains"] = arguments.include_domains
    if arguments.exclude_domains:
        body["exclude_domains"] = arguments.exclude_domains
    return ChannelRequest(
        "POST",
        f"{settings.base}/search",
        (("Accept", "application/json"), ("Content-Type", "application/json")),
        json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8"),
        ("Authorization", "Bearer ") if settings.secret is not None else None,
        settings.secret,
    )


def _find_country(text: str) -> str | None:
    lowered = text.lower()
    return lowered if lowered in TAVILY_COUNTRIES.values() else TAVILY_COUNTRIES.get(lowered)


def parse_answer(body: bytes) -> SearchAnswer | SearchFailure:
    """See Dialect.parse."""
    try:
        document = read_document(body)
        rows = read_rows(read_objects(document, "results"), _read_row)
        usage = read_object(document, "usage") or {}
    except ShapeError as error:
        return malformed(str(error))
    return SearchAnswer(rows, credits=read_number(usage, "credits"))


def _read_row(where: str, one: Object) -> SearchRow:
    return SearchRow(
        read_text(one, "url", where),
        read_text(one, "title", where),
        read_text(one, "content", where),
        read_text(one, "published_date", where) or None,
    )


def explain_error(answer: Rejection) -> str | None:
    """Its own sentence, and before it what the status means there."""
    try:
        document = read_document(answer.body)
    except ShapeError:
        return None
    detail = document.get("detail")
    said = detail.get("error") if isinstance(detail, dict) else detail
    if isinstance(detail, list):
        said = ", ".join(str(one.get("msg", "")) for one in detail[:5] if isinstance(one, dict))
    parts = [_STATUSES.get(answer.status), said if isinstance(said, str) else None]
    return ": ".join(part for part in parts if part) or None


TAVILY: Final = Dialect(NAME, CAPABILITIES, render_request, parse_answer, explain_error)
