"""A vendor of models as a search provider: one bounded completion, whose web results become rows (SPEC 6).

The vendor's model is asked to search for the query and decides itself what it asks its search engine. So rows are
what the vendor says it found, in its order; a description is what it quoted, where it quoted; nothing is paged, and
nothing of the answer's own text is used. That the model answered without searching is a failure, never an empty
result.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from math import inf
from types import MappingProxyType
from typing import Final

from fetchd.core.caller import Caller
from fetchd.core.failures import FailureKind
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
from fetchd.web_access.asking import Links
from fetchd.web_access.errors import (
    AnswerError,
    DeclarationError,
    RefusalError,
    VendorError,
)
from fetchd.web_access.preparing import WebFilter
from fetchd.web_access.run_values import unique_citations
from fetchd.web_access.values import Citation, Completion, Conversation, WebRow
from proxy_addons.policy.config_ask import VendorConfig
from proxy_addons.policy.vendors.dialects import DIALECTS, Dialect, Uses
from proxy_addons.policy.vendors.dialects import Capability as Can

from .asking import DEADLINE_SECONDS, REQUEST_FAILED
from .dialect import malformed

ANSWER_TOKENS: Final = 2048
"""Of the answer nobody reads; models that reason count that too."""
SEARCHES: Final = 1
DEFAULT_RESULTS: Final = 10

_PROMPT: Final = (
    "Search the web once for the query below, exactly as it is written, and name the pages that you found, each with"
    " its source, in one line. Do not answer the query.\n\nQuery: {query}"
)
_CANNOT: Final = "leave it out, or ask a provider whose search has it, such as brave"

_log = logging.getLogger(__name__)


class VendorSearch:
    """One vendor. config: asked at each search, for a reload may change dialect and model."""

    def __init__(
        self, config: Callable[[], VendorConfig], links: Links, *, deadline: float = DEADLINE_SECONDS
    ) -> None:
        self._config: Final = config
        self._links: Final = links
        self._deadline: Final = deadline

    @property
    def name(self) -> str:
        """See SearchProvider."""
        return self._config().name.value

    @property
    def capabilities(self) -> Mapping[Argument, Capability]:
        """See SearchProvider. A list that the dialect does not carry holds for the rows alone."""
        return capabilities_of(DIALECTS[self._config().dialect])

    async def search(
        self, arguments: SearchArguments, caller: Caller, ends: float = inf
    ) -> SearchAnswer | SearchFailure:
        """See SearchProvider."""
        try:
            client = self._links.connect(self._config())
        except DeclarationError as error:
            _log.warning("search provider %s: %s", self.name, error)
            return REQUEST_FAILED
        web = make_filter(arguments, client.dialect)
        if web is None:
            return SearchAnswer(())
        conversation = Conversation(client.model, _PROMPT.format(query=arguments.query), ANSWER_TOKENS)
        try:
            async with asyncio.timeout(self._deadline):
                found = await client.complete(web, conversation, {}, lambda _told: None)
        except TimeoutError:
            _log.warning("search provider %s: the deadline has passed", self.name)
            return REQUEST_FAILED
        except VendorError as error:
            _log.warning("search provider %s failed: %s", self.name, type(error).__name__)
            return explain(error)
        return read_answer(found, names_pages=not client.dialect.path.endswith("/chat/completions"))


def capabilities_of(dialect: Dialect) -> Mapping[Argument, Capability]:
    """What a dialect honours, and how."""
    refused = Capability(Support.REFUSED, _CANNOT)
    held = Capability(Support.AFTER)
    native = Capability(Support.NATIVE)
    return MappingProxyType(
        {
            Argument.QUERY: native,
            Argument.COUNT: held,
            Argument.FRESHNESS: refused,
            Argument.COUNTRY: refused,
            Argument.SEARCH_LANG: refused,
            Argument.SAFESEARCH: refused,
            Argument.INCLUDE_DOMAINS: native if dialect.can(Can.ALLOW) else held,
            Argument.EXCLUDE_DOMAINS: native if dialect.can(Can.BLOCK) else held,
        }
    )


def make_filter(arguments: SearchArguments, dialect: Dialect) -> WebFilter | None:
    """What is declared for a search; None where no page can be within the lists, and nobody need be asked.

    A vendor takes one list, and knows no wildcard in a host: it is told what it can be told, and rows are held to
    both lists afterwards whatever it was told.
    """
    cap = SEARCHES
    if dialect.uses is Uses.RESULTS:
        cap = arguments.count or DEFAULT_RESULTS
    excluded = [entry for text in arguments.exclude_domains if (entry := parse_entry(text)) is not None]
    if arguments.include_domains:
        included = [entry for text in arguments.include_domains if (entry := parse_entry(text)) is not None]
        hosts = tuple(
            dict.fromkeys(
                one.host for one in included if not any(other.covers(one.host) for other in excluded)
            )
        )
        if not hosts:
            return None
        return WebFilter(True, False, cap, hosts if dialect.can(Can.ALLOW) else ())
    hosts = tuple(dict.fromkeys(one.host for one in excluded if not one.below))
    return WebFilter(True, False, cap, (), hosts if dialect.can(Can.BLOCK) else ())


def read_answer(found: Completion, *, names_pages: bool) -> SearchAnswer | SearchFailure:
    """The rows of a completion; a failure where it did not search, or its search failed.

    names_pages: the vendor names what a search found. Others cite or say nothing, and no citation is no empty result.
    """
    quotes = {one.url: one for one in unique_citations(found.citations)}
    rows: dict[str, SearchRow] = {}
    for page in found.rows:
        rows.setdefault(page.url, _make_row(page, quotes.get(page.url)))
    for one in quotes.values():
        rows.setdefault(one.url, _make_row(WebRow(one.url), one))
    requests = found.usage.server_tool_requests
    cost = float(requests) if requests is not None else None
    if rows:
        return SearchAnswer(tuple(rows.values()), credits=cost)
    failed = next((call for call in found.calls if not call.succeeded()), None)
    if failed is not None:
        return SearchFailure(FailureKind.BACKEND, f"the provider's {failed.tool} failed ({failed.error})")
    if not found.calls:
        return SearchFailure(FailureKind.BACKEND, "the provider's model did not search; try again")
    if not names_pages:
        return SearchFailure(FailureKind.BACKEND, "the provider searched and named no page; try again")
    return SearchAnswer((), credits=cost)


def _make_row(page: WebRow, cited: Citation | None) -> SearchRow:
    title = page.title or (cited.title if cited is not None else None)
    quote = cited.cited_text if cited is not None else None
    return SearchRow(page.url, title or "", quote or "", page.age)


def explain(error: VendorError) -> SearchFailure:
    """A vendor's failure as a search's; its own words never reach the log, for they may repeat the query."""
    text = str(error)
    if isinstance(error, RefusalError):
        if error.status is not None:
            said = text.removeprefix(f"answered with HTTP {error.status}").removeprefix(": ")
            return SearchFailure(
                FailureKind.BACKEND, f"backend returned {error.status}: {said or '(empty body)'}"
            )
        code = error.code or "unknown"
        return SearchFailure(
            FailureKind.BACKEND,
            text.replace("answered with", "backend returned", 1),
            logged=f"backend returned an error inside a 200 ({code})",
        )
    if isinstance(error, AnswerError):
        return malformed(text)
    return REQUEST_FAILED
