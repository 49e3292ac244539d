"""HTTP/1.1 server connections with a bound on their number: who is idle makes room (uvicorn has no such bound).

Each server of the process (tools, operator) has places of its own, so that idle agents never keep the operator out.
When all are held, the longest idle client of the address that holds most makes room; if all are busy, the newcomer
is closed. A client that never says a word is idle like any other.
"""

import asyncio
import resource
from collections import Counter
from collections.abc import Collection
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_PLACES: Final = 1024
LEAST_PLACES: Final = 8
KEPT_DESCRIPTORS: Final = 96
"""For files, pipes of the gateway and of extraction workers, and connections that are being closed."""
DESCRIPTORS_A_PLACE: Final = 4
"""The client's and its call's connection to the gateway, for each of the two servers."""


class PlacedProtocol(H11Protocol):
    """uvicorn's protocol, counted."""

    _heard = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a place, another making room if need be, or close."""
        super().connection_made(transport)
        self._heard = self.loop.time()
        if len(self.connections) > count_places():
            leaving = choose_leaving(
                [one for one in self.connections if isinstance(one, PlacedProtocol)], self
            )
            leaving.connections.discard(leaving)
            leaving.transport.abort()

    def data_received(self, data: bytes) -> None:
        """As in uvicorn; the client was heard."""
        self._heard = self.loop.time()
        super().data_received(data)

    @property
    def heard_at(self) -> float:
        """When the client said something last, by the event loop's clock."""
        return self._heard

    @property
    def address(self) -> str:
        """Whom the client is counted for."""
        return self.client[0] if self.client is not None else ""

    @property
    def is_idle(self) -> bool:
        """Whether no call is under way."""
        cycle: Any = self.cycle  # None before the first
        return cycle is None or bool(cycle.response_complete)


def choose_leaving(held: Collection[PlacedProtocol], newcomer: PlacedProtocol) -> PlacedProtocol:
    """The longest idle connection of the address that holds most; the newcomer itself if nobody is idle."""
    by_address = Counter(one.address for one in held)
    idle = [one for one in held if one is not newcomer and one.is_idle]
    return max(idle, key=lambda one: (by_address[one.address], -one.heard_at), default=newcomer)


def count_places() -> int:
    """As many for each server as the descriptor limit of this process allows now."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return MAX_PLACES
    return min(MAX_PLACES, max(LEAST_PLACES, (soft - KEPT_DESCRIPTORS) // DESCRIPTORS_A_PLACE))


def raise_descriptor_limit() -> None:
    """Take of the hard limit what MAX_PLACES need."""
    needed = KEPT_DESCRIPTORS + DESCRIPTORS_A_PLACE * MAX_PLACES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    wanted = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
