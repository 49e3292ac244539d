"""Accepting clients: our own sockets, our own handler, a bound on connections.

In place of mitmproxy's `ServerInstance`: a handler of ours for each connection, several listeners with a profile
each, and a socket that a supervisor may have bound.
"""

import asyncio
import socket
from contextlib import suppress
from typing import Any

from proxy_addons.engine.handler import GateHandler
from proxy_addons.engine.hops import Entry, Recorder, Sessions
from proxy_addons.policy.limits import FLUSH_SECONDS

MAX_CLIENTS = 1024
"""Client connections a worker holds; a further one is closed at once. Each costs about 100 KiB with its TLS."""
BACKLOG = 512


class Listener:
    """One listening socket and what it stands for."""

    def __init__(
        self, listening: socket.socket, entry: Entry, master: Any, sessions: Sessions, recorder: Recorder
    ) -> None:
        self._socket, self._entry, self._master = listening, entry, master
        self._sessions, self._recorder = sessions, recorder
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Begin to accept."""
        self._server = await asyncio.start_server(
            self._serve, sock=self._socket, limit=1 << 16, backlog=BACKLOG
        )

    def stop(self) -> None:
        """Accept no more; connections that are there go on."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._sessions) >= MAX_CLIENTS:
            writer.transport.abort()
            return
        handler = GateHandler(self._master, reader, writer, self._entry, self._recorder)
        self._sessions.add(handler.session)
        try:
            await handler.handle_client()
            await _flush(writer)
        finally:
            writer.transport.abort()
            handler.disarm()
            self._sessions.drop(handler.client)


async def _flush(writer: asyncio.StreamWriter) -> None:
    """A closed connection whose client does not read what is left for it would stay open for ever, uncounted."""
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(FLUSH_SECONDS):
            await writer.wait_closed()


def bind_listening_socket(host: str, port: int, *, shared: bool) -> socket.socket:
    """A bound TCP socket; raises OSError (EADDRINUSE) as the system says.

    `proto` is given so that asyncio sets TCP_NODELAY on what it accepts (42 ms a reply without).
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        bound.bind((host, port))
        bound.setblocking(False)
    except OSError:
        bound.close()
        raise
    return bound
