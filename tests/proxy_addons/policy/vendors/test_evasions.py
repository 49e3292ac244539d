"""Ways to have a vendor reach the web past the profile, each with what becomes of it.

A body that is refused says why; one that is narrowed is looked at as it leaves. The same on the wire, with framings,
codings, protocols and paths, in tests/gateway/test_vendor_evasions.py.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy_addons.policy.limits import WebTools
from proxy_addons.policy.vendors.endpoints import BodyKind, Endpoint
from proxy_addons.policy.vendors.held import HeldError
from tests.kit import vendors
from tests.proxy_addons.policy.vendors.cases import (
    CHAT,
    COUNTING,
    COUNTING_INPUT,
    EMBEDDING,
    FETCH,
    MESSAGES,
    MODERATION,
    RESPONSES,
    ROUTED,
    ROUTED_MESSAGES,
    SEARCH,
    body_of,
    hold,
    leaving,
    profile,
)


def tools(*entries: Any, endpoint: Endpoint = MESSAGES, **members: Any) -> dict[str, Any]:
    return body_of(endpoint, tools=list(entries), **members)


def said(*blocks: Any) -> dict[str, Any]:
    """A message of these content blocks."""
    return body_of(MESSAGES, messages=[{"role": "user", "content": list(blocks)}])


def text_of(body: dict[str, Any]) -> bytes:
    return json.dumps(body).encode()


CLEAN = text_of(body_of(MESSAGES))
SEARCHING = text_of(tools(SEARCH))
UNKNOWN = "is not known here, and could reach the web"

REFUSED: dict[str, tuple[Endpoint, Any, str]] = {
    # how a body is written
    "a byte order mark before it": (MESSAGES, b"\xef\xbb\xbf" + SEARCHING, "byte order mark"),
    "UTF-16": (MESSAGES, SEARCHING.decode().encode("utf-16-le"), "not JSON"),
    "bytes that are no UTF-8": (MESSAGES, SEARCHING.replace(b"tokio", b"\xff"), "not UTF-8"),
    "a second value behind the first": (MESSAGES, CLEAN + SEARCHING, "not JSON"),
    "nothing at all": (MESSAGES, b"", "not JSON"),
    "a list of requests": (MESSAGES, b"[" + CLEAN + b"]", "no JSON object"),
    "the member tools twice": (
        MESSAGES,
        CLEAN[:-1] + b', "tools": [], "tools": [' + text_of(SEARCH) + b"]}",
        "stands twice",
    ),
    "a name twice, the second time in escapes": (
        MESSAGES,
        CLEAN[:-1] + b', "tools": [], "t\\u006fols": [' + text_of(SEARCH) + b"]}",
        "stands twice",
    ),
    "a type twice in one tool": (
        MESSAGES,
        CLEAN[:-1] + b', "tools": [{"type": "custom", "type": "web_search_20250305"}]}',
        "stands twice",
    ),
    "NaN": (MESSAGES, CLEAN[:-1] + b', "temperature": NaN}', "no JSON number"),
    "nesting without end": (
        MESSAGES,
        b'{"messages": ' + b"[" * 150_000 + b"]" * 150_000 + b"}",
        "nested too deeply",
    ),
    "nesting that a parser takes and no vendor sends": (
        MESSAGES,
        b'{"messages": ' + b"[" * 900 + b"]" * 900 + b"}",
        "nested too deeply",
    ),
    "millions of parts": (MESSAGES, b'{"messages": [' + b"[]," * 210_000 + b"[]]}", "too many parts"),
    # tools that are almost known
    "another letter case": (MESSAGES, tools({**SEARCH, "type": "Web_Search_20250305"}), UNKNOWN),
    "a version of tomorrow": (MESSAGES, tools({**SEARCH, "type": "web_search_20991231"}), UNKNOWN),
    "a fetch of tomorrow": (MESSAGES, tools({**FETCH, "type": "web_fetch_20991231"}), UNKNOWN),
    "no version": (MESSAGES, tools({**SEARCH, "type": "web_search"}), UNKNOWN),
    "a space behind the type": (MESSAGES, tools({**SEARCH, "type": "web_search_20250305 "}), UNKNOWN),
    "a letter that only looks the same": (
        MESSAGES,
        tools({**SEARCH, "type": "web_se\u0430rch_20250305"}),
        UNKNOWN,
    ),
    "code execution of tomorrow, which may have a network": (
        MESSAGES,
        tools({"type": "code_execution_20991231", "name": "code_execution"}),
        UNKNOWN,
    ),
    "a type that is no text": (MESSAGES, tools({**SEARCH, "type": ["web_search_20250305"]}), UNKNOWN),
    "another vendor's tool": (RESPONSES, tools(SEARCH, endpoint=RESPONSES), UNKNOWN),
    "a dated search of tomorrow": (
        RESPONSES,
        tools({"type": "web_search_2099_01_01"}, endpoint=RESPONSES),
        UNKNOWN,
    ),
    "a search tool in a chat": (CHAT, tools({"type": "web_search"}, endpoint=CHAT), UNKNOWN),
    "OpenAI's shorthand at OpenRouter": (
        ROUTED,
        tools({"type": "web_search"}, endpoint=ROUTED),
        "openrouter:web_search",
    ),
    "Anthropic's tool at OpenRouter": (ROUTED, tools(SEARCH, endpoint=ROUTED), "openrouter:web_search"),
    # tools in odd places
    "tools as an object": (MESSAGES, body_of(MESSAGES, tools=SEARCH), '"tools" is no list'),
    "more tools than anybody has": (
        MESSAGES,
        body_of(MESSAGES, tools=[{"name": "f"}] * 10_001),
        "more than 10000 entries",
    ),
    "a list in the list": (MESSAGES, body_of(MESSAGES, tools=[[SEARCH]]), "no object"),
    "a member that nobody knows": (MESSAGES, body_of(MESSAGES, extra_tools=[SEARCH]), UNKNOWN),
    "a member in another case": (MESSAGES, body_of(MESSAGES, Tools=[SEARCH]), UNKNOWN),
    "what an SDK calls extra_body": (CHAT, body_of(CHAT, extra_body={"web_search_options": {}}), UNKNOWN),
    "a tool defined in the middle of the conversation": (
        MESSAGES,
        said({"type": "tool_addition", "tool": {"type": "tool_definition", "definition": SEARCH}}),
        "declared within the conversation",
    ),
    "an unknown tool defined there": (
        MESSAGES,
        said({"type": "tool_addition", "tool": {"type": "tool_definition", "definition": {"type": "web_x"}}}),
        UNKNOWN,
    ),
    "tools added by an item of the input": (
        RESPONSES,
        body_of(
            RESPONSES,
            input=[{"type": "additional_tools", "role": "developer", "tools": [{"type": "web_search"}]}],
        ),
        "declared within the conversation",
    ),
    "a tool of that type anywhere else": (
        MESSAGES,
        said({"type": "tool_addition", "tool": {"definition": SEARCH}}),
        "declared within the conversation",
    ),
    "the same at OpenRouter": (
        ROUTED,
        body_of(ROUTED, deferred_tools=[{"type": "openrouter:web_search"}]),
        "declared within the conversation",
    ),
    "tools kept in a conversation for a later call": (
        COUNTING_INPUT,
        {"items": [{"type": "additional_tools", "role": "developer", "tools": [{"type": "web_search"}]}]},
        "declared within the conversation",
    ),
    "a tool search that found an MCP server": (
        RESPONSES,
        body_of(
            RESPONSES,
            input=[
                {
                    "type": "tool_search_output",
                    "tools": [{"type": "mcp", "server_url": "https://evil.example/"}],
                }
            ],
        ),
        "host not allowed: evil.example",
    ),
    "a namespace that holds a search": (
        RESPONSES,
        tools({"type": "namespace", "name": "n", "tools": [{"type": "web_search"}]}, endpoint=RESPONSES),
        "a namespace holds",
    ),
    "the same search twice": (
        MESSAGES,
        tools(SEARCH, {**SEARCH, "type": "web_search_20260318"}),
        "declared twice",
    ),
    "a plugin beside a tool": (
        ROUTED,
        tools(
            {"type": "openrouter:web_search", "parameters": {"engine": "exa"}},
            endpoint=ROUTED,
            plugins=[{"id": "web", "engine": "exa"}],
        ),
        "declared twice",
    ),
    # models that search by themselves, and settings kept at the vendor
    "a model of searches": (
        CHAT,
        {**body_of(CHAT), "model": "gpt-4o-mini-search-preview-2025-03-11"},
        "searches",
    ),
    "the model of searches that is left": (CHAT, {**body_of(CHAT), "model": "gpt-5-search-api"}, "searches"),
    "a model of research": (RESPONSES, {**body_of(RESPONSES), "model": "o4-mini-deep-research"}, "searches"),
    "the suffix": (ROUTED, {**body_of(ROUTED), "model": "openai/gpt-test:online"}, "searches"),
    "the suffix in capitals": (ROUTED, {**body_of(ROUTED), "model": "openai/gpt-test:ONLINE"}, "searches"),
    "the suffix before another": (
        ROUTED,
        {**body_of(ROUTED), "model": "openai/gpt-test:online:nitro"},
        "searches",
    ),
    "the suffix on a fallback": (
        ROUTED,
        body_of(ROUTED, models=["a/b", "openai/gpt-test:online"]),
        "searches",
    ),
    "a model that is a search engine": (
        ROUTED,
        {**body_of(ROUTED), "model": "perplexity/sonar-pro"},
        "searches",
    ),
    "a router, which may choose one": (
        ROUTED,
        {**body_of(ROUTED), "model": "openrouter/auto"},
        "OpenRouter chooses",
    ),
    "a router of somebody else's": (ROUTED, {**body_of(ROUTED), "model": "a/router"}, "OpenRouter chooses"),
    "a plugin with a model that searches": (
        ROUTED,
        body_of(ROUTED, plugins=[{"id": "response-healing", "model": "perplexity/sonar"}]),
        "searches",
    ),
    "no model, which is the account's": (ROUTED, {"messages": []}, "OpenRouter chooses"),
    "settings kept at the vendor": (ROUTED, body_of(ROUTED, preset="searching"), "preset"),
    "the same as a model": (ROUTED, {**body_of(ROUTED), "model": "@preset/searching"}, "OpenRouter chooses"),
    "a prompt kept at the vendor": (RESPONSES, body_of(RESPONSES, prompt={"id": "pmpt_1"}), "stored"),
    "a fallback with tools of its own": (
        MESSAGES,
        body_of(MESSAGES, fallbacks=[{"model": "claude-b", "tools": [SEARCH]}]),
        "not known here",
    ),
    # plugins
    "a plugin that nobody knows": (ROUTED, body_of(ROUTED, plugins=[{"id": "web-v2"}]), UNKNOWN),
    "a plugin whose models search": (ROUTED, body_of(ROUTED, plugins=[{"id": "fusion"}]), UNKNOWN),
    "a plugin in another case": (ROUTED, body_of(ROUTED, plugins=[{"id": "Web"}]), UNKNOWN),
    "a plugin that is on and says off": (
        ROUTED,
        body_of(ROUTED, plugins=[{"id": "web", "enabled": "false"}]),
        "neither true nor false",
    ),
    "a tool whose helper searches": (
        ROUTED,
        tools({"type": "openrouter:subagent"}, endpoint=ROUTED),
        UNKNOWN,
    ),
    "an engine that keeps to no number": (
        ROUTED,
        tools({"type": "openrouter:web_search"}, endpoint=ROUTED),
        "does not keep to a number",
    ),
    "the same by a list of engines": (
        ROUTED,
        tools({"type": "openrouter:web_search", "parameters": {"engine": ["exa"]}}, endpoint=ROUTED),
        "does not keep to a number",
    ),
    # the caps
    "uses as a word": (MESSAGES, tools({**SEARCH, "max_uses": "5"}), "no whole number"),
    "uses as a truth": (MESSAGES, tools({**SEARCH, "max_uses": True}), "no whole number"),
    "uses with a fraction": (MESSAGES, tools({**SEARCH, "max_uses": 5.0}), "no whole number"),
    "uses below nought": (MESSAGES, tools({**SEARCH, "max_uses": -1}), "no whole number"),
    "calls as a word": (
        RESPONSES,
        tools({"type": "web_search"}, endpoint=RESPONSES, max_tool_calls="9"),
        "no whole number",
    ),
    "a search by agents who make agents": (
        RESPONSES,
        tools({"type": "web_search"}, endpoint=RESPONSES, multi_agent={"enabled": True}),
        "several agents",
    ),
    # the lists
    "a list that is a word": (MESSAGES, tools({**SEARCH, "allowed_domains": "docs.rs"}), "no list"),
    "hosts that no rule allows": (
        MESSAGES,
        tools({**SEARCH, "allowed_domains": ["evil.example"]}),
        "nothing is left",
    ),
    "a wildcard for everything": (
        MESSAGES,
        tools({**SEARCH, "allowed_domains": ["*"]}),
        "write bare host names",
    ),
    "a scheme": (MESSAGES, tools({**SEARCH, "allowed_domains": ["https://docs.rs"]}), "write"),
    "a port": (MESSAGES, tools({**SEARCH, "allowed_domains": ["docs.rs:443"]}), "write bare host names"),
    "a name before an at sign": (
        MESSAGES,
        tools({**SEARCH, "allowed_domains": ["docs.rs@evil.example"]}),
        "write",
    ),
    "an address in decimal": (
        MESSAGES,
        tools({**SEARCH, "allowed_domains": ["2130706433"]}),
        "write bare host names",
    ),
    "a domain above what is allowed, with a path": (
        MESSAGES,
        tools({**SEARCH, "allowed_domains": ["com/x", "rs/x"]}),
        "a path cannot be kept",
    ),
    "a member of the tool that nobody knows": (
        MESSAGES,
        tools({**SEARCH, "domains": ["evil.example"]}),
        "not known here",
    ),
    "filters that nobody knows": (
        RESPONSES,
        tools({"type": "web_search", "filters": {"domains": []}}, endpoint=RESPONSES),
        "not known here",
    ),
    "the old search, which takes no list": (
        RESPONSES,
        tools({"type": "web_search_preview"}, endpoint=RESPONSES),
        "has no domain list",
    ),
    "options of a chat, which take no list": (
        CHAT,
        body_of(CHAT, web_search_options={}),
        "cannot be narrowed",
    ),
    # addresses that the vendor fetches
    "a picture elsewhere": (
        MESSAGES,
        said({"type": "image", "source": {"type": "url", "url": "https://evil.example/?secret"}}),
        "host not allowed: evil.example",
    ),
    "a document elsewhere, in the result of a tool": (
        MESSAGES,
        said(
            {
                "type": "tool_result",
                "tool_use_id": "t",
                "content": [
                    {"type": "document", "source": {"type": "url", "url": "https://evil.example/a.pdf"}}
                ],
            }
        ),
        "host not allowed: evil.example",
    ),
    "a picture of a chat, as text": (
        CHAT,
        body_of(
            CHAT,
            messages=[
                {"role": "user", "content": [{"type": "image_url", "image_url": "https://evil.example/"}]}
            ],
        ),
        "host not allowed: evil.example",
    ),
    "a file of the input": (
        RESPONSES,
        body_of(
            RESPONSES,
            input=[
                {"role": "user", "content": [{"type": "input_file", "file_url": "https://evil.example/"}]}
            ],
        ),
        "host not allowed: evil.example",
    ),
    "a video, with a tab in its scheme": (
        ROUTED,
        body_of(
            ROUTED,
            messages=[
                {
                    "role": "user",
                    "content": [{"type": "video_url", "video_url": {"url": "ht\ttps://evil.example/"}}],
                }
            ],
        ),
        "host not allowed: evil.example",
    ),
    "a picture inside the network": (
        MESSAGES,
        said({"type": "image", "source": {"type": "url", "url": "https://10.0.0.1/"}}),
        "ip literal host not allowed: 10.0.0.1",
    ),
    "an MCP server elsewhere": (
        MESSAGES,
        body_of(MESSAGES, mcp_servers=[{"type": "url", "name": "m", "url": "https://evil.example/mcp"}]),
        "host not allowed: evil.example",
    ),
    "a picture that is only counted": (
        COUNTING,
        said({"type": "image", "source": {"type": "url", "url": "https://evil.example/?secret"}}),
        "host not allowed: evil.example",
    ),
    "an MCP server whose tools are only counted": (
        COUNTING,
        body_of(MESSAGES, mcp_servers=[{"type": "url", "name": "m", "url": "https://evil.example/?secret"}]),
        "host not allowed: evil.example",
    ),
    "the same of an input": (
        COUNTING_INPUT,
        tools(
            {"type": "mcp", "server_label": "m", "server_url": "https://evil.example/"}, endpoint=RESPONSES
        ),
        "host not allowed: evil.example",
    ),
    "a picture that is only moderated": (
        MODERATION,
        {"input": [{"type": "image_url", "image_url": {"url": "https://evil.example/?secret"}}]},
        "host not allowed: evil.example",
    ),
    "a picture that is only embedded": (
        EMBEDDING,
        {
            "model": "a/embed",
            "input": [
                {"content": [{"type": "image_url", "image_url": {"url": "https://evil.example/?secret"}}]}
            ],
        },
        "host not allowed: evil.example",
    ),
    "tools where there are none": (EMBEDDING, {"input": "x", "tools": [{"type": "web_search"}]}, UNKNOWN),
    "sound that is only written down, by its address": (
        EMBEDDING,
        {"model": "a/listens", "input_audio": {"url": "https://evil.example/?secret", "format": "mp3"}},
        "host not allowed: evil.example",
    ),
    "a voice to speak in, by its address": (
        EMBEDDING,
        {
            "model": "a/speaks",
            "input": "x",
            "input_references": [
                {"type": "input_audio", "input_audio": {"data": "https://evil.example/?secret"}}
            ],
        },
        "host not allowed: evil.example",
    ),
    "sound by its address": (
        ROUTED,
        body_of(
            ROUTED,
            messages=[
                {
                    "role": "user",
                    "content": [
                        {"type": "input_audio", "input_audio": {"data": "https://evil.example/?secret"}}
                    ],
                }
            ],
        ),
        "host not allowed: evil.example",
    ),
    "a picture without its scheme": (
        CHAT,
        body_of(
            CHAT,
            messages=[
                {
                    "role": "user",
                    "content": [{"type": "image_url", "image_url": {"url": "//evil.example/?secret"}}],
                }
            ],
        ),
        "cannot be read",
    ),
    "a picture whose dots and colon are escapes": (
        RESPONSES,
        body_of(
            RESPONSES,
            input=[
                {
                    "role": "user",
                    "content": [{"type": "input_image", "image_url": "https%3A//evil%2Eexample/?secret"}],
                }
            ],
        ),
        "cannot be read",
    ),
    "a picture at a host with dots of another script": (
        RESPONSES,
        body_of(
            RESPONSES,
            input=[
                {
                    "role": "user",
                    "content": [{"type": "input_image", "image_url": "//evil\u3002example/?secret"}],
                }
            ],
        ),
        "cannot be read",
    ),
    "a picture that code is said to have drawn": (
        RESPONSES,
        body_of(
            RESPONSES,
            input=[
                {
                    "type": "code_interpreter_call",
                    "outputs": [{"type": "image", "url": "https://evil.example/?secret"}],
                }
            ],
        ),
        "host not allowed: evil.example",
    ),
    "a mask of a picture": (
        RESPONSES,
        tools(
            {"type": "image_generation", "input_image_mask": {"image_url": "https://evil.example/?secret"}},
            endpoint=RESPONSES,
        ),
        "host not allowed: evil.example",
    ),
    "a picture in the settings of a tool": (
        ROUTED,
        tools(
            {
                "type": "openrouter:image_generation",
                "parameters": {"image_url": "https://evil.example/?secret"},
            },
            endpoint=ROUTED,
        ),
        "host not allowed: evil.example",
    ),
    "an adviser that searches": (
        ROUTED_MESSAGES,
        tools({"type": "advisor_20260301", "name": "advisor", "model": "openai/gpt-test:online"}),
        "searches",
    ),
    "an adviser of the router's choosing": (
        ROUTED,
        tools(
            {"type": "openrouter:image_generation", "parameters": {"model": "openrouter/auto"}},
            endpoint=ROUTED,
        ),
        "OpenRouter chooses",
    ),
    "options that go to the provider behind the router": (
        ROUTED,
        body_of(
            ROUTED, provider={"order": ["xai"], "options": {"xai": {"search_parameters": {"mode": "on"}}}}
        ),
        'the member "options" of "provider"',
    ),
    "a member of an MCP server that nobody knows": (
        MESSAGES,
        body_of(
            MESSAGES,
            mcp_servers=[
                {"type": "url", "name": "m", "url": "https://docs.rs/", "proxy": "https://evil.example"}
            ],
        ),
        "has a member that is not known here",
    ),
    "the same of a tool": (
        RESPONSES,
        tools({"type": "mcp", "server_url": "https://docs.rs/", "fallback_url": "x"}, endpoint=RESPONSES),
        "has a member that is not known here",
    ),
    "a member of a container that nobody knows": (
        RESPONSES,
        tools(
            {"type": "code_interpreter", "container": {"type": "auto", "network": "on"}}, endpoint=RESPONSES
        ),
        "has a member that is not known here",
    ),
    "an MCP server without an address": (MESSAGES, body_of(MESSAGES, mcp_servers=["x"]), "cannot be read"),
    "a connector": (
        RESPONSES,
        tools({"type": "mcp", "connector_id": "connector_gmail"}, endpoint=RESPONSES),
        "connector or tunnel",
    ),
    "a tunnel": (
        RESPONSES,
        tools({"type": "mcp", "tunnel_id": "t"}, endpoint=RESPONSES),
        "connector or tunnel",
    ),
    "a container with a network": (
        RESPONSES,
        tools(
            {
                "type": "code_interpreter",
                "container": {
                    "type": "auto",
                    "network_policy": {"type": "allowlist", "allowed_domains": ["a.example"]},
                },
            },
            endpoint=RESPONSES,
        ),
        "a container with a network",
    ),
    "a container made before": (
        RESPONSES,
        tools({"type": "code_interpreter", "container": "cntr_1"}, endpoint=RESPONSES),
        "made elsewhere",
    ),
    "a shell in a container made before": (
        RESPONSES,
        tools(
            {"type": "shell", "environment": {"type": "container_reference", "container_id": "c"}},
            endpoint=RESPONSES,
        ),
        "made elsewhere",
    ),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_is_refused(sentence: str) -> None:
    endpoint, body, message = REFUSED[sentence]
    for web_tools in (WebTools.ENFORCE, WebTools.REFUSE):
        with pytest.raises(HeldError) as caught:
            hold(body, endpoint, profile(web_tools=web_tools))
        if web_tools is WebTools.ENFORCE:
            assert message in str(caught.value)
        assert "secret" not in str(caught.value)
        assert str(caught.value).isascii()


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        (SEARCHING.replace(b'"tools"', b'"\\u0074ools"'), "the name in escapes"),
        (SEARCHING.replace(b"web_search_20250305", b"web\\u005fsearch_20250305"), "the type in escapes"),
        (b" \r\n\t" + SEARCHING.replace(b",", b" ,\n") + b" \n", "white space wherever it may stand"),
        (
            SEARCHING.replace(b'"name"', b'"max_uses": null, "allowed_domains": null, "name"'),
            "members that say nothing",
        ),
        (
            SEARCHING.replace(b'"name"', b'"allowed_domains": ["DOCS.RS", "evil.example"], "name"'),
            "a name in capitals",
        ),
    ],
)
def test_is_narrowed_all_the_same(written: bytes, sentence: str) -> None:
    (tool,) = leaving(written, held_by=profile(["docs.rs"]))["tools"]
    assert tool == {**SEARCH, "max_uses": 5, "allowed_domains": ["docs.rs"]}


PASSES: dict[str, tuple[Endpoint, Any]] = {
    "a tool of the agent's own by that name": (MESSAGES, tools({"name": "web_search", "input_schema": {}})),
    "a function by that name": (
        CHAT,
        tools({"type": "function", "function": {"name": "web_search"}}, endpoint=CHAT),
    ),
    "code execution, which has no network": (
        MESSAGES,
        tools({"type": "code_execution_20260120", "name": "code_execution"}),
    ),
    "metadata, which is not read by anybody": (MESSAGES, body_of(MESSAGES, metadata={"tools": [SEARCH]})),
    "a picture that brings its bytes": (
        CHAT,
        body_of(
            CHAT,
            messages=[
                {
                    "role": "user",
                    "content": [{"type": "image_url", "image_url": {"url": "DATA:image/png;base64,AA"}}],
                }
            ],
        ),
    ),
    "a search of an earlier turn": (
        MESSAGES,
        body_of(
            MESSAGES,
            messages=[
                {
                    "role": "assistant",
                    "content": [
                        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}},
                        {
                            "type": "web_search_tool_result",
                            "tool_use_id": "s",
                            "content": [
                                {"type": "web_search_result", "url": "https://evil.example/", "title": "x"}
                            ],
                        },
                    ],
                }
            ],
        ),
    ),
    "the sources of a search of an earlier turn": (
        RESPONSES,
        body_of(
            RESPONSES,
            input=[
                {
                    "type": "web_search_call",
                    "id": "ws_1",
                    "status": "completed",
                    "action": {
                        "type": "search",
                        "query": "x",
                        "sources": [{"type": "url", "url": "https://evil.example/"}],
                    },
                }
            ],
        ),
    ),
    "several agents without a search": (RESPONSES, body_of(RESPONSES, multi_agent={"enabled": True})),
    "what a search of OpenRouter's found in an earlier turn": (
        ROUTED,
        body_of(
            ROUTED,
            messages=[
                {"type": "openrouter:web_search", "id": "s", "status": "completed", "action": {"query": "x"}}
            ],
        ),
    ),
    "what a coding agent says of itself": (
        RESPONSES,
        body_of(RESPONSES, client_metadata={"x-installation-id": "7"}),
    ),
    "bytes in bare Base64, whatever they begin with": (
        CHAT,
        body_of(
            CHAT,
            messages=[{"role": "user", "content": [{"type": "file", "file": {"file_data": "//uQAA+/=="}}]}],
        ),
    ),
    "who may answer behind the router": (
        ROUTED,
        body_of(ROUTED, provider={"order": ["anthropic"], "zdr": True, "max_price": {"prompt": 1}}),
    ),
    "words to embed, by a model whose maker searches": (
        EMBEDDING,
        {"model": "perplexity/pplx-embed", "input": ["x"], "provider": {"only": ["perplexity"]}},
    ),
    "an address in what the model asked a tool": (
        MESSAGES,
        said(
            {
                "type": "tool_use",
                "id": "t",
                "name": "f",
                "input": {"type": "url", "url": "https://evil.example/"},
            }
        ),
    ),
    "what an MCP server listed": (
        RESPONSES,
        body_of(
            RESPONSES,
            input=[{"type": "mcp_list_tools", "tools": [{"name": "web_search", "type": "web_search"}]}],
        ),
    ),
    "a choice among tools": (
        RESPONSES,
        body_of(
            RESPONSES,
            tool_choice={"type": "allowed_tools", "mode": "auto", "tools": [{"type": "web_search"}]},
        ),
    ),
    "a container without a network": (
        RESPONSES,
        tools(
            {
                "type": "code_interpreter",
                "container": {"type": "auto", "network_policy": {"type": "disabled"}},
            },
            endpoint=RESPONSES,
        ),
    ),
    "a plugin that is off": (ROUTED, body_of(ROUTED, plugins=[{"id": "web", "enabled": False}])),
    "options that are null": (CHAT, body_of(CHAT, web_search_options=None)),
    "numbers of any size": (
        MESSAGES,
        CLEAN[:-1] + b', "temperature": 1e400, "top_k": ' + b"9" * 6000 + b', "top_p": 1.0}',
    ),
    "half a surrogate pair": (MESSAGES, CLEAN.replace(b"tokio", b"\\ud800")),
}


def name_of(endpoint: Endpoint) -> str:
    return f"{endpoint.vendor}-{endpoint.kind}" + ("" if endpoint.runs else "-aside")


def turn_of(endpoint: Endpoint) -> dict[str, Any]:
    """What a vendor answered with citations, sent back as clients do."""
    match endpoint.kind:
        case BodyKind.MESSAGES:
            said = {"role": "assistant", "content": vendors.message()["content"]}
        case BodyKind.CHAT:
            said = vendors.completion()["choices"][0]["message"]
        case _:
            return {"input": vendors.response()["output"]}
    return {"messages": [{"role": "user", "content": "x"}, said, {"role": "user", "content": "y"}]}


@pytest.mark.parametrize(
    "endpoint", [MESSAGES, CHAT, RESPONSES, ROUTED, COUNTING, COUNTING_INPUT], ids=name_of
)
def test_an_answer_may_be_sent_back_whatever_it_cites(endpoint: Endpoint) -> None:
    body = {**body_of(endpoint), **turn_of(endpoint)}
    assert hold(body, endpoint, profile(["nothing.example"])).body is None


@pytest.mark.parametrize("web_tools", [WebTools.ENFORCE, WebTools.REFUSE])
@pytest.mark.parametrize("sentence", PASSES)
def test_passes_untouched(sentence: str, web_tools: WebTools) -> None:
    endpoint, body = PASSES[sentence]
    assert hold(body, endpoint, profile(web_tools=web_tools)).body is None


@pytest.mark.parametrize(
    ("tool", "member", "kind"),
    [("code_interpreter", "container", "auto"), ("shell", "environment", "container_auto")],
)
def test_a_container_that_says_nothing_of_a_network_is_told_to_have_none(
    tool: str, member: str, kind: str
) -> None:
    body = tools({"type": tool, member: {"type": kind, "memory_limit": "4g"}}, endpoint=RESPONSES)
    (left,) = leaving(body, RESPONSES)["tools"]
    assert left == {
        "type": tool,
        member: {"type": kind, "memory_limit": "4g", "network_policy": {"type": "disabled"}},
    }
    assert hold(body, RESPONSES, profile(web_tools=WebTools.REFUSE)).body is None
    local = tools({"type": "shell", "environment": {"type": "local"}}, endpoint=RESPONSES)
    assert hold(local, RESPONSES).body is None


def test_where_no_tool_runs_there_are_lists_and_no_number_of_calls() -> None:
    """Counting takes no such member, and would be refused by the vendor."""
    counted = leaving(tools({"type": "web_search"}, endpoint=RESPONSES), COUNTING_INPUT, profile(["docs.rs"]))
    assert counted["tools"] == [{"type": "web_search", "filters": {"allowed_domains": ["docs.rs"]}}]
    assert "max_tool_calls" not in counted


ALLOWED_SOURCES: dict[str, tuple[Endpoint, Any]] = {
    "a picture at a host that is allowed": (
        MESSAGES,
        said({"type": "image", "source": {"type": "url", "url": "https://docs.rs/a.png?x"}}),
    ),
    "an MCP server there": (
        RESPONSES,
        tools({"type": "mcp", "server_label": "m", "server_url": "https://docs.rs/"}, endpoint=RESPONSES),
    ),
}


@pytest.mark.parametrize("sentence", ALLOWED_SOURCES)
def test_an_address_is_judged_as_the_agents_own_and_never_passes_where_web_tools_are_refused(
    sentence: str,
) -> None:
    endpoint, body = ALLOWED_SOURCES[sentence]
    assert hold(body, endpoint).body is None
    with pytest.raises(HeldError, match="which this profile does not allow"):
        hold(body, endpoint, profile(web_tools=WebTools.REFUSE))


def test_thirty_and_more_are_tried() -> None:
    assert len(REFUSED) >= 30
