"""On whose behalf a call runs."""

from dataclasses import dataclass

from proxy_addons.policy.limits import Profile


@dataclass(frozen=True, slots=True)
class Caller:
    """agent: the name of the calling agent, ASCII. profile: the one its calls are judged under."""

    agent: str
    profile: Profile
