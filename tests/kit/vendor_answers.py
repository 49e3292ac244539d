"""Answers of vendors that ran web tools, whole and as streams, in the vendors' own shapes.

The SDKs' types hold what is made here (`tests/fetchd/web_access/test_sdk_types.py`). What an answer may hold beside
that, and a broken one, is for each test to change.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

type Object = dict[str, Any]

# -------------------------------------------------------------------------------------------------- Anthropic


def search_use(use_id: str = "srvtoolu_1", query: str = "fetchd") -> Object:
    return {"type": "server_tool_use", "id": use_id, "name": "web_search", "input": {"query": query}}


def fetch_use(use_id: str = "srvtoolu_2", url: str = "https://docs.rs/a") -> Object:
    return {"type": "server_tool_use", "id": use_id, "name": "web_fetch", "input": {"url": url}}


def search_result(
    *urls: str, use_id: str = "srvtoolu_1", title: str = "A page", age: str | None = "5 days ago"
) -> Object:
    rows = [
        {
            "type": "web_search_result",
            "url": url,
            "title": title,
            "encrypted_content": "E" * 20,
            "page_age": age,
        }
        for url in urls
    ]
    return {"type": "web_search_tool_result", "tool_use_id": use_id, "content": rows}


def search_error(code: str, use_id: str = "srvtoolu_1") -> Object:
    error = {"type": "web_search_tool_result_error", "error_code": code}
    return {"type": "web_search_tool_result", "tool_use_id": use_id, "content": error}


def fetch_result(
    url: str = "https://docs.rs/a",
    use_id: str = "srvtoolu_2",
    title: str | None = "A page",
    text: str = "Text.",
) -> Object:
    document = {
        "type": "document",
        "source": {"type": "text", "media_type": "text/plain", "data": text},
        "title": title,
        "citations": {"enabled": True},
    }
    found = {
        "type": "web_fetch_result",
        "url": url,
        "retrieved_at": "2026-08-25T08:00:00.000000+00:00",
        "content": document,
    }
    return {"type": "web_fetch_tool_result", "tool_use_id": use_id, "content": found}


def fetch_error(code: str, use_id: str = "srvtoolu_2") -> Object:
    error = {"type": "web_fetch_tool_result_error", "error_code": code}
    return {"type": "web_fetch_tool_result", "tool_use_id": use_id, "content": error}


def text(words: str, *citations: Object) -> Object:
    return {"type": "text", "text": words, "citations": list(citations) or None}


def search_citation(url: str, title: str | None = "A page", quote: str = "quoted") -> Object:
    return {
        "type": "web_search_result_location",
        "url": url,
        "title": title,
        "cited_text": quote,
        "encrypted_index": "I" * 10,
    }


def document_citation(index: int = 0, title: str | None = "A page", quote: str = "Text.") -> Object:
    return {
        "type": "char_location",
        "document_index": index,
        "document_title": title,
        "start_char_index": 0,
        "end_char_index": len(quote),
        "cited_text": quote,
        "file_id": None,
    }


def message(
    *blocks: Object,
    stop: str = "end_turn",
    tokens: tuple[int, int] = (100, 20),
    searches: int | None = None,
    fetches: int = 0,
) -> Object:
    """An Anthropic message. searches: None leaves the counters of tools out, as the vendor does."""
    usage: Object = {"input_tokens": tokens[0], "output_tokens": tokens[1]}
    if searches is not None:
        usage["server_tool_use"] = {"web_search_requests": searches, "web_fetch_requests": fetches}
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-model",
        "content": list(blocks),
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": usage,
    }


def message_events(answer: Object) -> Iterator[Object]:
    """The stream that such a message comes as."""
    started = answer | {"content": [], "stop_reason": None, "usage": {"input_tokens": 1, "output_tokens": 1}}
    yield {"type": "message_start", "message": started}
    yield {"type": "ping"}
    for index, block in enumerate(answer["content"]):
        match block["type"]:
            case "text":
                begun = block | {"text": "", "citations": None}
                words = block["text"]
                deltas: list[Object] = [
                    {"type": "text_delta", "text": words[: len(words) // 2]},
                    {"type": "text_delta", "text": words[len(words) // 2 :]},
                    *({"type": "citations_delta", "citation": one} for one in block["citations"] or ()),
                ]
            case "server_tool_use":
                begun = block | {"input": {}}
                body = json.dumps(block["input"])
                deltas = [{"type": "input_json_delta", "partial_json": part} for part in (body[:3], body[3:])]
            case _:
                begun, deltas = block, []
        yield {"type": "content_block_start", "index": index, "content_block": begun}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    delta = {"stop_reason": answer["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": delta, "usage": answer["usage"]}
    yield {"type": "message_stop"}


def message_error(kind: str = "overloaded_error", words: str = "Overloaded") -> Object:
    return {"type": "error", "error": {"type": kind, "message": words}, "request_id": "req_1"}


# ------------------------------------------------------------------------------------------- Chat Completions


def url_citation(url: str, title: str = "A page", content: str | None = None) -> Object:
    """OpenRouter's has `content`, and offsets of 0."""
    about: Object = {"url": url, "title": title, "start_index": 0, "end_index": 0}
    return {"type": "url_citation", "url_citation": about | ({"content": content} if content else {})}


