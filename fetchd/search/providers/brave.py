"""Brave Search: GET {endpoint}/res/v1/web/search, X-Subscription-Token (its public reference and skill files).

    q, count, freshness, country, search_lang, safesearch as they are; domain lists as inline Goggle rules
    text_decorations=false   no mark-up inside descriptions
    spellcheck=false         the query as written, not as corrected
    result_filter=web        no news, videos, places: rows are web pages

    200   {"type": "search", "query": {…}, "web": {"results": […]}}; "web" is left out where nothing was found
    else  {"error": {"code", "detail", "meta"}}, or in examples of the reference {"errors": [the same]}

A bad key is a 422 like a bad parameter; the code tells them apart. So it does with the two kinds of 429: a second's
requests, which are free again when X-RateLimit-Reset says, and a month's, which are not.

Goggle rules: `$discard` drops all but what a `$site=host` rule names; `$discard,site=host` drops that host. A line
ends a rule and a comma an option of it, so hosts are letters, digits, `-`, `_` and dots, or refused.
"""

import json
import re
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlencode

from fetchd.channel import ChannelRequest
from fetchd.search.capabilities import refuse
from fetchd.search.domains import parse_entry
from fetchd.search.interface import (
    Argument,
    Capability,
    SearchAnswer,
    SearchArguments,
    SearchFailure,
    SearchRow,
    Support,
)

from .countries import BRAVE_COUNTRIES, BRAVE_LANGUAGES, BRAVE_SPELLINGS
from .dialect import Dialect, Rejection, Settings, find_retry_after, malformed
from .shapes import (
    Object,
    ShapeError,
    read_document,
    read_object,
    read_objects,
    read_rows,
    read_text,
    read_texts,
)

NAME: Final = "brave"
PATH: Final = "/res/v1/web/search"
MAX_WORDS: Final = 50
MAX_TARGET: Final = 4_000
"""Bytes of a URL; a longer one goes out as POST, which the reference has for long Goggles."""

CAPABILITIES: Final = MappingProxyType(
    {
        Argument.QUERY: Capability(Support.NATIVE),
        Argument.COUNT: Capability(Support.NATIVE),
        Argument.FRESHNESS: Capability(Support.NATIVE),
        Argument.COUNTRY: Capability(Support.NATIVE),
        Argument.SEARCH_LANG: Capability(Support.NATIVE),
        Argument.SAFESEARCH: Capability(Support.NATIVE),
        Argument.INCLUDE_DOMAINS: Capability(Support.SYNTAX),
        Argument.EXCLUDE_DOMAINS: Capability(Support.SYNTAX),
    }
)

_GOGGLE_HOST: Final = re.compile(r"[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*")

_CODES: Final = MappingProxyType(
    {
        "SUBSCRIPTION_TOKEN_INVALID": "its key was not accepted",
        "SUBSCRIPTION_NOT_FOUND": "its key has no subscription",
        "OPTION_NOT_IN_PLAN": "the plan of its key does not include this",
        "RATE_LIMITED": "too many requests in a second",
        "QUOTA_LIMITED": "the month's quota is used up",
    }
)
"""What an operator has to know of an error's code."""


