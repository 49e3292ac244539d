"""The smallest profile that would have allowed a run: what was asked, and the profile it was asked under, to limits.

Laws of this file
- Nothing is wider than the base, but for what the base only reported: hosts and methods that the run asked for.
- What the log does not tell is left as the base has it, and said.
- Limits are rounded up to a value a person would write, never past the base's.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from .addresses import AddressException
from .config_addresses import parse_plain_address
from .config_forms import MAX_ENTRIES, METHODS, FormError
from .hosts import HostPattern, HostPatternError, HostRules, parse_host_pattern
from .limits import MIB, Mode, Profile, WebTools
from .planted import warn_of_choices
from .usage import Evidence, Place, Usage

LEAST_ANSWER: Final = 1 * MIB
"""Pages grow; below this a cap holds nobody back and breaks the next run."""
LEAST_BODY: Final = 1024
LEAST_SECONDS: Final = 10.0
SLACK: Final = 3.0
"""Times the longest request: the network is not the same every day."""
LEAST_CHILDREN: Final = 3
"""Names side by side below one domain from which on `generalize` writes one pattern for them."""

type Registrable = Callable[[str], str | None]
"""`b.co.uk` of `a.b.co.uk`: the part of a host that somebody could register; None for one that is a suffix itself."""


class SuggestionError(ValueError):
    """No profile can be suggested; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class HostEntry:
    """A pattern for allow_hosts and the places of the run that it stands for."""

    pattern: HostPattern
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A profile with the evidence for it. comments: by the name of a key, why it has its value."""

    base: Profile
    profile: Profile
    hosts: tuple[HostEntry, ...]
    comments: Mapping[str, tuple[str, ...]]
    cautions: tuple[str, ...]
    """What the log cannot know, and what of the run is not in the profile."""


def suggest_profile(
    usage: Usage, base: Profile, name: str, registrable: Registrable | None = None
) -> Suggestion:
    """registrable: have many names below one domain become one pattern. Raises SuggestionError."""
    if not usage.requests.count and not usage.tools:
        raise SuggestionError("nothing was let through in that run, so there is nothing to allow")
    draft = _Draft(usage, base)
    hosts = draft.hosts(registrable)
    if len(hosts) > MAX_ENTRIES or usage.overflow:
        raise SuggestionError(
            f"the run asked for more than {MAX_ENTRIES:,} hosts, which no profile can list;"
            " narrow it with --since, or try --generalize"
        )
    body, request_cap = draft.body()
    profile = replace(
        base,
        name=name,
        hosts=HostRules(tuple(entry.pattern for entry in hosts), draft.kept_denials()),
        mode=Mode.ENFORCE,
        schemes=draft.words("schemes", usage.schemes, base.schemes),
        ports=draft.ports(),
        methods=draft.methods(),
        tools=draft.tools(),
        upgrades=draft.upgrades(),
        byte_cap=draft.byte_cap(),
        total_timeout=draft.total_timeout(),
        credential_hosts=draft.credential_hosts(),
        exceptions=draft.exceptions(),
        request_body=body,
        request_cap=request_cap,
    )
    draft.general()
    return Suggestion(
        base,
        profile,
        hosts,
        {key: tuple(lines) for key, lines in draft.comments.items()},
        tuple(draft.cautions),
    )


class _Draft:
    """One suggestion in the making: each limit with its comments."""

    def __init__(self, usage: Usage, base: Profile) -> None:
        self._usage, self._base = usage, base
        self.comments: dict[str, list[str]] = {}
        self.cautions: list[str] = []
        self._places = {place: one for place, one in {**usage.redirects, **usage.places}.items() if place[1]}

    def say(self, key: str, *lines: str) -> None:
        self.comments.setdefault(key, []).extend(lines)

    # --- hosts ---------------------------------------------------------------------------------------------------

    def hosts(self, registrable: Registrable | None) -> tuple[HostEntry, ...]:
        names: dict[str, list[Place]] = {}
        odd = 0
        for place in self._places:
            if _pattern(place[0]) is None:
                odd += 1
                continue
            names.setdefault(place[0], []).append(place)
        if odd:
            self.cautions.append(f"{odd} hosts cannot stand in a pattern and are left out")
        wide = group_names(names, registrable, self._is_walled) if registrable is not None else {}
        with_port = len({port for _, port in self._places}) > 1
        entries: dict[HostPattern, list[Place]] = {}
        for name, places in names.items():
            suffix = wide.get(name)
            for place in places:
                port = place[1] if with_port else None
                pattern = HostPattern(suffix or name, suffix is not None, port)
                entries.setdefault(pattern, []).append(place)
        return tuple(
            HostEntry(pattern, tuple(sorted(places)))
            for pattern, places in sorted(entries.items(), key=lambda item: _host_order(item[0]))
        )

    def _denying(self) -> set[HostPattern]:
        """Denials of the base that the run went past."""
        return {
            deny for deny in self._base.hosts.deny for name, port in self._places if deny.matches(name, port)
        }

    def _is_walled(self, suffix: str) -> bool:
        """Whether a pattern for all of `suffix` would open what a denial that cannot stay kept closed."""
        return any(
            not deny.suffix or _is_below(deny.suffix, suffix) or _is_below(suffix, deny.suffix)
            for deny in self._denying()
        )

    def kept_denials(self) -> tuple[HostPattern, ...]:
        gone = self._denying()
        for deny in gone:
            self.say(
                "deny_hosts", f"{deny} is denied in {self._base.name}, and the run asked for it: taken out, to be"
                " put back if the run should not have"
            )  # fmt: skip
        return tuple(deny for deny in self._base.hosts.deny if deny not in gone)

    def credential_hosts(self) -> tuple[HostPattern, ...]:
        kept = self._touched(self._base.credential_hosts)
        if kept:
            self.say(
                "credential_hosts", "the log does not say whether credentials were sent: those of"
                f" {self._base.name} that the run asked for"
            )  # fmt: skip
        return kept

    def exceptions(self) -> tuple[AddressException, ...]:
        return tuple(hole for hole in self._base.exceptions if self._uses(hole))

    def _uses(self, hole: AddressException) -> bool:
        for place, addresses in self._usage.addresses.items():
            for text in addresses:
                address = parse_plain_address(text)
                if address is not None and hole.covers(place[0], address, place[1]):
                    return True
        # Followed or not, a host whose addresses the log does not have may need it.
        return any(
            hole.host.matches(*place) for place in self._places if not self._usage.addresses.get(place)
        )

    def _touched(self, patterns: Iterable[HostPattern]) -> tuple[HostPattern, ...]:
        return tuple(one for one in patterns if any(one.matches(*place) for place in self._places))

    # --- what a request may use ----------------------------------------------------------------------------------

    def words(self, key: str, seen: Mapping[str, Evidence], base: frozenset[str]) -> frozenset[str]:
        """What was seen; as the base has it where the run had none, for page reads go by limits of their own."""
        if not seen:
            self.say(key, f"the run says nothing of it: as in {self._base.name}")
            return base
        self.say(key, *(f"{word}: {describe(one)}" for word, one in sorted(seen.items())))
        return frozenset(seen)

    def methods(self) -> frozenset[str]:
        seen = dict(self._usage.methods)
        for method in [*seen]:
            try:
                METHODS.read([method])
            except FormError:
                del seen[method]
                self.cautions.append(
                    f"method {method[:40]} cannot stand in a profile, and what used it would be refused"
                )
        return self.words("methods", seen, self._base.methods)

    def ports(self) -> frozenset[int]:
        ports = frozenset(port for _, port in self._places)
        return ports & self._base.ports or self._base.ports

    def tools(self) -> frozenset[str]:
        used = self._usage.tools
        self.say("tools", *(f"{tool}: {describe(one)}" for tool, one in sorted(used.items())))
        if not used:
            self.say("tools", "none was called")
        return frozenset(used) & self._base.tools

    def upgrades(self) -> frozenset[str]:
        usage, base = self._usage, self._base.upgrades
        if usage.upgrades.count:
            self.say("upgrades", describe(usage.upgrades))
            return base
        if base and usage.open:
            self.say(
                "upgrades", f"{usage.open:,} requests have no end in the log, and may have been one: kept"
            )
            return base
        return frozenset()

    # --- sizes and times -----------------------------------------------------------------------------------------

    def body(self) -> tuple[bool, int]:
        usage, base = self._usage, self._base
        kept = base.request_body, base.request_cap
        if not base.request_body:
            return kept
        if usage.unsized or usage.refused.get("request-cap"):
            self.say("request_cap", "the log does not have every size: kept")
            return kept
        if not usage.bodies.count:
            if usage.open:
                self.say("request_cap", f"{usage.open:,} requests have no end in the log: kept")
                return kept
            return False, 0
        largest = usage.largest_body or 0
        self.say("request_cap", f"the largest had {largest:,} bytes; {describe(usage.bodies)}")
        if usage.open:
            self.say("request_cap", f"{usage.open:,} requests have no end in the log: kept")
            return kept
        return True, min(base.request_cap, round_up_bytes(largest, LEAST_BODY))

    def byte_cap(self) -> int:
        usage, base = self._usage, self._base.byte_cap
        if cut := usage.refused.get("byte-cap"):
            self.say("byte_cap", f"{cut.count:,} answers were cut at the cap, their size is not known: kept")
            return base
        if usage.largest_answer is None or usage.open:
            self.say("byte_cap", f"the run does not say how large all answers were: as in {self._base.name}")
            return base
        self.say("byte_cap", f"the largest answer had {usage.largest_answer:,} bytes, decompressed")
        return min(base, round_up_bytes(usage.largest_answer, LEAST_ANSWER))

    def total_timeout(self) -> float:
        usage, base = self._usage, self._base.total_timeout
        if late := usage.refused.get("total-timeout"):
            self.say("total_timeout", f"{late.count:,} requests ran out of time: kept")
            return base
        if usage.longest_seconds is None or usage.open:
            self.say(
                "total_timeout", f"the run does not say how long all of it took: as in {self._base.name}"
            )
            return base
        self.say("total_timeout", f"the longest took {usage.longest_seconds:.1f} s")
        return min(base, max(LEAST_SECONDS, math.ceil(usage.longest_seconds * SLACK / 5) * 5.0))

    # --- what is to be known beside ------------------------------------------------------------------------------

    def general(self) -> None:
        usage, base = self._usage, self._base
        led_to = [place for place in self._places if place not in usage.places]
        self.cautions += warn_of_choices(base, usage.places, led_to, self._denying())
        if base.mode is not Mode.MONITOR:
            self.cautions.append(f"{base.name} enforces: what the run was refused is not in here")
        for rule, one in sorted(usage.refused.items()):
            self.cautions.append(f"refused by rule {rule}, and not allowed here either: {describe(one)}")
        if usage.web_tools and base.mode is Mode.MONITOR and base.web_tools is not WebTools.PASS:
            vendors = ", ".join(sorted(usage.web_tools))
            self.cautions.append(
                f"web tools that vendors ran ({vendors}) were let through as they were; now web_tools ="
                f" {base.web_tools} holds them to these hosts, and what it cannot hold is refused: add the hosts that"
                " they may use, or write pass if a vendor may reach any for the agent"
            )
        if usage.unreadable:
            self.cautions.append(f"{usage.unreadable:,} requests are left out: the log does not say where to")
        if usage.open:
            self.cautions.append(
                f"{usage.open:,} requests have no end in the log: under way, or their worker was killed"
            )
        if usage.reads:
            self.cautions.append(
                f"{usage.reads:,} requests were page reads, which use http and https, GET, and a size and time limit"
                " of their own under any profile"
            )
        if len(self._usage.methods) > 1 and len(self._places) > 1:
            self.cautions.append("methods, ports and bodies are of the whole profile, not of each host")
        if usage.busiest_minute:
            text = f"at the most {usage.busiest_minute:,} requests in a minute of the clock"
            if usage.busiest_day_bytes:
                text += f" and {usage.busiest_day_bytes:,} bytes of bodies in a day"
            self.cautions.append(
                f"{text}: for requests_per_minute and bytes_per_day, if there are to be budgets"
            )


def group_names(
    names: Iterable[str], registrable: Registrable, is_walled: Callable[[str], bool]
) -> dict[str, str]:
    """By name, the domain whose subdomains stand for it: the deepest with LEAST_CHILDREN names side by side.

    Never wider than what one owner could have registered. is_walled: domains that must not be opened.
    """
    found: dict[str, str] = {}
    children: dict[str, dict[str, set[str]]] = {}
    for name in names:
        owner = registrable(name)
        if owner is None:
            continue
        child, parent = name, name.partition(".")[2]
        while parent == owner or _is_below(parent, owner):
            children.setdefault(parent, {}).setdefault(child, set()).add(name)
            child, parent = parent, parent.partition(".")[2]
    for parent in sorted(children, key=lambda one: (-one.count("."), one)):
        below = {
            child: still
            for child, members in children[parent].items()
            if (still := {name for name in members if name not in found})
        }
        if len(below) >= LEAST_CHILDREN and not is_walled(parent):
            found.update((name, parent) for members in below.values() for name in members)
    return found


def round_up_bytes(size: int, least: int) -> int:
    """The power of two at or above `size`, at least `least`."""
    return max(least, 1 << max(0, size - 1).bit_length())


def describe(one: Evidence) -> str:
    """Count, times, what only reporting let pass, an example."""
    when = short_time(one.first)
    if one.count > 1:
        when = f"{when} to {short_time(one.last)}"
    would = f", {one.would_refuse:,} only reported" if one.would_refuse else ""
    return f"{one.count:,} time{'s' if one.count != 1 else ''}, {when}{would}, such as {one.example}"


def short_time(time: str) -> str:
    """To the second."""
    return f"{time[:19]}Z"


def _pattern(name: str) -> HostPattern | None:
    try:
        return parse_host_pattern(name) if ":" not in name else None
    except HostPatternError:
        return None


def _host_order(pattern: HostPattern) -> tuple[list[str], int]:
    """Names of one domain side by side."""
    return pattern.suffix.split(".")[::-1], pattern.port or 0


def _is_below(name: str, domain: str) -> bool:
    return name == domain or name.endswith(f".{domain}")
