"""Whatever web tools a body declares, what leaves is within the profile and its cap, or nothing leaves.

The judge here is written anew, and knows of a vendor what its documentation says: an entry of a list means the name
and all below it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from proxy_addons.policy.limits import Profile
from proxy_addons.policy.vendors.endpoints import BodyKind, Endpoint
from proxy_addons.policy.vendors.held import HeldError
from tests.proxy_addons.policy.vendors.cases import CHAT, MESSAGES, RESPONSES, ROUTED, body_of, hold, profile

NAMES = [
    "a.example",
    "b.a.example",
    "c.b.a.example",
    "z.example",
    "example",
    "evil.test",
    "xn--bcher-kva.example",
]
ALLOWED = st.lists(
    st.sampled_from(
        [*NAMES, *(f"*.{name}" for name in NAMES), "*", "a.example:443", "z.example:8443", "*:80"]
    ),
    max_size=4,
    unique=True,
)
DENIED = st.lists(
    st.sampled_from([*NAMES, *(f"*.{name}" for name in NAMES), "z.example:8443", "*:80", "*"]),
    max_size=2,
    unique=True,
)
ODD: list[Any] = [
    "*",
    "*.a.example",
    "https://a.example",
    "a.example:1",
    "A.EXAMPLE",
    "a.example.",
    "",
    7,
    [],
]
NAMED = st.sampled_from([*NAMES, *NAMES, *NAMES, *NAMES, *NAMES, "a.example/docs", *ODD])
# What is odd is rare here: it refuses, and then nothing is left to judge.
ENTRIES = st.one_of(st.none(), st.none(), st.lists(NAMED, max_size=3))
ODD_USES: list[Any] = [True, "5", 5.0, 10**30, [], 0, -1]
USES = st.sampled_from([None, *range(1, 9), *range(1, 9), *range(1, 9), *ODD_USES])
ENGINES = st.sampled_from(["exa", "exa", "parallel", None, "native", "auto", "Exa"])
ANTHROPIC = st.sampled_from(
    [
        "web_search_20250305",
        "web_search_20260318",
        "web_fetch_20250910",
        "web_fetch_20260318",
        "bash_20250124",
    ]
)


def _without_none(value: dict[str, Any]) -> dict[str, Any]:
    return {name: one for name, one in value.items() if one is not None}


@st.composite
def anthropic_tools(draw: st.DrawFn) -> tuple[Endpoint, dict[str, Any]]:
    entries = []
    for _ in range(draw(st.sampled_from([1, 1, 1, 2]))):
        entry = {
            "type": draw(ANTHROPIC),
            "name": "web",
            "allowed_domains": draw(ENTRIES),
            "blocked_domains": draw(ENTRIES),
            "max_uses": draw(USES),
        }
        entries.append(_without_none(entry) if draw(st.booleans()) else entry)
    return MESSAGES, body_of(MESSAGES, tools=entries)


@st.composite
def openai_tools(draw: st.DrawFn) -> tuple[Endpoint, dict[str, Any]]:
    kind = draw(st.sampled_from(["web_search", "web_search", "web_search_2025_08_26", "web_search_preview"]))
    entry: dict[str, Any] = {"type": kind}
    if draw(st.booleans()):
        entry["filters"] = _without_none({"allowed_domains": draw(ENTRIES), "blocked_domains": draw(ENTRIES)})
    return RESPONSES, body_of(RESPONSES, tools=[entry], **_without_none({"max_tool_calls": draw(USES)}))


@st.composite
def chat_searches(draw: st.DrawFn) -> tuple[Endpoint, dict[str, Any]]:
    model = draw(
        st.sampled_from(["gpt-test", "gpt-5-search-api", "gpt-4o-search-preview", "gpt-test:online"])
    )
    options: dict[str, Any] = draw(
        st.sampled_from([{}, {"web_search_options": {}}, {"web_search_options": None}])
    )
    return CHAT, {**body_of(CHAT), "model": model, **options}


@st.composite
def openrouter_tools(draw: st.DrawFn) -> tuple[Endpoint, dict[str, Any]]:
    members: dict[str, Any] = {}
    model = draw(st.sampled_from(["anthropic/claude", "openai/gpt", "openai/gpt", "openai/gpt:online"]))
    if draw(st.booleans()):
        block = draw(st.sampled_from(["excluded_domains", "blocked_domains"]))
        parameters = {
            "engine": draw(ENGINES), "allowed_domains": draw(ENTRIES), block: draw(ENTRIES), "max_uses": draw(USES),
        }  # fmt: skip
        kind = draw(st.sampled_from(["openrouter:web_search", "openrouter:web_fetch"]))
        members["tools"] = [{"type": kind, "parameters": _without_none(parameters)}]
    if draw(st.booleans()):
        plugin = {
            "id": draw(st.sampled_from(["web", "web-fetch"])), "engine": draw(ENGINES),
            "include_domains": draw(ENTRIES), "exclude_domains": draw(ENTRIES), "max_uses": draw(USES),
            "enabled": draw(st.sampled_from([None, None, True, False, "no"])),
        }  # fmt: skip
        members["plugins"] = [_without_none(plugin)]
    return ROUTED, {**body_of(ROUTED, **members), "model": model}


REQUESTS = st.one_of(
    anthropic_tools(), anthropic_tools(), openai_tools(), openrouter_tools(), chat_searches()
)
PROFILES = st.builds(
    lambda allow, deny, uses: profile(allow, deny, uses=uses), ALLOWED, DENIED, st.integers(1, 5)
)


@settings(max_examples=400)
@given(REQUESTS, PROFILES)
def test_what_leaves_is_within_the_profile_or_nothing_leaves(
    request: tuple[Endpoint, dict[str, Any]], held_by: Profile
) -> None:
    endpoint, body = request
    data = json.dumps(body).encode()
    try:
        held = hold(data, endpoint, held_by)
    except HeldError:
        return
    leaves = json.loads(held.body) if held.body is not None else body

    assert not re.search("search-api|search-preview|:online|sonar", leaves["model"])
    assert leaves.get("web_search_options") is None
    for allow, block, uses in web_tools_of(leaves, endpoint):
        assert isinstance(uses, int)
        assert not isinstance(uses, bool)
        assert 1 <= uses <= held_by.web_tools_max_uses
        assert_within(allow, block, held_by)
    # What is not about the web leaves as it came.
    for name in leaves.keys() - {"tools", "plugins", "max_tool_calls"}:
        assert leaves[name] == body[name]


def web_tools_of(
    body: dict[str, Any], endpoint: Endpoint
) -> Iterator[tuple[list[str] | None, list[str] | None, Any]]:
    """Lists and cap of each web tool, by the vendors' documentation."""
    for tool in body.get("tools") or ():
        if endpoint.kind is BodyKind.RESPONSES:
            filters = tool.get("filters") or {}
            yield filters.get("allowed_domains"), filters.get("blocked_domains"), body.get("max_tool_calls")
        elif tool["type"].startswith("openrouter:"):
            said = tool.get("parameters") or {}
            block = "blocked_domains" if "fetch" in tool["type"] else "excluded_domains"
            yield said.get("allowed_domains"), said.get(block), said.get("max_uses")
        elif tool["type"].startswith("web_"):
            yield tool.get("allowed_domains"), tool.get("blocked_domains"), tool.get("max_uses")
    for plugin in body.get("plugins") or ():
        if plugin.get("enabled") is not False:
            allow, block = (
                ("include_domains", "exclude_domains")
                if plugin["id"] == "web"
                else ("allowed_domains", "blocked_domains")
            )
            yield plugin.get(allow), plugin.get(block), plugin.get("max_uses")


def assert_within(allow: list[str] | None, block: list[str] | None, held_by: Profile) -> None:
    rules = held_by.hosts
    denies = [one for one in rules.deny if one.suffix]
    assert not any(one.suffix == "" and one.port in (None, 443) for one in rules.deny)
    if not allow:
        assert allow is None
        assert any(one.suffix == "" and one.port in (None, 80, 443) for one in rules.allow)
        for one in denies:
            assert one.suffix in (block or ()), (block, one)
        return
    for entry in allow:
        host = entry.partition("/")[0].removeprefix("*.")
        assert any(
            one.suffix == "" or one.suffix == host or (one.subdomains and host.endswith(f".{one.suffix}"))
            for one in rules.allow
            if one.port in (None, 80, 443)
        ), entry
        for one in denies:
            # Neither is the entry denied, nor is a name below it.
            assert one.suffix != host
            assert not one.suffix.endswith(f".{host}")
            assert not (one.subdomains and host.endswith(f".{one.suffix}"))
