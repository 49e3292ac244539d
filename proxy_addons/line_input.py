"""Lines of a pipe from whoever started us: the first before there is an event loop, the rest on it.

The end of the pipe is the order to stop, so nobody outlives the one who started him.
"""

import asyncio
import os
from collections.abc import Callable
from typing import Final

MAX_LINE_BYTES: Final = 64 << 20
"""A configuration file has at most 4 MiB; as JSON with its defaults it stays far below this."""
_PIECE: Final = 1 << 16


class LineInput:
    """Reads a file descriptor; it must not be read by anything else, buffered readers included."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._held = bytearray()

    def read_first(self) -> str:
        """The first line, waited for; what there is of it when the pipe ends before."""
        while b"\n" not in self._held and self._read():
            pass
        line, mark, rest = self._held.partition(b"\n")
        self._held = bytearray(rest)
        return (line + mark).decode("utf-8", "replace")

    def watch(
        self, loop: asyncio.AbstractEventLoop, on_line: Callable[[str], object], on_end: Callable[[], object]
    ) -> None:
        """Call `on_line` for each further line as it comes, and `on_end` once, at the end or past the bound."""

        def readable() -> None:
            more = self._read()
            *lines, rest = bytes(self._held).split(b"\n")
            self._held = bytearray(rest)
            for line in lines:
                on_line(line.decode("utf-8", "replace"))
            if not more:
                loop.remove_reader(self._descriptor)
                on_end()

        loop.add_reader(self._descriptor, readable)

    def _read(self) -> bool:
        piece = os.read(self._descriptor, _PIECE)
        self._held += piece
        return bool(piece) and len(self._held) <= MAX_LINE_BYTES
