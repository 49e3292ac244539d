"""What a run is made of, what it says on its way, and how it ended. Pure."""

from dataclasses import dataclass, replace
from enum import StrEnum

from .budget import Budget
from .declaration import WebAccess
from .reading import total
from .values import Citation, ServerToolCall, ServerToolUsed, Stop, Usage


@dataclass(frozen=True, slots=True)
class RunSpec:
    """A run that may start. parent: the run it is a sub-run of."""

    run_id: str
    agent: str
    prompt: str
    web: WebAccess
    budget: Budget
    parent: str | None = None


class RunStatus(StrEnum):
    """How a run ended. SPENT: a budget allowed no further completion. PAUSED: the vendor paused too often. STOPPED:
    for a reason of the vendor's that is not known to be an end, so the answer may not be whole."""

    DONE = "done"
    LENGTH = "length"
    REFUSED = "refused"
    SPENT = "spent"
    PAUSED = "paused"
    STOPPED = "stopped"
    FAILED = "failed"
    ABORTED = "aborted"

    @property
    def complete(self) -> bool:
        """Whether the answer is what the model had to say."""
        return self is RunStatus.DONE


@dataclass(frozen=True, slots=True)
class StepBegan:
    """Event: a completion is asked for."""

    step: int
    provider: str
    model: str


@dataclass(frozen=True, slots=True)
class StepEnded:
    """Event: it is there, or failed. error: our own words."""

    step: int
    provider: str
    stop: Stop | None
    usage: Usage
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Noted:
    """Event: something the user is to know."""

    text: str


type RunEvent = StepBegan | ServerToolUsed | StepEnded | Noted


@dataclass(frozen=True, slots=True)
class ProviderCall:
    """One completion as it is charged. code: why it failed, None where it did not. at: RFC 3339, UTC."""

    step: int
    provider: str
    model: str
    dialect: str
    at: str
    ms: float
    usage: Usage
    stop_reason: str | None = None
    code: str | None = None


@dataclass(frozen=True, slots=True)
class StepResult:
    """One step. citations: one for each URL. calls: in the vendors' order. tools: of its completions, also of one
    that failed."""

    step: int
    stop: Stop | None
    calls: tuple[ProviderCall, ...]
    citations: tuple[Citation, ...] = ()
    tools: tuple[ServerToolCall, ...] = ()
    dropped_rows: int = 0


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """How a run ended. text: the vendor's words, untrusted. error: ours. spent: which budget."""

    run_id: str
    status: RunStatus
    text: str
    provider: str
    model: str
    steps: tuple[StepResult, ...]
    notes: tuple[str, ...] = ()
    error: str | None = None
    spent: str | None = None

    @property
    def usage(self) -> Usage:
        """Summed over all completions; a counter that none reported stays None."""
        calls = [call.usage for step in self.steps for call in step.calls]
        return Usage(
            total(*(one.input_tokens for one in calls)),
            total(*(one.output_tokens for one in calls)),
            total(*(one.server_tool_requests for one in calls)),
        )


def unique_citations(citations: tuple[Citation, ...]) -> tuple[Citation, ...]:
    """The first of each URL: a vendor repeats a source on every sentence it supports. What the first leaves out is
    taken from the next that says it."""
    found: dict[str, Citation] = {}
    for one in citations:
        first = found.setdefault(one.url, one)
        found[one.url] = replace(
            first,
            title=first.title if first.title is not None else one.title,
            cited_text=first.cited_text if first.cited_text is not None else one.cited_text,
        )
    return tuple(found.values())
