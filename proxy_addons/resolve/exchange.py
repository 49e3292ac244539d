"""One query to one nameserver and its reply, as bytes: UDP, and TCP when UDP was cut (RFC 1035 4.2).

The sockets are our own, driven by the loop's sock_* calls. The gateway's event loop sends create_connection
through the dialer, which judges addresses; a nameserver on 127.0.0.53 is not the dialer's affair. Nothing but
a configured nameserver is ever reached from here.
"""

import asyncio
import socket
import struct
from collections.abc import Callable

from .nameservers import Nameserver

MAX_DATAGRAM = 4096
MAX_STRAY_DATAGRAMS = 32
"""Datagrams passed over in one attempt before it is given up: a flood must not cost CPU without end."""


class NoReplyError(Exception):
    """The server talks, but gives no reply to this query."""


async def exchange_udp[T](server: Nameserver, query: bytes, accept: Callable[[bytes], T | None]) -> T:
    """Send `query` from a fresh random port; the first datagram that `accept` turns into something.

    Only datagrams from the server's own address and port arrive: the socket is connected. Raises OSError
    (nobody listens there, no route), NoReplyError (too many strangers) and what `accept` raises.
    """
    loop = asyncio.get_running_loop()
    found: asyncio.Future[T] = loop.create_future()
    strangers = 0

    def take() -> None:
        nonlocal strangers
        if found.done():  # or cancelled: the time is up
            return
        try:
            reply = accept(sock.recv(MAX_DATAGRAM))
        except (BlockingIOError, InterruptedError):
            return
        except Exception as error:  # noqa: BLE001 it is raised where the reply is waited for
            found.set_exception(error)
            return
        if reply is not None:
            found.set_result(reply)
            return
        strangers += 1
        if strangers == MAX_STRAY_DATAGRAMS:
            found.set_exception(NoReplyError("only datagrams that answer something else"))

    with socket.socket(server.family, socket.SOCK_DGRAM) as sock:
        sock.setblocking(False)
        sock.connect(server.socket_address())
        sock.send(query)
        loop.add_reader(
            sock, take
        )  # no reply can be there yet: to try first, as sock_recv does, costs a failure
        try:
            return await found
        finally:
            loop.remove_reader(sock)


async def exchange_tcp[T](server: Nameserver, query: bytes, accept: Callable[[bytes], T | None]) -> T:
    """The same over TCP: one query, one reply. Raises NoReplyError also when the connection ends early."""
    loop = asyncio.get_running_loop()
    with socket.socket(server.family, socket.SOCK_STREAM) as sock:
        sock.setblocking(False)
        await loop.sock_connect(sock, server.socket_address())
        await loop.sock_sendall(sock, struct.pack("!H", len(query)) + query)
        (length,) = struct.unpack("!H", await _receive_exactly(sock, 2))
        reply = accept(await _receive_exactly(sock, length))
    if reply is None:
        raise NoReplyError("the TCP reply answers something else")
    return reply


async def _receive_exactly(sock: socket.socket, number: int) -> bytes:
    loop = asyncio.get_running_loop()
    data = bytearray()
    while len(data) < number:
        more = await loop.sock_recv(sock, number - len(data))
        if not more:
            raise NoReplyError("the TCP connection ended inside the reply")
        data += more
    return bytes(data)
