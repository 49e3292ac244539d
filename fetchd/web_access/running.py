"""The loop: completions until the model has said what it had to say, or a budget is spent (SPEC 6).

    budget ──► completion ──► held to the declaration ──► recorded ──► pause? failed tools? ──► again, or the end

Laws of this file
- Whoever may be asked is held to the declaration before anybody is: a list with one that cannot carry it is refused
  at the start.
- Each completion is charged and recorded, those that paused and those that failed too.
- A record that cannot be written does not end a run (`recording`).
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from .budget import Spending
from .declaration import WebAccess
from .dialects.shapes import echoes_pauses
from .errors import AnswerError, RefusalError, VendorError
from .holding import Boundary, hold_completion
from .preparing import WebFilter, prepare_filter
from .recording import RunLog
from .run_values import (
    Noted,
    ProviderCall,
    RunEvent,
    RunOutcome,
    RunSpec,
    RunStatus,
    StepBegan,
    StepEnded,
    StepResult,
    unique_citations,
)
from .values import Blocks, Completion, Conversation, ServerToolCall, ServerToolUsed, Stop, Told, Usage
from .vendor import CompletionVendor

MAX_CONTINUATIONS: Final = 5
"""Of one answer: what the vendor's own sample takes."""
TIMED_OUT: Final = "timed_out"
"""Ours: the time of the run was spent before the vendor had answered."""
ABORTED: Final = "aborted"
"""Ours: whoever asked has gone."""
CAPPED: Final = "max_uses_exceeded"
RETRYABLE: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 524, 529})
"""Statuses after which another vendor is asked: this one may be well again later."""
RETRYABLE_CODES: Final = frozenset(
    {
        *map(str, RETRYABLE),
        "overloaded_error",
        "api_error",
        "rate_limit_error",
        "rate_limit_exceeded",
        "server_error",
        "timeout_error",
    }
)
"""The same, said inside a 200; OpenRouter says the status itself there."""

_log = logging.getLogger(__name__)

type Emit = Callable[[RunEvent], None]
_END: Final = {
    Stop.END: RunStatus.DONE,
    Stop.LENGTH: RunStatus.LENGTH,
    Stop.REFUSED: RunStatus.REFUSED,
    Stop.OTHER: RunStatus.STOPPED,
}


@dataclass(frozen=True, slots=True)
class Prepared:
    """A vendor, and what is declared to it."""

    vendor: CompletionVendor
    web: WebFilter


def prepare_vendors(web: WebAccess, vendors: Sequence[CompletionVendor]) -> tuple[Prepared, ...]:
    """All that may be asked. Raises DeclarationError for the first that cannot carry the declaration."""
    return tuple(Prepared(one, prepare_filter(web, one.dialect, one.name)) for one in vendors)


@dataclass(slots=True)
class _State:
    """A run so far. limit: on its time. echo, pending, said: of an answer that paused and goes on."""

    spec: RunSpec
    spending: Spending
    limit: asyncio.Timeout | None = None
    at: int = 0
    observations: list[str] = field(default_factory=list)
    echo: Blocks = ()
    pending: dict[str, str] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    continuations: int = 0
    followed_up: bool = False
    text: str = ""
    steps: list[StepResult] = field(default_factory=list)


@dataclass(slots=True)
class _Step:
    """A step so far. tools: those of completions that failed, too."""

    number: int
    calls: list[ProviderCall] = field(default_factory=list)
    tools: list[ServerToolCall] = field(default_factory=list)

    def end(self, found: Completion | None = None) -> StepResult:
        """All of it, with the completion that it came to."""
        if found is None:
            return StepResult(self.number, None, tuple(self.calls), tools=tuple(self.tools))
        return StepResult(
            self.number,
            found.stop,
            tuple(self.calls),
            unique_citations(found.citations),
            (*self.tools, *found.calls),
            found.dropped_rows,
        )


