"""Tests that wait, waiting together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor


async def at_once[K, T](keys: Iterable[K], work: Callable[[K], T]) -> dict[K, T]:
    """`work` for all keys side by side."""
    wanted = list(keys)
    with ThreadPoolExecutor(len(wanted)) as pool:
        loop = asyncio.get_running_loop()
        done = await asyncio.gather(*(loop.run_in_executor(pool, work, key) for key in wanted))
    return dict(zip(wanted, done, strict=True))
