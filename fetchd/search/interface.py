"""What a search is made of, and what is asked of a provider."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from math import inf
from typing import Protocol

from fetchd.core.caller import Caller
from fetchd.core.failures import FailureKind


class Argument(StrEnum):
    """The eight arguments, in the order in which they are checked (SPEC 4)."""

    QUERY = "query"
    COUNT = "count"
    FRESHNESS = "freshness"
    COUNTRY = "country"
    SEARCH_LANG = "search_lang"
    SAFESEARCH = "safesearch"
    INCLUDE_DOMAINS = "include_domains"
    EXCLUDE_DOMAINS = "exclude_domains"


class Freshness(StrEnum):
    """The past day, week, month or year."""

    DAY = "pd"
    WEEK = "pw"
    MONTH = "pm"
    YEAR = "py"


class SafeSearch(StrEnum):
    OFF = "off"
    MODERATE = "moderate"
    STRICT = "strict"


@dataclass(frozen=True, slots=True)
class SearchArguments:
    """A search that may start: every text exactly as written, within the bounds of SPEC 4. None: left out."""

    query: str
    count: int | None = None
    freshness: Freshness | None = None
    country: str | None = None
    search_lang: str | None = None
    safesearch: SafeSearch | None = None
    include_domains: tuple[str, ...] = ()
    exclude_domains: tuple[str, ...] = ()


class Support(Enum):
    """How a provider honours an argument.

    NATIVE: a parameter of its own. SYNTAX: exact words of its query language. AFTER: the rows it gave are held to it
    here. REFUSED: not at all, which is said before anything is sent.
    """

    NATIVE = "native"
    SYNTAX = "syntax"
    AFTER = "after"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Capability:
    """One cell of the capability table. way_out: for REFUSED, what the caller can do instead."""

    support: Support
    way_out: str = ""


@dataclass(frozen=True, slots=True)
class SearchRow:
    """One result, as the provider gave it. url: "" where it gave none, which fails the search. title, description: ""
    where it gave none.
    """

    url: str
    title: str = ""
    description: str = ""
    age: str | None = None
    site_name: str | None = None
    extra_snippets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """Rows in the provider's order, as it gave them, blank URLs and all: they are judged afterwards.

    dropped: rows outside the domain lists that the provider's own side took out.

    credits: what the provider said the search cost, in its own unit; None where it says nothing.
    """

    rows: tuple[SearchRow, ...]
    dropped: int = 0
    credits: float | None = None


@dataclass(frozen=True, slots=True)
class SearchFailure:
    """Every failure is hard. message: without the leading ``web_search: ``; no text of another party unescaped.

    kind: TRANSPORT, BACKEND, or INVALID_ARGUMENTS; OTHER is ours alone. logged: what the audit log says in its place,
    where it holds words of another party's, which may repeat the query.
    """

    kind: FailureKind
    message: str
    logged: str | None = None


class SearchProvider(Protocol):
    """Answers searches within the deadline it was made with. Never raises for what a provider did."""

    @property
    def name(self) -> str:
        """As in the configuration and in messages."""
        ...

    @property
    def capabilities(self) -> Mapping[Argument, Capability]:
        """A cell for each of the eight."""
        ...

    async def search(
        self, arguments: SearchArguments, caller: Caller, ends: float = inf
    ) -> SearchAnswer | SearchFailure:
        """One search on behalf of a caller. Arguments that cannot be honoured were refused before.

        ends: by the event loop's clock, when it will be broken off; what takes longer need not be begun.
        """
        ...
