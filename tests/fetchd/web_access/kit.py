"""Vendors and a log, scripted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fetchd.web_access.budget import Budget
from fetchd.web_access.declaration import WebAccess
from fetchd.web_access.errors import VendorError
from fetchd.web_access.preparing import WebFilter
from fetchd.web_access.run_values import RunEvent, RunOutcome, RunSpec, StepResult
from fetchd.web_access.running import Runner, prepare_vendors
from fetchd.web_access.values import Completion, Conversation, ServerToolCall, Stop, Told, Usage
from proxy_addons.policy.vendors.dialects import DIALECTS, Dialect

BUDGET = Budget(steps=8, tokens=10_000, answer_tokens=1000, seconds=60)
SPEC = RunSpec("run1", "bot", "What is new?", WebAccess.search(), BUDGET)

type Reply = Completion | VendorError | Callable[[], Completion]


def completion(
    text: str = "Done.",
    stop: Stop = Stop.END,
    *calls: ServerToolCall,
    usage: Usage | None = None,
    **more: object,
) -> Completion:
    return Completion(
        text,
        stop,
        stop.value,
        calls=calls,
        usage=usage or Usage(100, 20, 1),
        **more,  # type: ignore[arg-type]
    )


@dataclass
class ScriptedVendor:
    """Answers one reply after the other; the last again and again. asked: what it was asked. tells: what each says
    on its way, before it fails or hangs."""

    replies: Sequence[Reply]
    name: str = "anthropic"
    model: str = "model"
    dialect: Dialect = DIALECTS["anthropic"]
    on_the_way: bool = True
    hangs: asyncio.Event | None = None
    tells: Sequence[Told] = ()
    asked: list[tuple[WebFilter, Conversation, Mapping[str, str]]] = field(default_factory=list)

    async def complete(
        self,
        web: WebFilter,
        conversation: Conversation,
        pending: Mapping[str, str],
        on_told: Callable[[Told], None],
    ) -> Completion:
        self.asked.append((web, conversation, dict(pending)))
        for one in self.tells:
            on_told(one)
        if self.hangs is not None:
            self.hangs.set()
            await asyncio.Event().wait()
        reply = self.replies[min(len(self.asked), len(self.replies)) - 1]
        if isinstance(reply, VendorError):
            raise reply
        found = reply if isinstance(reply, Completion) else reply()
        if self.on_the_way:
            for call in found.calls:
                on_told(call)
        return found

    @property
    def texts(self) -> Iterator[str]:
        return (conversation.text for _, conversation, _ in self.asked)


@dataclass
class ListLog:
    """A RunLog that remembers."""

    begun: list[tuple[RunSpec, str, str]] = field(default_factory=list)
    steps: list[StepResult] = field(default_factory=list)
    ended: list[RunOutcome] = field(default_factory=list)

    async def begin(self, spec: RunSpec, provider: str, model: str) -> None:
        self.begun.append((spec, provider, model))

    async def add_step(self, spec: RunSpec, step: StepResult) -> None:
        self.steps.append(step)

    async def end(self, outcome: RunOutcome) -> None:
        self.ended.append(outcome)


async def run(
    *vendors: ScriptedVendor,
    spec: RunSpec = SPEC,
    log: ListLog | None = None,
    now: Callable[[], float] | None = None,
) -> tuple[RunOutcome, list[RunEvent]]:
    """One run; what it said on the way."""
    events: list[RunEvent] = []
    prepared = prepare_vendors(spec.web, vendors)
    clock = {} if now is None else {"now": now}
    outcome = await Runner(prepared, log or ListLog(), events.append, **clock).run(spec)
    return outcome, events
