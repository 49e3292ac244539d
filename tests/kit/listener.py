"""Bare TCP listeners: one that counts, one whose connects never finish.

CountingListener needs no thread: a finished connect waits in the kernel's accept queue, so whatever was
connected before the count is asked for is counted. That makes "zero connects" a fact and not a race.
"""

from __future__ import annotations

import contextlib
import select
import socket
from types import TracebackType
from typing import Self

from tests.kit.ports import bound_socket, family_of
from tests.kit.sync import PATIENCE


class CountingListener:
    """Counts accepted connections and the bytes they sent; answers nothing."""

    def __init__(self, host: str = "127.0.0.1", port: int = 0) -> None:
        self.host = host
        self._sock = bound_socket(host, port)
        self._sock.listen(128)
        self._sock.setblocking(False)
        self.port: int = self._sock.getsockname()[1]
        self._accepted: list[socket.socket] = []
        self._received = 0

    def _drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                conn, _ = self._sock.accept()
                conn.setblocking(False)
                self._accepted.append(conn)

    @property
    def accepts(self) -> int:
        """How many connections have been made until now."""
        self._drain()
        return len(self._accepted)

    @property
    def received(self) -> int:
        """How many bytes all connections have sent until now."""
        self._drain()
        for conn in self._accepted:
            with contextlib.suppress(BlockingIOError, ConnectionError):
                while data := conn.recv(65536):
                    self._received += len(data)
        return self._received

    def take(self, timeout: float = PATIENCE) -> socket.socket:
        """Wait until some connection is there and return the newest, blocking, with a time-out set."""
        if not self.accepts and not select.select([self._sock], [], [], timeout)[0]:
            raise TimeoutError(f"nobody connected to {self.host}:{self.port}")
        self._drain()
        self._accepted[-1].settimeout(timeout)
        return self._accepted[-1]

    def close(self) -> None:
        for sock in (self._sock, *self._accepted):
            sock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class BlackHole:
    """An address whose accept queue is full: the kernel drops further SYNs, so a connect hangs (Linux)."""

    def __init__(self, host: str, port: int = 0) -> None:
        self.host = host
        self._sockets = [bound_socket(host, port)]
        self._sockets[0].listen(0)
        self.port: int = self._sockets[0].getsockname()[1]
        for _ in range(8):
            filler = socket.socket(family_of(host))
            filler.setblocking(False)
            filler.connect_ex((host, self.port))
            self._sockets.append(filler)
            if not select.select([], [filler], [], 0.2)[1]:
                return
        self.close()
        raise OSError(f"the accept queue of {host}:{self.port} does not fill up on this system")

    def close(self) -> None:
        for sock in self._sockets:
            sock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
