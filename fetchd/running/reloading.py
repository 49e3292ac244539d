"""Another version of the rules, while everything runs: read, compared, put in force everywhere or nowhere.

    read the file, twice alike ► check ► same fixed keys? ► rulebook ► the gateway takes it ► the daemon takes it

A call or hop under way ends under the rules it began with.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final, Protocol

from fetchd.settings import LoadedConfig
from proxy_addons.audit import EventRecord
from proxy_addons.policy.agents import Agent
from proxy_addons.policy.config import Config, ConfigError
from proxy_addons.policy.config_checks import find_fixed
from proxy_addons.policy.config_document import render_document
from proxy_addons.policy.rulebook import CurrentRules, Rulebook

from .gateway_process import GatewayReloadError

RULES_EVENT: Final = "rules"
"""Of the audit log, in the daemon's chain: a reload put other rules in force."""


class ReloadError(Exception):
    """Nothing was changed; the text is one line that says why."""


class ReloadableGateway(Protocol):
    """What takes the rules first."""

    async def reload(self, config: Config, source: str) -> None:
        """Put the rules in force; raises GatewayReloadError when the old ones stay."""
        ...


@dataclass(frozen=True, slots=True)
class Change:
    """One difference that a reload made. what: profile, agent or setting. how: added, removed or changed."""

    what: str
    name: str
    how: str
    detail: str = ""

    @property
    def document(self) -> dict[str, str]:
        """As JSON can say it."""
        return asdict(self)


class Reloader:
    """Reloads one after the other. load: reads everything again, blocking. on_done: told of each that was made."""

    def __init__(
        self,
        loaded: LoadedConfig,
        load: Callable[[], LoadedConfig],
        gateway: ReloadableGateway,
        rules: CurrentRules,
        on_done: Callable[[LoadedConfig, tuple[Change, ...]], None],
    ) -> None:
        self._loaded = loaded
        self._load: Final = load
        self._gateway: Final = gateway
        self._rules: Final = rules
        self._on_done: Final = on_done
        self._turn: Final = asyncio.Lock()
        self._running: Final[set[asyncio.Task[tuple[Change, ...]]]] = set()

    async def reload(self) -> tuple[Change, ...]:
        """Read again and put in force; what has changed. Raises ReloadError."""
        # In a task of its own: one who stops waiting must not leave gateway and daemon with different rules.
        task = asyncio.create_task(self._reload(), name="reload")
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await asyncio.shield(task)

    async def _reload(self) -> tuple[Change, ...]:
        async with self._turn:
            try:
                loaded = await asyncio.to_thread(self._load)
            except ConfigError as error:
                raise ReloadError(str(error)) from None
            before = self._loaded.config
            fixed = find_fixed(before, loaded.config)
            if fixed is not None:
                raise ReloadError(
                    f"{loaded.source}: {fixed}: cannot change while it runs;"
                    " restart with fetchd stop and fetchd up"
                )
            rulebook = await asyncio.to_thread(Rulebook, loaded.config, self._rules.now.ports)
            try:
                await self._gateway.reload(loaded.config, loaded.source)
            except GatewayReloadError as error:
                raise ReloadError(f"{loaded.source}: {error}") from None
            self._loaded = loaded
            self._rules.replace(rulebook)
            changes = tuple(find_changes(before, loaded.config))
            self._on_done(loaded, changes)
            return changes


def find_changes(old: Config, new: Config) -> Iterator[Change]:
    """What differs between two configurations, in the order it is printed."""
    yield from _compare(
        "profile",
        old.profiles,
        new.profiles,
        lambda a, b: f"{a.version} → {b.version}" if a.version != b.version else "",
        lambda one: one.version,
    )
    yield from _compare(
        "agent", old.agents, new.agents, _compare_agents, lambda one: f"profile {one.profile}"
    )
    before, after = _settings(old), _settings(new)
    for name in before | after:
        if before.get(name) != after.get(name):
            yield Change("setting", name, "changed")


def _compare[T](
    what: str,
    old: Mapping[str, T],
    new: Mapping[str, T],
    tell: Callable[[T, T], str],
    describe: Callable[[T], str],
) -> Iterator[Change]:
    for name in {**old, **new}:
        if name not in new:
            yield Change(what, name, "removed", describe(old[name]))
        elif name not in old:
            yield Change(what, name, "added", describe(new[name]))
        elif difference := tell(old[name], new[name]):
            yield Change(what, name, "changed", difference)


def _compare_agents(old: Agent, new: Agent) -> str:
    parts = []
    if old.profile != new.profile:
        parts.append(f"profile {old.profile} → {new.profile}")
    if old.token_sha256 != new.token_sha256:
        parts.append("token")
    if old.sources != new.sources:
        parts.append("sources")
    return ", ".join(parts)


def _settings(config: Config) -> dict[str, object]:
    """The keys of a configuration that are neither profiles nor agents."""
    return {
        f"{table}.{key}": value
        for table, keys in render_document(config).items()
        if table not in ("profiles", "agents") and isinstance(keys, Mapping)
        for key, value in keys.items()
    }


def describe_changes(changes: Sequence[Change]) -> EventRecord:
    """A reload as the audit log tells it: what changed, by name; no value of a key."""
    facts = {f"{one.what} {one.name}": f"{one.how} {one.detail}".strip() for one in changes}
    names = ", ".join(facts)
    return EventRecord(event=RULES_EVENT, detail=f"{len(facts)} changed: {names}", facts=facts)