def render_request(arguments: SearchArguments, settings: Settings) -> ChannelRequest | SearchFailure:
    """See Dialect.render."""
    refusal = _find_refused_value(arguments)
    if refusal is not None:
        return refusal
    values: dict[str, Any] = {
        "q": arguments.query,
        "count": arguments.count,
        "freshness": arguments.freshness,
        "country": arguments.country,
        "search_lang": arguments.search_lang,
        "safesearch": arguments.safesearch,
        "goggles": _render_goggles(arguments) or None,
    }
    parameters = {name: value for name, value in values.items() if value is not None}
    parameters |= {"text_decorations": False, "spellcheck": False, "result_filter": "web"}
    target = urlencode({name: _render_value(value) for name, value in parameters.items()})
    accept = ("Accept", "application/json")
    url, secret = settings.base + PATH, settings.secret
    secret_field = ("X-Subscription-Token", "") if secret is not None else None
    if len(target) <= MAX_TARGET:
        return ChannelRequest("GET", f"{url}?{target}", (accept,), b"", secret_field, secret)
    body = json.dumps(parameters, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    fields = (accept, ("Content-Type", "application/json"))
    return ChannelRequest("POST", url, fields, body, secret_field, secret)


def _render_value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _find_refused_value(arguments: SearchArguments) -> SearchFailure | None:
    if len(arguments.query.split()) > MAX_WORDS:
        return refuse(NAME, Argument.QUERY, f"write it in at most {MAX_WORDS} words")
    if arguments.country is not None and arguments.country.upper() not in BRAVE_COUNTRIES:
        return refuse(NAME, Argument.COUNTRY, f"write one of {', '.join(sorted(BRAVE_COUNTRIES))}")
    language = arguments.search_lang
    if language is not None and language not in BRAVE_LANGUAGES:
        other = BRAVE_SPELLINGS.get(language.lower()) or next(
            (one for one in BRAVE_LANGUAGES if one == language.lower()), None
        )
        way_out = f"write {other}" if other else f"write one of {', '.join(sorted(BRAVE_LANGUAGES))}"
        return refuse(NAME, Argument.SEARCH_LANG, way_out)
    for argument in (Argument.INCLUDE_DOMAINS, Argument.EXCLUDE_DOMAINS):
        if any(_find_host(entry) is None for entry in getattr(arguments, argument)):
            return refuse(NAME, argument, "write host names such as example.com")
    return None


def _render_goggles(arguments: SearchArguments) -> str:
    """The domain lists; rows are held to them afterwards too, which is what makes `*.example.com` exact."""
    wanted = [_find_host(entry) for entry in arguments.include_domains]
    unwanted = [_find_host(entry) for entry in arguments.exclude_domains]
    rules = ["$discard", *(f"$site={host}" for host in wanted)] if wanted else []
    return "\n".join([*rules, *(f"$discard,site={host}" for host in unwanted)])


def _find_host(entry: str) -> str | None:
    """The host of an entry as a rule can carry it."""
    found = parse_entry(entry)
    return found.host if found is not None and _GOGGLE_HOST.fullmatch(found.host) is not None else None


def parse_answer(body: bytes) -> SearchAnswer | SearchFailure:
    """See Dialect.parse."""
    try:
        document = read_document(body)
        if document.get("type") != "search":
            return malformed("body is no search answer")
        web = read_object(document, "web")
        return SearchAnswer(() if web is None else read_rows(read_objects(web, "results", "web."), _read_row))
    except ShapeError as error:
        return malformed(str(error))


def _read_row(where: str, one: Object) -> SearchRow:
    place = read_object(one, "meta_url", where) or {}
    return SearchRow(
        read_text(one, "url", where),
        read_text(one, "title", where),
        read_text(one, "description", where),
        read_text(one, "age", where) or read_text(one, "page_age", where) or None,
        read_text(place, "hostname", f"{where}meta_url.") or None,
        read_texts(one, "extra_snippets", where),
    )


def _read_error(answer: Rejection) -> Object | None:
    try:
        document = read_document(answer.body)
    except ShapeError:
        return None
    found = document.get("error")
    if isinstance(document.get("errors"), list) and document["errors"]:
        found = document["errors"][0]
    return found if isinstance(found, dict) and isinstance(found.get("code"), str) else None


def explain_error(answer: Rejection) -> str | None:
    """Code, what it means to the operator, and Brave's own sentence or the parameters it names."""
    error = _read_error(answer)
    if error is None:
        return None
    code: str = error["code"]
    parts = [code, _CODES.get(code) or error.get("detail")]
    meta = error.get("meta")
    if isinstance(meta, dict) and isinstance(meta.get("errors"), list):
        places = [one.get("loc") for one in meta["errors"][:5] if isinstance(one, dict)]
        parts += [".".join(map(str, place)) for place in places if isinstance(place, list)]
    return ": ".join(part for part in parts if isinstance(part, str) and part)


def find_wait(answer: Rejection) -> float | None:
    """Retry-After; else, of a second's limit, when its window ends. A month's is not waited for."""
    error = _read_error(answer)
    if error is not None and error["code"] == "QUOTA_LIMITED":
        return None
    asked = find_retry_after(answer)
    if asked is not None or answer.status != 429:
        return asked
    resets = [value for name, value in answer.fields if name == "x-ratelimit-reset"]
    first = resets[0].partition(",")[0].strip() if resets else ""
    return float(first[:9]) if first.isascii() and first.isdigit() else 1.0


BRAVE: Final = Dialect(NAME, CAPABILITIES, render_request, parse_answer, explain_error, find_wait)
