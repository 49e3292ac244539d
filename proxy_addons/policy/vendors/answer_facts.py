"""What a vendor's answer says of the web tools that were run: one reading of each shape, whole or event by event.

Values in, facts added; what is of a shape nobody knows adds nothing, and a counter that was not reported stays None,
for nought and unknown are two facts. Kept are names, codes, counters and addresses without their query (SPEC 1.6): no
text of the answer, no quotation.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from proxy_addons.policy.targets import TargetParseError, parse_target

from .endpoints import BodyKind

MAX_ROWS = 64
MAX_WORD = 100
MAX_URL = 8 << 20

_WORD = re.compile(r"[A-Za-z0-9_:.-]+")


@dataclass(slots=True)
class ServerCall:
    """One run of a tool by the vendor. error: the vendor's own code; None: it ran, whatever it found."""

    tool: str
    error: str | None = None
    ended: bool = False
    """Whether its result was in this answer: a paused one leaves calls open."""


@dataclass(slots=True)
class AnswerFacts:
    """What an answer said. `calls` by the vendor's id, in order; `citations`: addresses, each once, in order.

    omitted: rows beyond MAX_ROWS. stop: why it ended, in the vendor's word. complete: it was read to its end.
    """

    calls: dict[str, ServerCall] = field(default_factory=dict)
    citations: dict[str, None] = field(default_factory=dict)
    omitted: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    search_requests: int | None = None
    fetch_requests: int | None = None
    stop: str | None = None
    complete: bool = False

    @property
    def paused(self) -> bool:
        """Whether the vendor stopped in the middle of its tools, to be asked to go on."""
        return self.stop == "pause_turn"


# --- Anthropic --------------------------------------------------------------------------------------------------


def _take_message(facts: AnswerFacts, message: dict[str, Any]) -> None:
    for block in _objects(message.get("content")):
        _take_block(facts, block)
    _take_anthropic_usage(facts, message.get("usage"))
    facts.stop = _word(message.get("stop_reason")) or _error_of(message)


def _take_anthropic_event(facts: AnswerFacts, event: dict[str, Any]) -> bool:
    """Whether it was the last."""
    match event.get("type"):
        case "message_start":
            message = event.get("message")
            if isinstance(message, dict):
                _take_anthropic_usage(facts, message.get("usage"))
        case "content_block_start":
            block = event.get("content_block")
            if isinstance(block, dict):
                _take_block(facts, block)
        case "content_block_delta":
            delta = event.get("delta")
            if isinstance(delta, dict) and isinstance(delta.get("citation"), dict):
                _cite(facts, delta["citation"].get("url"))
        case "message_delta":
            delta = event.get("delta")
            if isinstance(delta, dict):
                facts.stop = _word(delta.get("stop_reason")) or facts.stop
            _take_anthropic_usage(facts, event.get("usage"))
        case "message_stop":
            return True
        case "error":
            facts.stop = _error_of(event)
            return True
    return False


def _take_block(facts: AnswerFacts, block: dict[str, Any]) -> None:
    kind = block.get("type")
    if kind == "server_tool_use":
        _call(facts, block.get("id"), _word(block.get("name")))
    elif isinstance(kind, str) and kind.endswith("_tool_result") and "tool_use_id" in block:
        content = block.get("content")
        error = content.get("error_code") if isinstance(content, dict) else None
        _call(facts, block["tool_use_id"], _word(kind.removesuffix("_tool_result")), _word(error), ended=True)
    for citation in _objects(block.get("citations")):
        _cite(facts, citation.get("url"))


def _take_anthropic_usage(facts: AnswerFacts, usage: object) -> None:
    if not isinstance(usage, dict):
        return
    _take_tokens(facts, usage, "input_tokens", "output_tokens")
    _take_requests(facts, usage.get("server_tool_use"))


# --- OpenAI Responses -------------------------------------------------------------------------------------------


def _take_response(facts: AnswerFacts, response: dict[str, Any]) -> None:
    for item in _objects(response.get("output")):
        _take_item(facts, item)
    usage = response.get("usage")
    if isinstance(usage, dict):
        _take_tokens(facts, usage, "input_tokens", "output_tokens")
        _take_requests(facts, usage.get("server_tool_use_details"))
    tools = response.get("tool_usage")
    search = tools.get("web_search") if isinstance(tools, dict) else None
    if isinstance(search, dict):
        facts.search_requests = _count(search.get("num_requests"), facts.search_requests)
    details = response.get("incomplete_details")
    reason = _word(details.get("reason")) if isinstance(details, dict) else None
    facts.stop = reason or _error_of(response) or _word(response.get("status"))


