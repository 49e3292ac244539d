"""Host rules of a policy as the domain lists of a declaration: what the policy says, in what a vendor can read.

allow docs.rs:443        allowed docs.rs: a vendor's filter knows no ports
allow *                  no filter at all: never "*", which no vendor reads, and never an empty allow-list
deny *.example.com       blocked *.example.com
deny *                   an error: nothing would be allowed, and an empty list says the opposite
ask docs.rs              an error: the provider dials, and nobody here could be asked
allow https://docs.rs/   an error: a filter has no place for scheme and path
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from proxy_addons.policy.hosts import HostPattern, HostPatternError, HostRules, parse_host_pattern

from .domains import NOTHING_SENT, DomainSet, quote_domains
from .errors import DeclarationError, show_foreign


class Effect(StrEnum):
    """What a rule does with a host."""

    ALLOW = "allow"
    DENY = "deny"
    ASK = "ask"


@dataclass(frozen=True, slots=True)
class NetRule:
    """One rule of a policy over hosts: `pattern` is `*`, a host name or `*.name`, each with optional :port."""

    effect: Effect
    pattern: str

    def __str__(self) -> str:
        return f'{self.effect} "{show_foreign(self.pattern, 300)}"'


@dataclass(frozen=True, slots=True)
class Projection:
    """The lists, ports dropped and duplicates merged, and the same as host rules, which answers are held to."""

    allowed: tuple[str, ...]
    blocked: tuple[str, ...]
    rules: HostRules


def project_rules(rules: Iterable[NetRule]) -> Projection:
    """Rules of a policy that lets through what no rule speaks of, unless a rule allows something. Raises
    DeclarationError, which names the rule."""
    allowed: dict[HostPattern, None] = {}
    blocked: dict[HostPattern, None] = {}
    for rule in rules:
        pattern = _parse_pattern(rule)
        match rule.effect:
            case Effect.ALLOW:
                allowed[pattern] = None
            case Effect.DENY if not pattern.suffix:
                raise DeclarationError(
                    f"rule {rule} allows nothing, and a vendor reads an empty list as no filter; remove the rule, or"
                    f" leave web access off. {NOTHING_SENT}"
                )
            case Effect.DENY:
                blocked[pattern] = None
            case Effect.ASK:
                raise DeclarationError(
                    f"rule {rule} cannot be honoured: the provider dials, and there is no connection here to ask"
                    f" about; allow the host, deny it, or leave web access off. {NOTHING_SENT}"
                )
    everywhere = not allowed or any(not pattern.suffix for pattern in allowed)
    kept = () if everywhere else tuple(allowed)
    rules_again = HostRules(kept, tuple(blocked)) if kept else HostRules(deny=tuple(blocked))
    return Projection(tuple(map(str, kept)), tuple(map(str, blocked)), rules_again)


def project_profile(hosts: HostRules) -> Projection:
    """The host rules of a gateway profile, whose empty allow-list allows nothing. Raises DeclarationError."""
    if not hosts.allow:
        raise DeclarationError(
            "the profile's allow_hosts is empty: it allows nothing, and a vendor reads an empty list as no filter;"
            f" allow a host, or leave web access off. {NOTHING_SENT}"
        )
    return project_rules(
        [
            *(NetRule(Effect.ALLOW, str(one)) for one in hosts.allow),
            *(NetRule(Effect.DENY, str(one)) for one in hosts.deny),
        ]
    )


def narrow_allowed(own: tuple[str, ...], outer: tuple[str, ...], *, exact: bool) -> tuple[str, ...]:
    """What both allow-lists allow; an empty one allows all.

    exact: the outer one is a policy's, whose `example.com` is that host alone: an own entry below it is not allowed
    by it. Raises DeclarationError.
    """
    if not own or not outer:
        return own or outer
    ours = [parse_host_pattern(entry) for entry in own]
    theirs = [parse_host_pattern(entry) for entry in outer]
    within, around = DomainSet(ours), DomainSet(theirs)
    below: dict[HostPattern, list[HostPattern]] = {}
    for other in theirs:
        for mine in within.find_covers(other):
            below.setdefault(mine, []).append(other)
    both: dict[str, None] = {}
    for mine in ours:
        both |= dict.fromkeys(map(str, below.get(mine, ())))
        if any(other.subdomains or not exact for other in around.find_covers(mine)):
            both[str(mine)] = None
    if not both:
        raise DeclarationError(
            f"allowed_domains {quote_domains(own)} and what may be allowed, {quote_domains(outer)}, have no host in"
            f" common; allow one of these. {NOTHING_SENT}"
        )
    return tuple(both)


def _parse_pattern(rule: NetRule) -> HostPattern:
    """The pattern without its port."""
    try:
        pattern = parse_host_pattern(rule.pattern)
    except HostPatternError:
        raise DeclarationError(
            f"rule {rule} is not a bare host, and a vendor's filter has no place for anything else; write docs.rs or"
            f" docs.rs:443. {NOTHING_SENT}"
        ) from None
    return HostPattern(pattern.suffix, pattern.subdomains, None)
