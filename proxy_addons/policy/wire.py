"""The wire contract on which gateway and clients, the daemon among them, meet (SPEC 1.7).

Gateway to client: a refusal is an `application/problem+json` answer (RFC 9457) with the `Fetchd-*` fields and
`Proxy-Status` (RFC 9209); an origin's answer carries `Fetchd-Verdict: allowed`.
Daemon to gateway: `Proxy-Authorization: Fetchd-Daemon {secret}` and, believed only beside it, who asks and which
hop of which fetch this is. `Fetchd-*` fields from anyone else, agent or origin, are dropped.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .budgets import Budget
from .hosts import HostPattern, HostPatternError, parse_host_pattern
from .limits import Profile
from .vendors.endpoints import ErrorShape
from .vendors.errors import render_error
from .verdicts import RULES, Outcome, Rule, Verdict

PREFIX = b"fetchd-"
VERDICT = "Fetchd-Verdict"
RULE = "Fetchd-Rule"
ID = "Fetchd-Id"
POLICY = "Fetchd-Policy"
REMOVED = "Fetchd-Removed"
AGENT = "Fetchd-Agent"
PROFILE = "Fetchd-Profile"
HOP = "Fetchd-Hop"
ALLOW = "Fetchd-Allow"
AUDIT = "Fetchd-Audit"
PROXY_STATUS = "Proxy-Status"
DAEMON_SCHEME = "Fetchd-Daemon"
PROBLEM_TYPE = "application/problem+json"
PROBLEM_URI = "urn:fetchd:rule:"
MAX_PROBLEM_BYTES = 1 << 20
"""What a reader of a problem document takes at the most. A redirect's message holds two paths and the document a
third; each may fill a head of 64 KiB with octets that take three characters when percent-encoded.
"""

MAX_HOP = 999
"""The largest hop number that a daemon may name; its chains end at 5 (SPEC 1.4)."""

_STATEMENT = re.compile(r"[!-~](?:[ -~]{0,198}[!-~])?")

_POSITION = re.compile(r"([a-z0-9-]{1,64}):([0-9]{1,18})")

Fields = tuple[tuple[bytes, bytes], ...]


@dataclass(frozen=True, slots=True)
class HopContext:
    """What an answer of the gateway says beside the verdict: whose fetch, which hop, under which policy."""

    fetch_id: str
    hop: int
    policy: str
    url: str | None = None
    """The display form of the hop's URL (SPEC 1.6), None where it did not parse."""
    audit: str | None = None
    """Where the decision stands in the log, `chain:number`; told to the daemon, for its receipts."""


@dataclass(frozen=True, slots=True)
class WireAnswer:
    """A whole HTTP answer of the gateway's own: status, reason phrase, header fields, body."""

    status: int
    reason: str
    fields: Fields
    body: bytes


@dataclass(frozen=True, slots=True)
class GatewayVerdict:
    """What the header fields of an answer say; `rule` is None where the outcome is ALLOWED."""

    outcome: Outcome
    rule: Rule | None
    fetch_id: str
    policy: str
    removed: tuple[str, ...]
    audit: tuple[str, int] | None = None
    """Chain and number of the decision's audit line, where the gateway said it."""


def policy_name(profile: Profile) -> str:
    """The value of Fetchd-Policy: profile name and version."""
    return f"{profile.name}@{profile.version}"


