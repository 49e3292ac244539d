"""SearXNG: POST {endpoint}/search, a form, format=json (its public search API and the code behind it).

    q, language, time_range, safesearch; no count and no domain lists: rows are held to those afterwards
    200   {"results": [{"url", "title", "content", "publishedDate"?}], "unresponsive_engines": [[name, reason]]}
    403   an HTML page: the json format is not enabled there     429   the text of its limiter
    else  {"error": …}

Words of the query that SearXNG takes as commands are refused, since it has no way to quote them:

    !wp !!g !!   another engine or category, a redirect to the outside, the first result
    :fr          another language
    <3           a time limit

A search that its engines did not answer is 200 with no results; it is a failure here. How many engines there are it
does not say, so one that is silent is enough where nothing was found. POST, so that queries stay out of the logs on
the way. What its limiter looks for in a browser is sent: it lets nothing else through.
"""

import re
from types import MappingProxyType
from typing import Final
from urllib.parse import urlencode

from fetchd.channel import ChannelRequest
from fetchd.core.failures import FailureKind
from fetchd.search.capabilities import refuse
from fetchd.search.interface import (
    Argument,
    Capability,
    Freshness,
    SafeSearch,
    SearchAnswer,
    SearchArguments,
    SearchFailure,
    SearchRow,
    Support,
)

from .dialect import Dialect, Rejection, Settings, malformed
from .errors import escape
from .shapes import Object, ShapeError, read_document, read_objects, read_rows, read_text

NAME: Final = "searxng"

CAPABILITIES: Final = MappingProxyType(
    {
        Argument.QUERY: Capability(Support.NATIVE),
        Argument.COUNT: Capability(Support.AFTER),
        Argument.FRESHNESS: Capability(Support.NATIVE),
        Argument.COUNTRY: Capability(Support.REFUSED, "write it into search_lang, such as de-CH"),
        Argument.SEARCH_LANG: Capability(Support.NATIVE),
        Argument.SAFESEARCH: Capability(Support.NATIVE),
        Argument.INCLUDE_DOMAINS: Capability(Support.AFTER),
        Argument.EXCLUDE_DOMAINS: Capability(Support.AFTER),
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
LEVELS: Final = MappingProxyType({SafeSearch.OFF: "0", SafeSearch.MODERATE: "1", SafeSearch.STRICT: "2"})

FIELDS: Final = (
    ("Content-Type", "application/x-www-form-urlencoded"),
    ("Accept", "application/json, text/html;q=0.1"),
    ("Accept-Language", "*"),
    ("Accept-Encoding", "gzip, deflate"),
)
"""What its limiter wants to see; `*` prefers no language."""

_COMMAND: Final = re.compile(r"!!|!\W*\w|:\w")
"""How a word begins that may be a command. `:)`, `<b>`, `!=` and a lone `!` are none."""
_LANGUAGE: Final = re.compile(r"[a-z]{2,3}(-[a-zA-Z]{2})?|auto")
_MAX_NAMED: Final = 5
_SILENT: Final = "no results, and not every one of its engines answered"


def render_request(arguments: SearchArguments, settings: Settings) -> ChannelRequest | SearchFailure:
    """See Dialect.render."""
    if any(map(_is_command, re.split(r"\s+", arguments.query))):
        return refuse(
            NAME, Argument.QUERY, 'words that begin with !, : or < are commands there; write them as "!word"'
        )
    language = arguments.search_lang
    if language is not None and _LANGUAGE.fullmatch(language) is None:
        return refuse(NAME, Argument.SEARCH_LANG, "write a code such as en or en-US")
    form = {"q": arguments.query, "format": "json"}
    if language is not None:
        form["language"] = language
    if arguments.freshness is not None:
        form["time_range"] = TIME_RANGES[arguments.freshness]
    if arguments.safesearch is not None:
        form["safesearch"] = LEVELS[arguments.safesearch]
    return ChannelRequest(
        "POST",
        f"{settings.base}/search",
        FIELDS,
        urlencode(form).encode("ascii"),
        ("Authorization", "Bearer ") if settings.secret is not None else None,
        settings.secret,
    )


def _is_command(word: str) -> bool:
    # isdigit, as there: it takes `²` too, on which that parser then breaks.
    return _COMMAND.match(word) is not None or (word.startswith("<") and word[1:2].isdigit())


def parse_answer(body: bytes) -> SearchAnswer | SearchFailure:
    """See Dialect.parse."""
    try:
        document = read_document(body)
        rows = read_rows(read_objects(document, "results"), _read_row)
    except ShapeError as error:
        return malformed(str(error))
    silent = document.get("unresponsive_engines")
    if not rows and isinstance(silent, list) and silent:
        return _no_engine(silent)
    return SearchAnswer(rows)


def _read_row(where: str, one: Object) -> SearchRow:
    return SearchRow(
        read_text(one, "url", where),
        read_text(one, "title", where),
        read_text(one, "content", where),
        read_text(one, "publishedDate", where) or None,
    )


def _no_engine(silent: list[object]) -> SearchFailure:
    pairs = [tuple(map(str, one[:2])) for one in silent if isinstance(one, list) and one]
    named = [
        escape(" ".join((pair[0], *(f"({why})" for why in pair[1:]))))[:80] for pair in pairs[:_MAX_NAMED]
    ]
    more = f" and {len(silent) - len(named)} more" if len(silent) > len(named) else ""
    shown = f": {'; '.join(named)}{more}" if named else ""
    return SearchFailure(FailureKind.BACKEND, f"{_SILENT}{shown}", logged=_SILENT)


def explain_error(answer: Rejection) -> str | None:
    """What an operator has to change; its own sentence where it has one."""
    if answer.status == 403:
        return "its JSON format is not enabled; add json to search.formats in its settings"
    if answer.status == 429:
        return "its limiter refuses this client; let its address pass, or switch the limiter off"
    try:
        said = read_document(answer.body).get("error")
    except ShapeError:
        return None
    return said if isinstance(said, str) and said else None


SEARXNG: Final = Dialect(NAME, CAPABILITIES, render_request, parse_answer, explain_error)
