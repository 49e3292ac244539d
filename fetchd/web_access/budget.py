"""How much a run may take: completions, tokens, seconds. Pure but for the clock it is given."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from .values import Usage

MIN_ANSWER_TOKENS: Final = 16


@dataclass(frozen=True, slots=True)
class Budget:
    """Of a whole run. tokens: sent and received. answer_tokens: of one answer."""

    steps: int
    tokens: int
    answer_tokens: int
    seconds: float

    def within(self, outer: "Budget") -> "Budget":
        """This, and no more than `outer` in anything."""
        return replace(
            self,
            steps=min(self.steps, outer.steps),
            tokens=min(self.tokens, outer.tokens),
            answer_tokens=min(self.answer_tokens, outer.answer_tokens),
            seconds=min(self.seconds, outer.seconds),
        )


class Spending:
    """What a run has taken so far."""

    def __init__(self, budget: Budget, now: Callable[[], float]) -> None:
        self._budget: Final = budget
        self._now: Final = now
        self._ends: Final = now() + budget.seconds
        self.steps = 0
        self.tokens = 0

    def charge(self, usage: Usage, reserved: int) -> None:
        """Tokens of one completion. What the vendor does not report counts as the most it may have been."""
        self.tokens += usage.input_tokens or 0
        self.tokens += usage.output_tokens if usage.output_tokens is not None else reserved

    def find_spent(self) -> str | None:
        """Which budget allows no further completion; None when all do."""
        return "steps" if self.steps >= self._budget.steps else self.find_exhausted()

    def find_exhausted(self) -> str | None:
        """The same, of what a further completion of the step under way would take too."""
        if self.tokens + MIN_ANSWER_TOKENS > self._budget.tokens:
            return "tokens"
        return "time" if self.seconds_left <= 0 else None

    @property
    def seconds_left(self) -> float:
        return self._ends - self._now()

    @property
    def answer_tokens(self) -> int:
        """Of the next answer."""
        left = self._budget.tokens - self.tokens
        return max(MIN_ANSWER_TOKENS, min(self._budget.answer_tokens, left))
