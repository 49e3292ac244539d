"""The DNS server: `python -m benchmarks.nameserver ADDRESS`, prints its port, ends with its standard input.

Every name has one A record, ADDRESS, and nothing else; time to live 0, so that nobody may keep it.
"""

import asyncio
import socket
import struct
import sys

TYPE_A = 1
_FLAGS = 0x8580  # an authoritative answer, recursion available, no error (RFC 1035, 4.1.1)


def render_answer(query: bytes, address: bytes) -> bytes | None:
    """The answer to a query of one question; None for what is none. `address`: four bytes."""
    if len(query) < 17 or struct.unpack_from("!H", query, 4)[0] != 1:
        return None
    end = 12
    while query[end]:
        end += query[end] + 1
        if end + 5 > len(query):
            return None
    question = query[12 : end + 5]
    is_a = struct.unpack_from("!H", query, end + 1)[0] == TYPE_A
    record = struct.pack("!HHHIH", 0xC00C, TYPE_A, 1, 0, 4) + address if is_a else b""
    return query[:2] + struct.pack("!HHHHH", _FLAGS, 1, int(is_a), 0, 0) + question + record


class Nameserver(asyncio.DatagramProtocol):
    """UDP is enough: no answer is long."""

    def __init__(self, address: str) -> None:
        self._address = socket.inet_aton(address)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.DatagramTransport)
        self._transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        answer = render_answer(data, self._address)
        if answer is not None:
            self._transport.sendto(answer, addr)


async def serve(address: str) -> None:
    """Serve on loopback until standard input ends."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    transport, _ = await loop.create_datagram_endpoint(
        lambda: Nameserver(address), local_addr=("127.0.0.1", 0)
    )
    loop.add_reader(sys.stdin.fileno(), ended.set)
    print(transport.get_extra_info("sockname")[1], flush=True)
    await ended.wait()
    transport.close()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
