"""Chunked bodies (RFC 9112, 7.1), read in one pass over what has arrived.

N3   trailers raise in stock and hang the client: they are read and dropped.
N14  chunk sizes with extensions, and trailers, had no bound.
N22  a chunk cost an event and some 30 µs: one read of one-octet chunks stopped the worker for a third of a second,
     a page of them for as long as its time limit let it. Here all that a read brought is one piece, at 1 µs a chunk.
"""

import re
from typing import Any, Never

import h11

from proxy_addons.policy.limits import MAX_HEAD_BYTES

_SIZE_LINE = re.compile(rb"([0-9A-Fa-f]{1,16})[ \t]*(?:;[\t\x20-\x7e\x80-\xff]*)?")
_LINE_END = b"\r\n"


class ChunkedReader:
    """In place of h11's, for mitmproxy's `body_reader`: called with the receive buffer after each read."""

    def __init__(self) -> None:
        self._left = 0
        """Octets of the chunk at hand that are still to come."""
        self._owes_line_end = False
        self._in_trailers = False
        self._trailer_bytes = 0
        self._ended = False

    def __call__(self, buffer: Any) -> h11.Data | h11.EndOfMessage | None:
        """The body octets in `buffer`, then the end of the message; None until more has arrived.

        Raises h11.RemoteProtocolError.
        """
        arrived = bytes(buffer.maybe_extract_at_most(len(buffer)) or b"")
        pieces: list[bytes] = []
        used = self._read(arrived, pieces)
        if used < len(arrived):
            buffer += arrived[used:]
        if pieces:
            return h11.Data(b"".join(pieces))
        return h11.EndOfMessage() if self._ended else None

    def read_eof(self) -> Never:
        """The connection ended within the body."""
        raise h11.RemoteProtocolError("incomplete chunked body")

    def _read(self, data: bytes, pieces: list[bytes]) -> int:
        """Read chunks from `data` as far as they are whole; how many octets of it were used."""
        at = 0
        while not self._ended:
            if self._left:
                piece = data[at : at + self._left]
                if not piece:
                    break
                pieces.append(piece)
                at += len(piece)
                self._left -= len(piece)
                self._owes_line_end = not self._left
            elif self._owes_line_end:
                end = data[at : at + 2]
                if not _LINE_END.startswith(end):
                    raise h11.RemoteProtocolError("a chunk is longer than its size")
                if len(end) < 2:
                    break
                at += 2
                self._owes_line_end = False
            else:
                end_of_line = data.find(_LINE_END, at)
                if end_of_line < 0:
                    if len(data) - at > MAX_HEAD_BYTES:
                        raise h11.RemoteProtocolError("a chunk size or trailer is too long")
                    break
                self._read_line(data, at, end_of_line)
                at = end_of_line + 2
        return at

    def _read_line(self, data: bytes, at: int, end: int) -> None:
        if self._in_trailers:
            self._trailer_bytes += end - at + 2
            if self._trailer_bytes > MAX_HEAD_BYTES:
                raise h11.RemoteProtocolError("the trailers are too long")
            self._ended = end == at
            return
        line = _SIZE_LINE.fullmatch(data, at, end)
        if line is None:
            raise h11.RemoteProtocolError("malformed chunk size")
        self._left = int(line[1], 16)
        self._in_trailers = not self._left
