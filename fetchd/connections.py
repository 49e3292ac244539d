"""The connections to one server: so many at once, kept between requests, each in one request's hands alone.

Not the HTTP client's own pool: there, a request that is cancelled in the wrong moment (while it waits for its turn,
or while its connection is put away) leaves a connection behind that nobody uses again, and every deadline cancels.

Laws of this file
- A connection is in the hands of one request, or idle, or closed. Whatever ends a request, its connection is then
  idle or closed: putting it away has no step that waits, and so none that could be cancelled.
- Only one whose answer was read to its end, and with which nothing else came, is kept.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import httpcore

KEEP_ALIVE_SECONDS: Final = 15.0
"""Well below what servers keep an idle connection for, so that few requests meet one that is just being closed."""


class Connections:
    """For one event loop."""

    def __init__(
        self,
        origin: httpcore.Origin,
        tls: ssl.SSLContext | None,
        network: httpcore.AsyncNetworkBackend | None,
        most: int,
        keep_alive: float = KEEP_ALIVE_SECONDS,
    ) -> None:
        """network: the client's own unless given. most: connections in use at once; more requests wait."""
        self._origin: Final = origin
        self._tls: Final = tls
        self._network: Final = network
        self._keep_alive: Final = keep_alive
        self._places: Final = asyncio.Semaphore(most)
        self._lent: Final[set[httpcore.AsyncHTTPConnection]] = set()
        self._idle: Final[list[httpcore.AsyncHTTPConnection]] = []
        self._closed = False

    @property
    def count(self) -> int:
        """How many there are, in use and idle."""
        return len(self._lent) + len(self._idle)

    @property
    def usable(self) -> int:
        """How many are idle and fit for a request."""
        return sum(not one.has_expired() for one in self._idle)

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[httpcore.AsyncHTTPConnection]:
        """A connection, when one of the places is free."""
        async with self._places:
            connection = await self._take()
            self._lent.add(connection)
            try:
                yield connection
            finally:
                self._lent.discard(connection)
                if _is_fit(connection) and not self._closed:
                    self._idle.append(connection)
                else:
                    await connection.aclose()

    async def aclose(self) -> None:
        """Close all, also those in the hands of a request."""
        self._closed = True
        for connection in (*self._lent, *self._idle):
            await connection.aclose()
        self._idle.clear()
        await asyncio.sleep(0)  # what was aborted is closed in the loop's next turn

    async def _take(self) -> httpcore.AsyncHTTPConnection:
        while self._idle:
            connection = self._idle.pop()
            if not connection.has_expired():
                return connection
            await connection.aclose()
        return httpcore.AsyncHTTPConnection(
            self._origin, self._tls, self._keep_alive, network_backend=self._network
        )


def _is_fit(connection: httpcore.AsyncHTTPConnection) -> bool:
    """Whether the next request may use it. Bytes that came with the last answer would be taken for its own.

    The client keeps those where only its own parts look; should they be called otherwise, no connection is kept.
    """
    state = getattr(getattr(connection, "_connection", None), "_h11_state", None)
    return (
        connection.is_idle()
        and not connection.has_expired()
        and state is not None
        and not state.trailing_data[0]
    )
