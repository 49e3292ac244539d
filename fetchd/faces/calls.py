"""Calls of the tools: so many at once, so many waiting, whichever face they came by, and none takes all (`turns`)."""

import time
from collections.abc import Callable, Mapping
from typing import Final

from fetchd.core.caller import Caller
from fetchd.core.progress import FetchProgress
from fetchd.core.tool_definitions import PAGE_READ, WEB_FETCH, WEB_SEARCH
from fetchd.fetch import FetchResult, WebFetch
from fetchd.page_read import PageReader, ReadOutcome
from fetchd.search.searching import SearchResult, WebSearch
from fetchd.turns import BusyError, Turns
from proxy_addons.audit import CallOutcome
from proxy_addons.policy.reading import DEFAULT_READ_BYTES

__all__ = ("BusyError", "Calls", "ToolNotAllowedError", "require_tool")

MAX_CALLS: Final = 64
"""Calls at work at once: each may hold a body of the cap and a decoder's window."""
MAX_WAITING: Final = 256
"""Calls that wait for their turn; one more is turned away."""
SHARE: Final = 2
"""An agent has at most one in so many of the places, and of the waiting room."""
RETRY_SECONDS: Final = 5
"""When a call that was turned away may try again."""


class ToolNotAllowedError(Exception):
    """The caller's profile does not list the tool."""

    def __init__(self, tool: str, profile: str) -> None:
        super().__init__(f"tool {tool} is not allowed by profile {profile}")


class Calls:
    """The tools, bounded. share: see SHARE; 1 where one caller is all there is.

    page_reader, web_search: None where that is not done. ceiling: bytes of a page that is read, asked for at each
    call.
    """

    def __init__(
        self,
        web_fetch: WebFetch,
        page_reader: PageReader | None = None,
        web_search: WebSearch | None = None,
        *,
        ceiling: Callable[[], int] = lambda: DEFAULT_READ_BYTES,
        max_calls: int = MAX_CALLS,
        max_waiting: int = MAX_WAITING,
        share: int = SHARE,
    ) -> None:
        self._web_fetch: Final = web_fetch
        self._page_reader: Final = page_reader
        self._web_search: Final = web_search
        self._ceiling: Final = ceiling
        self._turns: Final = Turns(max_calls, max_waiting, share)
        self.on_search: Callable[[CallOutcome, float], None] | None = None
        """Told how a call of web_search ended and in how many seconds, all providers together: the audit log has a
        line for each provider that was asked."""

    async def web_fetch(
        self,
        arguments: str | bytes | Mapping[str, object],
        caller: Caller,
        progress: FetchProgress | None = None,
    ) -> FetchResult:
        """One call, when its turn has come; see `WebFetch.call`. Raises ToolNotAllowedError, BusyError."""
        require_tool(WEB_FETCH.name, caller)
        async with self._turns.turn(caller.agent):
            return await self._web_fetch.call(arguments, caller, progress)

    @property
    def turns(self) -> Turns:
        """The places that calls take turns at."""
        return self._turns

    @property
    def tools(self) -> frozenset[str]:
        """The names of what is served here."""
        served = {
            WEB_FETCH.name: self._web_fetch,
            PAGE_READ.name: self._page_reader,
            WEB_SEARCH.name: self._web_search,
        }
        return frozenset(name for name, tool in served.items() if tool is not None)

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
        async with self._turns.turn(caller.agent):
            return await self._page_reader.call(arguments, caller, self._ceiling(), progress)

    async def web_search(
        self,
        arguments: str | bytes | Mapping[str, object],
        caller: Caller,
        progress: FetchProgress | None = None,
    ) -> SearchResult:
        """One call, when its turn has come; see `WebSearch.call`. Raises ToolNotAllowedError, BusyError."""
        require_tool(WEB_SEARCH.name, caller)
        if self._web_search is None:
            raise ToolNotAllowedError(WEB_SEARCH.name, caller.profile.name)
        async with self._turns.turn(caller.agent):
            outcome, began = CallOutcome.ABORTED, time.monotonic()
            try:
                result = await self._web_search.call(arguments, caller, progress)
                outcome = CallOutcome.SUCCESS if result.failure is None else CallOutcome.HARD
                return result
            finally:
                if self.on_search is not None:
                    self.on_search(outcome, time.monotonic() - began)


def require_tool(tool: str, caller: Caller) -> None:
    """Raise ToolNotAllowedError for a tool that the caller's profile does not list."""
    if tool not in caller.profile.tools:
        raise ToolNotAllowedError(tool, caller.profile.name)
