"""The ledger of budgets: what each agent has under way, asked for in the last minute, and moved today (SPEC 7).

One for a gateway, shared by its workers; `policy.budgets` decides, the ledger counts. What every ledger holds to:

1. Agents are told apart by name and never share a count.
2. A hop is counted and judged in one step: of several workers that ask for the last place, one gets it.
3. A hop under way belongs to the worker that began it; the next worker of that name starts with none.
4. What the hop's own profile does not limit is not counted: it costs nothing, and other profiles do not see it.
5. A refused hop is not counted.
6. A ledger that cannot answer raises `BudgetLedgerError`; the caller then refuses.

The calls are short and synchronous; they are made on the event loop. The ledger of a gateway is `budget_files`.
"""

import time
from collections import Counter
from collections.abc import Callable
from typing import Protocol

from proxy_addons.policy.budgets import (
    Day,
    Minute,
    day_of,
    decide_budgets,
    first_second,
    sum_requests,
)
from proxy_addons.policy.limits import Profile
from proxy_addons.policy.verdicts import Verdict

KEPT_DAYS = 3
"""Days whose bytes are kept, today's among them: more than one, for a clock that was set back."""

Clock = Callable[[], float]
"""Seconds, as `time.monotonic` or `time.time` give them."""


class BudgetLedgerError(Exception):
    """The ledger cannot tell what an agent has spent; the request has to be refused."""


class BudgetLedger(Protocol):
    """Counts for one worker, beside the others."""

    def begin_hop(self, agent: str, profile: Profile, day: Day | None = None) -> Verdict:
        """Judge a hop that is to begin, and count it if it may. day: today's bytes, where the profile limits them.

        Raises `BudgetLedgerError` when that cannot be told.
        """

    def end_hop(self, agent: str) -> None:
        """A hop of this worker that was counted under `concurrent_hops` is over. Raises `BudgetLedgerError`."""

    def read_day(self, agent: str) -> Day:
        """The agent's bytes of today so far. Raises `BudgetLedgerError`."""

    def add_bytes(self, agent: str, size: int) -> Day:
        """Count `size` more bytes; all of today's, these among them. Raises `BudgetLedgerError`."""

    def close(self) -> None:
        """Let go of what the ledger holds. Any later call but this one raises `BudgetLedgerError`."""


class MemoryBudgetLedger:
    """A ledger for tests. `beside`: one of another worker, whose counts this one shares."""

    def __init__(
        self,
        owner: str = "gateway-0",
        *,
        beside: "MemoryBudgetLedger | None" = None,
        clock: Clock = time.monotonic,
        utc: Clock = time.time,
    ) -> None:
        self._owner, self._clock, self._utc = owner, clock, utc
        self._closed = False
        self._open: Counter[tuple[str, str]] = beside._open if beside is not None else Counter()
        self._minutes: dict[str, Counter[int]] = beside._minutes if beside is not None else {}
        self._days: Counter[tuple[str, int]] = beside._days if beside is not None else Counter()
        for key in [key for key in self._open if key[1] == owner]:
            del self._open[key]

    def begin_hop(self, agent: str, profile: Profile, day: Day | None = None) -> Verdict:
        self._check()
        now = self._clock()
        seconds = self._minutes.get(agent, Counter())
        by_second = tuple(sorted((one, n) for one, n in seconds.items() if one >= first_second(now)))
        verdict = decide_budgets(
            profile,
            open_hops=sum(hops for (name, _), hops in self._open.items() if name == agent),
            minute=Minute(now, sum_requests(by_second), by_second),
            day=day,
        )
        if verdict.refused:
            return verdict
        if profile.concurrent_hops is not None:
            self._open[agent, self._owner] += 1
        if profile.requests_per_minute is not None:
            self._minutes[agent] = Counter(dict(by_second)) + Counter([int(now // 1)])
        return verdict

    def end_hop(self, agent: str) -> None:
        self._check()
        if self._open[agent, self._owner] > 0:
            self._open[agent, self._owner] -= 1

    def read_day(self, agent: str) -> Day:
        self._check()
        now = self._utc()
        return Day(now, self._days[agent, day_of(now)])

    def add_bytes(self, agent: str, size: int) -> Day:
        self._check()
        now = self._utc()
        today = day_of(now)
        self._days[agent, today] += size
        for key in [key for key in self._days if key[1] <= today - KEPT_DAYS]:
            del self._days[key]
        return Day(now, self._days[agent, today])

    def close(self) -> None:
        self._closed = True

    def _check(self) -> None:
        if self._closed:
            raise BudgetLedgerError("the ledger of budgets is closed")
