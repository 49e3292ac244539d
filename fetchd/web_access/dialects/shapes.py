"""What a shape can do, and which dialect has which."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Protocol

from fetchd.web_access.preparing import WebFilter
from fetchd.web_access.reading import Object
from fetchd.web_access.values import Completion, Conversation, Event, RenderedRequest, Told, Usage
from proxy_addons.policy.vendors.dialects import Dialect, Vendor

from . import chat, messages, responses


class Assembler(Protocol):
    """The events of one stream, put together."""

    def feed(self, event: Event) -> tuple[Told, ...]:
        """Take the next event; what it tells. Raises AnswerError, RefusalError."""
        ...

    def finish(self) -> Object:
        """The answer as it would have come whole. Raises AnswerError where the stream broke off."""
        ...


@dataclass(frozen=True, slots=True)
class Shape:
    """render: (dialect, filter, conversation, stream). parse: (answer, provider, calls pending from the last answer).
    read_usage: the counters of an answer that need not be one.

    streams: whether the daemon asks for a stream: so that tools are seen as they are used. Chat Completions leave the
    citations out of theirs.
    """

    render: Callable[[Dialect, WebFilter, Conversation, bool], RenderedRequest]
    parse: Callable[[Object, str, Mapping[str, str]], Completion]
    read_usage: Callable[[Object], Usage]
    assembler: Callable[[str], Assembler]
    streams: bool


_CHAT: Final = Shape(chat.render, chat.parse, chat.read_usage, chat.ChatAssembler, streams=False)
_SHAPES: Final[Mapping[str, Shape]] = MappingProxyType(
    {
        "/v1/messages": Shape(
            messages.render, messages.parse, messages.read_usage, messages.MessageAssembler, streams=True
        ),
        "/v1/responses": Shape(
            responses.render, responses.parse, responses.read_usage, responses.ResponseAssembler, streams=True
        ),
        "/v1/chat/completions": _CHAT,
        "/api/v1/chat/completions": _CHAT,
    }
)
"""By path: the same path is the same shape."""


def shape_of(dialect: Dialect) -> Shape:
    """How a dialect is rendered and read."""
    return _SHAPES[dialect.path]


def echoes_pauses(dialect: Dialect) -> bool:
    """Whether a pause is continued by sending back what was said. The source's dialect asks afresh."""
    return dialect.vendor is Vendor.ANTHROPIC and not dialect.source
