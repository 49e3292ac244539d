"""All numbers of an installation at one moment."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from proxy_addons.audit.health import AuditHealth, report_health
from proxy_addons.policy import metrics
from proxy_addons.policy.tallies import Report, merge_reports


@dataclass(frozen=True, slots=True)
class GatewayNumbers:
    """What the gateway tells. alive: workers that answered; configured: those there should be."""

    report: Report
    alive: int
    configured: int
    nameservers: int


class NumberedGateway(Protocol):
    """What tells them."""

    async def ask_numbers(self) -> GatewayNumbers | None:
        """None when it does not in time."""
        ...


class Collecting:
    """own: the daemon's report. health, chain: of the daemon's audit log."""

    def __init__(
        self,
        gateway: NumberedGateway,
        own: Callable[[], Report],
        health: Callable[[], AuditHealth],
        chain: str,
    ) -> None:
        self._gateway: Final = gateway
        self._own: Final = own
        self._health: Final = health
        self._chain: Final = chain
        self._last: GatewayNumbers | None = None

    async def collect(self) -> tuple[Report, GatewayNumbers | None]:
        """The sum, and what the gateway said. While it says nothing its counters stand where they were, so that they
        do not seem to begin anew."""
        numbers = await self._gateway.ask_numbers()
        self._last = numbers or self._last
        told = numbers.report if numbers is not None else _only_counted(self._last)
        answered: Report = {metrics.GATEWAY_ANSWERED.name: [[[], int(numbers is not None)]]}
        own = [self._own(), report_health(self._health(), self._chain), answered]
        return merge_reports([told, *own]), numbers


def _only_counted(numbers: GatewayNumbers | None) -> Report:
    if numbers is None:
        return {}
    gauges = {one.name for one in metrics.METRICS.values() if one.kind is metrics.Kind.GAUGE}
    return {name: rows for name, rows in numbers.report.items() if name not in gauges}
