"""What is asked of a vendor and what it answers, in no vendor's words. Pure.

None stands for "not reported" everywhere and is never 0, "" or an empty list.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from proxy_addons.policy.config_forms import Json

type Blocks = tuple[Mapping[str, Json], ...]
"""Parts of a vendor's answer as it sent them, to be sent back unchanged."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """What a completion is asked. observations: what happened at earlier steps, in order. echo: what the vendor said
    before it paused, where it is to go on from there. max_tokens: of this one answer."""

    model: str
    prompt: str
    max_tokens: int
    observations: tuple[str, ...] = ()
    echo: Blocks = ()

    @property
    def text(self) -> str:
        """The user's turn as one text."""
        return "\n\n".join((self.prompt, *self.observations))


@dataclass(frozen=True, slots=True)
class RenderedRequest:
    """A request but for host and key. fields: those beyond content type and length, no credential among them."""

    path: str
    body: bytes
    fields: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Citation:
    """What the vendor said it drew on. outside_declaration: the URL lies outside what was declared."""

    url: str
    title: str | None = None
    cited_text: str | None = None
    outside_declaration: bool = False


@dataclass(frozen=True, slots=True)
class ServerToolCall:
    """One use of a web tool by the vendor. error: the vendor's own code; None: it ran, whatever it found."""

    provider: str
    tool: str
    error: str | None = None

    @classmethod
    def ok(cls, provider: str, tool: str) -> "ServerToolCall":
        return cls(provider, tool)

    @classmethod
    def failed(cls, provider: str, tool: str, code: str) -> "ServerToolCall":
        return cls(provider, tool, code)

    def succeeded(self) -> bool:
        """Whether it ran. One that found nothing did."""
        return self.error is None


@dataclass(frozen=True, slots=True)
class ServerToolUsed:
    """Event: the vendor has used a tool, just now. error: its own code, where that failed."""

    provider: str
    tool: str
    error: str | None = None

    @property
    def ok(self) -> bool:
        """Whether it ran."""
        return self.error is None


@dataclass(frozen=True, slots=True)
class WebRow:
    """A page that a search of the vendor's returned, or that it opened. age: the vendor's own words."""

    url: str
    title: str | None = None
    age: str | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and provider-executed requests of one completion, as reported."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    server_tool_requests: int | None = None

    def replaced_by(self, later: "Usage") -> "Usage":
        """What is known when `later` is told of the same completion."""
        return Usage(
            later.input_tokens if later.input_tokens is not None else self.input_tokens,
            later.output_tokens if later.output_tokens is not None else self.output_tokens,
            later.server_tool_requests
            if later.server_tool_requests is not None
            else self.server_tool_requests,
        )


type Told = ServerToolCall | Usage
"""What an answer tells before it has ended: a use of a tool, and its counters as far as they have come. Later ones
stand in place of earlier ones, member by member."""


class Stop(StrEnum):
    """Why an answer ended. PAUSE: the vendor wants to be asked to go on. OTHER: nobody here knows."""

    END = "end"
    PAUSE = "pause"
    LENGTH = "length"
    REFUSED = "refused"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Completion:
    """One answer. stop_reason: the vendor's own word. dropped_rows: rows outside the declaration, taken out here.

    blocks: for PAUSE, what is sent back. pending: tools called and not yet answered, by id; the answers come first in
    the next completion.
    """

    text: str
    stop: Stop
    stop_reason: str | None = None
    citations: tuple[Citation, ...] = ()
    calls: tuple[ServerToolCall, ...] = ()
    rows: tuple[WebRow, ...] = ()
    usage: Usage = field(default_factory=Usage)
    model: str | None = None
    blocks: Blocks = ()
    pending: Mapping[str, str] = field(default_factory=dict)
    dropped_rows: int = 0


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a stream: its name, "message" where it has none, and its data."""

    name: str
    data: str


type Events = Sequence[Event]
