"""How many br and zstd windows a gateway may hold at a time.

Such a decoder keeps up to 16 MiB of what it has decoded (measured: 9.5 MiB on a body of 8 MiB), and a body under two
codings keeps two. A worker therefore gives out a fixed number of windows; who finds too few free waits for its turn.
Where there are too many workers for each to have its share, they draw on common ones beside: locks on the bytes of
one file, which the kernel gives back for a worker that dies.
"""

import asyncio
import errno
import fcntl
import os
from pathlib import Path

from proxy_addons.policy.codings import MAX_LAYERS

GATEWAY_WINDOWS = 10
"""Windows of a whole gateway: at 9.5 MiB each, bodies held under the cap cost less than 128 MiB."""
POLL_SECONDS = 0.02
"""Between two looks for common windows: a lock that is given back tells no other process."""


def share_windows(workers: int) -> int:
    """A worker's part of GATEWAY_WINDOWS: never less than one body can need."""
    return max(MAX_LAYERS, GATEWAY_WINDOWS // workers)


class CommonWindows:
    """One worker's hold on the windows of all; each is a byte of the file at `path`. Raises OSError."""

    def __init__(self, path: Path, windows: int = GATEWAY_WINDOWS) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        # Opened once: closing any other descriptor of the file would let go of this process's locks (POSIX).
        self._free, self._held = list(range(windows)), list[int]()

    def try_take(self, windows: int) -> bool:
        """Take so many, or none."""
        taken: list[int] = []
        for number in self._free:
            if len(taken) == windows:
                break
            if self._lock(number):
                taken.append(number)
        if len(taken) < windows:
            self._unlock(taken)
            return False
        self._held += taken
        self._free = [number for number in self._free if number not in taken]
        return True

    def give_back(self, windows: int) -> None:
        """Let others have so many of those taken."""
        given, self._held = self._held[:windows], self._held[windows:]
        self._free += given
        self._unlock(given)

    def close(self) -> None:
        """Let go of all."""
        os.close(self._file)

    def _lock(self, number: int) -> bool:
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, number)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return False
            raise
        return True

    def _unlock(self, numbers: list[int]) -> None:
        for number in numbers:
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, number)


class DecoderSlots:
    """Windows to take and give back, first come, first served within a worker."""

    def __init__(self, windows: int, common: CommonWindows | None = None) -> None:
        """`windows` must be MAX_LAYERS or more, else a body under two codings would wait for ever.

        common: those that all workers share, where the sum of the workers' own would be too many.
        """
        if windows < MAX_LAYERS:
            raise ValueError(f"a body can need {MAX_LAYERS} windows, there are {windows}")
        self._free = asyncio.Semaphore(windows)
        self._turn = asyncio.Lock()
        self._common = common
        self.held = 0
        """Windows that are in use."""
        self.waiting = 0
        """Bodies that wait for theirs."""

    async def take(self, windows: int) -> None:
        """Wait for so many windows. Cancelled, it has taken none."""
        self.waiting += 1
        try:
            await self._take(windows)
        finally:
            self.waiting -= 1
        self.held += windows

    async def _take(self, windows: int) -> None:
        async with self._turn:  # two that each held one of their two could wait for each other
            taken = 0
            try:
                while taken < windows:
                    await self._free.acquire()
                    taken += 1
                while self._common is not None and not self._common.try_take(windows):  # noqa: ASYNC110
                    await asyncio.sleep(POLL_SECONDS)  # other processes tell nobody
            except BaseException:
                self._release(taken)
                raise

    def give_back(self, windows: int) -> None:
        """Let others have them."""
        self.held -= windows
        if self._common is not None:
            self._common.give_back(windows)
        self._release(windows)

    def _release(self, windows: int) -> None:
        for _ in range(windows):
            self._free.release()


def make_slots(workers: int, path: Path) -> DecoderSlots:
    """A worker's slots, `workers` being all of its gateway's and `path` the same for each. Raises OSError."""
    share = share_windows(workers)
    if share * workers <= GATEWAY_WINDOWS:
        return DecoderSlots(share)
    return DecoderSlots(GATEWAY_WINDOWS, CommonWindows(path))
