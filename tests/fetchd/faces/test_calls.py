"""The bound on calls, and how it is shared: no agent's flood costs another more than its turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from fetchd.core.caller import Caller
from fetchd.faces.calls import BusyError, Calls, ToolNotAllowedError
from proxy_addons.policy.limits import DEFAULT_PROFILE, Profile


class Held:
    """In place of WebFetch: calls that are at work until they are let go, one by one."""

    def __init__(self) -> None:
        self.at_work: list[tuple[str, object]] = []
        self.seen: list[tuple[str, object]] = []
        self._ends: dict[tuple[str, object], asyncio.Event] = {}

    async def call(self, arguments: Any, caller: Caller, progress: object) -> Any:
        key = (caller.agent, arguments)
        self._ends[key] = asyncio.Event()
        self.at_work.append(key)
        self.seen.append(key)
        try:
            await self._ends[key].wait()
        finally:
            self.at_work.remove(key)

    def end(self, *key: object) -> None:
        self._ends[key].set()  # type: ignore[index]


class Crowd:
    """Agents that call. `call` says by what number the call is known."""

    def __init__(self, **limits: int) -> None:
        self.held = Held()
        self.calls = Calls(self.held, **limits)  # type: ignore[arg-type]
        self.tasks: dict[tuple[str, int], asyncio.Task[Any]] = {}

    async def call(self, agent: str, *numbers: int) -> None:
        for number in numbers:
            work = self.calls.web_fetch(number, Caller(agent, DEFAULT_PROFILE))  # type: ignore[arg-type]
            self.tasks[agent, number] = asyncio.create_task(work)
        await settle()

    async def end(self, agent: str, number: int) -> None:
        self.held.end(agent, number)
        await settle()

    async def cancel(self, agent: str, number: int) -> None:
        self.tasks[agent, number].cancel()
        await settle()

    def turned_away(self, agent: str, number: int) -> bool:
        task = self.tasks[agent, number]
        return task.done() and isinstance(task.exception(), BusyError)


async def settle() -> None:
    """Until nothing that can go on at once is left."""
    for _ in range(20):
        await asyncio.sleep(0)


@asynccontextmanager
async def crowd(**limits: int) -> AsyncIterator[Crowd]:
    one = Crowd(**limits)
    try:
        yield one
    finally:
        for task in one.tasks.values():
            task.cancel()
        await asyncio.gather(*one.tasks.values(), return_exceptions=True)
        assert one.held.at_work == []
        # Every place and every seat was given back.
        assert (one.calls._turns._free, one.calls._turns._room) == (
            limits["max_calls"],
            limits["max_waiting"],
        )
        assert not one.calls._turns._at_work and not one.calls._turns._waiting


async def test_one_agent_has_half_of_the_places_and_half_of_the_seats() -> None:
    async with crowd(max_calls=4, max_waiting=4) as all_:
        await all_.call("a", 1, 2, 3, 4, 5)

        assert all_.held.at_work == [("a", 1), ("a", 2)]
        assert [all_.turned_away("a", n) for n in (3, 4, 5)] == [False, False, True]


async def test_another_finds_a_place_whatever_the_first_does() -> None:
    async with crowd(max_calls=4, max_waiting=4) as all_:
        await all_.call("a", *range(10))
        await all_.call("b", 1, 2, 3)

        assert [key for key in all_.held.at_work if key[0] == "b"] == [("b", 1), ("b", 2)]
        assert not all_.turned_away("b", 3)


async def test_free_places_go_round() -> None:
    """a has filled its seats before b and c came; each of those has its turn before a's second."""
    async with crowd(max_calls=2, max_waiting=12, share=1) as all_:
        await all_.call("a", 1, 2, 3, 4, 5)
        await all_.call("b", 1, 2)
        await all_.call("c", 1)
        order = []
        for _ in range(6):
            ended = all_.held.at_work[0]
            await all_.end(*ended)  # type: ignore[arg-type]
            order.append(all_.held.at_work[-1])

    assert order == [("a", 3), ("b", 1), ("c", 1), ("a", 4), ("b", 2), ("a", 5)]


async def test_whoever_is_alone_may_have_all_of_it() -> None:
    async with crowd(max_calls=2, max_waiting=2, share=1) as all_:
        await all_.call("a", 1, 2, 3, 4, 5)

        assert len(all_.held.at_work) == 2
        assert [all_.turned_away("a", n) for n in (3, 4, 5)] == [False, False, True]


@pytest.mark.parametrize(("max_waiting", "away"), [(0, True), (1, False)])
async def test_an_odd_number_is_shared_upwards(max_waiting: int, away: bool) -> None:
    async with crowd(max_calls=1, max_waiting=max_waiting) as all_:
        await all_.call("a", 1, 2)

        assert all_.held.at_work == [("a", 1)]
        assert all_.turned_away("a", 2) is away


async def test_all_together_have_no_more_than_there_is() -> None:
    async with crowd(max_calls=2, max_waiting=2) as all_:
        for agent in "abcdef":
            await all_.call(agent, 1)

        assert len(all_.held.at_work) == 2
        assert [all_.turned_away(agent, 1) for agent in "cdef"] == [False, False, True, True]


async def test_one_who_stops_waiting_leaves_its_seat() -> None:
    async with crowd(max_calls=1, max_waiting=1) as all_:
        await all_.call("a", 1, 2)
        await all_.cancel("a", 2)
        await all_.call("b", 1)
        await all_.end("a", 1)

        assert all_.held.at_work == [("b", 1)]


async def test_one_who_is_cancelled_as_it_gets_its_place_gives_it_back() -> None:
    async with crowd(max_calls=1, max_waiting=2) as all_:
        await all_.call("a", 1)
        await all_.call("b", 1)
        await all_.call("c", 1)
        all_.held.end("a", 1)
        for _ in range(100):  # until b has it, and has not run yet
            if all_.calls._turns._at_work["b"]:
                break
            await asyncio.sleep(0)
        await all_.cancel("b", 1)

        assert all_.held.at_work == [("c", 1)]
        assert ("b", 1) not in all_.held.seen


async def test_a_tool_that_the_profile_does_not_list() -> None:
    async with crowd(max_calls=1, max_waiting=0) as all_:
        with pytest.raises(ToolNotAllowedError, match=r"^tool web_fetch is not allowed by profile idle$"):
            await all_.calls.web_fetch({}, Caller("a", Profile("idle", tools=frozenset())))
        with pytest.raises(ToolNotAllowedError, match=r"^tool web_search is not allowed by profile idle$"):
            await all_.calls.web_search({}, Caller("a", Profile("idle", tools=frozenset())))


async def test_a_tool_that_is_not_served_here() -> None:
    async with crowd(max_calls=1, max_waiting=0) as all_:
        with pytest.raises(ToolNotAllowedError):
            await all_.calls.web_search({}, Caller("a", DEFAULT_PROFILE))
        with pytest.raises(ToolNotAllowedError):
            await all_.calls.page_read({}, Caller("a", DEFAULT_PROFILE))
        assert all_.calls.tools == {"web_fetch"}
