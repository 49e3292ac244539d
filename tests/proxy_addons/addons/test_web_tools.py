"""Room for bodies that are kept whole: bounded for each, and for all of a worker."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from proxy_addons.addons.web_tools import ALL_KEPT_BYTES, KEPT_BYTES, Room, WebTools
from proxy_addons.policy.limits import DEFAULT_PROFILE
from proxy_addons.policy.verdicts import Rule

PROFILE = replace(DEFAULT_PROFILE, request_body=True, request_cap=1 << 30)


class AnyHop:
    profile = PROFILE
    display = "https://api.anthropic.com/v1/messages"


def rooms(number: int) -> tuple[WebTools, list[Room]]:
    addon = WebTools(cast(Any, None))
    return addon, [Room(addon, cast(Any, AnyHop()), KEPT_BYTES) for _ in range(number)]


def test_exactly_the_bound_is_kept_and_one_byte_more_is_refused() -> None:
    _, (room,) = rooms(1)
    assert not room.take(KEPT_BYTES).refused
    verdict = room.take(1)
    assert (verdict.rule, "33554432 bytes" in verdict.message) == (Rule.REQUEST_CAP, True)


def test_what_all_keep_is_bounded_and_whoever_comes_too_late_is_told_when_to_come_again() -> None:
    fitting = ALL_KEPT_BYTES // KEPT_BYTES
    _, held = rooms(fitting + 1)
    assert not any(room.take(KEPT_BYTES).refused for room in held[:fitting])
    verdict = held[fitting].take(1)
    assert (verdict.rule, verdict.retry_after) == (Rule.BUDGET, 1)

    held[0].release()
    held[0].release()
    assert not held[fitting].take(KEPT_BYTES).refused
    assert held[1].take(0).refused is False


def test_a_room_that_was_given_back_takes_nothing_more() -> None:
    addon, (room, other) = rooms(2)
    room.take(10)
    room.release()
    assert room.take(1).refused
    other.take(7)
    other.release()
    assert addon.kept_bytes == 0
