"""Accepting clients: our own sockets, our own handler, a bound on connections.

In place of mitmproxy's `ServerInstance` and asyncio's server: a handler of ours for each connection, several
listeners with a profile each, a socket that a supervisor may have bound, and nobody accepted without a place
(`places`). asyncio accepts as many in one turn as the backlog holds, before anybody can say no, and without
descriptors it sleeps for a second.
"""

import asyncio
import errno
import logging
import socket
from contextlib import suppress
from typing import Any

from proxy_addons.engine.handler import GateHandler
from proxy_addons.engine.hops import Entry, Recorder, Sessions
from proxy_addons.engine.places import Place, Places
from proxy_addons.meters import Meters
from proxy_addons.policy.limits import FLUSH_SECONDS

BACKLOG = 512
ACCEPTS_A_TURN = 8
"""Of one listener before others have their turn."""
RETRY_SECONDS = 0.1
"""Until a listener that found no descriptor, or nobody leaving, looks again."""
QUIET_SECONDS = 60.0
"""Between two lines that say the same of a lack of places or descriptors."""
_NO_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

logger = logging.getLogger(__name__)


class Listener:
    """One listening socket and what it stands for."""

    def __init__(
        self,
        listening: socket.socket,
        entry: Entry,
        master: Any,
        sessions: Sessions,
        recorder: Recorder,
        places: Places,
        meters: Meters,
    ) -> None:
        self._meters = meters
        self._socket, self._entry, self._master = listening, entry, master
        self._sessions, self._recorder, self._places = sessions, recorder, places
        self._reading = False
        self._stopped = False
        self._retry: asyncio.TimerHandle | None = None
        self._told = float("-inf")
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Begin to accept."""
        self._socket.listen(BACKLOG)
        self._resume()

    def stop(self) -> None:
        """Accept no more; connections that are there go on."""
        self._stopped = True
        self._pause()
        self._socket.close()

    # --- accepting -----------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        """Somebody wants in."""
        for turn in range(ACCEPTS_A_TURN):
            if self._places.is_full():
                if turn == 0:  # else: perhaps nobody is waiting any more
                    self._make_room()
                return
            accepted = self._take_one()
            if accepted is None:
                return
            connection, holder = accepted
            if not self._places.make_share(holder):
                self._tell("%s holds three quarters of all client places; further ones are closed", holder)
                connection.close()
                self._meters.turned_away("share")
                continue
            place = self._places.take(holder)
            task = asyncio.get_running_loop().create_task(self._serve(connection, place), name="client")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _make_room(self) -> None:
        self._tell("all %s client places are held; idle clients make room", len(self._places))
        if self._places.make_room():
            self._pause()
            self._places.when_left(self._resume)
        elif (accepted := self._take_one()) is not None:  # everybody is busy
            accepted[0].close()
            self._meters.turned_away("full")

    def _take_one(self) -> tuple[socket.socket, str] | None:
        """The next connection, and the address that stands for its holder; None when there is none."""
        try:
            connection, address = self._socket.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return None
        except OSError as error:
            if error.errno not in _NO_DESCRIPTORS:
                raise
            self._tell("no descriptor for a client (%s); idle clients make room", error.strerror)
            self._places.make_room(ACCEPTS_A_TURN)
            self._pause()
            return None
        connection.setblocking(False)
        return connection, str(address[0])

    def _pause(self) -> None:
        """Leave who waits to the kernel, until there is room or a moment has passed."""
        if self._reading:
            self._reading = False
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._socket)
            self._retry = loop.call_later(RETRY_SECONDS, self._resume)

    def _resume(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        if not self._reading and not self._stopped:
            self._reading = True
            asyncio.get_running_loop().add_reader(self._socket, self._accept)

    def _tell(self, message: str, what: object) -> None:
        now = asyncio.get_running_loop().time()
        if now >= self._told + QUIET_SECONDS:
            self._told = now
            logger.warning(message, what)

    # --- serving -------------------------------------------------------------------------------------------------

    async def _serve(self, connection: socket.socket, place: Place) -> None:
        try:
            reader, writer = await _open_streams(connection)
        except BaseException:
            connection.close()
            self._places.leave(place)
            raise
        handler = GateHandler(self._master, reader, writer, self._entry, self._recorder)
        handler.session.place = place
        place.occupant = handler
        self._sessions.add(handler.session)
        try:
            await handler.handle_client()
            await _flush(writer)
        finally:
            writer.transport.abort()
            handler.stop_timers()
            self._sessions.drop(handler.client)
            # The transport closes its socket in the loop's next turn.
            asyncio.get_running_loop().call_soon(self._places.leave, place)


async def _open_streams(connection: socket.socket) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 16, loop=loop)
    protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
    transport, _ = await loop.connect_accepted_socket(lambda: protocol, connection)
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


async def _flush(writer: asyncio.StreamWriter) -> None:
    """A closed connection whose client does not read what is left for it would stay open for ever, uncounted."""
    if writer.transport.get_write_buffer_size() == 0:
        return
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(FLUSH_SECONDS):
            await writer.wait_closed()
