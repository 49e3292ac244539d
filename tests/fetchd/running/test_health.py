"""Readiness: each check tells the truth, with its reason, in bounded time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fetchd.metrics.collecting import Collecting, GatewayNumbers
from fetchd.running import health
from fetchd.running.health import Health, Readiness
from proxy_addons.audit.health import AuditHealth
from proxy_addons.policy.tallies import Report

WELL = AuditHealth(True, 5, 500, 0, 0, 0.0, 1.0)


class ScriptedGateway:
    """Answers as it was told; None: not at all; a number: only after so many seconds."""

    def __init__(self, numbers: GatewayNumbers | None) -> None:
        self.numbers = numbers
        self.hangs = False

    async def ask_numbers(self) -> GatewayNumbers | None:
        if self.hangs:
            await asyncio.Event().wait()
        return self.numbers


def numbers(alive: int = 2, configured: int = 2, nameservers: int = 1, available: int = 1) -> GatewayNumbers:
    report: Report = {
        "fetchd_audit_available": [[["gateway-0"], 1], [["gateway-1"], available]],
        "fetchd_hops_total": [[["allowed", "", "p"], 3]],
        "fetchd_hops_open": [[[], 1]],
    }
    return GatewayNumbers(report, alive, configured, nameservers)


async def fine() -> object:
    return None


async def broken() -> object:
    raise OSError("/secret/path: no space")


def check(
    gateway: ScriptedGateway, own: AuditHealth = WELL, store: Any = fine, listening: Any = None
) -> Readiness:
    collecting = Collecting(gateway, dict, lambda: own, "daemon")
    return asyncio.run(Health(collecting, listening or {"gateway 127.0.0.1:1": lambda: True}, store).check())


def failing(found: Readiness) -> dict[str, str]:
    return {one.name: one.detail for one in found.checks if not one.ok}


def test_all_is_well() -> None:
    found = check(ScriptedGateway(numbers()))
    assert found.ready and [one.name for one in found.checks] == [
        "listeners",
        "workers",
        "audit",
        "dns",
        "store",
    ]


UNWELL: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "a worker that does not answer": ({"numbers": numbers(alive=1)}, {"workers": "1 of 2 answer"}),
    "no worker at all": ({"numbers": numbers(alive=0, configured=0)}, {"workers": "0 of 0 answer"}),
    "nobody to ask": ({"numbers": numbers(nameservers=0)}, {"dns": "nameservers to ask: 0"}),
    "a chain of the gateway": (
        {"numbers": numbers(available=0)},
        {"audit": "cannot be written: gateway-1; hops are refused"},
    ),
    "the daemon's chain": (
        {"own": AuditHealth(False, 0, 0, 1, 0, 0.0, 0.0)},
        {"audit": "cannot be written: daemon; hops are refused"},
    ),
    "the store, without its path": ({"store": broken}, {"store": "it cannot be used: OSError"}),
    "a listener": (
        {"listening": {"gateway 127.0.0.1:1": lambda: False, "tools 127.0.0.1:2": lambda: True}},
        {"listeners": "no connection is accepted by gateway 127.0.0.1:1"},
    ),
    "no gateway": (
        {"numbers": None},
        {
            "workers": "the gateway does not answer",
            "audit": "the gateway does not say",
            "dns": "the gateway does not say",
        },
    ),
}


@pytest.mark.parametrize("sentence", UNWELL)
def test_what_is_not_well_is_named_with_its_reason(sentence: str) -> None:
    told, wanted = UNWELL[sentence]
    gateway = ScriptedGateway(told.get("numbers", numbers()))
    found = check(gateway, **{key: value for key, value in told.items() if key != "numbers"})
    assert (failing(found), found.ready) == (wanted, False)
    assert found.document["ready"] is False
    assert "secret" not in str(found.document)


def test_what_hangs_is_told_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "CHECK_SECONDS", 0.01)
    gateway = ScriptedGateway(numbers())
    gateway.hangs = True
    found = failing(check(gateway))
    assert set(found) == {"workers", "audit", "dns"} and all(
        "no answer within" in one for one in found.values()
    )


async def test_those_who_ask_at_the_same_time_share_an_answer_and_who_leaves_takes_it_from_nobody() -> None:
    asked = 0
    gate = asyncio.Event()

    async def look() -> object:
        nonlocal asked
        asked += 1
        await gate.wait()
        return None

    collecting = Collecting(ScriptedGateway(numbers()), dict, lambda: WELL, "daemon")
    looking = Health(collecting, {"gateway 127.0.0.1:1": lambda: True}, look)
    waiting = [asyncio.create_task(looking.check()) for _ in range(50)]
    await asyncio.sleep(0)
    waiting.pop(0).cancel()
    gate.set()
    assert {one.ready for one in await asyncio.gather(*waiting)} == {True}
    assert asked == 1
    assert (await looking.check()).ready and asked == 2


async def test_counters_stand_still_while_the_gateway_says_nothing() -> None:
    gateway = ScriptedGateway(numbers())
    collecting = Collecting(gateway, dict, lambda: WELL, "daemon")
    first, _ = await collecting.collect()
    gateway.numbers = None
    second, told = await collecting.collect()
    assert told is None
    assert second["fetchd_hops_total"] == first["fetchd_hops_total"]
    assert "fetchd_hops_open" not in second
    assert (first["fetchd_gateway_answered"], second["fetchd_gateway_answered"]) == ([[[], 1]], [[[], 0]])
    assert second["fetchd_audit_lines_total"] == [[["daemon"], 5]]
