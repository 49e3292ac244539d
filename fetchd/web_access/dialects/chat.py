"""Chat Completions, as OpenAI and OpenRouter speak them: the request, the answer, and the events of a stream.

Neither says how a search went. That one ran is known where the answer cites something or a counter says so; where
nothing is said, nothing is recorded. Offsets are not used: they are into a text that may have been cut, and some
engines send 0 for all of them.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from fetchd.core.read_packet import dump_json
from fetchd.web_access.errors import AnswerError, show_foreign
from fetchd.web_access.preparing import WebFilter
from fetchd.web_access.reading import (
    Object,
    as_count,
    as_filled,
    as_list,
    as_object,
    as_text,
    objects,
    raise_refusal,
    read_object,
)
from fetchd.web_access.values import (
    Citation,
    Completion,
    Conversation,
    Event,
    RenderedRequest,
    ServerToolCall,
    Stop,
    Told,
    Usage,
)
from proxy_addons.policy.vendors.dialects import FETCH_BLOCK, Dialect, Uses, Vendor

NOT_EXECUTED: Final = "not_executed"
"""Ours: the counters say that more calls were asked for than ran."""
DONE: Final = "[DONE]"

STOPS: Final[Mapping[str, Stop]] = MappingProxyType(
    {"stop": Stop.END, "length": Stop.LENGTH, "content_filter": Stop.REFUSED}
)


# ---------------------------------------------------------------------------------------------------- request


def render(
    dialect: Dialect,
    web: WebFilter,
    conversation: Conversation,
    stream: bool,
) -> RenderedRequest:
    """The request of a completion."""
    limit = "max_completion_tokens" if dialect.vendor is Vendor.OPENAI else "max_tokens"
    body: dict[str, object] = {
        "model": conversation.model,
        limit: conversation.max_tokens,
        "messages": [{"role": "user", "content": conversation.text}],
    }
    if web.search or web.fetch:
        if dialect.vendor is Vendor.OPENAI:
            filters = {"filters": {"allowed_domains": list(web.allow)}} if web.allow else {}
            body["web_search_options"] = filters
        elif dialect.uses is Uses.RESULTS:
            plugin: dict[str, object] = {"id": dialect.search_type}
            if web.cap is not None:
                plugin["max_results"] = web.cap
            body["plugins"] = [plugin]
        else:
            body["tools"] = _render_tools(dialect, web)
    if stream:
        body["stream"] = True
        body["stream_options"] = {"include_usage": True}
    return RenderedRequest(dialect.path, dump_json(body))


def _render_tools(dialect: Dialect, web: WebFilter) -> list[dict[str, object]]:
    tools: list[dict[str, object]] = []
    for wanted, kind, block in (
        (web.search, dialect.search_type, dialect.block),
        (web.fetch, dialect.fetch_type, FETCH_BLOCK.get(dialect.name, dialect.block)),
    ):
        if not wanted:
            continue
        parameters: dict[str, object] = {}
        if web.cap is not None and dialect.uses_member is not None:
            parameters[_last(dialect.uses_member)] = web.cap
        if web.allow and dialect.allow is not None:
            parameters[_last(dialect.allow)] = list(web.allow)
        if web.block and block is not None:
            parameters[_last(block)] = list(web.block)
        tools.append({"type": kind, **({"parameters": parameters} if parameters else {})})
    return tools


def _last(member: str) -> str:
    """`parameters.allowed_domains`: the name of the member itself."""
    return member.rpartition(".")[2]


# ----------------------------------------------------------------------------------------------------- answer


def parse(answer: Object, provider: str, pending: Mapping[str, str]) -> Completion:
    """A whole answer. Raises AnswerError, RefusalError."""
    if answer.get("error") is not None:
        raise_refusal(answer.get("error"))
    choice = next(iter(objects(answer.get("choices"))), None)
    message = as_object(choice.get("message")) if choice is not None else None
    if choice is None or message is None:
        raise AnswerError("the answer has no choice with a message")
    reason = as_text(choice.get("finish_reason"))
    if choice.get("error") is not None or reason == "error":
        raise_refusal(choice.get("error"))
    if reason is None:
        raise AnswerError("the answer has no finish reason")
    refusal = as_filled(message.get("refusal"))
    text = _read_content(message.get("content"))
    citations = tuple(_read_citations(message.get("annotations")))
    calls = _read_calls(answer, provider)
    if not calls and citations:
        calls = (ServerToolCall.ok(provider, "web_search"),)
    return Completion(
        text or refusal or "",
        Stop.REFUSED if refusal is not None and not text else STOPS.get(reason, Stop.OTHER),
        show_foreign(reason, 100),
        citations,
        calls,
        usage=read_usage(answer),
        model=as_filled(answer.get("model")),
    )


def _read_content(value: object) -> str:
    if value is None:
        return ""
    text = as_text(value)
    if text is not None:
        return text
    parts = as_list(value)
    if parts is None:
        raise AnswerError("the answer's content is neither text nor a list of parts")
    return "".join(as_text(part.get("text")) or "" for part in objects(parts))


def _read_citations(value: object) -> list[Citation]:
    found = []
    for one in objects(value):
        if one.get("type") != "url_citation":
            continue
        # Nested here, flat in Responses; compatible servers send either.
        about = as_object(one.get("url_citation")) or one
        url = as_filled(about.get("url"))
        if url is not None:
            found.append(Citation(url, as_text(about.get("title")), as_text(about.get("content"))))
    return found


def read_usage(answer: Object) -> Usage:
    """The counters of an answer. Those of tools count the same thing: they are not added up."""
    usage = as_object(answer.get("usage")) or {}
    searches, _, ran = _read_counters(answer)
    return Usage(
        as_count(usage.get("prompt_tokens")),
        as_count(usage.get("completion_tokens")),
        searches if searches is not None else ran,
    )


def _read_calls(answer: Object, provider: str) -> tuple[ServerToolCall, ...]:
    """The calls that the counters tell of."""
    searches, asked, ran = _read_counters(answer)
    calls = []
    if searches or ran:
        calls.append(ServerToolCall.ok(provider, "web_search" if searches or not ran else "web_tool"))
    if asked is not None and ran is not None and asked > ran:
        calls.append(ServerToolCall.failed(provider, "web_tool", NOT_EXECUTED))
    return tuple(calls)


def _read_counters(answer: Object) -> tuple[int | None, int | None, int | None]:
    """Searches, calls of tools that were asked for, and those that ran."""
    usage = as_object(answer.get("usage")) or {}
    tools = as_object(usage.get("server_tool_use_details")) or as_object(usage.get("server_tool_use")) or {}
    searches, asked, ran = (
        as_count(tools.get(name))
        for name in ("web_search_requests", "tool_calls_requested", "tool_calls_executed")
    )
    return searches, asked, ran


# ----------------------------------------------------------------------------------------------------- stream


class ChatAssembler:
    """The chunks of one answer, the first choice alone. The end is a finish reason; `[DONE]` may be missing."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._head: dict[str, Any] = {}
        self._texts: dict[str, list[str]] = {"content": [], "refusal": []}
        self._annotations: list[object] = []
        self._reason: str | None = None
        self._seen = False

    def feed(self, event: Event) -> tuple[Told, ...]:
        if event.data.strip() == DONE:
            return ()
        chunk = read_object(event.data)
        if chunk.get("error") is not None:
            raise_refusal(chunk.get("error"))
        self._head.update({name: chunk[name] for name in ("model", "usage") if chunk.get(name) is not None})
        for choice in objects(chunk.get("choices")):
            if as_count(choice.get("index")) in (None, 0):
                self._take(choice)
        return (read_usage(self._head),) if chunk.get("usage") is not None else ()

    def _take(self, choice: Object) -> None:
        if choice.get("error") is not None:
            raise_refusal(choice.get("error"))
        self._seen = True
        # The last chunk of some servers has the whole message, with the annotations, in place of a delta.
        delta = as_object(choice.get("delta")) or as_object(choice.get("message")) or {}
        for name, pieces in self._texts.items():
            pieces.append(as_text(delta.get(name)) or "")
        self._annotations += as_list(delta.get("annotations")) or ()
        reason = as_text(choice.get("finish_reason"))
        self._reason = reason if reason is not None else self._reason

    def finish(self) -> Object:
        if not self._seen or self._reason is None:
            raise AnswerError("the stream broke off before the end of the message")
        message: dict[str, object] = {"role": "assistant", "annotations": self._annotations}
        message |= {name: "".join(pieces) or None for name, pieces in self._texts.items()}
        return {**self._head, "choices": [{"message": message, "finish_reason": self._reason}]}
