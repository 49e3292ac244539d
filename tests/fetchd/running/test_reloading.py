"""A reload: everywhere or nowhere, the gateway first, one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fetchd.running.gateway_process import GatewayReloadError
from fetchd.running.reloading import Change, Reloader, ReloadError, describe_changes, find_changes
from fetchd.settings import LoadedConfig
from proxy_addons.policy.config import Config, ConfigError, parse_config
from proxy_addons.policy.rulebook import CurrentRules, Rulebook

ONE = {"profiles": {"one": {"byte_cap": 1000}}}
TWO = {"profiles": {"one": {"byte_cap": 2000}}}
DIGEST = "0" * 64


def loaded(mapping: Mapping[str, Any]) -> LoadedConfig:
    return LoadedConfig(parse_config(mapping, source="c.toml"), "c.toml", Path("c.toml"))


class Parts:
    """A reloader over a gateway that does as it is told. `events`: what happened in which order."""

    def __init__(self, mapping: Mapping[str, Any] = ONE) -> None:
        first = loaded(mapping)
        self.file: LoadedConfig | ConfigError = first
        self.answer: str = ""
        self.cap_before = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.events: list[str] = []
        self.rules = CurrentRules(Rulebook(first.config, [3128]))
        self.reloader = Reloader(first, self.read, self, self.rules, self.note)

    def read(self) -> LoadedConfig:
        self.events.append("read")
        if isinstance(self.file, ConfigError):
            raise self.file
        return self.file

    async def reload(self, config: Config, source: str) -> None:
        self.cap_before = self.byte_cap
        self.events.append("gateway")
        await self.gate.wait()
        if self.answer:
            raise GatewayReloadError(self.answer)

    def note(self, now: LoadedConfig, changes: tuple[Change, ...]) -> None:
        assert self.rules.now.config is now.config
        self.changes = changes
        self.events.append("noted")

    @property
    def byte_cap(self) -> int:
        return self.rules.now.config.profiles["one"].byte_cap


async def test_the_gateway_takes_it_first_then_the_daemon_then_it_is_noted() -> None:
    parts = Parts()
    parts.file = loaded(TWO)
    (change,) = await parts.reloader.reload()

    assert (parts.cap_before, parts.byte_cap) == (1000, 2000)
    assert parts.events == ["read", "gateway", "noted"]
    assert (change.what, change.name, change.how) == ("profile", "one", "changed")
    assert parts.rules.now.ports == [3128]
    assert await parts.reloader.reload() == ()


@pytest.mark.parametrize(
    ("file", "answer", "message", "asked"),
    [
        pytest.param(
            ConfigError("c.toml", "gateway.x", "no such key"), "", "c.toml: gateway.x: no such key", False,
            id="a file that is wrong",
        ),
        pytest.param(
            loaded({**TWO, "daemon": {"names": ["x.internal"]}}), "",
            "c.toml: daemon.names: cannot change while it runs; restart with fetchd stop and fetchd up", False,
            id="a key that cannot change while it runs",
        ),
        pytest.param(loaded(TWO), "no", "c.toml: no", True, id="a gateway that does not take it"),
    ],
)  # fmt: skip
async def test_what_is_refused_changes_nothing(file: Any, answer: str, message: str, asked: bool) -> None:
    parts = Parts()
    parts.file, parts.answer = file, answer

    with pytest.raises(ReloadError) as caught:
        await parts.reloader.reload()

    assert (str(caught.value), parts.byte_cap) == (message, 1000)
    assert parts.events == (["read", "gateway"] if asked else ["read"])
    # And the next good one is taken.
    parts.file, parts.answer = loaded(TWO), ""
    assert await parts.reloader.reload()
    assert parts.byte_cap == 2000


async def test_several_at_once_are_taken_one_after_the_other() -> None:
    parts = Parts()
    parts.file = loaded(TWO)
    await asyncio.gather(*(parts.reloader.reload() for _ in range(3)))

    assert parts.events == ["read", "gateway", "noted"] * 3


async def test_one_who_stops_waiting_does_not_leave_it_half_done() -> None:
    parts = Parts()
    parts.file = loaded(TWO)
    parts.gate.clear()
    waiting = asyncio.create_task(parts.reloader.reload())
    while "gateway" not in parts.events:  # noqa: ASYNC110 (reading takes a thread)
        await asyncio.sleep(0.001)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    parts.gate.set()
    await parts.reloader.reload()

    assert parts.events == ["read", "gateway", "noted"] * 2


def test_what_is_told_of_a_change() -> None:
    old = parse_config(
        {
            "profiles": {"kept": {}, "gone": {}, "one": {"byte_cap": 1}},
            "agents": {
                "kept": {"token_sha256": DIGEST}, "gone": {"profile": "kept"}, "moved": {"profile": "kept"},
                "new-token": {"token_sha256": "1" * 64, "sources": ["10.0.0.1"]},
            },
        },
        source="test",
    )  # fmt: skip
    new = parse_config(
        {
            "gateway": {"default_profile": "kept"},
            "profiles": {"kept": {}, "one": {"byte_cap": 2}, "added": {}},
            "agents": {
                "kept": {"token_sha256": DIGEST, "profile": "default"}, "moved": {"profile": "one"},
                "new-token": {"token_sha256": "2" * 64, "profile": "default"}, "added": {"profile": "kept"},
            },
        },
        source="test",
    )  # fmt: skip
    one, gone, added = old.profiles["one"], old.profiles["gone"], new.profiles["added"]

    assert list(find_changes(old, new)) == [
        Change("profile", "gone", "removed", gone.version),
        Change("profile", "one", "changed", f"{one.version} → {new.profiles['one'].version}"),
        Change("profile", "added", "added", added.version),
        Change("agent", "gone", "removed", "profile kept"),
        Change("agent", "moved", "changed", "profile kept → one"),
        Change("agent", "new-token", "changed", "token, sources"),
        Change("agent", "added", "added", "profile kept"),
        Change("setting", "gateway.listeners", "changed"),
        Change("setting", "gateway.default_profile", "changed"),
    ]


def test_the_audit_log_is_told_of_each_change_and_of_no_value() -> None:
    changes = [
        Change("agent", "bot", "added", "profile research"),
        Change("setting", "audit.keep_days", "changed"),
    ]

    event = describe_changes(changes)

    assert (event.event, event.detail) == ("rules", "2 changed: agent bot, setting audit.keep_days")
    assert event.facts == {"agent bot": "added profile research", "setting audit.keep_days": "changed"}