def render_refusal(
    verdict: Verdict,
    context: HopContext,
    profile: Profile | None = None,
    *,
    retry_after: int | None = None,
    shape: ErrorShape | None = None,
) -> WireAnswer:
    """The answer for a refusal. `profile` lets the document say what would be allowed.

    shape: whose error the body is to look like, for the SDK that reads it; the document then stands within it.
    """
    if verdict.rule is None:
        raise ValueError("only a refusal is rendered as a problem")
    row = RULES[verdict.rule]
    document: dict[str, object] = {
        "type": f"{PROBLEM_URI}{verdict.rule}",
        "title": row.title,
        "status": row.status,
        "detail": verdict.message,
        "rule": verdict.rule.value,
        "failure": verdict.failure.value if verdict.failure is not None else None,
        "url": context.url,
        "hop": context.hop,
        "fetch_id": context.fetch_id,
        "policy": context.policy,
    }
    allowed = _what_is_allowed(verdict, profile)
    if allowed is not None:
        document["allowed"] = allowed
    content_type = PROBLEM_TYPE
    if shape is not None:
        document = render_error(shape, row.status, verdict.message, document)
        content_type = "application/json"
    body = json.dumps(document).encode("ascii") + b"\n"
    fields = [
        (b"Content-Type", content_type.encode()),
        (b"Content-Length", b"%d" % len(body)),
        (b"Cache-Control", b"no-store"),
        (VERDICT.encode(), Outcome.REFUSED.value.encode()),
        (RULE.encode(), verdict.rule.value.encode()),
        (ID.encode(), _printable(context.fetch_id).encode()),
        (POLICY.encode(), _printable(context.policy).encode()),
        (PROXY_STATUS.encode(), _proxy_status(row.proxy_error, verdict.message)),
    ]
    if verdict.rule is Rule.IDENTITY:
        fields.append((b"Proxy-Authenticate", b'Basic realm="fetchd"'))
    if retry_after is not None:
        fields.append((b"Retry-After", b"%d" % retry_after))
    return WireAnswer(row.status, _one_line(verdict.message), tuple(fields), body)


def render_allowed_fields(context: HopContext, removed: Sequence[str] = ()) -> Fields:
    """The fields that an origin's answer carries. `removed`: request fields that were taken away."""
    fields = [
        _ALLOWED_FIELD,
        (_ID, _printable(context.fetch_id).encode()),
        (_POLICY, _printable(context.policy).encode()),
    ]
    if context.audit is not None:
        fields.append((_AUDIT, _printable(context.audit).encode()))
    if removed:
        fields.append((_REMOVED, _printable(", ".join(removed)).encode()))
    return tuple(fields)


_ALLOWED_FIELD = (VERDICT.encode(), Outcome.ALLOWED.value.encode())
_ID, _POLICY, _AUDIT, _REMOVED = (name.encode() for name in (ID, POLICY, AUDIT, REMOVED))


def parse_gateway_fields(fields: Iterable[tuple[bytes, bytes]]) -> GatewayVerdict | None:
    """What an answer's fields say of the gateway's verdict; None when they are not the gateway's."""
    found = _own_fields(fields)
    if found is None:
        return None
    try:
        outcome = Outcome(found.get(VERDICT.lower().encode(), ""))
        rule_text = found.get(RULE.lower().encode())
        rule = Rule(rule_text) if rule_text is not None else None
    except ValueError:
        return None
    if (outcome is Outcome.REFUSED) != (rule is not None):
        return None
    removed = found.get(REMOVED.lower().encode(), "")
    return GatewayVerdict(
        outcome,
        rule,
        found.get(ID.lower().encode(), ""),
        found.get(POLICY.lower().encode(), ""),
        tuple(part.strip() for part in removed.split(",") if part.strip()),
        _parse_position(found.get(AUDIT.lower().encode(), "")),
    )


def _parse_position(text: str) -> tuple[str, int] | None:
    found = _POSITION.fullmatch(text)
    return (found[1], int(found[2])) if found is not None else None


def parse_problem(body: bytes) -> Mapping[str, object] | None:
    """The members of a problem document of the gateway; None when the body is not one."""
    if len(body) > MAX_PROBLEM_BYTES:
        return None
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or not isinstance(document.get("detail"), str):
        return None
    return document


@dataclass(frozen=True, slots=True)
class DaemonRequest:
    """What the daemon says of a hop: the calling agent, the profile to judge under, the fetch and its hop.

    allow: the hosts that the caller of a page read narrows it to; None: to none.
    """

    agent: str
    profile: str
    fetch_id: str
    hop: int
    allow: tuple[HostPattern, ...] | None = None


