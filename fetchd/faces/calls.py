"""Calls of the tools: so many at once, so many waiting, whichever face they came by, and none takes all of it.

Of the places and of the waiting room each agent has at most its share, and places that come free go round among the
agents that wait: a flood of one costs another no more than its turn.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final

from fetchd.core.caller import Caller
from fetchd.core.progress import FetchProgress
from fetchd.core.tool_definitions import PAGE_READ, WEB_FETCH
from fetchd.fetch import FetchResult, WebFetch
from fetchd.page_read import PageReader, ReadOutcome
from proxy_addons.policy.reading import DEFAULT_READ_BYTES

MAX_CALLS: Final = 64
"""Calls at work at once: each may hold a body of the cap and a decoder's window."""
MAX_WAITING: Final = 256
"""Calls that wait for their turn; one more is turned away."""
SHARE: Final = 2
"""An agent has at most one in so many of the places, and of the waiting room."""
RETRY_SECONDS: Final = 5
"""When a call that was turned away may try again."""


class BusyError(Exception):
    """As many calls are at work and waiting as may be, of all agents or of this one."""

    def __init__(self) -> None:
        super().__init__("too many calls; try again in a few seconds")


class ToolNotAllowedError(Exception):
    """The caller's profile does not list the tool."""

    def __init__(self, tool: str, profile: str) -> None:
        super().__init__(f"tool {tool} is not allowed by profile {profile}")


class Calls:
    """The tools, bounded. share: see SHARE; 1 where one caller is all there is.

    page_reader: None where pages are not read. ceiling: bytes of a page that is read, asked for at each call.
    """

    def __init__(
        self,
        web_fetch: WebFetch,
        page_reader: PageReader | None = None,
        *,
        ceiling: Callable[[], int] = lambda: DEFAULT_READ_BYTES,
        max_calls: int = MAX_CALLS,
        max_waiting: int = MAX_WAITING,
        share: int = SHARE,
    ) -> None:
        self._web_fetch: Final = web_fetch
        self._page_reader: Final = page_reader
        self._ceiling: Final = ceiling
        self._free, self._room = max_calls, max_waiting
        self._most_at_work: Final = -(-max_calls // share)
        self._most_waiting: Final = -(-max_waiting // share)
        self._at_work: Final[Counter[str]] = Counter()
        self._waiting: Final[OrderedDict[str, deque[asyncio.Future[None]]]] = OrderedDict()
        """By agent, whoever is next first; of each the longest waiting first."""

    async def web_fetch(
        self,
        arguments: str | bytes | Mapping[str, object],
        caller: Caller,
        progress: FetchProgress | None = None,
    ) -> FetchResult:
        """One call, when its turn has come; see `WebFetch.call`. Raises ToolNotAllowedError, BusyError."""
        require_tool(WEB_FETCH.name, caller)
        async with self._turn(caller.agent):
            return await self._web_fetch.call(arguments, caller, progress)

    @property
    def tools(self) -> frozenset[str]:
        """The names of what is served here."""
        return frozenset({WEB_FETCH.name} | ({PAGE_READ.name} if self._page_reader is not None else set()))

    async def page_read(
        self,
        arguments: str | bytes | Mapping[str, object],
        caller: Caller,
        progress: FetchProgress | None = None,
    ) -> ReadOutcome:
        """One call, when its turn has come; see `PageReader.call`. Raises ToolNotAllowedError, BusyError."""
        require_tool(PAGE_READ.name, caller)
        if self._page_reader is None:
            raise ToolNotAllowedError(PAGE_READ.name, caller.profile.name)
        async with self._turn(caller.agent):
            return await self._page_reader.call(arguments, caller, self._ceiling(), progress)

    @asynccontextmanager
    async def _turn(self, agent: str) -> AsyncIterator[None]:
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


def require_tool(tool: str, caller: Caller) -> None:
    """Raise ToolNotAllowedError for a tool that the caller's profile does not list."""
    if tool not in caller.profile.tools:
        raise ToolNotAllowedError(tool, caller.profile.name)
