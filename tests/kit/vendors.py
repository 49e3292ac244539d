"""Vendors of models, faked on loopback: answers in the vendors' shapes, whole and streamed, as routes for `Origin`.

What they say is fixed and small: a search with one hit and one citation, or one that failed, or a pause. Tests hold
every answer to the types of the vendors' own SDKs (`tests/gateway/test_vendor_sdks.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from tests.kit import replies
from tests.kit.exchange import Exchange, Route

NAMES = ("api.anthropic.com", "api.openai.com", "openrouter.ai")
SOURCE = "https://docs.rs/tokio/latest/tokio/?v=secret-query"
SOURCE_SHOWN = "https://docs.rs/tokio/latest/tokio/"
TITLE = "tokio - Rust"
QUOTED = "A runtime for writing reliable network applications."
TEXT = "Tokio is a runtime."

Json = dict[str, Any]


def vendor_route(whole: Json, events: Iterable[bytes]) -> Route:
    """Answers with `events` whoever asks for a stream, with `whole` whoever does not."""
    pieces = list(events)

    async def route(exchange: Exchange) -> None:
        body = json.loads(exchange.request.body)
        if body.get("stream"):
            await replies.chunked(pieces, [("content-type", "text/event-stream; charset=utf-8")])(exchange)
        else:
            await replies.json(whole)(exchange)

    return route


def sse(event: Mapping[str, Any], name: str | None = None) -> bytes:
    """One event."""
    head = f"event: {name}\n" if name is not None else ""
    return f"{head}data: {json.dumps(event)}\n\n".encode()


# --- Anthropic -------------------------------------------------------------------------------------------------


def message(*, error: str | None = None, stop: str = "end_turn", searches: int | None = 1) -> Json:
    """A message with one web search. error: its code; stop: why it ended; searches: the counter, None: no counter."""
    content: list[Json] = [
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "tokio"}},
    ]
    if stop != "pause_turn":
        hit = {
            "type": "web_search_result", "url": SOURCE, "title": TITLE, "encrypted_content": "abc", "page_age": None,
        }  # fmt: skip
        failed = {"type": "web_search_tool_result_error", "error_code": error}
        content.append(
            {
                "type": "web_search_tool_result",
                "tool_use_id": "srvtoolu_1",
                "content": failed if error else [hit],
            }
        )
    citation = {
        "type": "web_search_result_location", "url": SOURCE, "title": TITLE, "encrypted_index": "x",
        "cited_text": QUOTED,
    }  # fmt: skip
    content.append({"type": "text", "text": TEXT, "citations": None if error else [citation]})
    usage: Json = {"input_tokens": 11, "output_tokens": 7}
    if searches is not None:
        usage["server_tool_use"] = {"web_search_requests": searches, "web_fetch_requests": 0}
    return {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-test", "content": content,
        "stop_reason": stop, "stop_sequence": None, "usage": usage,
    }  # fmt: skip


def message_events(whole: Json) -> list[bytes]:
    """The same as a stream: result blocks whole in one event, text and citations in deltas."""
    start = {**whole, "content": [], "stop_reason": None, "usage": {"input_tokens": 11, "output_tokens": 1}}
    events: list[Json] = [{"type": "message_start", "message": start}]
    for index, block in enumerate(whole["content"]):
        deltas: list[Json] = []
        first = block
        if block["type"] == "text":
            first = {**block, "text": "", "citations": []}
            deltas = [{"type": "citations_delta", "citation": one} for one in block["citations"] or ()]
            deltas += [{"type": "text_delta", "text": block["text"]}]
        elif block["type"] == "server_tool_use":
            first = {**block, "input": {}}
            deltas = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
        events.append({"type": "content_block_start", "index": index, "content_block": first})
        events += [{"type": "content_block_delta", "index": index, "delta": one} for one in deltas]
        events.append({"type": "content_block_stop", "index": index})
    delta = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    events.append({"type": "message_delta", "delta": delta, "usage": whole["usage"]})
    events.append({"type": "message_stop"})
    return [sse(event, event["type"]) for event in events]


# --- OpenAI Responses ------------------------------------------------------------------------------------------


def response(*, status: str = "completed", searches: int | None = 1) -> Json:
    """A response with one web search; status: that of the search."""
    action = {"type": "search", "query": "tokio", "queries": ["tokio"]}
    citation = {"type": "url_citation", "url": SOURCE, "title": TITLE, "start_index": 0, "end_index": 5}
    text = {"type": "output_text", "text": TEXT, "annotations": [citation], "logprobs": []}
    whole: Json = {
        "id": "resp_1", "object": "response", "created_at": 1.0, "status": "completed", "model": "gpt-test",
        "error": None, "incomplete_details": None, "instructions": None, "metadata": {},
        "parallel_tool_calls": True, "temperature": 1.0, "tool_choice": "auto", "tools": [], "top_p": 1.0,
        "output": [
            {"type": "web_search_call", "id": "ws_1", "status": status, "action": action},
            {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [text]},
        ],
        "usage": {
            "input_tokens": 11, "output_tokens": 7, "total_tokens": 18,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        },
    }  # fmt: skip
    if searches is not None:
        drawn = {
            "input_tokens": 0, "output_tokens": 0, "total_tokens": 0,
            "input_tokens_details": {"image_tokens": 0, "text_tokens": 0},
        }  # fmt: skip
        whole["tool_usage"] = {"image_gen": drawn, "web_search": {"num_requests": searches}}
    return whole


def response_events(whole: Json) -> list[bytes]:
    """The same as a stream."""
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    search, answer = whole["output"]
    part = answer["content"][0]
    place = {"item_id": "msg_1", "output_index": 1, "content_index": 0}
    events: list[Json] = [
        {"type": "response.created", "response": begun},
        {"type": "response.output_item.added", "output_index": 0, "item": {**search, "status": "in_progress"}},
        {"type": "response.web_search_call.searching", "item_id": "ws_1", "output_index": 0},
        {"type": "response.output_item.done", "output_index": 0, "item": search},
        {"type": "response.output_item.added", "output_index": 1, "item": {**answer, "content": []}},
        {"type": "response.content_part.added", **place, "part": {**part, "text": "", "annotations": []}},
        {"type": "response.output_text.delta", **place, "delta": TEXT, "logprobs": []},
        {
            "type": "response.output_text.annotation.added", **place, "annotation_index": 0,
            "annotation": part["annotations"][0],
        },
        {"type": "response.output_text.done", **place, "text": TEXT, "logprobs": []},
        {"type": "response.content_part.done", **place, "part": part},
        {"type": "response.output_item.done", "output_index": 1, "item": answer},
        {"type": "response.completed", "response": whole},
    ]  # fmt: skip
    return [sse({**event, "sequence_number": n}, event["type"]) for n, event in enumerate(events)]


# --- Chat Completions, and OpenRouter's ----------------------------------------------------------------------------


def completion(*, searches: int | None = None, content: str | None = None) -> Json:
    """A completion with one citation; searches: OpenRouter's counter; content: what it quotes."""
    cited: Json = {"url": SOURCE, "title": TITLE, "start_index": 0, "end_index": 0}
    if content is not None:
        cited["content"] = content
    said = {
        "role": "assistant", "content": TEXT, "refusal": None,
        "annotations": [{"type": "url_citation", "url_citation": cited}],
    }  # fmt: skip
    usage: Json = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
    if searches is not None:
        usage["server_tool_use_details"] = {"web_search_requests": searches}
    return {
        "id": "chatcmpl_1", "object": "chat.completion", "created": 1, "model": "gpt-test",
        "choices": [{"index": 0, "message": said, "finish_reason": "stop", "logprobs": None}], "usage": usage,
    }  # fmt: skip


def completion_events(whole: Json) -> list[bytes]:
    """The same as a stream."""
    said = whole["choices"][0]["message"]
    base = {**{name: whole[name] for name in ("id", "created", "model")}, "object": "chat.completion.chunk"}
    deltas: list[tuple[Json, str | None]] = [
        ({"role": "assistant", "content": ""}, None),
        ({"content": said["content"]}, None),
        ({"annotations": said["annotations"]}, None),
        ({}, "stop"),
    ]
    chunks: list[Json] = [
        {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": ended}]} for delta, ended in deltas
    ]
    chunks.append({**base, "choices": [], "usage": whole["usage"]})
    return [*map(sse, chunks), b"data: [DONE]\n\n"]