class Runner:
    """Runs over these vendors, the first first. log: told of everything. emit: shown what happens, as it happens."""

    def __init__(
        self,
        vendors: Sequence[Prepared],
        log: RunLog,
        emit: Emit = lambda event: None,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._vendors: Final = vendors
        self._log: Final = log
        self._emit: Final = emit
        self._now: Final = now

    async def run(self, spec: RunSpec) -> RunOutcome:
        """One run to its end. Raises nothing but CancelledError."""
        state = _State(spec, Spending(spec.budget, self._now))
        first = self._vendors[0]
        for note in first.web.notes:
            self._emit(Noted(note))
        try:
            await self._log.begin(spec, first.vendor.name, first.vendor.model)
            async with asyncio.timeout(spec.budget.seconds) as state.limit:
                outcome = await self._loop(state)
        except TimeoutError:
            outcome = self._outcome(state, RunStatus.SPENT, spent="time")
        except asyncio.CancelledError:
            await asyncio.shield(self._log.end(self._outcome(state, RunStatus.ABORTED)))
            raise
        except Exception:  # noqa: BLE001 - a fault of ours fails closed
            _log.exception("run %s died", spec.run_id)
            outcome = self._outcome(state, RunStatus.FAILED, error="the run did not finish")
        await self._log.end(outcome)
        return outcome

    async def _loop(self, state: _State) -> RunOutcome:
        boundary = Boundary(state.spec.web)
        while True:
            spent = state.spending.find_spent()
            if spent is not None:
                return self._outcome(state, RunStatus.SPENT, spent=spent)
            state.spending.steps += 1
            completion = await self._step(state, boundary)
            if isinstance(completion, VendorError):
                name = self._vendors[state.at].vendor.name
                return self._outcome(state, RunStatus.FAILED, error=render_failed(name, completion))
            if completion.stop is Stop.PAUSE:
                if not self._resume(state, completion):
                    return self._outcome(state, RunStatus.PAUSED)
                continue
            state.text = "".join([*state.said, completion.text])
            again = self._observe(state, completion)
            state.said, state.echo, state.pending, state.continuations = [], (), {}, 0
            if not again:
                return self._outcome(state, _END[completion.stop])

    # --------------------------------------------------------------------------------------- one completion

    async def _step(self, state: _State, boundary: Boundary) -> Completion | VendorError:
        """The next completion, by the first vendor that gives one; else how the last failed."""
        step = _Step(state.spending.steps)
        while True:
            prepared = self._vendors[state.at]
            found = await self._ask(state, prepared, step)
            if isinstance(found, Completion):
                held = hold_completion(found, boundary)
                await self._record(state, step.end(held))
                return held
            last = state.at + 1 >= len(self._vendors)
            if last or not is_retryable(found) or state.spending.find_exhausted() is not None:
                await self._record(state, step.end())
                return found
            self._fall_back(state, prepared, found)

    async def _ask(self, state: _State, prepared: Prepared, step: _Step) -> Completion | VendorError:
        vendor, number, reserved = prepared.vendor, step.number, state.spending.answer_tokens
        self._emit(StepBegan(number, vendor.name, vendor.model))
        conversation = Conversation(
            vendor.model, state.spec.prompt, reserved, tuple(state.observations), state.echo
        )
        seen: Counter[ServerToolCall] = Counter()
        usage = Usage()

        def tell(told: Told) -> None:
            nonlocal usage
            if isinstance(told, Usage):
                usage = usage.replaced_by(told)
                return
            seen[told] += 1
            self._emit(ServerToolUsed(told.provider, told.tool, told.error))

        at, began = _timestamp(), self._now()
        try:
            found: Completion | VendorError = await vendor.complete(
                prepared.web, conversation, state.pending, tell
            )
        except VendorError as error:
            found = error
        except asyncio.CancelledError:
            # It was asked, so it is charged: as much as it had told of by then.
            late = state.limit is not None and state.limit.expired()
            code = TIMED_OUT if late else ABORTED
            step.calls.append(self._call(prepared, number, at, began, usage, code=code))
            step.tools += seen.elements()
            state.steps.append(step.end())
            await asyncio.shield(self._log.add_step(state.spec, state.steps[-1]))
            raise
        if isinstance(found, VendorError):
            step.calls.append(self._call(prepared, number, at, began, usage, code=describe(found)))
            step.tools += seen.elements()
            state.spending.charge(usage, 0)
            self._emit(StepEnded(number, vendor.name, None, usage, str(found)))
            return found
        for call in found.calls:  # those that were not seen on the way
            if seen[call]:
                seen[call] -= 1
            else:
                self._emit(ServerToolUsed(call.provider, call.tool, call.error))
        state.spending.charge(found.usage, reserved)
        step.calls.append(self._call(prepared, number, at, began, found.usage, stop_reason=found.stop_reason))
        self._emit(StepEnded(number, vendor.name, found.stop, found.usage))
        return found

    def _call(
        self,
        prepared: Prepared,
        number: int,
        at: str,
        began: float,
        usage: Usage,
        *,
        stop_reason: str | None = None,
        code: str | None = None,
    ) -> ProviderCall:
        vendor = prepared.vendor
        ms = (self._now() - began) * 1000
        return ProviderCall(
            number, vendor.name, vendor.model, vendor.dialect.name, at, ms, usage, stop_reason, code
        )

    def _fall_back(self, state: _State, prepared: Prepared, error: VendorError) -> None:
        """To the next vendor, which is asked afresh: what one paused in, another cannot go on from."""
        state.at += 1
        then = self._vendors[state.at]
        self._emit(
            Noted(
                f'{render_failed(prepared.vendor.name, error)}; asking provider "{then.vendor.name}" instead'
            )
        )
        for note in then.web.notes:
            self._emit(Noted(note))
        if state.said:
            state.observations.append(render_partial(state.spending.steps - 1, "".join(state.said)))
        state.said, state.echo, state.pending, state.continuations = [], (), {}, 0

    async def _record(self, state: _State, step: StepResult) -> None:
        state.steps.append(step)
        await self._log.add_step(state.spec, step)

    # -------------------------------------------------------------------------------------- what comes next

    def _resume(self, state: _State, completion: Completion) -> bool:
        """Have the next completion go on from a pause; False when it was paused too often."""
        number = state.spending.steps
        state.observations += render_failures(number, completion.calls)
        if echoes_pauses(self._vendors[state.at].vendor.dialect):
            state.said.append(completion.text)
            state.text = "".join(state.said)
            if state.continuations >= MAX_CONTINUATIONS:
                return False
            state.continuations += 1
            state.echo = (*state.echo, *completion.blocks)
            state.pending = dict(completion.pending)
            return True
        state.text = completion.text
        state.observations.append(render_partial(number, completion.text))
        return True

    def _observe(self, state: _State, completion: Completion) -> bool:
        """Note failed tools for the next completion; whether there is to be one on their account.

        There is one, once in a row: told that a search broke, the model can try again or answer knowingly. A cap that
        was reached after searches that ran is what was asked for, and no reason to search as often again.
        """
        number = state.spending.steps
        state.observations += render_failures(number, completion.calls)
        ran = {call.tool for call in completion.calls if call.succeeded()}
        broke = any(
            not call.succeeded() and not (call.error == CAPPED and call.tool in ran)
            for call in completion.calls
        )
        again = broke and not state.followed_up and completion.stop is Stop.END
        again = again and state.spending.find_spent() is None
        state.followed_up = again
        return again

    def _outcome(
        self, state: _State, status: RunStatus, *, error: str | None = None, spent: str | None = None
    ) -> RunOutcome:
        prepared = self._vendors[state.at]
        return RunOutcome(
            state.spec.run_id,
            status,
            state.text,
            prepared.vendor.name,
            prepared.vendor.model,
            tuple(state.steps),
            prepared.web.notes,
            error,
            spent,
        )


def is_retryable(error: VendorError) -> bool:
    """Whether another vendor is asked: one that refused the request or the key would be no surprise to find right."""
    if not isinstance(error, RefusalError):
        return True
    if error.status is not None:
        return error.status in RETRYABLE
    return error.code in RETRYABLE_CODES


def render_failed(name: str, error: VendorError) -> str:
    """One line that says which provider failed, and how."""
    return f'provider "{name}"{":" if isinstance(error, AnswerError) else ""} {error}'


def describe(error: VendorError) -> str:
    """A failure as a short code of a record."""
    if isinstance(error, RefusalError):
        return error.code or (str(error.status) if error.status is not None else "error")
    return "bad_answer" if isinstance(error, AnswerError) else "unreachable"


def render_failures(step: int, calls: Sequence[ServerToolCall]) -> list[str]:
    """What the model reads of failed tools at its next completion (SPEC 6)."""
    return [
        f"[step {step}] provider web tool: {call.tool} failed ({call.error})"
        for call in calls
        if not call.succeeded()
    ]


def render_partial(step: int, text: str) -> str:
    """What the model reads of its own unfinished answer."""
    return f"[step {step}] the provider paused; partial answer so far: {text}"


def _timestamp() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
