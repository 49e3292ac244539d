"""A vendor of models: `python -m benchmarks.vendor_site ADDRESS CERTIFICATE`, prints its port, ends with its input.

Whoever posts a body gets the first event of an answer at once, then ten more, each in a write of its own.
"""

import asyncio
import sys

from benchmarks.origin import serve_protocol

_END = b"\r\n\r\n"
_LENGTH = b"content-length: "
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
FIRST = (
    b'event: message_start\ndata: {"type": "message_start", "message": {"usage": {"input_tokens": 1}}}\n\n'
)
_NEXT = b'event: content_block_delta\ndata: {"type": "content_block_delta", "delta": {"text": "a word"}}\n\n'
_LAST = b'event: message_stop\ndata: {"type": "message_stop"}\n\n'


def frame(event: bytes) -> bytes:
    """As a chunk."""
    return b"%x\r\n%s\r\n" % (len(event), event)


class VendorSite(asyncio.Protocol):
    """One connection; requests have a Content-Length here."""

    def __init__(self) -> None:
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._rest += data
        head, end, body = self._rest.partition(_END)
        at = head.lower().find(_LENGTH)
        if not end or at < 0:
            return
        size = int(head[at + len(_LENGTH) :].split(b"\r\n", 1)[0])
        if len(body) >= size:
            self._rest = body[size:]
            self._transport.write(_HEAD + frame(FIRST))
            for event in (*[_NEXT] * 10, _LAST):
                self._transport.write(frame(event))
            self._transport.write(b"0\r\n\r\n")


if __name__ == "__main__":
    asyncio.run(serve_protocol(VendorSite, sys.argv[1], sys.argv[2]))
