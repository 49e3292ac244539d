"""Faithful small servers in place of the public ones: requests checked as each documents them, answers in its shape.

Each searches the same few pages: a page is found by any word of the query in its title. A request that the public
service would refuse is refused here in its shape, so that a dialect cannot pass by being lenient on both sides.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from fetchd.search.providers.countries import BRAVE_COUNTRIES, BRAVE_LANGUAGES, TAVILY_COUNTRIES
from tests.kit.exchange import Exchange, Request, Route

KEY = "canary-0123456789"


@dataclass(frozen=True, slots=True)
class Page:
    title: str
    url: str
    text: str

    @property
    def host(self) -> str:
        return self.url.split("/")[2]


PAGES = (
    Page("Rust", "https://www.rust-lang.org/", "A language."),
    Page("Rust by Example", "https://doc.rust-lang.org/rust-by-example/", "Examples."),
    Page("Rust (game)", "https://rust.facepunch.com/", "A game."),
    Page("Rust on Wikipedia", "https://en.wikipedia.org/wiki/Rust", "An oxide."),
    Page("Tokio", "https://tokio.rs/", "An async runtime for Rust."),
)


def find(query: str) -> list[Page]:
    words = {word.lower() for word in re.findall(r"\w+", query)}
    return [page for page in PAGES if words & {word.lower() for word in re.findall(r"\w+", page.title)}]


def is_of(host: str, site: str) -> bool:
    return host == site or host.endswith(f".{site}")


Answer = tuple[int, object, Sequence[tuple[str, str]]]


def serve(answer: Callable[[Request], Answer]) -> Route:
    """A function of the request as a route. An answer that is bytes goes out as HTML or text."""

    async def route(exchange: Exchange) -> None:
        status, document, fields = answer(exchange.request)
        if isinstance(document, bytes):
            body, kind = document, "text/html; charset=utf-8"
        else:
            body, kind = json.dumps(document).encode(), "application/json"
        await exchange.respond(status, [("content-type", kind), *fields], body)

    return route


# ------------------------------------------------------------------------------------------------- Brave

BRAVE_TYPES: Mapping[str, Callable[[str], bool]] = {
    "q": lambda value: 0 < len(value) <= 400 and len(value.split()) <= 50,
    "count": lambda value: value.isdigit() and 1 <= int(value) <= 20,
    "freshness": lambda value: value in ("pd", "pw", "pm", "py"),
    "country": lambda value: value.upper() in BRAVE_COUNTRIES,
    "search_lang": lambda value: value in BRAVE_LANGUAGES,
    "safesearch": lambda value: value in ("off", "moderate", "strict"),
    "goggles": lambda value: True,
    "text_decorations": lambda value: value in ("true", "false"),
    "spellcheck": lambda value: value in ("true", "false"),
    "result_filter": lambda value: set(value.split(",")) <= {"web", "news", "videos"},
}


def brave_error(status: int, code: str, detail: str, **meta: Any) -> Answer:
    error = {"id": "7c0f", "status": status, "code": code, "detail": detail, "meta": meta}
    return status, {"type": "ErrorResponse", "error": error, "time": 1764543210}, ()


def brave(request: Request) -> Answer:
    if request.path != "/res/v1/web/search":
        return brave_error(404, "RESOURCE_NOT_FOUND", "No such resource")
    tokens = request.values("x-subscription-token")
    if not tokens:
        missing = {
            "type": "missing",
            "loc": ["header", "x-subscription-token"],
            "msg": "Field required",
            "input": None,
        }
        return brave_error(422, "VALIDATION", "Unable to validate request parameter(s)", errors=[missing])
    if tokens != [KEY]:
        return brave_error(422, "SUBSCRIPTION_TOKEN_INVALID", f"The provided token {tokens[0]} is invalid.")
    if request.method == "POST":
        given = {
            name: str(value).lower() if isinstance(value, bool) else str(value)
            for name, value in json.loads(request.body).items()
        }
    else:
        given = dict(parse_qsl(request.target.partition("?")[2], strict_parsing=True))
    wrong = [
        {"type": "enum", "loc": ["query", name], "msg": "bad", "input": value}
        for name, value in given.items()
        if name not in BRAVE_TYPES or not BRAVE_TYPES[name](value)
    ]
    if wrong or "q" not in given:
        return brave_error(422, "VALIDATION", "Unable to validate request parameter(s)", errors=wrong)
    found = [page for page in find(given["q"]) if _passes(page, given.get("goggles", ""))]
    marked = "{}" if given.get("text_decorations") == "false" else "<strong>{}</strong>"
    rows = [
        {
            "title": page.title,
            "url": page.url,
            "description": marked.format(page.text),
            "age": "2 days ago",
            "meta_url": {"scheme": "https", "netloc": page.host, "hostname": page.host, "path": "/"},
            "extra_snippets": [page.text.upper()],
        }
        for page in found[: int(given.get("count", 20))]
    ]
    head = {"type": "search", "query": {"original": given["q"], "more_results_available": False}}
    if not rows:
        return 200, head | {"query": head["query"] | {"bad_results": True}, "mixed": {"main": []}}, ()  # type: ignore[operator]
    return 200, head | {"web": {"type": "search", "results": rows, "family_friendly": True}}, ()


def _passes(page: Page, goggles: str) -> bool:
    """Inline Goggle rules: the most specific rule of a host wins, and a bare $discard is the least specific."""
    verdict = True
    for rule in goggles.split("\n") if goggles else ():
        options = dict(part.partition("=")[::2] for part in rule.removeprefix("$").split(","))
        assert set(options) <= {"discard", "site"}, rule
        if "site" not in options:
            verdict = False
    for rule in goggles.split("\n") if goggles else ():
        options = dict(part.partition("=")[::2] for part in rule.removeprefix("$").split(","))
        if "site" in options and is_of(page.host, options["site"]):
            verdict = "discard" not in options
    return verdict


# ----------------------------------------------------------------------------------------------- SearXNG


def searxng(
    request: Request, *, formats: Sequence[str] = ("html", "json"), dead: Sequence[str] = ()
) -> Answer:
    if request.path != "/searxng/search":
        return 404, b"<!doctype html><title>Page not found</title>", ()
    assert request.values("content-type") == ["application/x-www-form-urlencoded"]
    assert "text/html" in request.values("accept")[0], "its limiter would refuse this client"
    assert request.values("accept-language") and "gzip" in request.values("accept-encoding")[0]
    given = dict(parse_qsl(request.body.decode(), keep_blank_values=True, strict_parsing=True))
    if given.get("format", "html") not in formats:
        return 403, b"<!doctype html><title>403 Forbidden</title>", ()
    query, commands = _take_commands(given.get("q", ""))
    if any(command.startswith("!!") for command in commands):
        return 302, b"", [("location", f"https://outside.example/?q={query}")]
    if not query:
        return 400, {"error": "No query"}, ()
    if re.fullmatch(r"[a-z]{2,3}(-[a-zA-Z]{2})?|auto", given.get("language", "all")) is None:
        return 400, {"error": f'Invalid value "{given["language"]}" for parameter language'}, ()
    if given.get("time_range", "day") not in ("day", "week", "month", "year"):
        return 400, {"error": "Invalid value for parameter time_range"}, ()
    if given.get("safesearch", "0") not in ("0", "1", "2"):
        return 400, {"error": "Invalid value for parameter safesearch"}, ()
    results = [
        {
            "url": page.url,
            "title": page.title,
            "content": page.text,
            "publishedDate": None,
            "engine": "demo",
            "engines": ["demo"],
            "parsed_url": ["https", page.host, "/", "", "", ""],
            "score": 1.0,
            "category": "general",
            "template": "default.html",
            "positions": [1],
        }
        for page in (() if dead else find(query))
    ]
    return 200, {
        "query": query,
        "results": results,
        "answers": [],
        "corrections": [],
        "infoboxes": [],
        "suggestions": [],
        "unresponsive_engines": [[name, "timeout"] for name in dead],
    }, ()  # fmt: skip


def _take_commands(query: str) -> tuple[str, list[str]]:
    words = query.split()
    commands = [word for word in words if re.match(r"!\w|!!|:[a-z]{2}|<\d", word)]
    return " ".join(word for word in words if word not in commands), commands


# ------------------------------------------------------------------------------------------------ Tavily

TAVILY_KEYS = frozenset(
    "query search_depth topic time_range start_date end_date days max_age_hours max_results include_domains"
    " exclude_domains include_domains_mode include_answer include_raw_content include_images country auto_parameters"
    " include_favicon include_usage exact_match fetch_timeout cache_fallback language filter_by_language"
    " timeout".split()
)
"""What tavily-python 0.8.5 may send."""


def tavily(request: Request) -> Answer:
    if (request.method, request.path) != ("POST", "/search"):
        return 404, {"detail": "Not Found"}, ()
    if request.values("authorization") != [f"Bearer {KEY}"]:
        return 401, {"detail": {"error": "Unauthorized: missing or invalid API key."}}, ()
    given = json.loads(request.body)
    unknown = set(given) - TAVILY_KEYS
    if unknown or not isinstance(given.get("query"), str):
        return 422, {"detail": [{"loc": ["body", *sorted(unknown)], "msg": "bad request body"}]}, ()
    if len(given["query"]) > 400:
        return 400, {"detail": {"error": "Query is too long. Max query length is 400 characters."}}, ()
    if given.get("country", "france") not in TAVILY_COUNTRIES.values():
        return 400, {"detail": {"error": "Invalid country."}}, ()
    if given.get("time_range", "day") not in ("day", "week", "month", "year", "d", "w", "m", "y"):
        return 400, {"detail": {"error": "Invalid time_range."}}, ()
    include, exclude = given.get("include_domains") or [], given.get("exclude_domains") or []
    found = [
        page
        for page in find(given["query"])
        if (not include or any(is_of(page.host, one) for one in include))
        and not any(is_of(page.host, one) for one in exclude)
    ]
    results = [
        {"title": page.title, "url": page.url, "content": page.text, "score": 0.9, "raw_content": None}
        for page in found[: given.get("max_results", 5)]
    ]
    document = {
        "query": given["query"],
        "follow_up_questions": None,
        "answer": None,
        "images": [],
        "results": results,
        "response_time": 0.4,
        "request_id": "123e4567-e89b-12d3-a456-426614174111",
    }
    return 200, document | ({"usage": {"credits": 1}} if given.get("include_usage") else {}), ()
