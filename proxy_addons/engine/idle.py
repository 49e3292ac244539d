"""Idle client connections (SPEC 1.7): nothing said either way for a while, and no request under way.

Stock counts the silence of a request too: one that a profile lets take two minutes was cut after one, whatever its
own limit. A request under way ends by its hop's whole time; what is idle is what waits for the next one.
"""

import asyncio
from collections.abc import Awaitable, Callable

from mitmproxy.proxy.server import TimeoutWatchdog


class IdleWatchdog(TimeoutWatchdog):
    """In place of mitmproxy's: `busy` tells whether a request is under way."""

    def __init__(
        self, seconds: int, callback: Callable[[], Awaitable[None]], busy: Callable[[], bool]
    ) -> None:
        super().__init__(seconds, callback)
        self._busy = busy
        self._last = asyncio.get_running_loop().time()

    @property
    def heard_at(self) -> float:
        """When something was said last, by the event loop's clock."""
        return self._last

    def register_activity(self) -> None:
        """Something was said."""
        self._last = asyncio.get_running_loop().time()

    async def watch(self) -> None:
        """Call back, once, when the connection has been idle for long enough."""
        loop = asyncio.get_running_loop()
        while (rest := self._last + self.timeout - loop.time()) > 0:
            await asyncio.sleep(rest)
            if self._busy() or self.blocker > 0:
                self.register_activity()
        await self.callback()
