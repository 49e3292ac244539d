"""Budgets of agents (SPEC 7): taken when a hop is known to be well formed, given back once, however it ends.

`Budgets` stands after the admission ladder and the checks of names, before anything is asked of anybody: what those
refuse is not counted, and what a budget refuses costs nothing outside. A CONNECT takes nothing. `BudgetBytes` stands
after the meters, around which it counts the bodies as they are on the wire.

Bytes of an agent are written to the ledger in pieces of 256 KiB, before the limit is passed, and when the agent has
no hop left in this worker. One worker never passes on more than the limit; each further one at the most a piece more.
"""

import logging
from collections.abc import Callable
from typing import Any

from mitmproxy import connection, http

from proxy_addons.budgets import BudgetLedger, BudgetLedgerError
from proxy_addons.engine.hops import Hop, hop_of
from proxy_addons.engine.refusals import INTERNAL, RefusedBody
from proxy_addons.meters import Meters
from proxy_addons.policy.budgets import Day, decide_stream
from proxy_addons.policy.limits import Profile
from proxy_addons.policy.verdicts import ALLOWED, Verdict

PIECE_BYTES = 256 << 10
"""Bytes of one agent that a worker counts for itself before it tells the others."""

logger = logging.getLogger(__name__)


class Account:
    """One agent in one worker, while it has hops here. What could not be written is owed, and tried again."""

    def __init__(self, agent: str, ledger: BudgetLedger) -> None:
        self._agent, self._ledger = agent, ledger
        self._spendings = 0
        self._unwritten = 0
        self._unended = 0
        self._total = 0
        """Today's bytes as the ledger said last."""

    @property
    def is_settled(self) -> bool:
        """Whether nothing is under way or owed."""
        return not (self._spendings or self._unwritten or self._unended)

    def begin(self, profile: Profile) -> Verdict:
        """Count a hop if it may begin. Raises BudgetLedgerError."""
        while self._unended:
            self._ledger.end_hop(self._agent)
            self._unended -= 1
        day: Day | None = None
        if profile.bytes_per_day is not None:
            day = self._ledger.read_day(self._agent)
            self._total = day.bytes
            day = Day(day.now, day.bytes + self._unwritten)
        verdict = self._ledger.begin_hop(self._agent, profile, day)
        if not verdict.refused:
            self._spendings += 1
        return verdict

    def spend(self, size: int, profile: Profile) -> Verdict:
        """Count bytes that a peer has sent; refused: they must not be passed on. Raises BudgetLedgerError."""
        limit = profile.bytes_per_day
        if limit is None:
            return ALLOWED
        self._unwritten += size
        if self._unwritten < PIECE_BYTES and self._total + self._unwritten <= limit:
            return ALLOWED
        return decide_stream(profile, self._write())

    def end(self, profile: Profile) -> None:
        """A hop is over. Raises BudgetLedgerError; what was to be written is then owed."""
        self._spendings -= 1
        if profile.concurrent_hops is not None:
            self._unended += 1
            self._ledger.end_hop(self._agent)
            self._unended -= 1
        if not self._spendings and self._unwritten:
            self._write()

    def settle(self) -> None:
        """Write what is owed, hops under way or not. Raises BudgetLedgerError."""
        if self._unwritten:
            self._write()

    def _write(self) -> Day:
        day = self._ledger.add_bytes(self._agent, self._unwritten)
        self._unwritten = 0
        self._total = day.bytes
        return day


class HopBudget:
    """What one hop has taken. Implements `hops.Spending`; `release` counts once."""

    def __init__(
        self, account: Account, profile: Profile, done: Callable[["HopBudget"], None], meters: Meters
    ) -> None:
        self.account, self._meters = account, meters
        self._profile, self._done = profile, done
        self._released = False

    def spend(self, size: int) -> Verdict:
        """Bytes of a body or a message were read from a peer; refused: they must not be passed on."""
        if self._profile.bytes_per_day is not None:
            self._meters.budget_spent(self._profile.name, size)
        try:
            return self.account.spend(size, self._profile)
        except BudgetLedgerError:  # law 5: what cannot be counted does not pass
            logger.exception("bytes could not be counted; refused")
            return INTERNAL

    def release(self) -> None:
        """The hop is over. Never raises: what cannot be written now is owed."""
        if self._released:
            return
        self._released = True
        try:
            self.account.end(self._profile)
        except BudgetLedgerError:
            logger.exception("the end of a hop could not be written; it is owed")
        self._done(self)


class Budgets:
    """Takes at the head of a request; gives back what only a connection's end tells of."""

    def __init__(self, ledger: BudgetLedger, meters: Meters) -> None:
        self._ledger, self._meters = ledger, meters
        self._accounts: dict[str, Account] = {}
        self._open: dict[connection.Client, set[HopBudget]] = {}

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        """Judge and count. A ledger that cannot be used raises, and the hop is refused `internal`."""
        hop = hop_of(flow)
        profile = hop.profile
        if hop.refused or not profile.has_budget:
            return
        agent, client = hop.agent, hop.session.client
        account = self._accounts.get(agent) or Account(agent, self._ledger)
        verdict = account.begin(profile)
        if verdict.refused:
            hop.refuse(verdict)
            return
        self._accounts[agent] = account
        of_client = self._open.setdefault(client, set())

        def done(budget: HopBudget) -> None:
            of_client.discard(budget)
            if not of_client and self._open.get(client) is of_client:
                del self._open[client]
            if account.is_settled and self._accounts.get(agent) is account:
                del self._accounts[agent]

        hop.spending = budget = HopBudget(account, profile, done, self._meters)
        of_client.add(budget)

    def websocket_end(self, flow: http.HTTPFlow) -> None:
        """Both directions are closed."""
        spending = hop_of(flow).spending
        if spending is not None:
            spending.release()

    def client_disconnected(self, client: connection.Client) -> None:
        """A connection that was dropped in the middle tells of no ends."""
        for budget in list(self._open.get(client, ())):
            budget.release()

    def settle(self) -> None:
        """Write what is owed, before the ledger is closed; then nothing more is."""
        for budgets in list(self._open.values()):
            for budget in list(budgets):
                budget.release()
        for account in list(self._accounts.values()):
            try:
                account.settle()
            except BudgetLedgerError:
                logger.exception("bytes of the day could not be written and are lost")


class BudgetBytes:
    """Counts the bodies of hops whose profile limits `bytes_per_day`, both ways, before their meters."""

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        """A body that may come is counted."""
        _count(flow, flow.request)

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        """So is the answer's."""
        if flow.response is not None:
            _count(flow, flow.response)


def _count(flow: http.HTTPFlow, message: http.Message) -> None:
    hop = hop_of(flow)
    if hop.spending is None or hop.refused or hop.profile.bytes_per_day is None:
        return
    if callable(message.stream):
        message.stream = _counter(hop, message.stream)


def _counter(hop: Hop, inner: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    def count(chunk: bytes) -> Any:
        spending = hop.spending
        if chunk and spending is not None:
            verdict = spending.spend(len(chunk))
            if verdict.refused:
                hop.refuse(verdict)
                raise RefusedBody
        return inner(chunk)

    return count
