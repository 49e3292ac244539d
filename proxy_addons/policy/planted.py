"""What a suggested profile has because somebody in the run wanted it: the agent's steerer, or a site it asked.

Evidence is what an agent did, and an agent, or a page that it obeys, may have asked for a place only to have it
allowed. No log tells that from need, so each such place is named at the head, for a person to look at.
"""

from collections.abc import Collection, Iterator

from .hosts import HostPattern
from .limits import Profile
from .usage import Place

_SHOWN = 5


def warn_of_choices(
    base: Profile, asked: Collection[Place], led_to: Collection[Place], denials: Collection[HostPattern]
) -> Iterator[str]:
    """Cautions. asked: places of the run; led_to: those that an answer led to and nobody asked for; denials: those of
    `base` that are taken out."""
    allow, deny = base.hosts.allow, base.hosts.deny
    outside = {
        name
        for name, port in asked
        if not any(one.matches(name, port) for one in allow) or any(one.matches(name, port) for one in deny)
    }
    if outside:
        yield (
            f"{_count(outside, 'host')} that {base.name} only reported: whoever steers the agent chose them, so look"
            f" at each before it is in force: {_some(outside)}"
        )
    led = {name for name, _ in led_to} - {name for name, _ in asked}
    if led:
        yield (
            f"{_count(led, 'host')} that nobody asked for: an answer led there, so a site chose them; take out what"
            f" you do not know: {_some(led)}"
        )
    if denials:
        gone = {str(one) for one in denials}
        yield (
            f"the run went past {_count(gone, 'denial')} of {base.name}, taken out of deny_hosts here: {_some(gone)}"
        )


def _count(names: Collection[str], what: str) -> str:
    return f"{len(names):,} {what}{'s' if len(names) != 1 else ''}"


def _some(names: Collection[str]) -> str:
    shown = sorted(names)[:_SHOWN]
    return ", ".join((*shown, "...") if len(names) > _SHOWN else shown)
