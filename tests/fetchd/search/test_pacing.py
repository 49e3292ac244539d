"""How often a provider is asked. Time is that of the loop, moved by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from fetchd.search.pacing import MAX_WAITING, BusyError, Pace


class Clock:
    """In place of the loop's time and of sleeping; `sleepers`: when each wakes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        self.sleepers: list[tuple[float, asyncio.Future[None]]] = []
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: self.now)
        monkeypatch.setattr("fetchd.search.pacing.asyncio.sleep", self.sleep)

    async def sleep(self, seconds: float) -> None:
        if seconds > 0:
            waker = asyncio.get_running_loop().create_future()
            self.sleepers.append((self.now + seconds, waker))
            await waker

    async def settle(self) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(20):
            turn = loop.create_future()
            loop.call_soon(turn.set_result, None)
            await turn

    async def move(self, seconds: float) -> None:
        self.now += seconds
        for ends, waker in list(self.sleepers):
            if ends <= self.now + 1e-9 and not waker.done():
                waker.set_result(None)
        await self.settle()


@pytest.fixture
async def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


class Searches:
    """Searches at one pace. `begun`: by whom, in order."""

    def __init__(self, concurrency: int = 2, per_minute: int | None = None) -> None:
        self.pace, self.concurrency, self.per_minute = Pace(), concurrency, per_minute
        self.begun: list[str] = []
        self.ends: list[asyncio.Event] = []

    def start(self, agent: str) -> asyncio.Task[None]:
        return asyncio.create_task(self.run(agent))

    async def run(self, agent: str) -> None:
        async with self.pace.turn(agent, self.concurrency, self.per_minute):
            self.begun.append(agent)
            self.ends.append(end := asyncio.Event())
            await end.wait()


async def test_so_many_at_once_and_agents_take_turns(clock: Clock) -> None:
    one = Searches(concurrency=2)
    tasks = [one.start(agent) for agent in ("a", "a", "a", "a", "b")]
    await clock.settle()
    assert one.begun == ["a", "a"]
    one.ends[0].set()
    await clock.settle()
    one.ends[1].set()
    await clock.settle()
    assert one.begun == ["a", "a", "a", "b"]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_one_more_than_the_waiting_room_holds_is_turned_away(clock: Clock) -> None:
    one = Searches(concurrency=1)
    tasks = [one.start("a") for _ in range(1 + MAX_WAITING)]
    await clock.settle()
    with pytest.raises(BusyError):
        await one.run("a")
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert len(one.begun) == 1


async def test_searches_are_spaced_evenly(clock: Clock) -> None:
    one = Searches(concurrency=4, per_minute=60)
    tasks = [one.start("a") for _ in range(3)]
    await clock.settle()
    assert len(one.begun) == 1
    await clock.move(0.5)
    assert len(one.begun) == 1
    await clock.move(0.5)
    assert len(one.begun) == 2
    await clock.move(1)
    assert len(one.begun) == 3
    await clock.move(10)
    tasks.append(one.start("a"))
    await clock.settle()
    assert len(one.begun) == 4  # nothing is saved up, and nothing is owed
    for end in one.ends:
        end.set()
    await asyncio.gather(*tasks)


async def test_who_stops_waiting_leaves_no_gap(clock: Clock) -> None:
    one = Searches(concurrency=4, per_minute=60)
    first, second = one.start("a"), one.start("a")
    await clock.settle()
    second.cancel()
    await clock.settle()
    third = one.start("b")
    await clock.move(1)
    assert one.begun == ["a", "b"]
    for end in one.ends:
        end.set()
    await asyncio.gather(first, third)


async def test_searches_that_time_out_do_not_hold_up_those_after_them(clock: Clock) -> None:
    one = Searches(concurrency=4, per_minute=1)
    first = one.start("a")
    await clock.settle()
    one.ends[0].set()
    for _ in range(3):  # each wave gives up after 19 s, the one that came first at first
        wave = [one.start("a") for _ in range(4)]
        await clock.settle()
        await clock.move(19)
        for task in wave:
            task.cancel()
            await clock.settle()
    last = one.start("b")
    await clock.settle()
    assert one.begun == ["a"]
    await clock.move(3)
    assert one.begun == ["a", "b"]
    one.ends[-1].set()
    await asyncio.gather(first, last)


@pytest.mark.parametrize(
    ("change", "begun"),
    [
        pytest.param(lambda one: setattr(one, "concurrency", 3), 4, id="more at once"),
        pytest.param(lambda one: setattr(one, "per_minute", 60), 1, id="a rate"),
    ],
)
async def test_a_changed_limit_holds_from_the_next_search_on(
    clock: Clock, change: Callable[[Searches], None], begun: int
) -> None:
    one = Searches(concurrency=1)
    first = one.start("a")
    await clock.settle()
    change(one)
    tasks = [one.start("a") for _ in range(3)]
    await clock.settle()
    assert len(one.begun) == begun
    for task in (first, *tasks):
        task.cancel()
    await asyncio.gather(first, *tasks, return_exceptions=True)
