"""`SearchProvider` over the indexes of this installation: pages that an agent has read, no key, no network.

What a row shows: the page's title; a piece of its text; its URL, with the query where this agent itself has asked for
it, and without where another agent did (a query may carry a secret); as age the page's own date, or else when it was
read. Freshness goes by the same date.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from math import inf
from types import MappingProxyType
from typing import Final

from fetchd.core.caller import Caller
from fetchd.core.failures import FailureKind
from fetchd.errors import StoreError
from fetchd.search.domains import DomainList
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
from fetchd.store.text_values import TextPage
from proxy_addons.policy.config_search import SearchConfig
from proxy_addons.policy.targets import TargetParseError, parse_target

from .heads import read_language
from .index_file import host_of
from .indexes import PageIndexes
from .interface import Ask
from .query import Query, parse_query
from .snippets import clean_line, make_snippet

NAME: Final = "local"
DEFAULT_COUNT: Final = 10
_DAY_NS: Final = 86_400 * 1_000_000_000

SPANS: Final[Mapping[Freshness, int]] = MappingProxyType(
    {Freshness.DAY: 1, Freshness.WEEK: 7, Freshness.MONTH: 31, Freshness.YEAR: 366}
)
"""In days: the longest that the word can mean."""

_SAME_LANGUAGE: Final[Mapping[str, str]] = MappingProxyType({"jp": "ja"})
"""Codes that search services have in place of the language's own."""

CAPABILITIES: Final[Mapping[Argument, Capability]] = MappingProxyType(
    {
        Argument.QUERY: Capability(Support.NATIVE),
        Argument.COUNT: Capability(Support.NATIVE),
        Argument.FRESHNESS: Capability(Support.NATIVE),
        Argument.COUNTRY: Capability(
            Support.REFUSED,
            "leave it out: pages that were read are known by language and host, not by country",
        ),
        Argument.SEARCH_LANG: Capability(Support.NATIVE),
        Argument.SAFESEARCH: Capability(Support.REFUSED, "leave it out: pages that were read are not rated"),
        Argument.INCLUDE_DOMAINS: Capability(Support.NATIVE),
        Argument.EXCLUDE_DOMAINS: Capability(Support.NATIVE),
    }
)

OFF: Final = SearchFailure(
    FailureKind.BACKEND,
    "the local index is switched off (search.index); ask the operator for another provider",
)
UNAVAILABLE: Final = SearchFailure(
    FailureKind.BACKEND, "the local index cannot be read; the operator's log says why"
)
TOO_LONG: Final = SearchFailure(
    FailureKind.BACKEND, "the local index took too long to search; write fewer words, or a shorter phrase"
)

_log = logging.getLogger(__name__)


class LocalProvider:
    """See `SearchProvider`. note_use: told which pages were shown; must not wait or fail."""

    def __init__(
        self,
        indexes: PageIndexes,
        config: Callable[[], SearchConfig],
        note_use: Callable[[list[int]], object] = lambda _numbers: None,
        *,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._indexes: Final = indexes
        self._config: Final = config
        self._note_use: Final = note_use
        self._clock: Final = clock

    @property
    def name(self) -> str:
        return NAME

    @property
    def capabilities(self) -> Mapping[Argument, Capability]:
        return CAPABILITIES

    async def search(
        self, arguments: SearchArguments, caller: Caller, ends: float = inf
    ) -> SearchAnswer | SearchFailure:
        if not self._config().index:
            return OFF
        query = parse_query(arguments.query)
        try:
            pages = await self._indexes.search(caller.agent, make_ask(arguments, query, self._clock()))
        except StoreError as error:
            _log.error("web_search: %s", error)
            return UNAVAILABLE
        except TimeoutError:
            return TOO_LONG
        self._note_use([page.number for page in pages])
        return SearchAnswer(await asyncio.to_thread(_make_rows, pages, query, caller))


def make_ask(arguments: SearchArguments, query: Query, now: int) -> Ask:
    """What an index is asked. now: nanoseconds since 1970."""
    fresh = arguments.freshness
    language = arguments.search_lang
    subtag = None
    if language is not None:
        subtag = read_language(language.strip()) or language.strip().lower()
        subtag = _SAME_LANGUAGE.get(subtag, subtag)
    return Ask(
        query,
        arguments.count or DEFAULT_COUNT,
        now - SPANS[fresh] * _DAY_NS if fresh is not None else None,
        subtag,
        _make_filter(query.sites, arguments.include_domains, arguments.exclude_domains),
    )


def _make_filter(
    sites: tuple[str, ...], include: tuple[str, ...], exclude: tuple[str, ...]
) -> Callable[[str], bool] | None:
    """Sites of the query narrow the list of the arguments."""
    if not sites and not include and not exclude:
        return None
    within = [DomainList(names) for names in (sites, include) if names]
    without = DomainList(exclude)

    def keeps(host: str) -> bool:
        return not without.covers(host) and all(names.covers(host) for names in within)

    return keeps


def _make_rows(pages: Iterable[TextPage], query: Query, caller: Caller) -> tuple[SearchRow, ...]:
    """Takes a few ms: texts are unpacked and looked through."""
    return tuple(row for page in pages if (row := _make_row(page, query, caller)) is not None)


def _make_row(page: TextPage, query: Query, caller: Caller) -> SearchRow | None:
    try:
        text = page.content.unpack()
    except ValueError:
        _log.error("web_search: the kept text of page %s is damaged; left out", page.number)
        return None
    url = page.url if page.agent == caller.agent else display_url(page.url)
    dated = page.dated_at if page.dated_at is not None else page.read_at
    return SearchRow(
        url,
        clean_line(page.content.title),
        make_snippet(text, query.terms),
        render_age(dated),
        host_of(page.url) or None,
    )


def display_url(url: str) -> str:
    """As SPEC 1.6 shows one: without its query."""
    try:
        return parse_target(url).display
    except TargetParseError:
        return url.partition("?")[0]


def render_age(nanoseconds: int) -> str:
    """RFC 3339, UTC, seconds."""
    return f"{datetime.fromtimestamp(nanoseconds // 1_000_000_000, UTC):%Y-%m-%dT%H:%M:%SZ}"
