"""The admission ladder (SPEC 1.1): checks in this order, only the first broken rule is reported.

1 parse · 2 scheme · 3 credentials · 4 port · 5 host is a name · 6 method · 7 host rules

Nothing here resolves or dials: a refused URL costs no DNS query and no connection.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from .hosts import matches_any
from .limits import Mode, Profile
from .targets import Target, TargetParseError, parse_target
from .verdicts import ALLOWED, Failure, Outcome, Rule, Verdict, refuse


class Position(Enum):
    """Where a URL stands: given as the argument of a call, or met as the target of a redirect."""

    ARGUMENT = "argument"
    REDIRECT = "redirect"


@dataclass(frozen=True, slots=True)
class Check:
    """One rung: the rule, its failure kind as an argument, when it breaks, and its message.

    monitored: a profile in monitor mode only reports it.
    """

    rule: Rule
    as_argument: Failure
    breaks: Callable[[Target, str, Profile], bool]
    message: Callable[[Target, str], str]
    monitored: bool = False


LADDER: tuple[Check, ...] = (
    Check(
        Rule.SCHEME,
        Failure.SOFT,
        lambda target, method, profile: target.scheme not in profile.schemes,
        lambda target, method: f"scheme not allowed: {target.scheme}",
    ),
    Check(
        Rule.USERINFO,
        Failure.HARD,
        lambda target, method, profile: target.has_credentials,
        lambda target, method: "url must not contain userinfo",
    ),
    Check(
        Rule.PORT,
        Failure.HARD,
        lambda target, method, profile: target.port not in profile.ports,
        lambda target, method: f"port not allowed: {target.port}",
    ),
    Check(
        Rule.IP_LITERAL,
        Failure.HARD,
        lambda target, method, profile: target.is_ip_literal,
        lambda target, method: f"ip literal host not allowed: {target.address}",
    ),
    Check(
        Rule.METHOD,
        Failure.HARD,
        lambda target, method, profile: method not in profile.methods,
        lambda target, method: f"method not allowed: {method}",
        monitored=True,
    ),
    Check(
        Rule.HOST,
        Failure.HARD,
        lambda target, method, profile: not profile.hosts.admits(target),
        lambda target, method: f"host not allowed: {target.host}",
        monitored=True,
    ),
    Check(
        Rule.HOST,
        Failure.HARD,
        lambda target, method, profile: (
            profile.allowlist is not None and not matches_any(profile.allowlist, target)
        ),
        lambda target, method: f"host not allowed: {target.host}",
    ),
)
"""Checks 2 to 7. Check 1 is the parse itself. As a redirect target every one of them is soft.

The last is check 7 again, for the hosts that the caller of one page read narrows it to (SPEC 5).
"""
MONITORED = frozenset(check.rule for check in LADDER if check.monitored)
"""The rules that a profile in monitor mode only reports; all others it enforces."""


class Admission(NamedTuple):
    """The verdict on a URL and, where it parsed, what it parsed to. A named tuple, as Target is."""

    verdict: Verdict
    target: Target | None


def decide_url(text: str, method: str, profile: Profile) -> Admission:
    """The whole ladder for a URL given as an argument, exactly as supplied."""
    try:
        target = parse_target(text)
    except TargetParseError:
        return Admission(refuse(Rule.PARSE, "invalid url"), None)
    return Admission(decide_target(target, method, profile), target)


def decide_target(
    target: Target, method: str, profile: Profile, position: Position = Position.ARGUMENT
) -> Verdict:
    """Checks 2 to 7 on a parsed target."""
    unenforced: Rule | None = None
    for check in LADDER:
        if check.breaks(target, method, profile):
            if check.monitored and profile.mode is Mode.MONITOR:
                unenforced = unenforced or check.rule
                continue
            failure = check.as_argument if position is Position.ARGUMENT else Failure.SOFT
            return refuse(check.rule, check.message(target, method), failure=failure, subject=target.display)
    return ALLOWED if unenforced is None else Verdict(Outcome.ALLOWED, would_refuse=unenforced)
