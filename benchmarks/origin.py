"""The origin: `python -m benchmarks.origin ADDRESS CERTIFICATE`, prints its port, ends with its standard input.

Answers every request head with the same 10 KiB over TLS and HTTP/1.1, kept alive, each reply in one write.
"""

import asyncio
import ssl
import sys
from collections.abc import Callable

BODY = b"<!doctype html><title>bench</title>" + b"<p>ten kibibytes of the same paragraph</p>\n" * 240
BODY = BODY[: 10 << 10].ljust(10 << 10)
REPLY = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: %d\r\n"
    b"Cache-Control: no-store\r\n\r\n" % len(BODY)
) + BODY
_END = b"\r\n\r\n"


class Origin(asyncio.Protocol):
    """One connection; requests have no bodies here, so the ends of heads are all there is to find."""

    def __init__(self) -> None:
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        *heads, self._rest = (self._rest + data).split(_END)
        for _ in heads:
            self._transport.write(REPLY)


async def serve_protocol(protocol: Callable[[], asyncio.Protocol], address: str, certificate: str) -> None:
    """Serve over TLS until standard input ends."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    context.set_alpn_protocols(["http/1.1"])
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    server = await loop.create_server(protocol, address, 0, ssl=context, backlog=512)
    loop.add_reader(sys.stdin.fileno(), ended.set)
    print(server.sockets[0].getsockname()[1], flush=True)
    await ended.wait()
    server.close()


if __name__ == "__main__":
    asyncio.run(serve_protocol(Origin, sys.argv[1], sys.argv[2]))
