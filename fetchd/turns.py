"""Places that callers take turns at: so many at once, so many waiting, and no agent takes all of them.

Of the places and of the waiting room each agent has at most its share, and places that come free go round among the
agents that wait: a flood of one costs another no more than its turn.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final


class BusyError(Exception):
    """As many are at work and waiting as may be, of all agents or of this one."""

    def __init__(self) -> None:
        super().__init__("too many calls; try again in a few seconds")


class Turns:
    """share: an agent has at most one in so many of the places, and of the waiting room."""

    def __init__(self, places: int, room: int, share: int) -> None:
        self._free, self._room = places, room
        self._most_at_work: Final = -(-places // share)
        self._most_waiting: Final = -(-room // share)
        self._at_work: Final[Counter[str]] = Counter()
        self._waiting: Final[OrderedDict[str, deque[asyncio.Future[None]]]] = OrderedDict()
        """By agent, whoever is next first; of each the longest waiting first."""
        self.turned_away = 0
        """Callers for whom there was no room, since the start."""

    @property
    def at_work(self) -> int:
        """Places that are taken."""
        return self._at_work.total()

    @property
    def waiting(self) -> int:
        """Callers in line."""
        return sum(map(len, self._waiting.values()))

    @asynccontextmanager
    async def turn(self, agent: str) -> AsyncIterator[None]:
        """A place of this agent's, when its turn has come. Raises BusyError."""
        if self._free and self._at_work[agent] < self._most_at_work and agent not in self._waiting:
            self._take(agent)
        else:
            await self._wait(agent)
        try:
            yield
        finally:
            self._give_back(agent)

    def _take(self, agent: str) -> None:
        self._free -= 1
        self._at_work[agent] += 1

    def _give_back(self, agent: str) -> None:
        self._free += 1
        self._at_work[agent] -= 1
        if not self._at_work[agent]:
            del self._at_work[agent]
        self._hand_out()

    async def _wait(self, agent: str) -> None:
        """Until a place was taken for us."""
        line = self._waiting.get(agent, ())
        if not self._room or len(line) >= self._most_waiting:
            self.turned_away += 1
            raise BusyError
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(agent, deque()).append(place)
        self._room -= 1
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self._give_back(agent)  # it was handed to us just then
            else:
                self._leave(agent, place)
            raise

    def _leave(self, agent: str, place: "asyncio.Future[None]") -> None:
        self._room += 1
        line = self._waiting[agent]
        line.remove(place)
        if not line:
            del self._waiting[agent]

    def _hand_out(self) -> None:
        """Give free places to those who wait, to one agent after the other."""
        for agent in list(self._waiting):
            if not self._free:
                return
            if self._at_work[agent] >= self._most_at_work:
                continue
            # One that was cancelled a moment ago is still in line until its task has run.
            place = next((one for one in self._waiting[agent] if not one.done()), None)
            if place is not None:
                self._leave(agent, place)
                self._take(agent)
                if agent in self._waiting:
                    self._waiting.move_to_end(agent)
                place.set_result(None)
