"""Content codings undone beside the event loop, in bounded memory (SPEC 1.8, 2.1 rows 4 and 5).

    chunk off the wire ──► BodyMeter, in a thread, a batch at a time ──► data

Laws:

1. A coded body is inflated in a thread, never on the loop; one without a coding is only counted, which costs nothing.
2. So many threads inflate at once, over all calls. A thread works for one batch; then others have their turn.
3. A br or zstd window grows with what it has decoded. Few bodies at a time may hold a large one (`HEAVY_BODIES`); the
   next waits, within its fetch's time limit. Below `FREE_BYTES` nobody waits, so that bodies which trickle hold up
   large ones alone.
4. A call that is given up leaves at once: its connection does not wait for the thread. Its place among the threads
   and its window are free when the thread has left the batch.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final

from proxy_addons.policy.codings import Coding
from proxy_addons.policy.limits import MIB
from proxy_addons.policy.metering import BodyMeter

type Drain = Callable[[bytearray], Awaitable[None]]

BATCH_BYTES: Final = MIB
"""Decoded at once by a thread, and at most a piece more: some milliseconds."""
FREE_BYTES: Final = MIB
"""Decoded bytes up to which a body under one coding needs no window of the few."""
HEAVY_BODIES: Final = 5
"""Bodies with large windows at a time: ten windows of 9.5 MiB, as many as a whole gateway holds."""


class Decoders:
    """What the bodies of all calls share: threads and large windows. For one event loop."""

    def __init__(self, *, threads: int | None = None, heavy_bodies: int = HEAVY_BODIES) -> None:
        """threads: one for each core, two at least, unless said. They are the loop's own (`asyncio.to_thread`)."""
        self._threads: Final = asyncio.Semaphore(threads or max(2, os.cpu_count() or 1))
        self._windows: Final = asyncio.Semaphore(heavy_bodies)

    @contextmanager
    def open(
        self, codings: tuple[Coding, ...], byte_cap: int, drain: Drain | None = None
    ) -> Iterator["BodyDecoder"]:
        """A decoder of one body; `codings` in the order they were applied. drain: takes what was decoded, batch by
        batch, where the body is not to be held in memory.
        """
        decoder = BodyDecoder(codings, byte_cap, self._threads, self._windows, drain)
        try:
            yield decoder
        finally:
            decoder.close()


class BodyDecoder:
    """One body on its way: `feed` each chunk, then `finish`.

    `data` is what was decoded so far, at most the cap; with a `drain` it is what that has not taken yet.
    """

    def __init__(
        self,
        codings: tuple[Coding, ...],
        byte_cap: int,
        threads: asyncio.Semaphore,
        windows: asyncio.Semaphore,
        drain: Drain | None = None,
    ) -> None:
        self.data: Final = bytearray()
        self._drain: Final = drain
        self._drained = 0
        self._meter: Final = BodyMeter(codings, byte_cap)
        self._coded: Final = bool(codings)
        # Under two codings the outer one may decode megabytes that the inner one makes nothing of.
        self._free: Final = FREE_BYTES if len(codings) == 1 else 0
        self._threads: Final = threads
        self._windows: Final = windows
        self._holds_window = False
        self._batch: asyncio.Future[bool] | None = None

    async def feed(self, chunk: bytes) -> None:
        """Decode a chunk; raises OverCapError with the bytes up to the cap in `data`, BrokenBodyError."""
        pieces = self._meter.feed(chunk)
        if not self._coded:
            for piece in pieces:
                self.data.extend(piece)
            await self._give()
            return
        ended = False
        while not ended:
            if self._meter.heavy and not self._holds_window and self.size >= self._free:
                await self._windows.acquire()
                self._holds_window = True
            ended = await self._decode_batch(pieces)
            await self._give()

    @property
    def size(self) -> int:
        """Bytes decoded so far."""
        return self._drained + len(self.data)

    async def _give(self) -> None:
        if self._drain is not None and self.data:
            await self._drain(self.data)
            self._drained += len(self.data)
            self.data.clear()

    def finish(self) -> None:
        """The body has ended; raises BrokenBodyError unless its codings have."""
        self._meter.finish()

    def close(self) -> None:
        """Give back what is held, now or when the thread has left its batch. `data` is no longer to be read then."""
        self._meter.close()
        if not self._holds_window:
            return
        self._holds_window = False
        if self._batch is None or self._batch.done():
            self._windows.release()
        else:
            self._batch.add_done_callback(lambda _: self._windows.release())

    async def _decode_batch(self, pieces: Iterator[bytes]) -> bool:
        """Whether `pieces` have ended."""
        await self._threads.acquire()
        loop = asyncio.get_running_loop()
        self._batch = batch = loop.run_in_executor(None, _decode, pieces, self.data)
        batch.add_done_callback(self._leave_thread)
        # Cancelled by itself, the future would be done while the thread still works.
        return await asyncio.shield(batch)

    def _leave_thread(self, batch: "asyncio.Future[bool]") -> None:
        self._threads.release()
        if not batch.cancelled():
            batch.exception()  # looked at, or the loop would report it for a call that was given up


def _decode(pieces: Iterator[bytes], data: bytearray) -> bool:
    """One batch, in a thread. Whether `pieces` have ended."""
    enough = len(data) + BATCH_BYTES
    for piece in pieces:
        data += piece
        if len(data) >= enough:
            return False
    return True
