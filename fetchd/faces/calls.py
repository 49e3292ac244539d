"""Calls of the tools on behalf of one caller: so many at once, so many waiting, whichever face they came by."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

from fetchd.core.caller import Caller
from fetchd.core.progress import FetchProgress
from fetchd.fetch import FetchResult, WebFetch

MAX_CALLS: Final = 64
"""Calls at work at once: each may hold a body of the cap and a decoder's window."""
MAX_WAITING: Final = 256
"""Calls that wait for their turn; one more is turned away."""
RETRY_SECONDS: Final = 5
"""When a call that was turned away may try again."""


class BusyError(Exception):
    """As many calls are at work and waiting as may be."""

    def __init__(self) -> None:
        super().__init__("too many calls; try again in a few seconds")


class Calls:
    """The tools, bounded. caller: on whose behalf all calls run."""

    def __init__(
        self,
        web_fetch: WebFetch,
        caller: Caller,
        *,
        max_calls: int = MAX_CALLS,
        max_waiting: int = MAX_WAITING,
    ) -> None:
        self._web_fetch: Final = web_fetch
        self._caller: Final = caller
        self._places: Final = asyncio.Semaphore(max_calls)
        self._room: int = max_calls + max_waiting

    async def web_fetch(
        self, arguments: str | bytes | Mapping[str, object], progress: FetchProgress | None = None
    ) -> FetchResult:
        """One call, when its turn has come; see `WebFetch.call`. Raises BusyError."""
        async with self._turn():
            return await self._web_fetch.call(arguments, self._caller, progress)

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        if not self._room:
            raise BusyError
        self._room -= 1
        try:
            async with self._places:
                yield
        finally:
            self._room += 1
