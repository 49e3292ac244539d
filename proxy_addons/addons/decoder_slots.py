"""How many br and zstd windows a worker may hold at a time.

Such a decoder keeps up to 16 MiB of what it has decoded (measured: 9.5 MiB on a body of 8 MiB), and a body under two
codings keeps two. A worker therefore gives out a fixed number of windows; who finds too few free waits for its turn.
"""

import asyncio

from proxy_addons.policy.codings import MAX_LAYERS

GATEWAY_WINDOWS = 10
"""Windows of a whole gateway: at 9.5 MiB each, bodies held under the cap cost less than 128 MiB."""


def share_windows(workers: int) -> int:
    """A worker's part of GATEWAY_WINDOWS: never less than one body can need."""
    return max(MAX_LAYERS, GATEWAY_WINDOWS // workers)


class DecoderSlots:
    """Windows to take and give back, first come, first served."""

    def __init__(self, windows: int) -> None:
        """`windows` must be MAX_LAYERS or more, else a body under two codings would wait for ever."""
        if windows < MAX_LAYERS:
            raise ValueError(f"a body can need {MAX_LAYERS} windows, there are {windows}")
        self._free = asyncio.Semaphore(windows)
        self._turn = asyncio.Lock()

    async def take(self, windows: int) -> None:
        """Wait for so many windows. Cancelled, it has taken none."""
        async with self._turn:  # two that each held one of their two could wait for each other
            taken = 0
            try:
                while taken < windows:
                    await self._free.acquire()
                    taken += 1
            except BaseException:
                self.give_back(taken)
                raise

    def give_back(self, windows: int) -> None:
        """Let others have them."""
        for _ in range(windows):
            self._free.release()
