"""OpenAI Responses: the request, the answer, and the events of a stream.

Its web search also opens pages: `open_page` and `find_in_page` are uses of the same tool and recorded by their own
names. Citations have offsets and no quote; none is made up from them.
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
    WebRow,
)
from proxy_addons.policy.vendors.dialects import Dialect

MIN_OUTPUT_TOKENS: Final = 16
"""The vendor refuses less."""
SOURCES: Final = "web_search_call.action.sources"
_ACTIONS: Final = ("open_page", "find_in_page")

STOPS: Final[Mapping[str, Stop]] = MappingProxyType(
    {"max_output_tokens": Stop.LENGTH, "max_messages": Stop.LENGTH, "content_filter": Stop.REFUSED}
)
"""By the reason of an incomplete answer."""


# ---------------------------------------------------------------------------------------------------- request


def render(
    dialect: Dialect,
    web: WebFilter,
    conversation: Conversation,
    stream: bool,
) -> RenderedRequest:
    """The request of a completion. The vendor is asked not to keep it."""
    body: dict[str, object] = {
        "model": conversation.model,
        "max_output_tokens": max(conversation.max_tokens, MIN_OUTPUT_TOKENS),
        "input": conversation.text,
        "store": False,
    }
    if web.search:
        filters = {"filters": {"allowed_domains": list(web.allow)}} if web.allow else {}
        body["tools"] = [{"type": dialect.search_type, **filters}]
        body["include"] = [SOURCES]
        if web.cap is not None:
            body["max_tool_calls"] = web.cap
    if stream:
        body["stream"] = True
    return RenderedRequest(dialect.path, dump_json(body))


# ----------------------------------------------------------------------------------------------------- answer


def parse(answer: Object, provider: str, pending: Mapping[str, str]) -> Completion:
    """A whole answer. Raises AnswerError, RefusalError."""
    status = as_text(answer.get("status"))
    if answer.get("error") is not None or status == "failed":
        raise_refusal(answer.get("error"))
    output = as_list(answer.get("output"))
    if output is None or status not in ("completed", "incomplete"):
        raise AnswerError("the answer is no response that has ended")
    stop, reason = Stop.END, status
    if status == "incomplete":
        details = as_object(answer.get("incomplete_details")) or {}
        reason = as_text(details.get("reason")) or status
        stop = STOPS.get(reason, Stop.OTHER)
    texts: list[str] = []
    refusals: list[str] = []
    citations: list[Citation] = []
    calls: list[ServerToolCall] = []
    rows: dict[str, WebRow] = {}
    for item in objects(output):
        if item.get("type") == "web_search_call":
            calls.append(read_call(item, provider))
            rows |= {row.url: row for row in _read_rows(item) if row.url not in rows}
        elif item.get("type") == "message":
            for part in objects(item.get("content")):
                texts.append(as_text(part.get("text")) or "")
                refusals.append(as_text(part.get("refusal")) or "")
                citations += _read_citations(part.get("annotations"))
    text, refusal = "".join(texts), "".join(refusals)
    return Completion(
        text or refusal,
        Stop.REFUSED if refusal and not text else stop,
        show_foreign(reason, 100),
        tuple(citations),
        tuple(calls),
        tuple(rows.values()),
        read_usage(answer),
        as_filled(answer.get("model")),
    )


def read_call(item: Object, provider: str) -> ServerToolCall:
    """One use of the tool. Whatever is not completed when the answer has ended did not run to its end."""
    action = as_text((as_object(item.get("action")) or {}).get("type"))
    tool = action if action in _ACTIONS else "web_search"
    status = as_filled(item.get("status"))
    if status == "completed":
        return ServerToolCall.ok(provider, tool)
    return ServerToolCall.failed(provider, tool, show_foreign(status or "no_status", 100))


def _read_rows(item: Object) -> list[WebRow]:
    action = as_object(item.get("action")) or {}
    found = [as_filled(one.get("url")) for one in objects(action.get("sources"))]
    found.append(as_filled(action.get("url")))
    return [WebRow(url) for url in found if url is not None]


def _read_citations(value: object) -> list[Citation]:
    found = []
    for one in objects(value):
        about = as_object(one.get("url_citation")) or one
        url = as_filled(about.get("url"))
        if one.get("type") == "url_citation" and url is not None:
            found.append(Citation(url, as_text(about.get("title"))))
    return found


def read_usage(answer: Object) -> Usage:
    """The counters of an answer."""
    usage = as_object(answer.get("usage")) or {}
    searches = as_object((as_object(answer.get("tool_usage")) or {}).get("web_search")) or {}
    return Usage(
        as_count(usage.get("input_tokens")),
        as_count(usage.get("output_tokens")),
        as_count(searches.get("num_requests")),
    )


# ----------------------------------------------------------------------------------------------------- stream


class ResponseAssembler:
    """The events of one answer. The last one has it whole; items that came before stand in where it is left out."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._items: dict[int, Any] = {}
        self._whole: Object | None = None

    def feed(self, event: Event) -> tuple[Told, ...]:
        if event.data.strip() == "[DONE]":
            return ()
        data = read_object(event.data)
        match as_text(data.get("type")) or event.name:
            case "error":
                raise_refusal(as_object(data.get("error")) or data)
            case "response.completed" | "response.incomplete" | "response.failed":
                self._whole = as_object(data.get("response"))
            case "response.output_item.done":
                item = as_object(data.get("item"))
                place = as_count(data.get("output_index"))
                if item is None:
                    raise AnswerError("the stream ends an item that is none")
                self._items[place if place is not None else len(self._items)] = item
                if item.get("type") == "web_search_call":
                    return (read_call(item, self._provider),)
        return ()

    def finish(self) -> Object:
        if self._whole is None:
            raise AnswerError("the stream broke off before the end of the response")
        if not as_list(self._whole.get("output")) and self._items:
            return {**self._whole, "output": [self._items[place] for place in sorted(self._items)]}
        return self._whole
