"""How often a provider is asked: so many searches at once, and no two closer than its rate allows.

Those that wait take turns by agent (`turns`). Evenly spaced, a rate holds over a second as well as over a minute,
which is how public APIs count.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from fetchd.turns import BusyError, Turns

MAX_WAITING: Final = 64
"""Searches that wait for one provider."""


class Pace:
    """The limits of one provider; those of each search hold from it on."""

    def __init__(self) -> None:
        self._limits: int | None = None
        self._turns = Turns(1, MAX_WAITING, 1)
        self._gate = asyncio.Lock()
        self._next = 0.0
        """When the next search may begin, by the event loop's clock."""

    @asynccontextmanager
    async def turn(self, agent: str, concurrency: int, per_minute: int | None) -> AsyncIterator[None]:
        """A search's turn, which it may wait for. Raises BusyError."""
        if (
            concurrency != self._limits
        ):  # at first, and after a reload: those under way end beside the new ones
            self._limits, self._turns = concurrency, Turns(concurrency, MAX_WAITING, 1)
        async with self._turns.turn(agent):
            if per_minute is not None:
                await self._wait(60 / per_minute)
            yield

    async def _wait(self, interval: float) -> None:
        # One of them at a time, so that none holds a place in time that it may give up: under more load than the
        # rate lets through, places of searches that timed out would push every later one past its deadline.
        async with self._gate:
            now = asyncio.get_running_loop().time()
            start = max(now, self._next)
            await asyncio.sleep(start - now)
            self._next = start + interval


__all__ = ("MAX_WAITING", "BusyError", "Pace")
