"""What would allow what was refused: a rule, what it was about and the profile, to the change or why there is none.

Laws of this file
- A remedy is true: with its changes in the configuration file the same question passes. Tests apply them.
- A change is the whole new value of a key, so that it can stand in the file as it is.
- `default` can only be tightened: what would loosen it goes into a profile of another name, together with all that
  the file has tightened in `default`.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from .config_forms import Json, render_toml
from .config_schema import BUILT_IN, LIMITS, PROFILE_TABLE, TABLES, profile_value
from .hosts import matches_any
from .limits import DEFAULT_PROFILE, Profile
from .remedy_rules import REMEDIES, Draft, Question, Reach, climb, pattern_of
from .targets import Target

OTHER_NAME = "wider"
"""What a profile is called that has to stand beside `default`."""


@dataclass(frozen=True, slots=True)
class Change:
    """A key of a profile and its new value in a document's terms; added: the entries that a list did not have."""

    key: str
    value: Json
    added: tuple[Json, ...] = ()

    @property
    def toml(self) -> str:
        """The line for the configuration file."""
        return f"{self.key} = {render_toml(self.value)}"


@dataclass(frozen=True, slots=True)
class Remedy:
    """What to do. profile: where `changes` go; is_new: it has to be made, and named where it is to hold."""

    reach: Reach
    text: str
    profile: str = ""
    is_new: bool = False
    changes: tuple[Change, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def toml(self) -> tuple[str, ...]:
        """The lines for the configuration file, heading first; none without changes."""
        if not self.changes:
            return ()
        return (f"[profiles.{self.profile}]", *(change.toml for change in self.changes))


def find_remedy(question: Question, profile: Profile, taken: Collection[str] = ()) -> Remedy:
    """What would let pass what `profile` refused. taken: names of profiles that exist."""
    draft = REMEDIES[question.rule](question, profile)
    if draft.reach is not Reach.PROFILE:
        return Remedy(draft.reach, draft.text)
    if question.target is not None:
        ladder = climb(question, question.target, profile)
        if isinstance(ladder, str):
            return Remedy(Reach.NEVER, ladder)
        draft = ladder.joined(draft)
    return _place(draft, profile, taken)


def find_credential_remedy(target: Target, profile: Profile, taken: Collection[str] = ()) -> Remedy | None:
    """What would let an agent's own credentials through to `target`; None when they are let through already."""
    if matches_any(profile.credential_hosts, target):
        return None
    pattern = pattern_of(target.dns_name)
    if pattern is None:
        return None
    draft = Draft(
        Reach.PROFILE,
        "",
        {"credential_hosts": (*profile.credential_hosts, pattern)},
        (f"whatever the agent sends as Authorization or Cookie then reaches {pattern}",),
    )
    return _place(draft, profile, taken)


def _place(draft: Draft, profile: Profile, taken: Collection[str]) -> Remedy:
    """Decide in which profile the changes stand."""
    if not draft.changes:
        return Remedy(Reach.ALLOWED, f"profile {profile.name} as it is now does not refuse it")
    keys = TABLES[PROFILE_TABLE]
    changes = {name: _change(name, value, profile) for name, value in draft.changes.items()}
    loosened = [
        name
        for name, value in draft.changes.items()
        if keys[name].tighten.loosens(value, profile_value(DEFAULT_PROFILE, name))
    ]
    if profile.name != BUILT_IN or not loosened:
        return Remedy(draft.reach, draft.text, profile.name, False, tuple(changes.values()), draft.warnings)
    kept = {
        key.name: _change(key.name, value, profile)
        for key in LIMITS
        if (value := profile_value(profile, key.name)) != profile_value(DEFAULT_PROFILE, key.name)
        and value is not None
    }
    return Remedy(
        draft.reach,
        draft.text,
        _free_name(taken),
        True,
        tuple({**kept, **changes}.values()),
        (*draft.warnings, f"{BUILT_IN} may only be tightened, so this is a profile of another name"),
    )


def _change(name: str, value: Any, profile: Profile) -> Change:
    dump = TABLES[PROFILE_TABLE][name].form.dump
    new, before = dump(value), profile_value(profile, name)
    old = dump(before) if before is not None else None
    if not (isinstance(new, list) and isinstance(old, list)):
        return Change(name, new)
    return Change(name, new, tuple(one for one in new if one not in old))


def _free_name(taken: Collection[str]) -> str:
    names = [OTHER_NAME, *(f"{OTHER_NAME}-{number}" for number in range(2, len(taken) + 3))]
    return next(name for name in names if name not in taken)


__all__ = ["Change", "Question", "Reach", "Remedy", "find_credential_remedy", "find_remedy"]
