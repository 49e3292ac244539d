"""What a model's request may hold, as far as it bears on the web: tables alone.

They list what is known, not what is forbidden. Where web tools are held, whatever stands in no table is refused: a
version of tomorrow, another letter case, a member that nobody has heard of. Tests hold the tables to the types of the
vendors' newest SDKs, so that all that those can send today is known here.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from .dialects import Vendor
from .endpoints import BodyKind


@dataclass(frozen=True, slots=True)
class WebTool:
    """A tool by which the vendor reaches the web. Paths are members within members, joined by a dot.

    fetches: a fetch; else a search. allow, block, uses: where the lists and the cap go; None: there is no such place
    in the entry. root_uses: the member of the body that caps it instead. known: the members that the entry may have.
    inner: those of its `parameters` or `filters`. paths: whether entries may carry a path. wildcards: or be `*.name`.
    list_limit: entries of a list. engines: whether `engine` decides if lists and cap hold (OpenRouter).
    """

    fetches: bool
    allow: str | None
    block: str | None
    uses: str | None
    known: frozenset[str]
    inner: frozenset[str] = frozenset()
    root_uses: str | None = None
    paths: bool = False
    wildcards: bool = False
    list_limit: int | None = None
    engines: bool = False

    @property
    def name(self) -> str:
        """What logs call it."""
        return "web_fetch" if self.fetches else "web_search"


_ENTRY = frozenset({"type", "name", "cache_control", "defer_loading", "strict", "allowed_callers"})
_LISTS = frozenset({"allowed_domains", "blocked_domains", "max_uses"})
_SEARCH = _ENTRY | _LISTS | {"user_location"}
_FETCH = _ENTRY | _LISTS | {"citations", "max_content_tokens", "url_sources"}


def _anthropic(known: frozenset[str], *, fetches: bool) -> WebTool:
    return WebTool(fetches, "allowed_domains", "blocked_domains", "max_uses", known, paths=not fetches)


ANTHROPIC_WEB: Mapping[str, WebTool] = MappingProxyType(
    {
        "web_search_20250305": _anthropic(_SEARCH, fetches=False),
        "web_search_20260209": _anthropic(_SEARCH, fetches=False),
        "web_search_20260318": _anthropic(_SEARCH | {"response_inclusion"}, fetches=False),
        "web_fetch_20250910": _anthropic(_FETCH, fetches=True),
        "web_fetch_20260209": _anthropic(_FETCH, fetches=True),
        "web_fetch_20260309": _anthropic(_FETCH | {"use_cache"}, fetches=True),
        "web_fetch_20260318": _anthropic(_FETCH | {"use_cache", "response_inclusion"}, fetches=True),
    }
)

_RESPONSES_ENTRY = frozenset(
    {
        "type", "filters", "search_context_size", "user_location", "external_web_access",
        # in the vendor's guide and not in its types
        "search_content_types", "image_settings", "return_token_budget",
    }
)  # fmt: skip
_RESPONSES = WebTool(
    False,
    "filters.allowed_domains",
    None,
    None,
    _RESPONSES_ENTRY,
    frozenset({"allowed_domains", "blocked_domains"}),
    root_uses="max_tool_calls",
    list_limit=100,
)
_PREVIEW = WebTool(
    False,
    None,
    None,
    None,
    frozenset({"type", "search_context_size", "user_location", "search_content_types"}),
    root_uses="max_tool_calls",
)
RESPONSES_WEB: Mapping[str, WebTool] = MappingProxyType(
    {
        "web_search": _RESPONSES,
        "web_search_2025_08_26": _RESPONSES,
        "web_search_preview": _PREVIEW,
        "web_search_preview_2025_03_11": _PREVIEW,
    }
)

OPENROUTER_WEB: Mapping[str, WebTool] = MappingProxyType(
    {
        "openrouter:web_search": WebTool(
            False,
            "parameters.allowed_domains",
            "parameters.excluded_domains",
            "parameters.max_uses",
            frozenset({"type", "parameters"}),
            frozenset(
                {
                    "allowed_domains", "excluded_domains", "engine", "max_characters", "max_results",
                    "max_total_results", "max_uses", "mode", "search_context_size", "user_location",
                }
            ),
            engines=True,
        ),
        "openrouter:web_fetch": WebTool(
            True,
            "parameters.allowed_domains",
            "parameters.blocked_domains",
            "parameters.max_uses",
            frozenset({"type", "parameters"}),
            frozenset({"allowed_domains", "blocked_domains", "engine", "max_content_tokens", "max_uses"}),
        ),
    }
)  # fmt: skip
OPENROUTER_PLUGINS: Mapping[str, WebTool] = MappingProxyType(
    {
        "web": WebTool(
            False,
            "include_domains",
            "exclude_domains",
            "max_uses",
            frozenset(
                {
                    "id", "enabled", "engine", "exclude_domains", "include_domains", "max_results", "max_uses",
                    "mode", "search_prompt", "user_location",
                }
            ),
            paths=True,
            wildcards=True,
            engines=True,
        ),
        "web-fetch": WebTool(
            True,
            "allowed_domains",
            "blocked_domains",
            "max_uses",
            frozenset({"id", "enabled", "allowed_domains", "blocked_domains", "max_content_tokens", "max_uses"}),
        ),
    }
)  # fmt: skip

CAPPING_ENGINES = frozenset({"exa", "firecrawl", "parallel", "perplexity"})
"""OpenRouter's engines that hold a search to its lists and its cap; a vendor's own does for Anthropic's models."""

