"""What `fetchd check` prints of one URL: the verdict, each check of the ladder, and what would allow it."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from fetchd.explaining.lookup import NameFinding
from fetchd.settings import LoadedConfig
from proxy_addons.policy.explaining import Standing, Step, explain_ladder
from proxy_addons.policy.limits import Profile
from proxy_addons.policy.remedies import Question, Remedy, find_remedy
from proxy_addons.policy.targets import Target
from proxy_addons.policy.verdicts import Rule, Verdict
from proxy_addons.policy.wire import policy_name

from .config_cli import render_columns
from .remedy_text import remedy_document, render_remedy

_BODYLESS: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
_MARKS: Final = {
    Standing.PASSES: "passes",
    Standing.REFUSES: "REFUSES",
    Standing.REPORTS: "reports",
    Standing.NOT_REACHED: "-",
}


@dataclass(frozen=True, slots=True)
class Explained:
    """A verdict on a URL and how it came about. remedy: None where nothing was refused or reported."""

    verdict: Verdict
    target: Target | None
    name: NameFinding | None
    method: str
    profile: Profile
    steps: tuple[Step, ...]
    remedy: Remedy | None


def explain(
    verdict: Verdict,
    target: Target | None,
    name: NameFinding | None,
    method: str,
    profile: Profile,
    loaded: LoadedConfig,
) -> Explained:
    """What the verdict was made of."""
    rule = verdict.rule or verdict.would_refuse
    remedy = None
    if rule is not None and rule is not Rule.INTERNAL:
        dropped = name.dropped if name is not None else ()
        remedy = find_remedy(Question(rule, target, method, dropped), profile, tuple(loaded.config.profiles))
    steps = explain_ladder(target, method, profile)
    return Explained(verdict, target, name, method, profile, steps, remedy)


def render_explanation(found: Explained, loaded: LoadedConfig) -> str:
    """Paragraphs for people. The URL as messages show it (SPEC 1.6): no credentials, no query."""
    parts = [
        "\n".join(f"{label:<8} {_printable(text)}" for label, text in _verdict_rows(found)),
        render_columns(
            [
                (f"{step.number}", step.rule.value, _MARKS[step.standing], _printable(step.text))
                for step in found.steps
            ]
        ),
    ]
    if (note := _body_note(found)) is not None:
        parts.append(f"note: {note}")
    if found.remedy is not None:
        file = str(loaded.path) if loaded.path is not None else "a configuration file"
        parts.append(render_remedy(found.remedy, "To allow it", file))
    return "\n\n".join(parts)


def render_explanation_json(found: Explained, document: Mapping[str, object]) -> str:
    """The verdict's keys, and how it came about. One line of ASCII."""
    profile = found.profile
    return json.dumps(
        {
            **document,
            "method": found.method,
            "profile": profile.name,
            "policy": policy_name(profile),
            "mode": profile.mode,
            "checks": [
                {"number": step.number, "rule": step.rule, "standing": step.standing, "text": step.text}
                for step in found.steps
            ],
            "remedy": remedy_document(found.remedy),
        }
    )


def _verdict_rows(found: Explained) -> Iterator[tuple[str, str]]:
    verdict = found.verdict
    yield "verdict", verdict.outcome.value
    if found.target is not None:
        yield "url", found.target.display
    if verdict.rule is not None:
        yield "rule", verdict.rule.value
        yield "message", verdict.message
        if verdict.failure is not None:
            yield "failure", verdict.failure.value
    if verdict.would_refuse is not None:
        yield "monitor", f"not enforced, would refuse by {verdict.would_refuse}"
    if found.name is not None:
        yield from (("address", address) for address in found.name.allowed)
        yield from (("dropped", f"{address} in range {row}") for address, row in found.name.dropped)
    yield "policy", policy_name(found.profile)


def _body_note(found: Explained) -> str | None:
    """A method that usually has a body says nothing of whether one may come."""
    if found.method in _BODYLESS or found.verdict.refused:
        return None
    profile = found.profile
    if profile.request_body:
        return f"a body may have {profile.request_cap:,} bytes (request_cap)"
    return "a body is refused by rule request-cap: request_body is false"


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
