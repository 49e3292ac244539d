"""A model's request under a profile: what in it reaches the web, and what of that may leave.

    pass      nothing is looked at
    refuse    a body leaves as it came, or not at all: nothing in it may reach the web
    enforce   web tools are narrowed to the profile's host rules and capped; addresses that the vendor is to fetch are
              judged as if the agent asked for them; what cannot be narrowed is refused, never dropped

Laws of this file
- What is not known is refused. The tables (`tools`) say what is known; a list of what is bad would be out of date.
- A body that needs no change leaves byte for byte; one that does keeps every byte that is not meant (`json_text`).
- Messages name the tool and the way out, never a value of the body but names of hosts, models, members and types.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from proxy_addons.policy.limits import Profile, WebTools

from .containers import check_container, close_container
from .dialects import Vendor
from .endpoints import BodyKind, Endpoint
from .held import HeldError, list_of, quoted, spoken, text_of
from .json_text import Changes, JsonText, JsonTextError, change_text, read_json
from .narrowing import narrow_tool
from .sources import MCP_SERVER, check_content, check_source
from .tools import (
    ANTHROPIC_WEB,
    CONTAINER_TOOLS,
    FALLBACK_MEMBERS,
    MCP_MEMBERS,
    MEMBERS,
    OPENROUTER_OWN_PLUGINS,
    OPENROUTER_OWN_TOOLS,
    OPENROUTER_PLUGINS,
    OPENROUTER_WEB,
    OWN_TOOLS,
    PROVIDER_MEMBERS,
    RESPONSES_WEB,
    ROUTED_MODELS,
    SEARCHING_MODELS,
    SOURCE_MEMBERS,
    SOURCE_TYPES,
    UNREAD_MEMBERS,
    VENDOR_MEMBERS,
    WebTool,
)

MAX_DEPTH = 200
"""Of a conversation; a content block nests five deep."""

_NO_CONVERSATION = frozenset(
    {
        "tools", "tool_choice", "plugins", "mcp_servers", "metadata", "client_metadata", "models", "functions",
        "trace",
    }
)  # fmt: skip
"""Members in which nothing is fetched or declared but what is looked at by itself."""
_AGENTS_OWN = frozenset({"function", "custom"})
_WORDS_ALONE = _AGENTS_OWN | {"", "namespace"}
"""Tools that have names and schemas: nothing in them is fetched."""


@dataclass(frozen=True, slots=True)
class Held:
    """What may leave. body: the text to send in place of the one that came; None: that one, untouched.

    tools: the web tools that it declares, for the log.
    """

    body: bytes | None = None
    tools: tuple[str, ...] = ()


def hold_request(data: bytes, endpoint: Endpoint, profile: Profile) -> Held:
    """Judge a decoded body under a profile that does not pass them; raises HeldError."""
    try:
        text = read_json(data)
    except JsonTextError as error:
        raise HeldError(f"the request body cannot be held to the profile: {error}") from None
    if not isinstance(text.value, dict) or endpoint.kind is None:
        raise HeldError("the request body cannot be held to the profile: it is no JSON object")
    return _Holder(text, text.value, endpoint.vendor, endpoint.kind, endpoint.runs, profile).hold()


@dataclass(slots=True)
class _Holder:
    """One request on its way through the checks."""

    text: JsonText
    body: dict[str, Any]
    vendor: Vendor
    kind: BodyKind
    runs: bool
    profile: Profile
    root: dict[str, object] = field(default_factory=dict)
    """Members of the root that get another value."""
    elements: dict[tuple[str, int], Changes] = field(default_factory=dict)
    found: list[str] = field(default_factory=list)

    def hold(self) -> Held:
        """The checks in order; the first that fails is the one reported."""
        for name in self.body:
            if name not in MEMBERS[self.kind] and name not in VENDOR_MEMBERS[self.vendor]:
                raise HeldError(f"the member {quoted(name)} is not known here, and could reach the web")
        self._check_models()
        self._check_stored()
        self._check_search_options()
        self._hold_tools()
        self._hold_plugins()
        for one in list_of(self.body.get("mcp_servers"), "mcp_servers"):
            self._check_mcp_server(one, "url")
        self._check_conversation()
        changed = bool(self.root or self.elements)
        new = change_text(self.text, self.root, self.elements) if changed else None
        return Held(new, tuple(self.found))

    # --- models, and settings kept at the vendor ---------------------------------------------------------------

    def _check_models(self) -> None:
        if self.kind is not BodyKind.CONTENT:  # whatever model it is, nobody talks to it
            for name in self._models():
                self._check_model(name)

    def _check_model(self, name: object) -> None:
        if not isinstance(name, str):
            raise HeldError('"model" is no text')
        folded = name.lower()
        if any(pattern.search(folded) for pattern in SEARCHING_MODELS):
            raise HeldError(
                f"the model {quoted(name)} searches the web on every call, and that cannot be narrowed; choose"
                " another model, and declare a web search tool"
            )
        if self.vendor is Vendor.OPENROUTER and any(pattern.search(folded) for pattern in ROUTED_MODELS):
            raise HeldError(
                f"the model {quoted(name)} stands for what OpenRouter chooses, which may search the web; name"
                " the model itself"
            )

    def _models(self) -> Iterator[Any]:
        """Every model that may answer."""
        several = self.vendor is Vendor.OPENROUTER and list_of(self.body.get("models"), "models")
        given = [*several] if several else []
        if self.body.get("model") is not None or not given:
            given.append(self.body.get("model", ""))
        fallbacks = self.body.get("fallbacks")
        for one in list_of(fallbacks, "fallbacks") if fallbacks != "default" else ():
            if not isinstance(one, dict) or one.keys() - FALLBACK_MEMBERS:
                raise HeldError('an entry of "fallbacks" has a member that is not known here')
            given.append(one.get("model"))
        yield from given

    def _check_stored(self) -> None:
        if self.kind is BodyKind.RESPONSES and self.body.get("prompt") is not None:
            raise HeldError(
                'a stored "prompt" can hold web tools that are not seen here; send its text and tools'
            )
        if self.vendor is Vendor.OPENROUTER and self.body.get("preset") is not None:
            raise HeldError('a "preset" can hold web tools that are not seen here; send its settings')
        provider = self.body.get("provider") if self.vendor is Vendor.OPENROUTER else None
        unknown = provider.keys() - PROVIDER_MEMBERS if isinstance(provider, dict) else ()
        if unknown:
            raise HeldError(
                f'the member {quoted(min(unknown))} of "provider" is not known here, and goes to the provider unread'
            )

    # --- declarations -----------------------------------------------------------------------------------------

    def _check_search_options(self) -> None:
        if self.body.get("web_search_options") is None:
            return
        self._declare("web_search")
        raise HeldError(
            'web search: "web_search_options" has no domain list and no cap, so it cannot be narrowed; use the'
            ' Responses API with the tool "web_search"'
        )

    def _hold_tools(self) -> None:
        for place, entry in enumerate(list_of(self.body.get("tools"), "tools")):
            web = self._judge_tool(entry)
            if web is not None:
                self._hold_web(web, entry, ("tools", place))
            elif self._at_openai and self.profile.web_tools is WebTools.ENFORCE:
                self._change(("tools", place), close_container(entry))

    def _hold_plugins(self) -> None:
        if self.vendor is not Vendor.OPENROUTER:
            return
        for place, entry in enumerate(list_of(self.body.get("plugins"), "plugins")):
            name = text_of(entry.get("id")) if isinstance(entry, dict) else ""
            if name in OPENROUTER_OWN_PLUGINS:
                self._check_within(entry, name)
                continue
            web = OPENROUTER_PLUGINS.get(name)
            if web is None:
                raise HeldError(f"the plugin {quoted(name)} is not known here, and could reach the web")
            if entry.get("enabled") is False:
                continue
            if entry.get("enabled", True) is not True:
                raise HeldError(f'"enabled" of the plugin {quoted(name)} is neither true nor false')
            self._hold_web(web, entry, ("plugins", place))

    def _hold_web(self, web: WebTool, entry: dict[str, Any], place: tuple[str, int]) -> None:
        if web.name in self.found:
            raise HeldError(f"{spoken(web)} is declared twice, and each would count its own uses")
        self._declare(web.name)
        if self.body.get("multi_agent") not in (None, {"enabled": False}):
            raise HeldError(
                f'{spoken(web)} by several agents ("multi_agent") cannot be held to a number of uses; leave out one'
            )
        narrowed = narrow_tool(web, entry, self.body, list(self._models()), self.profile)
        if self.runs:
            self.root |= narrowed.root
        self._change(place, narrowed.entry)

    def _change(self, place: tuple[str, int], changes: Changes) -> None:
        if changes:
            self.elements[place] = changes

    def _declare(self, name: str) -> None:
        self.found.append(name)
        if self.profile.web_tools is WebTools.REFUSE:
            raise HeldError(f"{name.replace('_', ' ')} run by the provider is not allowed by this profile")

    def _judge_tool(self, entry: Any) -> WebTool | None:
        """The web tool that an entry declares; None when it reaches no web."""
        if not isinstance(entry, dict):
            raise HeldError('an entry of "tools" is no object')
        kind = entry.get("type")
        if kind is None and self.kind is BodyKind.MESSAGES:
            return None  # a tool of the agent's own
        web = self._web_tools().get(text_of(kind))
        if web is None:
            self._check_own_tool(entry, text_of(kind))
        return web

    def _web_tools(self) -> Mapping[str, WebTool]:
        if self.vendor is Vendor.OPENROUTER:
            return OPENROUTER_WEB
        match self.kind:
            case BodyKind.MESSAGES:
                return ANTHROPIC_WEB
            case BodyKind.RESPONSES:
                return RESPONSES_WEB
            case BodyKind.CHAT | BodyKind.CONTENT:
                return {}

    @property
    def _at_openai(self) -> bool:
        return self.kind is BodyKind.RESPONSES and self.vendor is Vendor.OPENAI

    def _check_own_tool(self, entry: dict[str, Any], kind: str) -> None:
        if kind == "mcp" and self._at_openai:
            if entry.get("connector_id") is not None or entry.get("tunnel_id") is not None:
                raise HeldError("an MCP connector or tunnel reaches what is not seen here; name a server_url")
            self._check_mcp_server(entry, "server_url")
        elif kind in CONTAINER_TOOLS and self._at_openai:
            check_container(entry)
        elif kind in OWN_TOOLS[self.kind] or (
            self.vendor is Vendor.OPENROUTER and kind in OPENROUTER_OWN_TOOLS
        ):
            self._check_within(entry, kind)
        else:
            hint = ""
            if self.vendor is Vendor.OPENROUTER and "web" in kind.lower():
                hint = '; write "openrouter:web_search" or "openrouter:web_fetch"'
            raise HeldError(f"the tool type {quoted(kind)} is not known here, and could reach the web{hint}")

    def _check_mcp_server(self, entry: Any, address: str) -> None:
        if not isinstance(entry, dict):
            raise HeldError(f"the address of {MCP_SERVER} cannot be read")
        check_source(entry.get(address), MCP_SERVER, self.profile)
        unknown = entry.keys() - MCP_MEMBERS[self.kind]
        if unknown:
            raise HeldError(f"{MCP_SERVER} has a member that is not known here: {quoted(min(unknown))}")

    def _check_within(self, entry: dict[str, Any], kind: str) -> None:
        """The tools and the models that one which reaches no web brings along; its pictures are looked at later."""
        if kind in _AGENTS_OWN:
            return
        if kind == "namespace":
            for inner in list_of(entry.get("tools"), "tools"):
                if not isinstance(inner, dict) or text_of(inner.get("type")) not in _AGENTS_OWN:
                    raise HeldError(
                        "a namespace holds a tool that is not known here, and could reach the web"
                    )
        for place in (entry, entry.get("parameters")):
            if isinstance(place, dict) and place.get("model") is not None:
                self._check_model(place["model"])

    # --- the conversation --------------------------------------------------------------------------------------

    def _check_conversation(self) -> None:
        """Everything but the declarations above: addresses to fetch, and tools declared in the middle of it."""
        self._check_block({name: self.body[name] for name in SOURCE_MEMBERS & self.body.keys()})
        waiting = [(value, 0) for name, value in self.body.items() if name not in _NO_CONVERSATION]
        waiting += [
            (entry, 0)
            for entry in list_of(self.body.get("tools"), "tools")
            if (kind := text_of(entry.get("type"))) not in _WORDS_ALONE and kind not in self._web_tools()
        ]
        while waiting:
            value, depth = waiting.pop()
            if depth > MAX_DEPTH:
                raise HeldError("the request body is nested too deeply to be held to the profile")
            if isinstance(value, list):
                waiting += [(one, depth + 1) for one in value if isinstance(one, (dict, list))]
            elif isinstance(value, dict):
                self._check_block(value)
                unread = UNREAD_MEMBERS.get(text_of(value.get("type")), frozenset())
                waiting += [
                    (one, depth + 1)
                    for name, one in value.items()
                    if isinstance(one, (dict, list)) and name not in unread
                ]

    def _check_block(self, block: dict[str, Any]) -> None:
        kind = text_of(block.get("type"))
        if kind in SOURCE_TYPES and "url" in block:
            check_content(block["url"], self.profile)
        for name in SOURCE_MEMBERS & block.keys():
            value = block[name]
            for url in (value.get("url"), value.get("data")) if isinstance(value, dict) else (value,):
                check_content(url, self.profile)
        declared = [block.get("definition")] if kind == "tool_definition" else []
        if kind not in UNREAD_MEMBERS and isinstance(block.get("tools"), list):
            declared += block["tools"]
        for entry in declared:
            if isinstance(entry, dict) and "type" in entry and (web := self._judge_tool(entry)) is not None:
                self._refuse_within(web)
        # Wherever else one stands: but for OpenRouter's, which are called what their results are called.
        if (web := self._web_tools().get(kind)) is not None and not block.keys() & {"id", "status"}:
            self._refuse_within(web)

    def _refuse_within(self, web: WebTool) -> None:
        self._declare(web.name)
        raise HeldError(
            f'{spoken(web)} declared within the conversation cannot be narrowed; declare it in "tools"'
        )
