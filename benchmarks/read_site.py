"""Pages of a given size: `python -m benchmarks.read_site ADDRESS CERTIFICATE`, prints its port, ends with its input.

`/SIZE?anything` answers SIZE bytes of HTML, paragraphs of text; what stands behind the question mark is in it, so
that no two pages are the same.
"""

import asyncio
import sys

from benchmarks.origin import serve_protocol

_END = b"\r\n\r\n"
_PARAGRAPH = (
    b"<p>A sentence of ordinary length stands here, and another one follows it in this paragraph.</p>\n"
)


class ReadSite(asyncio.Protocol):
    """One connection; requests have no bodies here."""

    def __init__(self) -> None:
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        *heads, self._rest = (self._rest + data).split(_END)
        for head in heads:
            path, _, query = head.split(b" ", 2)[1].partition(b"?")
            self._transport.write(render_page(int(path[1:]), query))


def render_page(size: int, mark: bytes) -> bytes:
    """The whole answer."""
    begin = b"<!doctype html><title>Page</title><h1>Page %s</h1>\n" % mark
    body = (begin + _PARAGRAPH * (size // len(_PARAGRAPH) + 1))[:size]
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: %d\r\n\r\n" % size
    return head + body


if __name__ == "__main__":
    asyncio.run(serve_protocol(ReadSite, sys.argv[1], sys.argv[2]))
