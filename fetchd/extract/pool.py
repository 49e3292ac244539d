"""Runs the rendering away from the event loop.

`Extractor` is the wall: the threads behind it here are bounded in number, and the wait for their results in
time, but a thread that hangs cannot be ended. Worker processes, which can, go behind the same interface.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol, Self

from .rendering import Rendering, render_fallback, render_page

EXTRACTION_SECONDS: Final = 5.0
"""How long a page may take before its plain text serves instead; ordinary pages take 0.02 s."""

THREADS: Final = 4


class Extractor(Protocol):
    """Turns a page into markdown; never fails, and takes bounded time."""

    async def render(self, html: str, url: str, *, raw: bool) -> Rendering:
        """See `rendering.render_page`."""
        ...


class ThreadExtractor:
    """`Extractor` on a few threads. Use as a context manager, or call `close`."""

    def __init__(self, threads: int = THREADS, seconds: float = EXTRACTION_SECONDS) -> None:
        self._executor: Final = ThreadPoolExecutor(threads, thread_name_prefix="extract")
        self._seconds: Final = seconds

    async def render(self, html: str, url: str, *, raw: bool) -> Rendering:
        """See Extractor. Waiting for a free thread counts as time."""
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(self._executor, lambda: render_page(html, url, raw=raw))
        try:
            async with asyncio.timeout(self._seconds):
                return await work
        except TimeoutError:
            return await asyncio.to_thread(render_fallback, html)

    def close(self) -> None:
        """Take no more work; what still waits is dropped."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
