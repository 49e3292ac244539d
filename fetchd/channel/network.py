"""Names and connections of the channel: the system's resolver, asked in threads of its own.

The operator named the host, so hosts files, split DNS and private addresses are theirs to use; what guards the
channel is TLS and its one host (decision 0125). `localhost` is never asked for (RFC 6761).

Laws of this file
- A look-up that hangs holds a thread of these few, never one that the rest of the daemon works in, and never the end
  of the process.
- Closing a connection aborts it: nothing is waited for.
- Bytes that come when none are expected make a connection unfit for another request.
"""

import asyncio
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, override

import httpcore
from aiohappyeyeballs import AddrInfoType, start_connection

from proxy_addons.policy.limits import HANDSHAKE_SECONDS

type Lookup = Callable[[str, int], Awaitable[list[AddrInfoType]]]

LOOKUPS_AT_ONCE: Final = 4
ATTEMPT_DELAY: Final = 0.25
"""Seconds before the next address is tried beside the one that is still connecting (RFC 8305 section 8)."""
MAX_ADDRESSES: Final = 16


class SystemLookup:
    """A host's addresses. For one event loop."""

    def __init__(self, at_once: int = LOOKUPS_AT_ONCE) -> None:
        self._free: Final = asyncio.Semaphore(at_once)

    async def __call__(self, host: str, port: int) -> list[AddrInfoType]:
        """Raises OSError."""
        if _is_localhost(host):
            return [*_literal("127.0.0.1", port), *_literal("::1", port)]
        if found := _literal(host, port):
            return found
        await self._free.acquire()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[AddrInfoType]] = loop.create_future()

        def settle(found: list[AddrInfoType] | OSError) -> None:
            self._free.release()  # now, and not when the asker left: the thread was busy until here
            if answer.done():
                return
            if isinstance(found, OSError):
                answer.set_exception(found)
            else:
                answer.set_result(found)

        def ask() -> None:
            found = _ask(host, port)
            try:
                loop.call_soon_threadsafe(settle, found)
            except RuntimeError:  # the loop was closed meanwhile
                pass

        threading.Thread(target=ask, name="channel-lookup", daemon=True).start()
        return await answer


def _is_localhost(host: str) -> bool:
    name = host.removesuffix(".")
    return name == "localhost" or name.endswith(".localhost")


def _ask(host: str, port: int) -> list[AddrInfoType] | OSError:
    try:
        # The operator's own resolver, for the host the operator named: see above.
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)  # noqa: TID251
    except OSError as error:
        return error
    except UnicodeError:
        return OSError("a name that cannot be looked up")
    addresses: list[AddrInfoType] = [(family, kind, proto, "", to) for family, kind, proto, _, to in found]
    return addresses[:MAX_ADDRESSES]


def _literal(host: str, port: int) -> list[AddrInfoType]:
    """An address as it stands, without brackets; [] for a name."""
    for family, rest in ((socket.AF_INET, ()), (socket.AF_INET6, (0, 0))):
        try:
            socket.inet_pton(family, host)
        except OSError:
            continue
        return [(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port, *rest))]
    return []


class Network(httpcore.AsyncNetworkBackend):
    """Connects for the HTTP client."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup: Final = lookup

    @override
    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        found = await self._lookup(host.strip("[]"), port)
        if not found:
            raise OSError("the name has no address")
        sock = await start_connection(found, happy_eyeballs_delay=ATTEMPT_DELAY)
        try:
            if sock.getpeername() == sock.getsockname():
                # TCP simultaneous open: our source port happened to be the port dialled on this machine.
                raise ConnectionRefusedError("connected to itself")
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            loop = asyncio.get_running_loop()
            reader = _Reader(loop=loop)
            protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
            transport, _ = await loop.create_connection(lambda: protocol, sock=sock)
        except BaseException:
            sock.close()
            raise
        return _Stream(reader, asyncio.StreamWriter(transport, protocol, reader, loop))


class _Reader(asyncio.StreamReader):
    """Knows how many bytes have come that nobody has read."""

    unread = 0

    @override
    def feed_data(self, data: Any) -> None:
        self.unread += len(data)
        super().feed_data(data)

    @override
    async def read(self, n: int = -1) -> bytes:
        data = await super().read(n)
        self.unread -= len(data)
        return data


class _Stream(httpcore.AsyncNetworkStream):
    def __init__(self, reader: _Reader, writer: asyncio.StreamWriter) -> None:
        self._reader: Final = reader
        self._writer: Final = writer

    @override
    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return await self._reader.read(max_bytes)

    @override
    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        try:
            self._writer.write(buffer)
            await self._writer.drain()
        except OSError as error:
            # The client then looks for an answer that came early, such as one that refuses the body.
            raise httpcore.WriteError from error

    @override
    async def aclose(self) -> None:
        self._writer.transport.abort()

    @override
    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        try:
            name = None if server_hostname is None else server_hostname.strip("[]")
            await self._writer.start_tls(
                ssl_context, server_hostname=name, ssl_handshake_timeout=HANDSHAKE_SECONDS
            )
        except BaseException:
            self._writer.transport.abort()
            raise
        return self

    @override
    def get_extra_info(self, info: str) -> Any:
        if info == "is_readable":  # asked of an idle connection: it was closed, or something came unasked
            return self._reader.unread > 0 or self._reader.at_eof() or self._writer.transport.is_closing()
        return self._writer.get_extra_info(info)