def _take_response_event(facts: AnswerFacts, event: dict[str, Any]) -> bool:
    kind = event.get("type")
    if kind == "response.output_item.done" and isinstance(event.get("item"), dict):
        _take_item(facts, event["item"])
    elif kind == "response.output_text.annotation.added" and isinstance(event.get("annotation"), dict):
        _cite(facts, event["annotation"].get("url"))
    elif kind == "error":
        facts.stop = _word(event.get("code")) or "error"
        return True
    elif isinstance(event.get("response"), dict) and kind in (
        "response.completed",
        "response.incomplete",
        "response.failed",
    ):
        _take_response(facts, event["response"])
        return True
    return False


def _take_item(facts: AnswerFacts, item: dict[str, Any]) -> None:
    kind = item.get("type")
    if isinstance(kind, str) and kind.removeprefix("openrouter:") in _CALL_ITEMS:
        status = _word(item.get("status"))
        failed = (_word(item.get("error")) or status) if status in ("failed", "incomplete") else None
        _call(facts, item.get("id"), _CALL_ITEMS[kind.removeprefix("openrouter:")], failed, ended=True)
    for part in _objects(item.get("content")):
        for annotation in _objects(part.get("annotations")):
            _cite(facts, annotation.get("url"))


_CALL_ITEMS = {"web_search_call": "web_search", "web_search": "web_search", "web_fetch": "web_fetch"}


# --- Chat Completions -------------------------------------------------------------------------------------------


def _take_completion(facts: AnswerFacts, completion: dict[str, Any]) -> None:
    for choice in _objects(completion.get("choices")):
        for name in ("message", "delta"):
            message = choice.get(name)
            if isinstance(message, dict):
                for annotation in _objects(message.get("annotations")):
                    citation = annotation.get("url_citation")
                    _cite(facts, citation.get("url") if isinstance(citation, dict) else None)
        facts.stop = _word(choice.get("finish_reason")) or facts.stop
    usage = completion.get("usage")
    if isinstance(usage, dict):
        _take_tokens(facts, usage, "prompt_tokens", "completion_tokens")
        for name in ("server_tool_use", "server_tool_use_details"):
            _take_requests(facts, usage.get(name))
    if completion.get("error") is not None:
        facts.stop = _error_of(completion)


def _take_chunk(facts: AnswerFacts, chunk: dict[str, Any]) -> bool:
    _take_completion(facts, chunk)
    return False  # [DONE] is the last


TAKE_WHOLE = {
    BodyKind.MESSAGES: _take_message,
    BodyKind.RESPONSES: _take_response,
    BodyKind.CHAT: _take_completion,
}
TAKE_EVENT = {
    BodyKind.MESSAGES: _take_anthropic_event,
    BodyKind.RESPONSES: _take_response_event,
    BodyKind.CHAT: _take_chunk,
}

# --- shared -----------------------------------------------------------------------------------------------------


def _objects(value: object) -> Iterator[dict[str, Any]]:
    if isinstance(value, list):
        yield from (one for one in value if isinstance(one, dict))


def _word(value: object) -> str | None:
    """A code or a name, as it may stand in a log; None for anything else."""
    if isinstance(value, str) and len(value) <= MAX_WORD and _WORD.fullmatch(value):
        return value
    return None


def _count(value: object, before: int | None) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 53:
        return before
    return value


def _take_tokens(facts: AnswerFacts, usage: dict[str, Any], sent: str, made: str) -> None:
    facts.input_tokens = _count(usage.get(sent), facts.input_tokens)
    facts.output_tokens = _count(usage.get(made), facts.output_tokens)


def _take_requests(facts: AnswerFacts, used: object) -> None:
    if isinstance(used, dict):
        facts.search_requests = _count(used.get("web_search_requests"), facts.search_requests)
        facts.fetch_requests = _count(used.get("web_fetch_requests"), facts.fetch_requests)


def _error_of(value: dict[str, Any]) -> str | None:
    error = value.get("error")
    if not isinstance(error, dict):
        return None
    return _word(error.get("type")) or _word(error.get("code")) or "error"


def _call(
    facts: AnswerFacts, call_id: object, tool: str | None, error: str | None = None, *, ended: bool = False
) -> None:
    key = call_id if isinstance(call_id, str) and len(call_id) <= MAX_WORD else f"#{len(facts.calls)}"
    found = facts.calls.get(key)
    if found is None:
        if len(facts.calls) >= MAX_ROWS:
            facts.omitted += 1
            return
        found = facts.calls[key] = ServerCall(tool or "unknown")
    found.error = error or found.error
    found.ended |= ended


def _cite(facts: AnswerFacts, url: object) -> None:
    if not isinstance(url, str) or len(url) > MAX_URL:
        return
    try:
        shown = parse_target(url).display[:2048]
    except TargetParseError:
        return
    if shown in facts.citations:
        return
    if len(facts.citations) >= MAX_ROWS:
        facts.omitted += 1
    else:
        facts.citations[shown] = None