def chat(
    words: str | None,
    *annotations: Object,
    finish: str = "stop",
    tokens: tuple[int, int] = (100, 20),
    tools: Object | None = None,
    refusal: str | None = None,
) -> Object:
    """A chat completion. tools: OpenRouter's counters."""
    usage: Object = {"prompt_tokens": tokens[0], "completion_tokens": tokens[1], "total_tokens": sum(tokens)}
    if tools is not None:
        usage["server_tool_use_details"] = tools
    return {
        "id": "chatcmpl_1",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-model",
        "choices": [
            {
                "index": 0,
                "finish_reason": finish,
                "logprobs": None,
                "message": {
                    "role": "assistant",
                    "content": words,
                    "refusal": refusal,
                    "annotations": list(annotations),
                },
            }
        ],
        "usage": usage,
    }


def chat_events(answer: Object) -> Iterator[Object]:
    """The stream that such a completion comes as; the annotations come with the last words, where they come."""
    (choice,) = answer["choices"]
    words = choice["message"]["content"] or ""
    head = {"id": answer["id"], "object": "chat.completion.chunk", "created": 1, "model": answer["model"]}
    last: Object = {"content": words[3:], "annotations": choice["message"]["annotations"]}
    for delta, finish in (
        ({"role": "assistant", "content": words[:3], "refusal": choice["message"]["refusal"]}, None),
        (last, None),
        ({}, choice["finish_reason"]),
    ):
        yield head | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}]}
    yield head | {"choices": [], "usage": answer["usage"]}


# -------------------------------------------------------------------------------------------------- Responses


def web_call(
    status: str = "completed",
    action: Object | None = None,
    sources: Sequence[str] = (),
    call_id: str = "ws_1",
) -> Object:
    searched = {
        "type": "search",
        "query": "fetchd",
        "queries": ["fetchd"],
        "sources": [{"type": "url", "url": url} for url in sources],
    }
    return {"type": "web_search_call", "id": call_id, "status": status, "action": action or searched}


def output_text(words: str, *citations: tuple[str, str]) -> Object:
    annotations = [
        {"type": "url_citation", "url": url, "title": title, "start_index": 0, "end_index": len(words)}
        for url, title in citations
    ]
    part = {"type": "output_text", "text": words, "annotations": annotations, "logprobs": []}
    return {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [part]}


def response(
    *items: Object,
    status: str = "completed",
    reason: str | None = None,
    tokens: tuple[int, int] = (100, 20),
    searches: int | None = None,
    error: Object | None = None,
) -> Object:
    """A response of OpenAI's."""
    found: Object = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": status,
        "error": error,
        "incomplete_details": {"reason": reason} if reason else None,
        "instructions": None,
        "metadata": {},
        "model": "gpt-model",
        "output": list(items),
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": {
            "input_tokens": tokens[0],
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": tokens[1],
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": sum(tokens),
        },
    }
    if searches is not None:
        none: Object = {"image_tokens": 0, "text_tokens": 0}
        images: Object = {
            "input_tokens": 0,
            "input_tokens_details": none,
            "output_tokens": 0,
            "total_tokens": 0,
        }
        found["tool_usage"] = {"web_search": {"num_requests": searches}, "image_gen": images}
    return found


def response_events(answer: Object) -> Iterator[Object]:
    """The stream that such a response comes as."""
    numbers = iter(range(1_000_000))
    yield {
        "type": "response.created",
        "sequence_number": next(numbers),
        "response": answer | {"status": "in_progress", "output": [], "usage": None},
    }
    for place, item in enumerate(answer["output"]):
        about = {"output_index": place}
        started = item | {"status": "in_progress"}
        yield {
            "type": "response.output_item.added",
            "sequence_number": next(numbers),
            "item": started | ({"content": []} if item["type"] == "message" else {}),
            **about,
        }
        if item["type"] == "web_search_call":
            for state in ("in_progress", "searching", "completed"):
                kind = f"response.web_search_call.{state}"
                yield {"type": kind, "sequence_number": next(numbers), "item_id": item["id"], **about}
        yield {"type": "response.output_item.done", "sequence_number": next(numbers), "item": item, **about}
    last = {"completed": "completed", "incomplete": "incomplete", "failed": "failed"}[answer["status"]]
    yield {"type": f"response.{last}", "sequence_number": next(numbers), "response": answer}


# ------------------------------------------------------------------------------------------------------ bytes


def whole(answer: object) -> bytes:
    """An answer as the body of a response."""
    return json.dumps(answer).encode()


def stream(events: Iterable[Object], *, named: bool = True, done: bool = False) -> bytes:
    """Events as the body of a response. named: each says its type in a field, too. done: chat's last word."""
    parts = [
        (f"event: {event['type']}\n" if named and "type" in event else "") + f"data: {json.dumps(event)}\n\n"
        for event in events
    ]
    return "".join([*parts, *(["data: [DONE]\n\n"] if done else [])]).encode()


def pages(*numbers: int) -> tuple[str, ...]:
    """URLs of pages within docs.rs."""
    return tuple(f"https://docs.rs/{number}" for number in numbers)
