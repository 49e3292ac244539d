"""Room for bodies that are kept whole: bounded for each, and for all of a worker."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from proxy_addons.addons.kept_bodies import ALL_KEPT_BYTES, KEPT_BYTES, KeptBodies, Room
from proxy_addons.policy.verdicts import Rule, refuse

OVER = refuse(Rule.REQUEST_CAP, "too long")


@dataclass(eq=False)
class AnySession:
    client: object = field(default_factory=object)


@dataclass(eq=False)
class AnyHop:
    """What a room asks of a hop."""

    agent: str = "a"
    session: AnySession = field(default_factory=AnySession)


def room_of(bodies: KeptBodies, hop: AnyHop | None = None) -> Room:
    return bodies.open_room(cast(Any, hop or AnyHop()), KEPT_BYTES, lambda: OVER)


@pytest.fixture
def bodies() -> KeptBodies:
    return KeptBodies()


def test_exactly_the_bound_is_kept_and_one_byte_more_is_refused(bodies: KeptBodies) -> None:
    room = room_of(bodies)
    assert not room.take(KEPT_BYTES).refused
    verdict = room.take(1)
    assert verdict is OVER


def test_an_agent_has_half_of_the_room_and_all_have_all_of_it(bodies: KeptBodies) -> None:
    fitting = ALL_KEPT_BYTES // KEPT_BYTES // 2
    held = [room_of(bodies, AnyHop(agent)) for agent in "ab" for _ in range(fitting)]
    for agent in (held[:fitting], held[fitting:]):
        assert not any(room.take(KEPT_BYTES).refused for room in agent)
        verdict = room_of(bodies, AnyHop("a")).take(1)
        assert (verdict.rule, verdict.retry_after) == (Rule.BUDGET, 1)
    assert room_of(bodies, AnyHop("c")).take(1).refused

    held[0].release()
    held[0].release()
    assert not room_of(bodies, AnyHop("c")).take(KEPT_BYTES).refused
    assert room_of(bodies, AnyHop("a")).take(1).refused


def test_a_room_that_was_given_back_takes_nothing_more(bodies: KeptBodies) -> None:
    room = room_of(bodies)
    room.take(10)
    room.release()
    assert room.take(1).refused
    assert bodies.bytes == 0


def test_a_client_that_goes_in_the_middle_gives_its_rooms_back(bodies: KeptBodies) -> None:
    gone, stays = AnySession(), AnySession()
    for session in (gone, gone, stays):
        room_of(bodies, AnyHop(session=session)).take(5)
    bodies.forget(cast(Any, gone.client))
    assert bodies.bytes == 5
