"""Many calls side by side, their results in the order they were asked for, in bounded memory.

    urls ──► started: at most `jobs` at work ──► finished, waiting for those before them ──► take

What is started and not yet taken is bounded too, so that one slow page at the front does not make the rest pile up;
the source is read only as fast as that.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

HELD_PER_JOB: Final = 4
"""Calls started and not yet taken, for each job."""


async def run_in_order[S, T](
    sources: AsyncIterator[S],
    call: Callable[[S], Awaitable[T]],
    take: Callable[[T], Awaitable[None]],
    jobs: int,
) -> None:
    """`call` for each source, `take` for each result, in order. What any of them raises ends all the others."""
    places = asyncio.Semaphore(jobs)
    room = asyncio.Semaphore(jobs * HELD_PER_JOB)
    pending: asyncio.Queue[asyncio.Task[T] | None] = asyncio.Queue()
    started: set[asyncio.Task[T]] = set()  # and not taken yet

    async def run_one(source: S) -> T:
        async with places:
            return await call(source)

    async def start_all() -> None:
        try:
            async for source in sources:
                await room.acquire()
                task = asyncio.create_task(run_one(source))
                started.add(task)
                pending.put_nowait(task)
        finally:
            pending.put_nowait(None)

    starter = asyncio.create_task(start_all())
    try:
        while (task := await pending.get()) is not None:
            await take(await task)
            started.discard(task)
            room.release()
        await starter
    finally:
        left = [starter, *started]
        for unfinished in left:
            unfinished.cancel()
        await asyncio.gather(*left, return_exceptions=True)


async def iterate[S](items: list[S]) -> AsyncIterator[S]:
    """The items, as a source."""
    for item in items:
        yield item
