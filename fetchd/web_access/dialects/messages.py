"""Anthropic Messages: the request, the answer, and the events of a stream.

A server tool's result is a list, or one object for an error, and never tells by its HTTP status: both are read, and
what is neither is a failure, never an empty result. Calls and results are paired by id, since a paused answer may end
in a call whose result opens the next one.
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
    total,
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

VERSION: Final = "2023-06-01"
WEB_TOOLS: Final = ("web_search", "web_fetch")
NO_RESULT: Final = "no_result"
"""Ours: the vendor called a tool and never said what came of it."""
UNREADABLE: Final = "unreadable_result"
"""Ours: the vendor sent something else than results or an error."""
_RESULT: Final = "_tool_result"

STOPS: Final[Mapping[str, Stop]] = MappingProxyType(
    {
        "end_turn": Stop.END,
        "stop_sequence": Stop.END,
        "pause_turn": Stop.PAUSE,
        "max_tokens": Stop.LENGTH,
        "model_context_window_exceeded": Stop.LENGTH,
        "refusal": Stop.REFUSED,
    }
)


# ---------------------------------------------------------------------------------------------------- request


def render(
    dialect: Dialect,
    web: WebFilter,
    conversation: Conversation,
    stream: bool,
) -> RenderedRequest:
    """The request of a completion."""
    messages: list[dict[str, object]] = [{"role": "user", "content": conversation.text}]
    if conversation.echo:
        messages.append({"role": "assistant", "content": list(conversation.echo)})
    body: dict[str, object] = {
        "model": conversation.model,
        "max_tokens": conversation.max_tokens,
        "messages": messages,
    }
    tools = _render_tools(dialect, web)
    if tools:
        body["tools"] = tools
    if stream:
        body["stream"] = True
    fields = [("anthropic-version", VERSION)]
    if web.fetch and dialect.beta is not None:
        fields.append(("anthropic-beta", dialect.beta))
    return RenderedRequest(dialect.path, dump_json(body), tuple(fields))


def _render_tools(dialect: Dialect, web: WebFilter) -> list[dict[str, object]]:
    tools: list[dict[str, object]] = []
    for wanted, kind, name in (
        (web.search, dialect.search_type, "web_search"),
        (web.fetch, dialect.fetch_type, "web_fetch"),
    ):
        if not wanted:
            continue
        tool: dict[str, object] = {"type": kind, "name": name}
        if web.cap is not None:
            tool["max_uses"] = web.cap
        if web.allow:
            tool["allowed_domains"] = list(web.allow)
        if web.block:
            tool["blocked_domains"] = list(web.block)
        if not dialect.source:
            # Without it the tool runs inside code execution, and its results come wrapped in that.
            tool["allowed_callers"] = ["direct"]
            if name == "web_fetch":
                tool["citations"] = {"enabled": True}
        tools.append(tool)
    return tools


# ----------------------------------------------------------------------------------------------------- answer


def parse(answer: Object, provider: str, pending: Mapping[str, str]) -> Completion:
    """A whole answer. Raises AnswerError, RefusalError."""
    if answer.get("type") == "error" or as_object(answer.get("error")) is not None:
        raise_refusal(answer.get("error"))
    content = as_list(answer.get("content"))
    reason = as_text(answer.get("stop_reason"))
    if content is None or reason is None:
        raise AnswerError("the answer is no message with content and a stop reason")
    stop = STOPS.get(reason, Stop.OTHER)
    reading = _Reading(provider, dict(pending))
    for block in objects(content):
        reading.take(block)
    if stop is not Stop.PAUSE:
        reading.close()
    return Completion(
        "".join(reading.text),
        stop,
        show_foreign(reason, 100),
        tuple(reading.citations),
        tuple(reading.calls),
        tuple(reading.rows),
        read_usage(answer),
        as_filled(answer.get("model")),
        tuple(objects(content)) if stop is Stop.PAUSE else (),
        MappingProxyType(dict(reading.pending)) if stop is Stop.PAUSE else MappingProxyType({}),
    )


def read_usage(answer: Object) -> Usage:
    """The counters of an answer. A member that is not there is not 0."""
    usage = as_object(answer.get("usage")) or {}
    tools = as_object(usage.get("server_tool_use")) or {}
    return Usage(
        total(
            as_count(usage.get("input_tokens")),
            as_count(usage.get("cache_creation_input_tokens")),
            as_count(usage.get("cache_read_input_tokens")),
        ),
        as_count(usage.get("output_tokens")),
        total(*(as_count(tools.get(f"{tool}_requests")) for tool in WEB_TOOLS)),
    )


class _Reading:
    """One answer's blocks, taken in order."""

    def __init__(self, provider: str, pending: dict[str, str]) -> None:
        self._provider = provider
        self.pending = pending
        self.text: list[str] = []
        self.citations: list[Citation] = []
        self.calls: list[ServerToolCall] = []
        self.rows: list[WebRow] = []
        self._documents: list[WebRow] = []

    def take(self, block: Object) -> None:
        kind = as_text(block.get("type")) or ""
        if kind == "text":
            self.text.append(as_text(block.get("text")) or "")
            for one in objects(block.get("citations")):
                self._cite(one)
        elif kind == "server_tool_use":
            name = as_text(block.get("name")) or ""
            if name in WEB_TOOLS:
                self.pending[as_text(block.get("id")) or ""] = name
        elif kind.endswith(_RESULT) and kind.removesuffix(_RESULT) in WEB_TOOLS:
            self.pending.pop(as_text(block.get("tool_use_id")) or "", None)
            self.calls.append(read_result(block, self._provider))
            self._take_pages(block.get("content"))

    def close(self) -> None:
        """What was called and never answered did not run, as far as anyone can tell."""
        for name in self.pending.values():
            self.calls.append(ServerToolCall.failed(self._provider, name, NO_RESULT))
        self.pending.clear()

    def _take_pages(self, content: object) -> None:
        fetched = as_object(content)
        for one in objects(content):
            url = as_filled(one.get("url"))
            if one.get("type") == "web_search_result" and url is not None:
                self.rows.append(WebRow(url, as_text(one.get("title")), as_text(one.get("page_age"))))
        if fetched is not None and fetched.get("type") == "web_fetch_result":
            url, document = as_filled(fetched.get("url")), as_object(fetched.get("content")) or {}
            row = WebRow(url or "", as_text(document.get("title")), as_text(fetched.get("retrieved_at")))
            self._documents.append(row)
            if url is not None:
                self.rows.append(row)

    def _cite(self, one: Object) -> None:
        url = as_filled(one.get("url")) or as_filled(one.get("source"))
        title = as_text(one.get("title"))
        if url is None:
            # Of a page that it fetched, the vendor names the document's place and title.
            title = as_text(one.get("document_title"))
            page = self._find_document(as_count(one.get("document_index")), title)
            if page is None:
                return
            url, title = page.url, title if title is not None else page.title
        self.citations.append(Citation(url, title, as_text(one.get("cited_text"))))

    def _find_document(self, index: int | None, title: str | None) -> WebRow | None:
        """The fetched page that is meant; None where there is doubt: a citation is not guessed."""
        pages = [page for page in self._documents if page.url]
        if index is not None and index < len(self._documents):
            page = self._documents[index]
            if page.url and (title is None or page.title is None or title == page.title):
                return page
        same = [page for page in pages if title is not None and page.title == title]
        return same[0] if len({page.url for page in same}) == 1 else None


