"""Budgets of an agent (SPEC 7): when one is spent, and when it is free again. Counting is the ledger's affair.

    concurrent_hops       requests under way: spent while there are that many
    requests_per_minute   requests that began in any 60 s, counted by whole seconds
    bytes_per_day         bytes of bodies in a day of UTC: the last byte may pass, not one more

A request is counted for the whole of the 61 seconds of the clock that the last 60 s touch: never too few are counted,
and what is spent is free again one second late at the most.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from .limits import Profile
from .verdicts import ALLOWED, Failure, Outcome, Rule, Verdict

WINDOW_SECONDS = 60
DAY_SECONDS = 86_400
NEXT_HOP_SECONDS = 1
"""When to ask again for a hop's place: nobody can tell when one ends, and to ask costs next to nothing."""


class Budget(StrEnum):
    """The budgets, by the keys of a profile that set them; messages call them so."""

    CONCURRENT_HOPS = "concurrent_hops"
    REQUESTS_PER_MINUTE = "requests_per_minute"
    BYTES_PER_DAY = "bytes_per_day"


@dataclass(frozen=True, slots=True)
class Minute:
    """Requests that count at `now` (seconds of a clock that never goes back).

    requests: all of them since `first_second(now)`. by_second: (second, requests), the oldest first; needed only
    where the budget is spent.
    """

    now: float
    requests: int
    by_second: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Day:
    """Bytes counted in the day of `now` (seconds since 1970, UTC)."""

    now: float
    bytes: int


def first_second(now: float) -> int:
    """The oldest second whose requests count at `now`."""
    return math.floor(now) - WINDOW_SECONDS


def day_of(now: float) -> int:
    """The day of UTC, counted from 1970."""
    return math.floor(now / DAY_SECONDS)


def decide_budgets(
    profile: Profile, *, open_hops: int = 0, minute: Minute | None = None, day: Day | None = None
) -> Verdict:
    """Whether a further hop may begin. Of several spent budgets the one that is free last is reported.

    open_hops: the agent's hops under way, this one not among them. What the profile does not limit need not be told.
    """
    spent: list[tuple[int, Budget]] = []
    if profile.concurrent_hops is not None and open_hops >= profile.concurrent_hops:
        spent.append((NEXT_HOP_SECONDS, Budget.CONCURRENT_HOPS))
    limit = profile.requests_per_minute
    if limit is not None and minute is not None and minute.requests >= limit:
        spent.append((_minute_free(limit, minute), Budget.REQUESTS_PER_MINUTE))
    if profile.bytes_per_day is not None and day is not None and day.bytes >= profile.bytes_per_day:
        spent.append((_next_day(day.now), Budget.BYTES_PER_DAY))
    return _spent(*max(spent, key=lambda one: one[0])) if spent else ALLOWED


def decide_stream(profile: Profile, day: Day) -> Verdict:
    """Whether the bytes that were counted just now may pass, those of `day` with them."""
    if profile.bytes_per_day is None or day.bytes <= profile.bytes_per_day:
        return ALLOWED
    return _spent(_next_day(day.now), Budget.BYTES_PER_DAY)


def sum_requests(by_second: Iterable[tuple[int, int]]) -> int:
    """Requests of all these seconds."""
    return sum(requests for _, requests in by_second)


def _minute_free(limit: int, minute: Minute) -> int:
    """Seconds until so many requests are past that fewer than `limit` are left."""
    left = minute.requests
    for second, requests in minute.by_second:
        left -= requests
        if left < limit:
            return max(1, math.ceil(second + WINDOW_SECONDS + 1 - minute.now))
    return WINDOW_SECONDS + 1


def _next_day(now: float) -> int:
    return max(1, math.ceil((day_of(now) + 1) * DAY_SECONDS - now))


def _spent(seconds: int, budget: Budget) -> Verdict:
    return Verdict(
        Outcome.REFUSED,
        Rule.BUDGET,
        f"budget {budget} spent; free again in {seconds} s",
        Failure.SOFT,
        subject=str(budget),
        retry_after=seconds,
    )
