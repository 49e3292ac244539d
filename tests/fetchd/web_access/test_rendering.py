"""Requests: each dialect's, to the letter, and nothing where nothing is declared."""

import json
from typing import Any

import pytest

from fetchd.web_access.declaration import WebAccess
from fetchd.web_access.dialects import shape_of
from fetchd.web_access.preparing import NOTHING, prepare_filter
from fetchd.web_access.values import Conversation
from proxy_addons.policy.vendors.dialects import DIALECTS

ASKED = Conversation("model", "What is new?", 1000)
MESSAGES = [("user", "What is new?")]


def render(name, web, conversation=ASKED, *, stream=False):
    dialect = DIALECTS[name]
    return shape_of(dialect).render(dialect, prepare_filter(web, dialect, "p"), conversation, stream)


# Each body as it would be without the feature: written out, so that nothing can slip in.
PLAIN = {
    "/v1/messages": b'{"model":"model","max_tokens":1000,"messages":[{"role":"user","content":"What is new?"}]}',
    "/v1/chat/completions": b'{"model":"model","max_completion_tokens":1000,"messages":[{"role":"user","content":'
    b'"What is new?"}]}',
    "/api/v1/chat/completions": b'{"model":"model","max_tokens":1000,"messages":[{"role":"user","content":'
    b'"What is new?"}]}',
    "/v1/responses": b'{"model":"model","max_output_tokens":1000,"input":"What is new?","store":false}',
}
NOTHINGS = [WebAccess(), WebAccess().max_uses(3), WebAccess().allow("docs.rs").block("evil.test")]


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("web", NOTHINGS, ids=["nothing", "a cap alone", "lists alone"])
def test_without_a_declaration_a_body_is_what_it_would_be_without_the_feature(name, web):
    request = render(name, web)
    assert request.body == PLAIN[request.path]
    assert "anthropic-beta" not in dict(request.fields)
    dialect = DIALECTS[name]
    assert shape_of(dialect).render(dialect, NOTHING, ASKED, False) == request


BOTH = WebAccess.search().with_fetch().max_uses(3).allow("docs.rs")
SEARCH = WebAccess.search().max_uses(3).allow("docs.rs")
BODIES = [
    # dialect, declaration, what the body has beside the plain one
    (
        "anthropic-2025",
        BOTH,
        {
            "tools": [
                {"type": kind, "name": name, "max_uses": 3, "allowed_domains": ["docs.rs"]}
                for kind, name in (("web_search_20250305", "web_search"), ("web_fetch_20250910", "web_fetch"))
            ]
        },
    ),
    (
        "anthropic-2025",
        WebAccess.search().block("evil.test"),
        {"tools": [{"type": "web_search_20250305", "name": "web_search", "blocked_domains": ["evil.test"]}]},
    ),
    (
        "anthropic",
        BOTH,
        {
            "tools": [
                {
                    "type": "web_search_20260318",
                    "name": "web_search",
                    "max_uses": 3,
                    "allowed_domains": ["docs.rs"],
                    "allowed_callers": ["direct"],
                },
                {
                    "type": "web_fetch_20260318",
                    "name": "web_fetch",
                    "max_uses": 3,
                    "allowed_domains": ["docs.rs"],
                    "allowed_callers": ["direct"],
                    "citations": {"enabled": True},
                },
            ]
        },
    ),
    (
        "openai-chat-2025",
        SEARCH,
        {"web_search_options": {"filters": {"allowed_domains": ["docs.rs"]}}},
    ),
    ("openai-chat-2025", WebAccess.search(), {"web_search_options": {}}),
    ("openai-chat", WebAccess.search().max_uses(3), {"web_search_options": {}}),
    (
        "openai-responses",
        SEARCH,
        {
            "tools": [{"type": "web_search", "filters": {"allowed_domains": ["docs.rs"]}}],
            "include": ["web_search_call.action.sources"],
            "max_tool_calls": 3,
        },
    ),
    ("openrouter-2025", WebAccess.search().max_uses(3), {"plugins": [{"id": "web", "max_results": 3}]}),
    ("openrouter-2025", WebAccess.search(), {"plugins": [{"id": "web"}]}),
    (
        "openrouter",
        WebAccess.search().with_fetch().max_uses(3).block("evil.test"),
        {
            "tools": [
                {
                    "type": "openrouter:web_search",
                    "parameters": {"max_uses": 3, "excluded_domains": ["evil.test"]},
                },
                {
                    "type": "openrouter:web_fetch",
                    "parameters": {"max_uses": 3, "blocked_domains": ["evil.test"]},
                },
            ]
        },
    ),
    (
        "openrouter",
        WebAccess.search().allow("docs.rs"),
        {
            "tools": [
                {"type": "openrouter:web_search", "parameters": {"allowed_domains": ["docs.rs"]}},
            ]
        },
    ),
    ("openrouter", WebAccess().with_fetch(), {"tools": [{"type": "openrouter:web_fetch"}]}),
]


@pytest.mark.parametrize(("name", "web", "added"), BODIES)
def test_a_declaration_in_each_dialect(name, web, added):
    request = render(name, web)
    assert json.loads(request.body) == json.loads(PLAIN[request.path]) | added


@pytest.mark.parametrize(
    ("name", "web", "fields"),
    [
        ("anthropic-2025", BOTH, {"anthropic-beta": "web-fetch-2025-09-10"}),
        ("anthropic-2025", SEARCH, {}),
        ("anthropic", BOTH, {}),
    ],
)
def test_a_fetch_alone_brings_the_source_s_beta_field_and_today_s_dialect_has_none(name, web, fields):
    assert dict(render(name, web).fields) == {"anthropic-version": "2023-06-01"} | fields


def test_what_happened_at_earlier_steps_is_part_of_the_user_s_turn():
    asked = Conversation("model", "What is new?", 1000, ("[step 1] a", "[step 2] b"))
    body = json.loads(render("anthropic", WebAccess(), asked).body)
    assert body["messages"] == [{"role": "user", "content": "What is new?\n\n[step 1] a\n\n[step 2] b"}]


def test_what_was_said_before_a_pause_is_echoed_as_it_came():
    blocks: tuple[Any, ...] = (
        {"type": "text", "text": "\ud800 half a pair"},
        {"type": "server_tool_use", "id": "x", "new": [1]},
    )
    body = json.loads(render("anthropic", SEARCH, Conversation("model", "x", 1, echo=blocks)).body)
    assert body["messages"][1] == {"role": "assistant", "content": list(blocks)}
    assert body["tools"] == json.loads(render("anthropic", SEARCH).body)["tools"]


@pytest.mark.parametrize("name", DIALECTS)
def test_a_prompt_that_utf_8_cannot_carry_is_sent_all_the_same(name):
    body = render(name, WebAccess(), Conversation("model", "half a pair: \udc80 ü", 1000)).body
    assert "half a pair: \\udc80" in body.decode("utf-8")


@pytest.mark.parametrize("name", DIALECTS)
def test_a_stream_is_asked_for_in_the_body(name):
    assert json.loads(render(name, WebAccess(), stream=True).body)["stream"] is True
    assert "stream" not in json.loads(render(name, WebAccess()).body)
