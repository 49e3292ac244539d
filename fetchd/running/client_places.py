"""HTTP/1.1 server connections with a bound on their number: who is idle makes room (uvicorn has no such bound).

Each server of the process (tools, operator) has places of its own, so that idle agents never keep the operator out.
When all are held, the longest idle client of the address that holds most makes room; if all are busy, the newcomer
is closed. A client that never says a word, or does not end its TLS handshake or its request, is idle like any other.
"""

import asyncio
import resource
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Collection
from functools import partial
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_PLACES: Final = 1024
LEAST_PLACES: Final = 8
KEPT_DESCRIPTORS: Final = 96
"""For files, pipes of the gateway and of extraction workers, and connections that are being closed."""
DESCRIPTORS_A_PLACE: Final = 4
"""The client's and its call's connection to the gateway, for each of the two servers."""
ACCEPTS_A_TURN: Final = 8
RETRY_SECONDS: Final = 0.1
HANDSHAKE_SECONDS: Final = 10.0


class PlacedProtocol(H11Protocol):
    """uvicorn's protocol, as one of a door's clients."""

    _heard = 0.0
    gone: Callable[[], None] | None = None
    """Told when the connection has ended."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """The connection stands, its TLS with it."""
        self._heard = self.loop.time()
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """As in uvicorn; the client was heard."""
        self._heard = self.loop.time()
        super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """As in uvicorn; the place is free."""
        super().connection_lost(exc)
        if self.gone is not None:
            self.gone()

    @property
    def heard_at(self) -> float:
        """When the client said something last, by the event loop's clock."""
        return self._heard

    @property
    def is_idle(self) -> bool:
        """Whether no call is under way; who has not sent its request to the end has none yet."""
        cycle: Any = self.cycle  # None before the first
        return cycle is None or bool(cycle.response_complete or cycle.more_body)


class Client:
    """One client of a door, from the moment it was accepted; `address` is whom it is counted for."""

    def __init__(self, address: str, protocol: PlacedProtocol, since: float) -> None:
        self.address, self.protocol, self._since = address, protocol, since
        self.opening: asyncio.Task[None] | None = None

    @property
    def is_idle(self) -> bool:
        """Whether no call is under way; who has not ended its handshake is idle."""
        return self.protocol.is_idle

    @property
    def heard_at(self) -> float:
        """When the client said something last, or came."""
        return max(self._since, self.protocol.heard_at)

    def leave(self) -> None:
        """Close it now."""
        transport: Any = self.protocol.transport  # None until the connection stands
        if transport is not None:
            transport.abort()
        elif self.opening is not None:
            self.opening.cancel()


class Door:
    """A listening socket whose clients have places, in place of asyncio's server (`close`, `wait_closed`)."""

    def __init__(
        self, listening: socket.socket, make: Callable[[], PlacedProtocol], tls: ssl.SSLContext | None
    ) -> None:
        self._socket, self._make, self._tls = listening, make, tls
        self._loop = asyncio.get_running_loop()
        self._clients: set[Client] = set()
        self._open = True
        listening.setblocking(False)
        self._loop.add_reader(listening, self._accept)

    def close(self) -> None:
        """Accept no more, and drop who is still in the handshake."""
        self._open = False
        self._loop.remove_reader(self._socket)
        for client in list(self._clients):
            if client.opening is not None:
                client.opening.cancel()

    async def wait_closed(self) -> None:
        """Nothing is left to wait for."""

    def _accept(self) -> None:
        for _ in range(ACCEPTS_A_TURN):
            try:
                connection, address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:  # no descriptor: let some be given back first, and do not spin
                self._loop.remove_reader(self._socket)
                self._loop.call_later(RETRY_SECONDS, self._go_on)
                return
            connection.setblocking(False)
            if len(self._clients) < count_places() or self._make_room():
                self._take_in(connection, str(address[0]))
            else:
                connection.close()

    def _go_on(self) -> None:
        if self._open:
            self._loop.add_reader(self._socket, self._accept)

    def _make_room(self) -> bool:
        leaving = choose_leaving(self._clients)
        if leaving is None:
            return False
        self._clients.discard(leaving)
        leaving.leave()
        return True

    def _take_in(self, connection: socket.socket, address: str) -> None:
        client = Client(address, self._make(), self._loop.time())
        client.protocol.gone = partial(self._clients.discard, client)
        self._clients.add(client)
        client.opening = self._loop.create_task(self._set_up(connection, client), name="client")

    async def _set_up(self, connection: socket.socket, client: Client) -> None:
        seconds = HANDSHAKE_SECONDS if self._tls is not None else None
        try:
            await self._loop.connect_accepted_socket(
                lambda: client.protocol, connection, ssl=self._tls, ssl_handshake_timeout=seconds
            )
        except (OSError, asyncio.CancelledError):  # not TLS, too late, gone, or told to leave
            self._clients.discard(client)
            if client.protocol.transport is None:
                connection.close()
        finally:
            client.opening = None


def choose_leaving(clients: Collection[Client]) -> Client | None:
    """The longest idle client of the address that holds most; None if nobody is idle."""
    by_address = Counter(one.address for one in clients)
    idle = [one for one in clients if one.is_idle]
    return max(idle, key=lambda one: (by_address[one.address], -one.heard_at), default=None)


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
