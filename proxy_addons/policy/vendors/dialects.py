"""What each dialect of a vendor's web tools can say: one row each (SPEC 6).

A vendor is who answers; a dialect is one shape of asking it for the web. The rows of 2025 are the source's, to the
letter; the others are what the vendors accept today. Both sides read them: the daemon refuses what a declaration
cannot be rendered into, the gateway what an agent's own body cannot be narrowed to.

What a row says of a list is what the vendor does with it, not what it is called: an entry covers its subdomains
at every vendor here, and none takes a wildcard in a host but where `host_wildcards` says so.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType


class Vendor(StrEnum):
    """Who answers; also what messages call it."""

    ANTHROPIC = "anthropic"
    OPENAI = "openai"
    OPENROUTER = "openrouter"


class Capability(StrEnum):
    """What a declaration may ask of a vendor and a dialect may not carry."""

    SEARCH = "search"
    FETCH = "fetch"
    ALLOW = "allow"
    BLOCK = "block"


class Uses(StrEnum):
    """What becomes of `max_uses`."""

    EACH_TOOL = "on each tool entry, not shared between search and fetch"
    ALL_CALLS = "one number for every built-in call of the answer"
    RESULTS = "a cap on results, not on requests"
    NOT_SENT = "there is no place for it"


@dataclass(frozen=True, slots=True)
class Dialect:
    """One row.

    search_type, fetch_type: what declares them: the `type` of an entry in `tools`, the `id` of one in `plugins`, or a
    member of the body; None: refused. allow, block: the member that takes the list; None: refused.
    uses, uses_member: what becomes of max_uses, and the member that takes it. both_lists: whether allow and block may
    stand together. path_entries: whether a search entry may carry a path. list_limit: entries of a list; None: not
    stated. beta: the `anthropic-beta` value that a fetch needs. source: a dialect of the source, kept to the letter.
    """

    name: str
    vendor: Vendor
    path: str
    search_type: str | None
    fetch_type: str | None
    allow: str | None
    block: str | None
    uses: Uses
    uses_member: str | None
    both_lists: bool = False
    host_wildcards: bool = False
    path_entries: bool = False
    list_limit: int | None = None
    beta: str | None = None
    source: bool = False
    cannot: Mapping[Capability, str] = MappingProxyType({})
    """Why, for each capability that the row does not have: what follows the dash in the refusal, with the way out."""

    def can(self, capability: Capability) -> bool:
        """Whether the dialect carries it."""
        match capability:
            case Capability.SEARCH:
                return self.search_type is not None
            case Capability.FETCH:
                return self.fetch_type is not None
            case Capability.ALLOW:
                return self.allow is not None
            case Capability.BLOCK:
                return self.block is not None


_NO_FETCH_OPENAI = (
    "it has no provider-executed fetch tool; leave fetch off, or ask a provider that has one (anthropic)"
)
_NO_BLOCK_OPENAI = (
    "its web search filter is allow-list only; state the hosts to allow instead of the ones to block"
)
_PLUGIN_FILTER = "its web plugin takes no domain filter; leave the lists empty, or use the dialect openrouter"

DIALECTS: Mapping[str, Dialect] = MappingProxyType(
    {
        row.name: row
        for row in (
            Dialect(
                "anthropic-2025",
                Vendor.ANTHROPIC,
                "/v1/messages",
                search_type="web_search_20250305",
                fetch_type="web_fetch_20250910",
                allow="allowed_domains",
                block="blocked_domains",
                uses=Uses.EACH_TOOL,
                uses_member="max_uses",
                path_entries=True,
                beta="web-fetch-2025-09-10",
                source=True,
            ),
            Dialect(
                "anthropic",
                Vendor.ANTHROPIC,
                "/v1/messages",
                search_type="web_search_20260318",
                fetch_type="web_fetch_20260318",
                allow="allowed_domains",
                block="blocked_domains",
                uses=Uses.EACH_TOOL,
                uses_member="max_uses",
                path_entries=True,
            ),
            Dialect(
                "openai-chat-2025",
                Vendor.OPENAI,
                "/v1/chat/completions",
                search_type="web_search_options",
                fetch_type=None,
                allow="filters.allowed_domains",
                block=None,
                uses=Uses.NOT_SENT,
                uses_member=None,
                source=True,
                cannot=MappingProxyType(
                    {Capability.FETCH: _NO_FETCH_OPENAI, Capability.BLOCK: _NO_BLOCK_OPENAI}
                ),
            ),
            Dialect(
                "openai-chat",
                Vendor.OPENAI,
                "/v1/chat/completions",
                search_type="web_search_options",
                fetch_type=None,
                allow=None,
                block=None,
                uses=Uses.NOT_SENT,
                uses_member=None,
                cannot=MappingProxyType(
                    {
                        Capability.FETCH: _NO_FETCH_OPENAI,
                        Capability.ALLOW: (
                            "its Chat Completions API has no domain filter; use the dialect openai-responses"
                        ),
                        Capability.BLOCK: (
                            "its Chat Completions API has no domain filter; state the hosts to allow, in the dialect"
                            " openai-responses"
                        ),
                    }
                ),
            ),
            Dialect(
                "openai-responses",
                Vendor.OPENAI,
                "/v1/responses",
                search_type="web_search",
                fetch_type=None,
                allow="filters.allowed_domains",
                block=None,
                uses=Uses.ALL_CALLS,
                uses_member="max_tool_calls",
                list_limit=100,
                cannot=MappingProxyType(
                    {Capability.FETCH: _NO_FETCH_OPENAI, Capability.BLOCK: _NO_BLOCK_OPENAI}
                ),
            ),
            Dialect(
                "openrouter-2025",
                Vendor.OPENROUTER,
                "/api/v1/chat/completions",
                search_type="web",
                fetch_type=None,
                allow=None,
                block=None,
                uses=Uses.RESULTS,
                uses_member="max_results",
                source=True,
                cannot=MappingProxyType(
                    {
                        Capability.FETCH: (
                            "its web plugin does not fetch; leave fetch off, or use the dialect openrouter"
                        ),
                        Capability.ALLOW: _PLUGIN_FILTER,
                        Capability.BLOCK: _PLUGIN_FILTER,
                    }
                ),
            ),
            Dialect(
                "openrouter",
                Vendor.OPENROUTER,
                "/api/v1/chat/completions",
                search_type="openrouter:web_search",
                fetch_type="openrouter:web_fetch",
                allow="parameters.allowed_domains",
                block="parameters.excluded_domains",
                uses=Uses.EACH_TOOL,
                uses_member="parameters.max_uses",
            ),
        )
    }
)
"""By name. `openrouter` calls the block list of its fetch tool `blocked_domains` (FETCH_BLOCK)."""

FETCH_BLOCK: Mapping[str, str] = MappingProxyType({"openrouter": "parameters.blocked_domains"})
"""Where a dialect calls the block list of its fetch tool otherwise than that of its search tool."""

DEFAULT_DIALECTS: Mapping[Vendor, str] = MappingProxyType(
    {Vendor.ANTHROPIC: "anthropic", Vendor.OPENAI: "openai-responses", Vendor.OPENROUTER: "openrouter"}
)
"""What each vendor accepts today."""
