"""Lines in and out of file descriptors without blocking the event loop or the end of the process.

Each direction has a thread of its own, a daemon, because a read from a terminal or a write to a pipe that nobody
empties cannot be interrupted: a worker of the loop's own pool would hold up the exit for ever. Making the descriptor
non-blocking instead would do so for every process that shares it.
"""

import asyncio
import os
import select
import threading
from collections.abc import Callable, Iterator
from functools import partial
from queue import SimpleQueue
from typing import BinaryIO, Final, Self

READ_BYTES: Final = 65_536
QUEUED_LINES: Final = 16

type ReadBytes = Callable[[int], bytes]


def read_descriptor(descriptor: int) -> ReadBytes:
    """Reads what there is, also from a descriptor that another process made non-blocking."""
    return partial(_read_some, descriptor)


def read_stream(stream: BinaryIO) -> ReadBytes:
    """The same for a stream: by its descriptor where it has one, past its buffer."""
    try:
        return read_descriptor(stream.fileno())
    except OSError:
        return stream.read


def split_lines(read: ReadBytes, max_bytes: int) -> Iterator[bytes | None]:
    """Lines without their end. None stands for a line longer than max_bytes, of which no more is held."""
    held, too_long = bytearray(), False
    while chunk := read(READ_BYTES):
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            if too_long or len(held) + len(part) > max_bytes:
                yield None
            else:
                yield bytes(held) + part
            held.clear()
            too_long = False
        if len(held) + len(rest) > max_bytes:
            too_long = True
            held.clear()
        elif not too_long:
            held += rest
    if too_long:
        yield None
    elif held:
        yield bytes(held)


class LineReader:
    """An async iterator over lines, see `split_lines`. An error of the read ends it like the end of input."""

    def __init__(self, read: ReadBytes, max_bytes: int) -> None:
        self._lines: Final = split_lines(read, max_bytes)
        self._loop: Final = asyncio.get_running_loop()
        self._queue: Final[asyncio.Queue[tuple[bytes | None] | None]] = asyncio.Queue()
        self._room: Final = threading.Semaphore(QUEUED_LINES)
        threading.Thread(target=self._run, name="line reader", daemon=True).start()

    def _run(self) -> None:
        try:
            for line in self._lines:
                self._room.acquire()
                self._loop.call_soon_threadsafe(self._queue.put_nowait, (line,))
        except OSError:
            pass  # a terminal that went away, a reset socket: nothing more comes
        except RuntimeError:
            return  # the loop has closed: nobody reads on
        try:
            self._loop.call_soon_threadsafe(self._queue.put_nowait, None)
        except RuntimeError:
            return

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes | None:
        item = await self._queue.get()
        if item is None:
            self._queue.put_nowait(None)
            raise StopAsyncIteration
        self._room.release()
        return item[0]


class LineWriter:
    """Writes lines to a descriptor, one after the other."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: Final = descriptor
        self._loop: Final = asyncio.get_running_loop()
        self._jobs: Final[SimpleQueue[tuple[bytes, asyncio.Future[None]]]] = SimpleQueue()
        threading.Thread(target=self._run, name="line writer", daemon=True).start()

    async def write(self, line: bytes) -> None:
        """Until the line is written whole; raises OSError, BrokenPipeError when nobody reads any more."""
        written = self._loop.create_future()
        self._jobs.put((line + b"\n", written))
        await written

    def _run(self) -> None:
        while True:
            data, written = self._jobs.get()
            try:
                _write_all(self._descriptor, data)
                error = None
            except OSError as found:
                error = found
            try:
                self._loop.call_soon_threadsafe(_settle, written, error)
            except RuntimeError:
                return  # the loop has closed: nobody waits


def _settle(written: asyncio.Future[None], error: OSError | None) -> None:
    if written.done():
        return  # its writer was cancelled
    if error is not None:
        written.set_exception(error)
    else:
        written.set_result(None)


def _read_some(descriptor: int, size: int) -> bytes:
    while True:
        try:
            return os.read(descriptor, size)
        except BlockingIOError:
            select.select([descriptor], [], [])


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:
            select.select([], [descriptor], [])