def render_daemon_fields(secret: str, request: DaemonRequest) -> Fields:
    """The fields by which the daemon authenticates to the gateway and names the agent.

    Raises ValueError for a name or number that `parse_daemon_fields` would not take: it could forge a field.
    """
    for text in (secret, request.agent, request.profile, request.fetch_id):
        if not _STATEMENT.fullmatch(text):
            raise ValueError("secret, agent, profile, fetch id: 1 to 200 printable ASCII characters each")
    if not 0 <= request.hop <= MAX_HOP:
        raise ValueError(f"hop must be 0 to {MAX_HOP}")
    allow: Fields = ()
    if request.allow is not None:
        allow = ((ALLOW.encode(), " ".join(map(str, request.allow)).encode("ascii")),)
    return (
        (b"Proxy-Authorization", f"{DAEMON_SCHEME} {secret}".encode("ascii")),
        (AGENT.encode(), request.agent.encode("ascii")),
        (PROFILE.encode(), request.profile.encode("ascii")),
        (ID.encode(), request.fetch_id.encode("ascii")),
        (HOP.encode(), b"%d" % request.hop),
        *allow,
    )


def parse_daemon_fields(fields: Iterable[tuple[bytes, bytes]]) -> DaemonRequest | None:
    """The daemon's statements, once its secret was checked; None when one is missing or malformed."""
    found = _own_fields(fields)
    if found is None:
        return None
    try:
        agent, profile, fetch_id, hop = (found[n.lower().encode()] for n in (AGENT, PROFILE, ID, HOP))
    except KeyError:
        return None
    if not all(_STATEMENT.fullmatch(text) for text in (agent, profile, fetch_id)):
        return None
    if not (hop.isdigit() and len(hop) <= len(str(MAX_HOP))):
        return None
    stated = found.get(ALLOW.lower().encode())
    try:
        allow = _parse_allow(stated) if stated is not None else None
    except HostPatternError:
        return None
    return DaemonRequest(agent, profile, fetch_id, int(hop), allow)


def _parse_allow(stated: str) -> tuple[HostPattern, ...]:
    """Between two stands a space: a host name may hold a comma (URL standard, forbidden host code points)."""
    return tuple(parse_host_pattern(one) for one in stated.split())


def _own_fields(fields: Iterable[tuple[bytes, bytes]]) -> dict[bytes, str] | None:
    """The Fetchd-* fields by lower-case name; None when one stands twice or is not ASCII."""
    found: dict[bytes, str] = {}
    for name, value in fields:
        key = name.lower()
        if key.startswith(PREFIX):
            if key in found or not value.isascii():
                return None
            found[key] = value.decode("ascii")
    return found


def _what_is_allowed(verdict: Verdict, profile: Profile | None) -> list[str] | list[int] | int | None:
    """What would pass in place of what was refused, where the answer is short enough to help."""
    if profile is None:
        return None
    match verdict.rule:
        case Rule.SCHEME | Rule.DOWNGRADE:
            return sorted(profile.schemes)
        case Rule.PORT:
            return sorted(profile.ports)[:64]
        case Rule.METHOD:
            return sorted(profile.methods)
        case Rule.HOST:
            allowed = profile.hosts.allow if profile.allowlist is None else profile.allowlist
            return [str(pattern) for pattern in allowed[:64]]
        case Rule.UPGRADE:
            return sorted(profile.upgrades)
        case Rule.BUDGET:
            return _budget_limit(verdict.subject, profile)
        case _:
            return None


def _budget_limit(budget: str, profile: Profile) -> int | None:
    match budget:
        case Budget.CONCURRENT_HOPS:
            return profile.concurrent_hops
        case Budget.REQUESTS_PER_MINUTE:
            return profile.requests_per_minute
        case Budget.BYTES_PER_DAY:
            return profile.bytes_per_day
        case _:
            return None


def _printable(text: str) -> str:
    """Text as it may stand in a field value or a reason phrase (RFC 9112, 4 and 5): printable ASCII."""
    if not (text.isascii() and text.isprintable()):
        text = "".join(c if " " <= c <= "~" else "?" for c in text)
    return text.strip()


def _one_line(message: str) -> str:
    """A message as a reason phrase, bounded and never empty."""
    return _printable(message[:200]) or "Refused"


def _proxy_status(error: str, message: str) -> bytes:
    """RFC 9209 with the message as an RFC 8941 string."""
    text = _one_line(message).replace("\\", "\\\\").replace('"', '\\"')
    return f'fetchd; error={error}; details="{text}"'.encode("ascii")
