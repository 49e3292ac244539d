"""Does the installation serve: each thing that it needs, looked at now, in bounded time.

    listeners   each listener of the gateway, and the tools, accept a connection
    workers     every worker of the gateway answers
    audit       each chain can be written; else hops are refused
    dns         there is somebody to ask
    store       its index can be read

What is told is for whoever reaches the health checks: no path, address of another machine, name of an agent or host.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fetchd.metrics.collecting import Collecting, GatewayNumbers
from proxy_addons.policy import metrics
from proxy_addons.policy.tallies import Report

CHECK_SECONDS: Final = 4.0
"""Of each; all are looked at side by side. Probes give up after ten as a rule."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at. detail: why not, or what was found."""

    name: str
    ok: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Readiness:
    """All of them; ready when each is well."""

    checks: tuple[Check, ...] = ()

    @property
    def ready(self) -> bool:
        return all(check.ok for check in self.checks)

    @property
    def document(self) -> dict[str, Any]:
        """As JSON can say it."""
        return {
            "ready": self.ready,
            "checks": {check.name: {"ok": check.ok, "detail": check.detail} for check in self.checks},
        }


type Look = Callable[[], Awaitable[list[Check]]]


class Health:
    """listening: by what to call it, whether it accepts; blocks. look_at_store: raises when it cannot be used."""

    def __init__(
        self,
        collecting: Collecting,
        listening: Mapping[str, Callable[[], bool]],
        look_at_store: Callable[[], Awaitable[object]],
    ) -> None:
        self._collecting: Final = collecting
        self._listening: Final = listening
        self._look_at_store: Final = look_at_store
        self._looking: asyncio.Task[Readiness] | None = None

    async def check(self) -> Readiness:
        """Look at everything. Those who ask at the same time share an answer, so that probes cannot add up."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._check(), name="readiness")
        return await asyncio.shield(self._looking)

    async def _check(self) -> Readiness:
        looks: dict[tuple[str, ...], Look] = {
            ("listeners",): self._check_listeners,
            ("workers", "audit", "dns"): self._check_gateway,
            ("store",): self._check_store,
        }
        found = await asyncio.gather(*(_bounded(names, look) for names, look in looks.items()))
        return Readiness(tuple(check for checks in found for check in checks))

    async def _check_listeners(self) -> list[Check]:
        asked = [asyncio.to_thread(accepts) for accepts in self._listening.values()]
        answers = await asyncio.gather(*asked)
        deaf = [name for name, answer in zip(self._listening, answers, strict=True) if not answer]
        if deaf:
            return [Check("listeners", False, f"no connection is accepted by {', '.join(deaf)}")]
        return [Check("listeners", True, f"{len(answers)} accept connections")]

    async def _check_gateway(self) -> list[Check]:
        report, numbers = await self._collecting.collect()
        return [_check_workers(numbers), _check_audit(report, numbers), _check_dns(numbers)]

    async def _check_store(self) -> list[Check]:
        await self._look_at_store()
        return [Check("store", True, "its index can be read")]


async def _bounded(names: tuple[str, ...], look: Look) -> list[Check]:
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            return await look()
    except TimeoutError:
        return [Check(name, False, f"no answer within {CHECK_SECONDS:.0f} s") for name in names]
    except Exception as error:  # noqa: BLE001 what cannot be looked at is not well
        return [Check(name, False, f"it cannot be used: {type(error).__name__}") for name in names]


def _check_workers(numbers: GatewayNumbers | None) -> Check:
    if numbers is None:
        return Check("workers", False, "the gateway does not answer")
    ok = 0 < numbers.configured <= numbers.alive
    return Check("workers", ok, f"{numbers.alive} of {numbers.configured} answer")


def _check_audit(report: Report, numbers: GatewayNumbers | None) -> Check:
    rows = report.get(metrics.AUDIT_AVAILABLE.name, [])
    broken = sorted(str(labels[0]) for labels, value in rows if not value)
    if broken:
        return Check("audit", False, f"cannot be written: {', '.join(broken)}; hops are refused")
    if numbers is None:
        return Check("audit", False, "the gateway does not say")
    return Check("audit", True, f"{len(rows)} chains can be written")


def _check_dns(numbers: GatewayNumbers | None) -> Check:
    if numbers is None:
        return Check("dns", False, "the gateway does not say")
    return Check("dns", numbers.nameservers > 0, f"nameservers to ask: {numbers.nameservers}")
