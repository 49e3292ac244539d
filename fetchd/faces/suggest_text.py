"""What `fetchd audit suggest` prints: a profile as TOML with its evidence as comments, or one JSON object.

Nothing that stands in the log gets out of a comment or a string: comments are printable ASCII on one line, strings
are written by `render_toml`.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Final

from fetchd.explaining.learning import Run
from proxy_addons.policy.config_forms import Json, render_toml
from proxy_addons.policy.config_schema import LIMITS, Key, profile_value
from proxy_addons.policy.limits import DEFAULT_PROFILE
from proxy_addons.policy.suggestions import HostEntry, Suggestion, describe, short_time
from proxy_addons.policy.usage import Evidence, Usage

from .safe_text import escape_text

_ALWAYS: Final = frozenset(
    ("schemes", "ports", "methods", "allow_hosts", "byte_cap", "total_timeout", "tools")
)
"""Keys that are written though they have the built-in value: what the run was like is to be seen."""
_WIDTH: Final = 200
"""Characters of a comment: a path may have thousands."""


def render_suggestion(
    suggestion: Suggestion, run: Run, agent: str, source: str, faults: Iterable[str]
) -> str:
    """TOML. source: what the configuration is called. faults: what is wrong with the log."""
    base, profile = suggestion.base, suggestion.profile
    requests = run.usage.requests
    span = f", {short_time(requests.first)} to {short_time(requests.last)}" if requests.count else ""
    judged = ", ".join(run.usage.profiles) or "no profile that the log names"
    head = [
        f"The smallest profile for what agent {agent} did: {requests.count:,} requests{span},",
        f"judged under {judged}; based on profile {base.name} as it is in {source} now.",
        "To use it: put these lines into the configuration, then fetchd config check, fetchd reload and",
        f"fetchd agent set {agent} --profile {profile.name} (or name it where the agent's profile is named).",
    ]
    lines = [*_comments(head)]
    if faults := list(faults):
        told = "THE LOG CANNOT BE RELIED ON, so somebody may have written this evidence:"
        lines += ["#", *_comments([told, *faults])]
    lines += ["#", *_comments(["To know:", *(f"- {one}" for one in suggestion.cautions)])]
    lines += ["", f"[profiles.{profile.name}]"]
    for key in LIMITS:
        lines += _render_key(key, suggestion, run.usage)
    return "\n".join(lines)


def _render_key(key: Key, suggestion: Suggestion, usage: Usage) -> Iterator[str]:
    value, before = profile_value(suggestion.profile, key.name), profile_value(suggestion.base, key.name)
    if value is None:
        return
    if key.name not in _ALWAYS and value == profile_value(DEFAULT_PROFILE, key.name) == before:
        return
    yield from _comments(suggestion.comments.get(key.name, ()))
    if value != before:
        shown = "not set" if before is None else render_toml(key.form.dump(before))
        yield from _comments([f"in {suggestion.base.name}: {shown}"])
    if key.name != "allow_hosts":
        yield f"{key.name} = {_toml(key.form.dump(value))}"
        return
    yield "allow_hosts = ["
    for entry in suggestion.hosts:
        for line in _comments(_tell_entry(entry, usage)):
            yield f"    {line}"
        yield f"    {_toml(str(entry.pattern))},"
    yield "]"


def _tell_entry(entry: HostEntry, usage: Usage) -> Iterator[str]:
    if len(entry.places) > 1:
        names = sorted({name for name, _ in entry.places})
        yield f"{len(names):,} names: {', '.join(names[:5])}{', ...' if len(names) > 5 else ''}"
    asked = [usage.places[place] for place in entry.places if place in usage.places]
    if asked:
        yield describe(_sum(asked))
    elif led := [usage.redirects[place] for place in entry.places if place in usage.redirects]:
        yield f"not asked for: where an answer led, which a client gets only then; {describe(_sum(led))}"


def _sum(rows: list[Evidence]) -> Evidence:
    if len(rows) == 1:
        return rows[0]
    first = min(rows, key=lambda one: one.first)
    return Evidence(
        sum(one.count for one in rows),
        first.first,
        max(one.last for one in rows),
        first.example,
        sum(one.would_refuse for one in rows),
    )


def _comments(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        line = escape_text(text)
        yield f"# {line if len(line) <= _WIDTH else f'{line[:_WIDTH]}...'}"


def _toml(value: Json) -> str:
    """json leaves DEL as it is, which TOML forbids."""
    return render_toml(value).replace("\x7f", "\\u007f")


def render_suggestion_json(suggestion: Suggestion, run: Run, agent: str, faults: Iterable[str]) -> str:
    """One JSON object in ASCII."""
    profile, usage = suggestion.profile, run.usage
    values = ((key, profile_value(profile, key.name)) for key in LIMITS)
    document = {
        "agent": agent,
        "base": {"profile": suggestion.base.name, "version": suggestion.base.version},
        "profile": profile.name,
        "version": profile.version,
        "limits": {key.name: key.form.dump(value) for key, value in values if value is not None},
        "hosts": [
            {
                "pattern": str(entry.pattern),
                "places": [
                    {"host": place[0], "port": place[1], "asked": place in usage.places}
                    | _evidence(usage.places.get(place) or usage.redirects[place])
                    for place in entry.places
                ],
            }
            for entry in suggestion.hosts
        ],
        "requests": _evidence(usage.requests),
        "comments": suggestion.comments,
        "cautions": suggestion.cautions,
        "log_faults": list(faults),
    }
    return json.dumps(document).replace("\x7f", "\\u007f")


def _evidence(one: Evidence) -> dict[str, Json]:
    return {
        "count": one.count,
        "first": one.first or None,
        "last": one.last or None,
        "would_refuse": one.would_refuse,
        "example": one.example or None,
    }
