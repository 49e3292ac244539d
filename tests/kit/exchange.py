"""One request at the scripted origin and the means to answer it, the same for HTTP/1.1 and h2."""

from __future__ import annotations

import asyncio
import socket
import struct
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from tests.kit.sync import PATIENCE, Watch

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it arrived: `headers` raw, in order; `body` de-chunked; `head` on h1 only."""

    method: str
    target: str
    headers: Headers
    body: bytes
    version: str
    head: bytes = b""

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    def values(self, name: str) -> list[str]:
        return [value for field_name, value in self.headers if field_name.lower() == name]


class Ending(StrEnum):
    """How a connection ended, as the origin saw it."""

    PEER_FIN = "the peer closed"
    PEER_RESET = "the peer reset"
    OURS = "the origin closed"


@dataclass(slots=True)
class Connection:
    """What one accepted connection did. Fields change in the origin's thread under its Watch."""

    number: int
    peer: tuple[str, int]
    tls: bool
    watch: Watch = field(repr=False)
    sni: str | None = None
    alpn: str | None = None
    handshake_error: str | None = None
    received: bytearray = field(default_factory=bytearray, repr=False)
    requests: list[Request] = field(default_factory=list)
    sent: int = 0
    ending: Ending | None = None
    notes: list[str] = field(default_factory=list)

    async def wait_closed(self, timeout: float = PATIENCE) -> Ending:
        await self.watch.wait(lambda: self.ending is not None, f"end of connection {self.number}", timeout)
        assert self.ending is not None
        return self.ending

    async def wait_received(self, number: int, timeout: float = PATIENCE) -> bytes:
        """Wait until `number` bytes (after TLS) have arrived."""
        await self.watch.wait(lambda: len(self.received) >= number, f"{number} bytes", timeout)
        return bytes(self.received)


class Exchange(ABC):
    """Answer with `start`, any number of `data`, `end`; or break off with `close` (FIN) or `abort` (RST)."""

    def __init__(self, request: Request, connection: Connection) -> None:
        self.request = request
        self.connection = connection

    @abstractmethod
    async def informational(self, status: int, headers: Iterable[tuple[str, str]] = ()) -> None:
        """A 1xx answer."""

    @abstractmethod
    async def start(self, status: int, headers: Iterable[tuple[str, str]] = (), reason: str = "") -> None:
        """The head, exactly these fields; framing fields are the route's own affair."""

    @abstractmethod
    async def data(self, chunk: bytes) -> None:
        """Body bytes, as framed by the route (h1) or in DATA frames as flow control allows (h2)."""

    @abstractmethod
    async def end(self, *, keep: bool = True) -> None:
        """The message is complete; `keep=False` closes the connection too."""

    @abstractmethod
    async def close(self) -> None:
        """Close the connection in an orderly way, whatever has been sent."""

    @abstractmethod
    def abort(self) -> None:
        """Reset: TCP RST (h1) or RST_STREAM INTERNAL_ERROR (h2)."""

    @abstractmethod
    async def raw(self, data: bytes) -> None:
        """Bytes straight to the wire (h1 only)."""

    @abstractmethod
    async def read(self, limit: int = 65536) -> bytes:
        """Bytes after the request, as after a 101 (h1 only); empty at the end."""

    async def respond(self, status: int, headers: Iterable[tuple[str, str]] = (), body: bytes = b"") -> None:
        """A whole answer with its Content-Length."""
        await self.start(status, [*headers, ("content-length", str(len(body)))])
        if body and self.request.method != "HEAD":
            await self.data(body)
        await self.end()


Route = Callable[[Exchange], Awaitable[None]]


class H1Exchange(Exchange):
    def __init__(
        self,
        request: Request,
        connection: Connection,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        super().__init__(request, connection)
        self._reader = reader
        self._writer = writer
        self.finished = False

    async def informational(self, status: int, headers: Iterable[tuple[str, str]] = ()) -> None:
        await self.start(status, headers)

    async def start(self, status: int, headers: Iterable[tuple[str, str]] = (), reason: str = "") -> None:
        lines = [f"HTTP/1.1 {status} {reason}".encode("latin-1")]
        lines += [f"{name}: {value}".encode("latin-1") for name, value in headers]
        await self.raw(b"\r\n".join(lines) + b"\r\n\r\n")

    async def data(self, chunk: bytes) -> None:
        await self.raw(chunk)

    async def end(self, *, keep: bool = True) -> None:
        if not keep:
            await self.close()

    async def close(self) -> None:
        self.finished = True
        self._writer.close()

    def abort(self) -> None:
        self.finished = True
        sock = self._writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    async def raw(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()
        with self.connection.watch:
            self.connection.sent += len(data)

    async def read(self, limit: int = 65536) -> bytes:
        data = await self._reader.read(limit)
        with self.connection.watch:
            self.connection.received += data
        return data
