"""The site: `python -m benchmarks.pages.site ADDRESS CERTIFICATE COUNT`, prints its port, ends with its input.

Serves pages of the shared corpora as real sites do: gzipped for clients that take it, kept alive, over TLS.
"""

import asyncio
import gzip
import sys
from collections.abc import Mapping
from functools import partial

from benchmarks.extract import corpora
from benchmarks.origin import serve_protocol

_END = b"\r\n\r\n"
_MISSING = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"


def choose_pages(count: int) -> dict[str, str]:
    """Path → HTML: half of WCXB, half of article-extraction, spread evenly over each. Raises FileNotFoundError."""
    chosen: dict[str, str] = {}
    for name, pages in (("wcxb", corpora.load_wcxb()), ("articles", corpora.load_article_extraction())):
        wanted = min(max(1, count // 2), len(pages))
        picked = [pages[at * len(pages) // wanted] for at in range(wanted)]
        chosen |= {f"/{name}/{page.name}": page.html for page in picked}
    return chosen


class Site(asyncio.Protocol):
    """One connection; requests have no bodies here."""

    def __init__(self, replies: Mapping[bytes, tuple[bytes, bytes]]) -> None:
        self._replies = replies
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        *heads, self._rest = (self._rest + data).split(_END)
        for head in heads:
            plain, packed = self._replies.get(head.split(b" ", 2)[1], (_MISSING, _MISSING))
            self._transport.write(packed if b"gzip" in head.lower() else plain)


def render_replies(pages: Mapping[str, str]) -> dict[bytes, tuple[bytes, bytes]]:
    """Path → the answer as it is, and gzipped."""
    return {path.encode(): _render(html.encode()) for path, html in pages.items()}


def _render(body: bytes) -> tuple[bytes, bytes]:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nVary: Accept-Encoding\r\n"
    packed = gzip.compress(body, 6, mtime=0)
    return (
        head + b"Content-Length: %d\r\n\r\n" % len(body) + body,
        head + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed) + packed,
    )


if __name__ == "__main__":
    served = render_replies(choose_pages(int(sys.argv[3])))
    asyncio.run(serve_protocol(partial(Site, served), sys.argv[1], sys.argv[2]))
