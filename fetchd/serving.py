"""ASGI applications on sockets of our own, side by side in one event loop."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

import uvicorn
from starlette.types import ASGIApp

SHUTDOWN_SECONDS: Final = 3
"""What requests under way may still take when we stop."""
KEEP_ALIVE_SECONDS: Final = 30
BACKLOG: Final = 256


class AddressInUseError(Exception):
    """An address to listen on is taken, or cannot be had; the text is the system's reason."""

    def __init__(self, host: str, port: int, reason: str) -> None:
        super().__init__(reason)
        self.host, self.port = host, port


def listen_on(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Raises AddressInUseError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise AddressInUseError(host, port, error.strerror or str(error)) from error
    return listening


@asynccontextmanager
async def serving(app: ASGIApp, listening: socket.socket) -> AsyncIterator[None]:
    """Serve `app` on `listening` for as long as the context lasts; the socket is closed with it."""
    config = uvicorn.Config(
        app, lifespan="off", log_config=None, access_log=False, server_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS, timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )  # fmt: skip
    server = _Server(config)
    task = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        yield
    finally:
        server.should_exit = True
        await asyncio.wait([task])
        listening.close()


class _Server(uvicorn.Server):
    """Signals are the composition root's affair."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
