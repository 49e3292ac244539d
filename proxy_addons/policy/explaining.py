"""Every check of the admission ladder on one URL, in words: what it looked at, and which entry of a list decided.

It explains and decides nothing: that a check breaks is what `admission.LADDER` says.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from .admission import LADDER, Check
from .hosts import HostPattern
from .limits import Mode, Profile
from .targets import Target
from .verdicts import Rule

_LISTED: Final = 6
"""Entries of a list that are named; longer ones are counted."""


class Standing(StrEnum):
    """What became of a check."""

    PASSES = "passes"
    REFUSES = "refuses"
    REPORTS = "reports"
    """It breaks, and the profile only monitors."""
    NOT_REACHED = "not reached"
    """An earlier one refuses, and only the first broken rule is told."""


@dataclass(frozen=True, slots=True)
class Step:
    """One rung. number: as in SPEC 1.1. text: what was compared."""

    number: int
    rule: Rule
    standing: Standing
    text: str


def explain_ladder(target: Target | None, method: str, profile: Profile) -> tuple[Step, ...]:
    """All checks in order. target: None where the URL did not parse."""
    if target is None:
        parse = Step(1, Rule.PARSE, Standing.REFUSES, "not an absolute URL")
        rest = (
            Step(number, check.rule, Standing.NOT_REACHED, "")
            for number, check in enumerate(_rungs(profile), 2)
        )
        return (parse, *rest)
    steps = [Step(1, Rule.PARSE, Standing.PASSES, target.display)]
    refused = False
    for number, check in enumerate(_rungs(profile), 2):
        narrowed = check is LADDER[-1]
        text = (_narrowed if narrowed else _TEXTS[check.rule])(target, method, profile)
        standing = Standing.PASSES
        if check.breaks(target, method, profile):
            reported = check.monitored and profile.mode is Mode.MONITOR
            standing = Standing.REPORTS if reported else Standing.REFUSES
            if refused:
                standing = Standing.NOT_REACHED
            refused = refused or not reported
        elif refused:
            standing = Standing.NOT_REACHED
        steps.append(Step(number, check.rule, standing, text))
    return tuple(steps)


def _rungs(profile: Profile) -> tuple[Check, ...]:
    """The last narrows one page read alone."""
    return LADDER if profile.allowlist is not None else LADDER[:-1]


def _one_of(word: object, known: Iterable[object], *, is_in: bool) -> str:
    names = [str(one) for one in known]
    shown = ", ".join(names[:_LISTED]) + (f" and {len(names) - _LISTED} more" if len(names) > _LISTED else "")
    return f"{word} is {'' if is_in else 'not '}one of {shown or 'none'}"


def _scheme(target: Target, method: str, profile: Profile) -> str:
    return _one_of(target.scheme, sorted(profile.schemes), is_in=target.scheme in profile.schemes)


def _userinfo(target: Target, method: str, profile: Profile) -> str:
    return "the URL has a user name or password" if target.has_credentials else "no credentials in the URL"


def _port(target: Target, method: str, profile: Profile) -> str:
    return _one_of(target.port, sorted(profile.ports), is_in=target.port in profile.ports)


def _literal(target: Target, method: str, profile: Profile) -> str:
    return f"{target.address} is an IP address" if target.is_ip_literal else f"{target.host} is a name"


def _method(target: Target, method: str, profile: Profile) -> str:
    return _one_of(method, sorted(profile.methods), is_in=method in profile.methods)


def _host(target: Target, method: str, profile: Profile) -> str:
    name, port = target.dns_name, target.port
    denied = _first(profile.hosts.deny, name, port)
    allowed = _first(profile.hosts.allow, name, port)
    if denied is not None:
        beside = f", though {allowed} of allow_hosts matches" if allowed is not None else ""
        return f"{denied} of deny_hosts matches{beside}"
    if allowed is not None:
        return f"{allowed} of allow_hosts matches"
    count = len(profile.hosts.allow)
    return f"none of {count:,} patterns of allow_hosts matches" if count else "allow_hosts is empty"


def _narrowed(target: Target, method: str, profile: Profile) -> str:
    found = _first(profile.allowlist or (), target.dns_name, target.port)
    return (
        f"{found} of the caller's allowlist matches"
        if found is not None
        else "no pattern of the caller's matches"
    )


def _first(patterns: Iterable[HostPattern], name: str, port: int | None) -> HostPattern | None:
    return next((one for one in patterns if one.matches(name, port)), None)


_TEXTS: Mapping[Rule, Callable[[Target, str, Profile], str]] = MappingProxyType(
    {
        Rule.SCHEME: _scheme,
        Rule.USERINFO: _userinfo,
        Rule.PORT: _port,
        Rule.IP_LITERAL: _literal,
        Rule.METHOD: _method,
        Rule.HOST: _host,
    }
)
