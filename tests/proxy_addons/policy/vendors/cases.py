"""What the tests of web tools share: profiles by their host rules, and bodies of each kind."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from proxy_addons.policy.hosts import HostRules, parse_host_pattern
from proxy_addons.policy.limits import Profile, WebTools
from proxy_addons.policy.vendors.dialects import Vendor
from proxy_addons.policy.vendors.endpoints import BodyKind, Endpoint, Handling
from proxy_addons.policy.vendors.holding import Held, hold_request

Json = dict[str, Any]

MESSAGES = Endpoint(Vendor.ANTHROPIC, Handling.INSPECTED, BodyKind.MESSAGES)
RESPONSES = Endpoint(Vendor.OPENAI, Handling.INSPECTED, BodyKind.RESPONSES)
CHAT = Endpoint(Vendor.OPENAI, Handling.INSPECTED, BodyKind.CHAT)
ROUTED = Endpoint(Vendor.OPENROUTER, Handling.INSPECTED, BodyKind.CHAT)
ROUTED_MESSAGES = Endpoint(Vendor.OPENROUTER, Handling.INSPECTED, BodyKind.MESSAGES)
COUNTING = Endpoint(Vendor.ANTHROPIC, Handling.INSPECTED, BodyKind.MESSAGES, runs=False)
COUNTING_INPUT = Endpoint(Vendor.OPENAI, Handling.INSPECTED, BodyKind.RESPONSES, runs=False)
MODERATION = Endpoint(Vendor.OPENAI, Handling.INSPECTED, BodyKind.CONTENT, runs=False)
EMBEDDING = Endpoint(Vendor.OPENROUTER, Handling.INSPECTED, BodyKind.CONTENT, runs=False)

SEARCH = {"type": "web_search_20250305", "name": "web_search"}
FETCH = {"type": "web_fetch_20250910", "name": "web_fetch"}


def rules(allow: Iterable[str] = ("*",), deny: Iterable[str] = ()) -> HostRules:
    return HostRules(tuple(map(parse_host_pattern, allow)), tuple(map(parse_host_pattern, deny)))


def profile(
    allow: Iterable[str] = ("docs.rs", "*.example.com"),
    deny: Iterable[str] = (),
    web_tools: WebTools = WebTools.ENFORCE,
    uses: int = 5,
) -> Profile:
    return Profile("test", hosts=rules(allow, deny), web_tools=web_tools, web_tools_max_uses=uses)


def body_of(endpoint: Endpoint, **members: Any) -> Json:
    """A small request of this kind, with these members beside."""
    if endpoint.kind is BodyKind.RESPONSES:
        return {"model": "gpt-test", "input": "tokio?", **members}
    base: Json = {"model": "claude-test", "messages": [{"role": "user", "content": "tokio?"}], **members}
    return base if endpoint.kind is BodyKind.CHAT else {"max_tokens": 10, **base}


def hold(body: Json | bytes, endpoint: Endpoint = MESSAGES, held_by: Profile | None = None) -> Held:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return hold_request(data, endpoint, held_by or profile())


def leaving(body: Json | bytes, endpoint: Endpoint = MESSAGES, held_by: Profile | None = None) -> Json:
    """What arrives at the vendor."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    held = hold_request(data, endpoint, held_by or profile())
    value: Json = json.loads(held.body if held.body is not None else data)
    return value
