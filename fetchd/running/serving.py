"""ASGI applications on sockets of our own, side by side in one event loop."""

import asyncio
import errno
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from .client_places import Door, PlacedProtocol

SHUTDOWN_SECONDS: Final = 5
"""A bound for calls to end whose clients were dropped; each does so at once."""
KEEP_ALIVE_SECONDS: Final = 30
PROBE_SECONDS: Final = 2.0
BACKLOG: Final = 256


class AddressInUseError(Exception):
    """An address to listen on is taken, or cannot be had. `what` was to listen there; `reason` is the system's."""

    def __init__(self, what: str, host: str, port: int, reason: str) -> None:
        super().__init__(f"{what} cannot listen on {host}, port {port}: {reason}")
        self.what, self.host, self.port, self.reason = what, host, port, reason


def listen_on(what: str, host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Raises AddressInUseError."""
    listening = socket.socket(_family(host), socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        reason = "in use" if error.errno == errno.EADDRINUSE else error.strerror or str(error)
        raise AddressInUseError(what, host, port, reason) from error
    return listening


def accepts(host: str, port: int) -> bool:
    """Whether somebody accepts connections there. Blocks; on loopback no longer than a moment."""
    with socket.socket(_family(host), socket.SOCK_STREAM) as probe:
        probe.settimeout(PROBE_SECONDS)
        return probe.connect_ex((host, port)) == 0


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


@asynccontextmanager
async def serving(
    app: ASGIApp, listening: socket.socket, tls: ssl.SSLContext | None = None
) -> AsyncIterator[None]:
    """Serve `app` on `listening` for as long as the context lasts; then the socket is closed with it.

    tls: nothing but TLS is spoken, with this context.
    Clients still there at the end are dropped, so that their calls end as those of any client gone (SPEC 2.1).
    """
    config = uvicorn.Config(
        # No header may say whose connection it is: agents are told apart by their addresses.
        app, lifespan="off", log_config=None, access_log=False, server_header=False, proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS, timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        http=PlacedProtocol,
    )  # fmt: skip
    config.load()
    server = _Server(config, tls)
    task = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        yield
    finally:
        server.should_exit = True
        await task
        listening.close()


class _Server(uvicorn.Server):
    """Signals are the composition root's affair, and clients do not hold up the end."""

    def __init__(self, config: uvicorn.Config, tls: ssl.SSLContext | None) -> None:
        super().__init__(config)
        self._tls = tls

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """In place of uvicorn's: our doors instead of asyncio's servers."""

        def make() -> PlacedProtocol:
            return PlacedProtocol(self.config, self.server_state, {})

        self.servers = [Door(listening, make, self._tls) for listening in sockets or ()]  # type: ignore[misc]
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.transport.close()
        await super().shutdown(sockets)
