"""Each rule's answer to the question what would allow what it refused; the table behind `remedies`.

`RUNGS` mends the checks of the admission ladder, `REMEDIES` has a row for every member of `Rule`. It explains and
decides nothing: verdicts come from `admission`, `redirects`, `addresses`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from netaddr import IPNetwork

from .addresses import OWN_ADDRESS, UNREADABLE, AddressException, classify_address
from .admission import LADDER, MONITORED
from .config_addresses import parse_plain_address
from .config_forms import FormError
from .config_schema import PROFILE_TABLE, TABLES
from .hosts import HostPattern, HostPatternError, HostRules, parse_host_pattern
from .limits import MAX_REDIRECTS, MAX_SECONDS, MIB, Mode, Profile, WebTools
from .targets import Target
from .verdicts import Rule

CONNECT = "CONNECT"
"""The method of a tunnel: its scheme is not known yet, and no profile lists it."""


class Reach(StrEnum):
    """Whose matter it is to allow something."""

    PROFILE = "profile"
    """Changes to a profile allow it."""
    ALLOWED = "allowed"
    """The profile as it stands does not refuse it."""
    ELSEWHERE = "elsewhere"
    """No limit of a profile stands in the way; `text` says what does."""
    NEVER = "never"
    """No profile can allow it; `text` says why."""


@dataclass(frozen=True, slots=True)
class Question:
    """What was refused, as far as it is known afterwards.

    target: None where the URL did not parse or is not known. dropped: (address, range) as the log has them.
    decoded_bytes: of the answer, up to where it was cut. dns_ms: how long the look-up took.
    """

    rule: Rule
    target: Target | None = None
    method: str = "GET"
    dropped: tuple[tuple[str, str], ...] = ()
    decoded_bytes: int | None = None
    dns_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Draft:
    """A remedy before it is known where it goes; changes: typed values by key."""

    reach: Reach
    text: str = ""
    changes: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def joined(self, other: "Draft") -> "Draft":
        return Draft(
            self.reach,
            self.text or other.text,
            {**self.changes, **other.changes},
            (*self.warnings, *other.warnings),
        )


# ---------------------------------------------------------------------------------------------------- ladder


def climb(question: Question, target: Target, profile: Profile) -> Draft | str:
    """What every broken rung of the admission ladder needs, or why one of them cannot be mended."""
    draft, method = Draft(Reach.PROFILE), question.method
    skipped = frozenset({Rule.SCHEME, Rule.METHOD}) if method == CONNECT else frozenset()
    if profile.mode is Mode.MONITOR and question.rule not in MONITORED:
        skipped |= MONITORED  # they break and refuse nothing
    for check in LADDER:
        if check.rule not in skipped and check.breaks(target, method, profile):
            rung = RUNGS[check.rule](target, method, profile)
            if isinstance(rung, str):
                return rung
            draft = draft.joined(rung)
    return draft


def _scheme(target: Target, method: str, profile: Profile) -> Draft | str:
    if not _is_form("schemes", [target.scheme]):
        return f"{target.scheme} is not spoken here: a profile can allow https and http alone"
    return Draft(Reach.PROFILE, changes={"schemes": profile.schemes | {target.scheme}})


USERINFO = "a URL with a user name or password is refused in every profile; take them out of the URL"


def _userinfo(target: Target, method: str, profile: Profile) -> str:
    return USERINFO


def _port(target: Target, method: str, profile: Profile) -> Draft | str:
    if target.port is None or not _is_form("ports", [target.port]):
        return f"port {target.port} cannot stand in a profile"
    return Draft(Reach.PROFILE, changes={"ports": profile.ports | {target.port}})


def _ip_literal(target: Target, method: str, profile: Profile) -> str:
    return (
        "an IP address as host is refused in every profile; give the address a name, and if it is a blocked one,"
        " name both in exceptions"
    )


def _method(target: Target, method: str, profile: Profile) -> Draft | str:
    if not _is_form("methods", [method]):
        return f"{method} cannot stand in a profile: methods are written in capitals"
    warnings = () if profile.request_body or method in ("GET", "HEAD", "OPTIONS") else (_BODY_NEEDS,)
    return Draft(Reach.PROFILE, changes={"methods": profile.methods | {method}}, warnings=warnings)


_BODY_NEEDS = "for a request with a body, request_body = true and a request_cap are needed too"


def _host(target: Target, method: str, profile: Profile) -> Draft | str:
    pattern = pattern_of(target.dns_name)
    if pattern is None:
        return "the host is no name that DNS can carry, so no pattern can allow it"
    changes: dict[str, Any] = {}
    warnings = []
    name, port = target.dns_name, target.port
    denying = [one for one in profile.hosts.deny if one.matches(name, port)]
    if denying:
        changes["deny_hosts"] = tuple(one for one in profile.hosts.deny if one not in denying)
        warnings = [f"{one} is taken out of deny_hosts, with every host it covers" for one in denying]
    if not HostRules(profile.hosts.allow).admits(target):
        changes["allow_hosts"] = (*profile.hosts.allow, pattern)
    return Draft(Reach.PROFILE, changes=changes, warnings=tuple(warnings))


RUNGS: Mapping[Rule, Callable[[Target, str, Profile], Draft | str]] = MappingProxyType(
    {
        Rule.SCHEME: _scheme,
        Rule.USERINFO: _userinfo,
        Rule.PORT: _port,
        Rule.IP_LITERAL: _ip_literal,
        Rule.METHOD: _method,
        Rule.HOST: _host,
    }
)
"""How each check of `admission.LADDER` is mended; a text: it cannot be."""


def pattern_of(name: str) -> HostPattern | None:
    try:
        return parse_host_pattern(name) if ":" not in name else None
    except HostPatternError:
        return None


def _is_form(key: str, value: object) -> bool:
    """Whether a configuration file can say it."""
    try:
        TABLES[PROFILE_TABLE][key].form.read(value)
    except FormError:
        return False
    return True


# ------------------------------------------------------------------------------------------------- the rules

type _Row = Callable[[Question, Profile], Draft]


def _by_ladder(question: Question, profile: Profile) -> Draft:
    if question.target is None:
        return Draft(Reach.ELSEWHERE, "the log does not say which URL it was")
    return Draft(Reach.PROFILE)


def _never(text: str) -> _Row:
    return lambda question, profile: Draft(Reach.NEVER, text)


def _elsewhere(text: str) -> _Row:
    return lambda question, profile: Draft(Reach.ELSEWHERE, text)


def _no_allowed_address(question: Question, profile: Profile) -> Draft:
    target = question.target
    if target is None or target.port is None:
        return Draft(Reach.ELSEWHERE, "the log does not say which host it was")
    if not question.dropped:
        return Draft(Reach.ELSEWHERE, f"{target.dns_name} has no address; there is nothing to allow")
    host = pattern_of(target.dns_name)
    if host is None:
        return Draft(Reach.NEVER, "the host is no name that DNS can carry")
    for text, shown in question.dropped:
        address, own = parse_plain_address(text), shown == OWN_ADDRESS.cidr
        if shown == UNREADABLE.cidr or address is None:
            continue
        place = (target.dns_name, target.port, text, profile.addresses)
        row = classify_address(*place, own=own)
        excepted = classify_address(*place, profile.exceptions, own=own) is None
        if own and (row is not OWN_ADDRESS or excepted):
            continue  # called our own, not blocked, all the same: that is where we listen, and no exception helps
        if excepted:
            return Draft(Reach.PROFILE)
        hole = AddressException(
            host, IPNetwork(f"{address}/{32 if address.version == 4 else 128}"), target.port
        )
        warning = f"{address} is an address of this machine"
        if not own:
            warning = (
                f"{address} is in a blocked range, {row}: allow it only if the machine behind it is yours and"
                " may be reached by the agent"
            )
        return Draft(Reach.PROFILE, "", {"exceptions": (*profile.exceptions, hole)}, (warning,))
    return Draft(Reach.NEVER, "the name leads to a listener of fetchd itself, which no exception can open")


def _upgrade(question: Question, profile: Profile) -> Draft:
    if "websocket" in profile.upgrades:
        return Draft(
            Reach.NEVER,
            "nothing but a WebSocket that the client asked for, without extensions, can be let through",
        )
    return Draft(
        Reach.PROFILE,
        "if it was a WebSocket; any other protocol cannot be inspected and cannot be allowed",
        {"upgrades": profile.upgrades | {"websocket"}},
    )


def _request_cap(question: Question, profile: Profile) -> Draft:
    cap = _double(profile.request_cap if profile.request_body else MIB // 2, "request_cap")
    if cap is None:
        return Draft(Reach.NEVER, "request_cap is as large as it can be")
    return Draft(
        Reach.PROFILE,
        "the log does not have the size of the body: request_cap has to be at least that",
        {"request_body": True, "request_cap": cap},
    )


def _web_tool(question: Question, profile: Profile) -> Draft:
    return Draft(
        Reach.PROFILE,
        "the message says what to write instead; to let such calls of models through unread",
        {"web_tools": WebTools.PASS},
        ("what a vendor of models searches and fetches is then held to nothing of this profile",),
    )


def _byte_cap(question: Question, profile: Profile) -> Draft:
    cap: int | None = _double(profile.byte_cap, "byte_cap")
    while cap is not None and cap <= (question.decoded_bytes or 0):
        cap = _double(cap, "byte_cap")
    if cap is None:
        return Draft(Reach.NEVER, "byte_cap is as large as it can be")
    return Draft(
        Reach.PROFILE,
        "the log does not have the size of the whole answer: byte_cap has to be at least that, decompressed",
        {"byte_cap": cap},
    )


def _dns_failed(question: Question, profile: Profile) -> Draft:
    longer = _double(profile.lookup_timeout, "lookup_timeout")
    if longer is None or (question.dns_ms or 0.0) < profile.lookup_timeout * 900:
        return Draft(
            Reach.ELSEWHERE,
            "DNS did not answer for this name: check how it is written, and the nameservers of [dns]",
        )
    return Draft(
        Reach.PROFILE,
        "the look-up took all of its time; more helps if the nameserver is slow, and not if it is silent",
        {"lookup_timeout": longer},
    )


def _connect_timeout(question: Question, profile: Profile) -> Draft:
    longer = _double(profile.connect_timeout, "connect_timeout")
    if longer is None:
        return Draft(Reach.NEVER, "connect_timeout is as long as it can be")
    changes = {"connect_timeout": longer}
    if profile.total_timeout <= longer:
        changes["total_timeout"] = min(profile.total_timeout + longer, float(MAX_SECONDS))
    return Draft(Reach.PROFILE, "more time helps if the origin is slow, and not if it is silent", changes)


def _total_timeout(question: Question, profile: Profile) -> Draft:
    longer = _double(profile.total_timeout, "total_timeout")
    if longer is None:
        return Draft(Reach.NEVER, "total_timeout is as long as it can be")
    text = "the log does not have the time the whole would have taken: total_timeout has to be at least that"
    return Draft(Reach.PROFILE, text, {"total_timeout": longer})


def _double[T: (int, float)](value: T, key: str) -> T | None:
    """Twice the value, or the most that may be written; None when that is reached already."""
    most = MOST[key]
    return None if value >= most else type(value)(min(value * 2, most))


MOST: Mapping[str, int] = MappingProxyType(
    {
        "request_cap": 1 << 40,
        "byte_cap": 1 << 40,
        "lookup_timeout": MAX_SECONDS,
        "connect_timeout": MAX_SECONDS,
        "total_timeout": MAX_SECONDS,
    }
)
"""The largest value that `config_schema` takes for a key; a test holds the two together."""

REMEDIES: Mapping[Rule, _Row] = MappingProxyType(
    {
        Rule.PARSE: _never(
            "the URL, or the Location of a redirect, cannot be read as one absolute URL; no profile changes how URLs"
            " are read"
        ),
        Rule.SCHEME: _by_ladder,
        Rule.USERINFO: _never(USERINFO),
        Rule.PORT: _by_ladder,
        Rule.IP_LITERAL: _by_ladder,
        Rule.METHOD: _by_ladder,
        Rule.HOST: _by_ladder,
        Rule.NO_ALLOWED_ADDRESS: _no_allowed_address,
        Rule.REDIRECT_CAP: _never(
            f"{MAX_REDIRECTS} redirects are followed in every profile; ask for where the chain leads"
        ),
        Rule.DOWNGRADE: _never(
            "a redirect from https to http is refused in every profile; ask for its target by itself, under a"
            " profile with http in schemes"
        ),
        Rule.UPGRADE: _upgrade,
        Rule.AUTHORITY_MISMATCH: _never(
            "tunnel, TLS server name, Host and :authority have to be one name in every profile"
        ),
        Rule.NO_SNI: _never("a TLS handshake that names no server is refused in every profile"),
        Rule.NOT_HTTP: _never("what cannot be read as HTTP cannot be inspected, and passes in no profile"),
        Rule.REQUEST_CAP: _request_cap,
        Rule.DNS_FAILED: _dns_failed,
        Rule.TLS_VERIFY: _elsewhere(
            "certificates of origins are verified in every profile; if this one has a root of its own, name it:"
            ' [tls] extra_ca = ["its-root.pem"]'
        ),
        Rule.UPSTREAM: _elsewhere("the origin failed, or answered what cannot be inspected; no limit did it"),
        Rule.BYTE_CAP: _byte_cap,
        Rule.CONNECT_TIMEOUT: _connect_timeout,
        Rule.TOTAL_TIMEOUT: _total_timeout,
        Rule.IDENTITY: _elsewhere(
            "the gateway did not know who asked: give the agent a token of its own (fetchd agent add), and have its"
            " client send it"
        ),
        Rule.BUDGET: _elsewhere(
            "a budget of the profile is spent: wait, or raise the one the message names (requests_per_minute,"
            " bytes_per_day or concurrent_hops)"
        ),
        Rule.WEB_TOOL: _web_tool,
        Rule.INTERNAL: _elsewhere("a fault of the gateway's own, refused to be safe; its log says more"),
        Rule.AUDIT_UNAVAILABLE: _elsewhere(
            "nothing passes while the audit log cannot be written: make room in the state directory"
        ),
    }
)
"""What would allow each rule's refusal."""
