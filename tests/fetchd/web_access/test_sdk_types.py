"""The vendors' own types hold every body that is rendered, and every answer that a test fakes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, get_type_hints

import pytest
from anthropic.types import (
    Message,
    RawMessageStreamEvent,
    WebFetchTool20250910Param,
    WebFetchTool20260318Param,
    WebSearchTool20250305Param,
    WebSearchTool20260318Param,
)
from anthropic.types.message_create_params import MessageCreateParams
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.chat.completion_create_params import CompletionCreateParams
from openai.types.responses import Response, ResponseStreamEvent, WebSearchToolParam
from openai.types.responses.response_create_params import ResponseCreateParams
from pydantic import TypeAdapter, ValidationError

from fetchd.web_access.declaration import WebAccess
from fetchd.web_access.dialects import shape_of
from fetchd.web_access.preparing import prepare_filter
from fetchd.web_access.values import Conversation, Event
from proxy_addons.policy.vendors.dialects import DIALECTS, Capability, Dialect
from tests.kit import vendor_answers as answers

BODIES: Mapping[str, TypeAdapter[Any]] = {
    "/v1/messages": TypeAdapter(MessageCreateParams),
    "/v1/chat/completions": TypeAdapter(CompletionCreateParams),
    "/v1/responses": TypeAdapter(ResponseCreateParams),
}
TOOLS: Mapping[str, Any] = {
    "web_search_20250305": WebSearchTool20250305Param,
    "web_fetch_20250910": WebFetchTool20250910Param,
    "web_search_20260318": WebSearchTool20260318Param,
    "web_fetch_20260318": WebFetchTool20260318Param,
    "web_search": WebSearchToolParam,
}


def declarations(dialect: Dialect) -> Iterable[WebAccess]:
    """Every declaration that the dialect can carry, as far as its shape goes."""
    for fetch in (False, True):
        for search in (True, False):
            for lists in ("", "allow", "block"):
                for cap in (None, 3):
                    web = WebAccess(can_search=search, can_fetch=fetch, cap=cap)
                    web = web.allow("docs.rs", "example.com") if lists == "allow" else web
                    web = web.block("evil.test") if lists == "block" else web
                    wanted = {Capability.FETCH: fetch, Capability.SEARCH: search}
                    wanted |= {Capability.ALLOW: lists == "allow", Capability.BLOCK: lists == "block"}
                    if all(dialect.can(one) or not wanted[one] for one in Capability):
                        yield web


def exhaust(value: object) -> None:
    """Iterables are checked as they are read."""
    if isinstance(value, Mapping):
        for one in value.values():
            exhaust(one)
    elif isinstance(value, Iterable) and not isinstance(value, str | bytes):
        for one in value:
            exhaust(one)


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("stream", [False, True])
def test_the_sdk_s_types_hold_every_body_that_is_rendered(name: str, stream: bool) -> None:
    dialect = DIALECTS[name]
    conversation = Conversation("model", "What is new?", 1000, ("[step 1] said: nothing",))
    for web in declarations(dialect):
        request = shape_of(dialect).render(dialect, prepare_filter(web, dialect, "p"), conversation, stream)
        body = json.loads(request.body)
        # OpenRouter's tools are none of OpenAI's; all else of its body is.
        ours = [tool for tool in body.get("tools", ()) if not tool["type"].startswith("openrouter:")]
        if "tools" in body and not ours:
            del body["tools"]
        exhaust(BODIES[request.path.removeprefix("/api")].validate_python(body))
        for tool in ours:
            # A TypedDict lets members pass that it does not know; the vendor does not.
            assert set(tool) <= set(get_type_hints(TOOLS[tool["type"]])), tool


def test_the_types_can_refuse() -> None:
    adapter = BODIES["/v1/messages"]
    body = {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "x"}]}
    exhaust(adapter.validate_python(body))
    tool = {"type": "web_search_20250305", "name": "web_search", "max_uses": "three"}
    with pytest.raises(ValidationError):
        exhaust(adapter.validate_python(body | {"tools": [tool]}))


@pytest.mark.parametrize("streamed", [False, True])
def test_the_types_hold_what_is_sent_back_after_a_pause(streamed: bool) -> None:
    dialect = DIALECTS["anthropic"]
    shape = shape_of(dialect)
    answer: Any = answers.message(
        answers.text("I look.", answers.search_citation("https://docs.rs/1")),
        answers.search_use("srvtoolu_1"),
        answers.search_result("https://docs.rs/1", use_id="srvtoolu_1"),
        answers.fetch_use("srvtoolu_2"),
        answers.fetch_result(use_id="srvtoolu_2"),
        answers.search_use("srvtoolu_3"),
        stop="pause_turn",
    )
    if streamed:
        assembler = shape.assembler("p")
        for event in answers.message_events(answer):
            assembler.feed(Event("message", json.dumps(event)))
        answer = assembler.finish()
    paused = shape.parse(answer, "p", {})
    conversation = Conversation("model", "What is new?", 1000, echo=paused.blocks)
    web = prepare_filter(WebAccess.search().with_fetch(), dialect, "p")
    body = json.loads(shape.render(dialect, web, conversation, streamed).body)
    exhaust(BODIES["/v1/messages"].validate_python(body))
    assert [block["type"] for block in body["messages"][1]["content"]] == [
        block["type"] for block in answer["content"]
    ]


MESSAGES = [
    answers.message(answers.text("Hello.")),
    answers.message(
        answers.text("I look."),
        answers.search_use(),
        answers.search_result(*answers.pages(1, 2)),
        answers.fetch_use(),
        answers.fetch_result(),
        answers.text("Found", answers.search_citation("https://docs.rs/1"), answers.document_citation()),
        searches=1,
        fetches=1,
    ),
    answers.message(answers.search_use(), answers.search_error("max_uses_exceeded"), searches=0),
    answers.message(answers.fetch_use(), answers.fetch_error("content_too_large")),
    answers.message(answers.search_use(), stop="pause_turn", searches=1),
]
CHATS = [
    answers.chat("Hello."),
    answers.chat("Found.", answers.url_citation("https://docs.rs/1")),
    answers.chat(None, refusal="No."),
]
RESPONSES = [
    answers.response(answers.output_text("Hello.")),
    answers.response(
        answers.web_call(sources=answers.pages(1, 2)),
        answers.web_call(action={"type": "open_page", "url": "https://docs.rs/1"}, call_id="ws_2"),
        answers.web_call("failed", call_id="ws_3"),
        answers.output_text("Found.", ("https://docs.rs/1", "A page")),
        searches=1,
    ),
    answers.response(status="incomplete", reason="max_output_tokens"),
    answers.response(status="failed", error={"code": "server_error", "message": "Failed."}),
]


@pytest.mark.parametrize("answer", MESSAGES)
def test_the_types_hold_our_messages(answer: answers.Object) -> None:
    TypeAdapter(Message).validate_python(answer, strict=True)
    events: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)
    for event in answers.message_events(answer):
        if event["type"] != "ping":
            events.validate_python(event, strict=True)


@pytest.mark.parametrize("answer", CHATS)
def test_the_types_hold_our_chats(answer: answers.Object) -> None:
    TypeAdapter(ChatCompletion).validate_python(answer, strict=True)
    for event in answers.chat_events(answer):
        TypeAdapter(ChatCompletionChunk).validate_python(event, strict=True)


@pytest.mark.parametrize("answer", RESPONSES)
def test_the_types_hold_our_responses(answer: answers.Object) -> None:
    TypeAdapter(Response).validate_python(answer)
    events: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
    for event in answers.response_events(answer):
        events.validate_python(event)
