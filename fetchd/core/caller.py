"""On whose behalf a call runs."""

from dataclasses import dataclass

from proxy_addons.policy.limits import Profile


@dataclass(frozen=True, slots=True)
class Caller:
    """agent: the name of the calling agent, ASCII. profile: the one its calls are judged under. way: the
    installations that a search has come through on its way here, the first that asked first (`fetchd.search.way`).
    """

    agent: str
    profile: Profile
    way: tuple[str, ...] = ()