def read_result(block: Object, provider: str) -> ServerToolCall:
    """What became of a call, from its result block: a list of results, one object, or an error in either."""
    tool = (as_text(block.get("type")) or "").removesuffix(_RESULT)
    content = block.get("content")
    found = as_object(content)
    parts = [found] if found is not None else objects(content)
    for part in parts:
        kind = as_text(part.get("type")) or ""
        if "error_code" in part or kind.endswith("_error"):
            code = as_filled(part.get("error_code")) or UNREADABLE
            return ServerToolCall.failed(provider, tool, show_foreign(code, 100))
    whole = (
        tool == "web_search" and as_list(content) is not None and len(parts) == len(as_list(content) or ())
    )
    fetched = tool == "web_fetch" and found is not None and found.get("type") == "web_fetch_result"
    if whole or fetched:
        return ServerToolCall.ok(provider, tool)
    return ServerToolCall.failed(provider, tool, UNREADABLE)


# ----------------------------------------------------------------------------------------------------- stream


class MessageAssembler:
    """The events of one answer. Unknown ones are passed over: the vendor adds some from time to time."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._message: dict[str, Any] | None = None
        self._blocks: dict[int, dict[str, Any]] = {}
        self._pieces: dict[tuple[int, str], list[str]] = {}
        self._cited: dict[int, list[Any]] = {}
        self._done = False

    def feed(self, event: Event) -> tuple[Told, ...]:
        data = read_object(event.data)
        kind = as_text(data.get("type")) or event.name
        match kind:
            case "error":
                raise_refusal(data.get("error"))
            case "message_start":
                self._message = dict(as_object(data.get("message")) or {})
                return (read_usage(self._message),)
            case "content_block_start":
                block = dict(as_object(data.get("content_block")) or {})
                self._blocks[_index(data)] = block
                name = as_text(block.get("type")) or ""
                if name.endswith(_RESULT) and name.removesuffix(_RESULT) in WEB_TOOLS:
                    return (read_result(block, self._provider),)
            case "content_block_delta":
                self._add(_index(data), as_object(data.get("delta")) or {})
            case "message_delta":
                return (read_usage(self._end(data)),)
            case "message_stop":
                self._done = True
        return ()

    def _add(self, index: int, delta: Object) -> None:
        if index not in self._blocks:
            raise AnswerError("the stream adds to a block that it has not begun")
        match delta.get("type"):
            case "citations_delta":
                self._cited.setdefault(index, []).append(delta.get("citation"))
            case "text_delta" | "thinking_delta" | "input_json_delta" | "signature_delta":
                name = str(delta["type"]).removesuffix("_delta")
                name = "partial_json" if name == "input_json" else name
                self._pieces.setdefault((index, name), []).append(as_text(delta.get(name)) or "")

    def _end(self, data: Object) -> Object:
        message = self._message if self._message is not None else {}
        delta = as_object(data.get("delta")) or {}
        message.update({name: value for name, value in delta.items() if value is not None})
        usage = as_object(data.get("usage")) or {}
        known = {name: value for name, value in usage.items() if value is not None}
        message["usage"] = {**(as_object(message.get("usage")) or {}), **known}
        return message

    def finish(self) -> Object:
        if self._message is None or not self._done:
            raise AnswerError("the stream broke off before the end of the message")
        for index, cited in self._cited.items():
            begun = self._blocks[index].get("citations")
            self._blocks[index]["citations"] = [*(begun if isinstance(begun, list) else ()), *cited]
        for (index, name), pieces in self._pieces.items():
            block, text = self._blocks[index], "".join(pieces)
            if name != "partial_json":
                block[name] = (as_text(block.get(name)) or "") + text
            elif text:
                block["input"] = read_object(text)
        return {**self._message, "content": [self._blocks[index] for index in sorted(self._blocks)]}


def _index(data: Object) -> int:
    index = as_count(data.get("index"))
    if index is None:
        raise AnswerError("the stream has a block without a place")
    return index
