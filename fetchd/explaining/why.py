"""Why a fetch ended as it did, and what would have let it pass: the log's story beside the configuration of today.

Story (audit) ──► Question ── policy.remedies, with the profile as it is now ──► Explanation
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from proxy_addons.audit.reader import LogLine, read_number
from proxy_addons.audit.story import HopStory, Story
from proxy_addons.policy.config import Config
from proxy_addons.policy.limits import Profile
from proxy_addons.policy.redirects import next_method
from proxy_addons.policy.remedies import (
    Question,
    Reach,
    Remedy,
    find_credential_remedy,
    find_remedy,
)
from proxy_addons.policy.targets import Target, TargetParseError, parse_target
from proxy_addons.policy.verdicts import Rule

UNAUTHORIZED: Final = 401
_REDIRECT: Final = re.compile(r"redirect from \S+ to (.+) refused: .*", re.DOTALL)
"""The message of every refused redirect (SPEC 1.4)."""


class Standing(StrEnum):
    """What became of the profile since."""

    SAME = "same"
    CHANGED = "changed"
    GONE = "gone"
    UNKNOWN = "unknown"
    """The log does not name it, or there is no configuration to look at."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """A story and what follows from it.

    profile, version: as logged; now: the version of the profile of that name today. hypothetical: nothing was
    refused, and the remedy is for the rule that would have. credentials: what would let an agent's own through.
    """

    story: Story
    profile: str | None
    version: str | None
    standing: Standing
    now: str | None = None
    remedy: Remedy | None = None
    hypothetical: bool = False
    credentials: Remedy | None = None


def explain(story: Story, config: Config | None) -> Explanation:
    """Never raises, whatever the log holds. config: None when it cannot be read."""
    source = _identity_line(story)
    name = source.text("profile") if source is not None else None
    policy = source.text("policy") if source is not None else None
    version = policy.rpartition("@")[2] if policy is not None else None
    current = config.profiles.get(name) if config is not None and name is not None else None
    rule, hypothetical = story.rule, False
    if rule is None and story.hops and (would := story.hops[-1].first.text("would_refuse")) is not None:
        rule, hypothetical = would, True
    taken = tuple(config.profiles) if config is not None else ()
    return Explanation(
        story,
        name,
        version,
        _standing(name, version, config, current),
        current.version if current is not None else None,
        _remedy(rule, story, name, current, taken) if rule is not None else None,
        hypothetical,
        _credentials(story, current, taken) if rule is None else None,
    )


def _identity_line(story: Story) -> LogLine | None:
    """The first line that names a profile: close lines do not."""
    return next((line for line in story.lines if line.text("profile") is not None), None)


def _standing(
    name: str | None, version: str | None, config: Config | None, current: Profile | None
) -> Standing:
    if name is None or config is None:
        return Standing.UNKNOWN
    if current is None:
        return Standing.GONE
    return Standing.SAME if current.version == version else Standing.CHANGED


def _remedy(
    rule_text: str, story: Story, name: str | None, current: Profile | None, taken: tuple[str, ...]
) -> Remedy:
    try:
        rule = Rule(rule_text)
    except ValueError:
        return Remedy(Reach.ELSEWHERE, "this version of fetchd does not know that rule")
    question = _question(rule, story)
    if current is not None:
        return find_remedy(question, current, taken)
    # What holds in every profile holds without one too.
    remedy = find_remedy(question, Profile("unknown"))
    if remedy.reach in (Reach.NEVER, Reach.ELSEWHERE):
        return remedy
    if name is None:
        return Remedy(Reach.ELSEWHERE, "the log does not say under which profile it was judged")
    return Remedy(
        Reach.ELSEWHERE, f"profile {name} is not in the configuration, so nothing in it can be changed"
    )


def _question(rule: Rule, story: Story) -> Question:
    """What was refused, from the lines that say so."""
    hop = story.stopped or (story.hops[-1] if story.hops else None)
    if hop is None:
        fetch = story.fetch or story.first
        return Question(rule, _redirect_target(fetch) or _target(fetch.text("url")))
    first, last = hop.first, hop.last
    method = first.text("method") or "GET"
    target = _redirect_target(last)
    if target is None:
        target = _target(first.text("url"))
    else:
        method = next_method(int(last.number("status") or 0), method)
    dns_ms, decoded = phases(last).get("dns"), last.number("decoded_bytes")
    return Question(
        rule, target, method, dropped_addresses(hop), None if decoded is None else int(decoded), dns_ms
    )


def _redirect_target(line: LogLine) -> Target | None:
    """Where a refused redirect led to; None when the line speaks of none."""
    found = _REDIRECT.fullmatch(line.text("detail") or "")
    return _target(found[1]) if found is not None else None


def _target(url: str | None) -> Target | None:
    try:
        return parse_target(url) if url is not None else None
    except TargetParseError:
        return None


def _credentials(story: Story, current: Profile | None, taken: tuple[str, ...]) -> Remedy | None:
    """An origin asked for a login. The daemon never has one, so its fetches are left out."""
    if not story.hops or story.fetch is not None or current is None:
        return None
    last = story.hops[-1]
    target = _target(last.first.text("url"))
    if target is None or last.last.number("status") != UNAUTHORIZED:
        return None
    return find_credential_remedy(target, current, taken)


# ------------------------------------------------------------------------------- what a line may hold, or not


def dropped_addresses(hop: HopStory) -> tuple[tuple[str, str], ...]:
    """(address, range) of each address that was not to be dialled."""
    rows = _addresses(hop).get("dropped")
    return tuple(
        (row["address"], row["range"])
        for row in (rows if isinstance(rows, list) else [])
        if isinstance(row, dict) and isinstance(row.get("address"), str) and isinstance(row.get("range"), str)
    )


def returned_addresses(hop: HopStory) -> tuple[str, ...]:
    """What DNS answered."""
    rows = _addresses(hop).get("returned")
    return tuple(row for row in (rows if isinstance(rows, list) else []) if isinstance(row, str))


def dialled_address(hop: HopStory) -> str | None:
    """Where the connection went."""
    address = _addresses(hop).get("dialled")
    return address if isinstance(address, str) else None


def tls_facts(hop: HopStory) -> tuple[str, str] | None:
    """(version, SHA-256 of the certificate) of the origin's TLS."""
    found = hop.last.members.get("tls")
    if not isinstance(found, dict):
        return None
    version, digest = found.get("version"), found.get("certificate_sha256")
    return (version, digest) if isinstance(version, str) and isinstance(digest, str) else None


def phases(line: LogLine) -> dict[str, float]:
    """Milliseconds by phase, those that happened."""
    found = line.members.get("ms")
    return {
        name: float(number)
        for name, value in (found.items() if isinstance(found, dict) else ())
        if (number := read_number(value)) is not None
    }


def _addresses(hop: HopStory) -> dict[str, object]:
    for line in (hop.last, hop.first):
        if isinstance(found := line.members.get("addresses"), dict):
            return found
    return {}