OWN_TOOLS: Mapping[BodyKind, frozenset[str]] = MappingProxyType(
    {
        BodyKind.MESSAGES: frozenset(
            {
                "custom",
                "bash_20241022", "bash_20250124",
                "text_editor_20241022", "text_editor_20250124", "text_editor_20250429", "text_editor_20250728",
                "computer_20241022", "computer_20250124", "computer_20251124", "computer_toolset_20260801",
                "browser_toolset_20260801", "memory_20250818",
                # run by the vendor, in containers without a network
                "code_execution_20250522", "code_execution_20250825", "code_execution_20260120",
                "code_execution_20260521",
                "tool_search_tool_bm25", "tool_search_tool_bm25_20251119",
                "tool_search_tool_regex", "tool_search_tool_regex_20251119",
                "advisor_20260301", "mcp_toolset",  # the servers of mcp_servers, which are judged there
            }
        ),
        BodyKind.CHAT: frozenset({"function", "custom"}),
        BodyKind.RESPONSES: frozenset(
            {
                "function", "custom", "namespace", "file_search", "computer", "computer_use_preview", "local_shell",
                "apply_patch", "tool_search", "image_generation", "programmatic_tool_calling",
            }
        ),
        BodyKind.CONTENT: frozenset(),
    }
)  # fmt: skip
"""Tools that reach no web: run by the agent itself, or by the vendor on what it was given."""

OPENROUTER_OWN_TOOLS = frozenset(
    {
        "openrouter:datetime", "openrouter:image_generation", "openrouter:apply_patch", "openrouter:tool_search",
        "openrouter:files", "openrouter:file_search", "openrouter:experimental__search_models",
    }
)  # fmt: skip
OPENROUTER_OWN_PLUGINS = frozenset(
    {"response-healing", "context-compression", "file-parser", "moderation", "alignment", "armor"}
)
"""Not the routers, which may choose a model that searches, and not fusion, whose models do."""

CONTAINER_TOOLS: Mapping[str, str] = MappingProxyType(
    {"code_interpreter": "container", "shell": "environment"}
)
"""OpenAI's, and the member that says in what they run: held to containers without a network."""
CONTAINER_MEMBERS = frozenset({"type", "file_ids", "memory_limit", "network_policy", "skills"})
"""Of a container that the request makes, or of the agent's own place."""

MCP_MEMBERS: Mapping[BodyKind, frozenset[str]] = MappingProxyType(
    {
        BodyKind.MESSAGES: frozenset({"type", "name", "url", "authorization_token", "tool_configuration"}),
        BodyKind.RESPONSES: frozenset(
            {
                "type", "server_label", "server_url", "server_description", "connector_id", "tunnel_id", "headers",
                "authorization", "allowed_tools", "allowed_callers", "require_approval", "defer_loading",
            }
        ),
    }
)  # fmt: skip
"""Of an MCP server: an entry of `mcp_servers`, or of `tools`."""

