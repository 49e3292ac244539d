"""The redirect ladder (SPEC 1.4): three rules in this order, on every answer of every hop.

1 cap · 2 https to http · 3 checks 2 to 7 of admission on the target

A redirect is 301, 302, 303, 307 or 308 with one Location that parses against the hop's URL. Anything else is an
ordinary answer with that status.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from urllib.parse import quote_from_bytes, unquote_to_bytes

from .admission import Position, decide_target
from .limits import MAX_REDIRECTS, Profile
from .targets import Target, TargetParseError, resolve_reference
from .verdicts import ALLOWED, Failure, Rule, Verdict, refuse

REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})
"""The redirect statuses of the Fetch standard; 300, 304, 305 and 306 are ordinary answers."""

_NON_ASCII = re.compile(rb"[\x80-\xff]+")
_VISIBLE = re.compile(rb"[!-~]+")


class RedirectKind(Enum):
    """What a 3xx is to us."""

    ORDINARY = "ordinary"
    """Not a redirect: another status, or no Location at all."""
    UNREADABLE = "unreadable"
    """A redirect status whose Location does not parse, or several that differ."""
    REDIRECT = "redirect"


@dataclass(frozen=True, slots=True)
class RedirectDecision:
    """`target` and `hop` (the number of the hop that would follow) are set when the kind is REDIRECT."""

    kind: RedirectKind
    verdict: Verdict
    target: Target | None = None
    hop: int = 0


def decide_redirect(
    source: Target, status: int, locations: Sequence[bytes], hop: int, method: str, profile: Profile
) -> RedirectDecision:
    """Judge the answer to hop number `hop` (0 is the first request) of a chain.

    locations: the raw values of the answer's Location fields. method: of the request that was answered.
    """
    if status not in REDIRECT_STATUSES or not locations:
        return RedirectDecision(RedirectKind.ORDINARY, ALLOWED)
    target = parse_locations(source, locations)
    if target is None:
        verdict = refuse(Rule.PARSE, "invalid url", failure=Failure.SOFT, subject=source.display)
        return RedirectDecision(RedirectKind.UNREADABLE, verdict)
    verdict = _decide_ladder(source, target, hop + 1, next_method(status, method), profile)
    return RedirectDecision(RedirectKind.REDIRECT, verdict, target, hop + 1)


def parse_locations(source: Target, locations: Sequence[bytes]) -> Target | None:
    """The target that Location fields name, against the hop's URL; None when there is no single readable one.

    Octets that are not UTF-8 are percent-encoded one by one, so that each is encoded once (RFC 3986, 2.1).
    """
    if len(set(locations)) != 1:
        return None
    raw = locations[0]
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = "".join(chr(byte) if byte < 0x80 else f"%{byte:02X}" for byte in raw)
    try:
        return resolve_reference(text, source)
    except TargetParseError:
        return None


def render_location(target: Target, locations: Sequence[bytes]) -> bytes:
    """The Location that a client gets for an allowed redirect: the target as it was judged, with its fragment.

    Clients read an odd Location (`\\\\host`, tabs, bare octets) in ways of their own; this one has a single reading.
    """
    fragment = locations[0].partition(b"#")[2]
    mark = b"#" + fragment if fragment and _VISIBLE.fullmatch(fragment) else b""
    return f"{target.scheme}://{target.authority}{target.request_path}".encode("ascii") + mark


def next_method(status: int, method: str) -> str:
    """The method a client uses for the hop after `status` (Fetch, HTTP-redirect fetch, step 12)."""
    if status == 303 and method not in ("GET", "HEAD"):
        return "GET"
    if status in (301, 302) and method == "POST":
        return "GET"
    return method


def ledger_key(target: Target) -> str:
    """One spelling for all the ways a client may write the target of a redirect it was sent to.

    Clients differ in what they percent-encode and in how they read octets that are not ASCII, and some drop
    a trailing dot or a bare `?`. So every octet is decoded and written in one form, a run of non-ASCII octets
    counts as one, and the dot and the bare `?` go. Two targets that share a key only by this are counted as
    one, which errs on the side of the cap.
    """
    text = f"{target.scheme}://{target.dns_name}:{target.port}{target.request_path.removesuffix('?')}"
    return quote_from_bytes(_NON_ASCII.sub(b"\xff", unquote_to_bytes(text)), safe="/:?&=@[]")


def _decide_ladder(source: Target, target: Target, hop: int, method: str, profile: Profile) -> Verdict:
    if hop > MAX_REDIRECTS:
        return _refuse_hop(source, target, Rule.REDIRECT_CAP, f"exceeded max redirects ({MAX_REDIRECTS})")
    if source.scheme == "https" and target.scheme == "http":
        return _refuse_hop(source, target, Rule.DOWNGRADE, "refusing https to http downgrade")
    verdict = decide_target(target, method, profile, Position.REDIRECT)
    if verdict.refused and verdict.rule is not None:
        return _refuse_hop(source, target, verdict.rule, verdict.message)
    return ALLOWED


def _refuse_hop(source: Target, target: Target, rule: Rule, reason: str) -> Verdict:
    message = f"redirect from {source.display} to {target.display} refused: {reason}"
    return refuse(rule, message, failure=Failure.SOFT, subject=target.display)
