"""Everything that requests are judged by, as one value: a reload replaces it whole, never a part of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from .agents import LOCAL_AGENT, Entrance, Roster
from .config_values import Config
from .hosts import HostPattern
from .limits import Profile
from .reading import PAGE_READ, derive_read_profile
from .vendors.endpoints import VendorHosts


@dataclass(frozen=True, slots=True)
class Rulebook:
    """One version of the rules. `roster`: who asks; `entrances`: the gateway's listeners in order; `tools`: the
    daemon's. ports: those in use, where the configuration has 0; they are part of the names of who has none.
    """

    config: Config
    ports: Sequence[int] = ()
    roster: Roster = field(init=False, repr=False, compare=False)
    entrances: tuple[Entrance, ...] = field(init=False, repr=False, compare=False)
    tools: Entrance = field(init=False, repr=False, compare=False)
    vendor_hosts: VendorHosts = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        config = self.config
        ports = self.ports or [one.port for one in config.gateway.listeners]
        entrances = tuple(
            Entrance(
                f"{listener.profile}@{port}",
                config.profiles[listener.profile],
                listener.agent,
                config.admits_anonymous(listener),
            )
            for listener, port in zip(config.gateway.listeners, ports, strict=True)
        )
        door = config.daemon.listener
        tools = Entrance(LOCAL_AGENT, config.profiles[door.profile], "", config.admits_anonymous(door))
        object.__setattr__(self, "roster", Roster(config.agents.values(), config.profiles))
        object.__setattr__(self, "entrances", entrances)
        object.__setattr__(self, "tools", tools)
        hosts = MappingProxyType({name: one.hosts for name, one in config.asking.vendors.items()})
        object.__setattr__(self, "vendor_hosts", VendorHosts(hosts))

    def find_profile(
        self, agent: str, profile: str, allowlist: tuple[HostPattern, ...] | None = None
    ) -> Profile | None:
        """The profile of a hop that the daemon asks for: that of the agent, where it is a known one.

        Others (the local user) are judged under the profile named. `page_read/NAME` stands for what NAME becomes for
        a read, narrowed to `allowlist`. None: there is no such profile.
        """
        known = self.roster.identities.get(agent)
        kind, _, base = profile.partition("/")
        if kind == PAGE_READ:
            own = known.profile if known is not None else self.config.profiles.get(base)
            if own is None:
                return None
            return derive_read_profile(own, self.config.read_max_bytes, allowlist)
        if allowlist is not None:
            return None
        return known.profile if known is not None else self.config.profiles.get(profile)


class CurrentRules:
    """The rules in force; whoever judges asks once for each request, so that none is judged by two versions."""

    def __init__(self, rulebook: Rulebook) -> None:
        self.now = rulebook
        self._watching: list[Callable[[], None]] = []

    def replace(self, rulebook: Rulebook) -> None:
        """From here on these are in force; whoever watches is told."""
        self.now = rulebook
        for tell in self._watching:
            tell()

    def watch(self, tell: Callable[[], None]) -> None:
        """Call `tell` after each change; it must not raise."""
        self._watching.append(tell)