_CHAT = frozenset(
    {
        "messages", "model", "audio", "frequency_penalty", "function_call", "functions", "logit_bias", "logprobs",
        "max_completion_tokens", "max_tokens", "metadata", "modalities", "moderation", "n", "parallel_tool_calls",
        "prediction", "presence_penalty", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention",
        "reasoning_effort", "response_format", "safety_identifier", "seed", "service_tier", "stop", "store", "stream",
        "stream_options", "temperature", "tool_choice", "tools", "top_logprobs", "top_p", "user", "verbosity",
        "web_search_options",
        # completions
        "prompt", "best_of", "echo", "suffix",
    }
)  # fmt: skip
_RESPONSES_MEMBERS = frozenset(
    {
        "access_programs", "background", "background_options", "client_metadata", "context_management",
        "conversation", "image", "include", "input", "instructions", "max_output_tokens", "max_tool_calls",
        "metadata", "model", "moderation", "multi_agent", "parallel_tool_calls", "personality",
        "previous_response_id", "prompt", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention",
        "reasoning", "safety_identifier", "service_tier", "store", "stream", "stream_options", "temperature",
        "text", "tool_choice", "tools", "top_logprobs", "top_p", "truncation", "user",
        # conversations
        "items",
    }
)  # fmt: skip
_MESSAGES = frozenset(
    {
        "max_tokens", "messages", "model", "billing_policy", "cache_control", "compaction", "container",
        "context_management", "diagnostics", "fallback_credit_token", "fallbacks", "inference_geo", "mcp_servers",
        "metadata", "output_config", "output_format", "service_tier", "speed", "stop_sequences", "stream", "system",
        "temperature", "thinking", "thread", "tool_choice", "tools", "top_k", "top_p", "user_profile_id",
        "workspace_id",
    }
)  # fmt: skip
_OPENROUTER = frozenset(
    {
        "cache_control", "debug", "deferred_tools", "image_config", "min_p", "models", "plugins", "provider",
        "reasoning", "repetition_penalty", "session_id", "stop_server_tools_when", "top_a", "top_k", "trace", "user",
        "safeguards", "modalities", "frequency_penalty", "presence_penalty", "stop", "max_tokens", "route",
        "transforms", "usage", "preset", "include_reasoning", "structured_outputs", "verbosity",
    }
)  # fmt: skip

_CONTENT = frozenset(
    {
        "input", "model", "dimensions", "encoding_format", "input_type", "user",
        # speech, and text of speech
        "voice", "instructions", "response_format", "speed", "stream_format", "input_audio", "language", "prompt",
        "temperature", "timestamp_granularities", "diarize", "keyterms", "input_references",
    }
)  # fmt: skip

MEMBERS: Mapping[BodyKind, frozenset[str]] = MappingProxyType(
    {
        BodyKind.CHAT: _CHAT,
        BodyKind.RESPONSES: _RESPONSES_MEMBERS,
        BodyKind.MESSAGES: _MESSAGES,
        BodyKind.CONTENT: _CONTENT,
    }
)
"""The members that each kind of body may have."""
VENDOR_MEMBERS: Mapping[Vendor, frozenset[str]] = MappingProxyType(
    {Vendor.ANTHROPIC: frozenset(), Vendor.OPENAI: frozenset(), Vendor.OPENROUTER: _OPENROUTER}
)
"""Those that a vendor takes beside."""

PROVIDER_MEMBERS = frozenset(
    {
        "order", "only", "ignore", "allow_fallbacks", "require_parameters", "data_collection", "zdr", "quantizations",
        "sort", "max_price", "preferred_min_throughput", "preferred_max_latency", "enforce_distillable_text",
    }
)  # fmt: skip
"""Of OpenRouter's `provider`: which of them may answer. Not `options`, which go to that one unread."""

SEARCHING_MODELS: tuple[re.Pattern[str], ...] = tuple(
    map(
        re.compile, (r"search-(preview|api)", r"deep-?research", r"(^|/)sonar", r"^~?perplexity/", r":online")
    )
)
"""Models that search whether or not they are told to: found anywhere in the name, in small letters."""
ROUTED_MODELS: tuple[re.Pattern[str], ...] = tuple(
    map(re.compile, (r"^openrouter/", r"/router$", r"@preset", r"^$"))
)
"""OpenRouter's names that stand for a model of somebody's choosing, or for settings kept there."""

SOURCE_MEMBERS = frozenset(
    {"image_url", "file_url", "video_url", "audio_url", "document_url", "file_data", "input_audio"}
)
"""Members, wherever in the conversation, whose URL the vendor fetches."""
SOURCE_TYPES = frozenset({"url", "image"})
"""Types of an object whose `url` it fetches."""

UNREAD_MEMBERS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "tool_use": frozenset({"input"}),
        "server_tool_use": frozenset({"input"}),
        "mcp_tool_use": frozenset({"input"}),
        "mcp_list_tools": frozenset({"tools"}),
        "mcp_tool_listing": frozenset({"tools"}),
        "web_search_call": frozenset({"action", "results"}),
        "openrouter:web_search": frozenset({"action", "results"}),
    }
)
"""What a model once said, a search found or a server listed, by the type it stands in: data, and no declaration."""

FALLBACK_MEMBERS = frozenset({"model", "max_tokens", "thinking", "output_config", "speed"})
"""What an entry of Anthropic's `fallbacks` may set."""
