"""Rendering in worker processes, so that a page which hangs or explodes costs only its own article.

A page gets 5 s of a worker and 512 MiB; then the worker is killed, another takes its place, and the page's plain text
serves instead, labelled `raw-html`. Workers are replaced after a number of pages, since libraries leak.
"""

import asyncio
import logging
import multiprocessing
import os
import resource
import signal
import time
from collections.abc import Callable
from concurrent.futures import CancelledError as WorkerCancelledError
from functools import partial
from multiprocessing import forkserver
from pathlib import Path
from typing import Final, Protocol, Self

from pebble import ProcessExpired, ProcessPool

from fetchd.child_environment import inherited_environment

from .rendering import Rendering, render_fallback, render_page

PAGE_SECONDS: Final = 5.0
PAGE_BYTES: Final = 512 << 20
"""Address space a worker may take beyond what it holds when idle."""
PAGES_A_WORKER: Final = 200
WAIT_SECONDS: Final = 15.0
"""For a worker and its work together: two pages that hang may stand before this one on each worker."""

_PRELOAD: Final = "fetchd.extract.rendering"

_log = logging.getLogger(__name__)


def _ignore(_outcome: str, _seconds: float) -> None:
    """Nobody wants to know."""


class Extractor(Protocol):
    """Turns a page into markdown; never fails, and takes bounded time and memory."""

    async def render(self, html: str, url: str, *, raw: bool) -> Rendering:
        """See `rendering.render_page`."""
        ...


class ProcessExtractor:
    """`Extractor` on worker processes. Use as a context manager, or call `close`."""

    def __init__(
        self,
        workers: int | None = None,
        *,
        seconds: float = PAGE_SECONDS,
        memory: int = PAGE_BYTES,
        pages: int = PAGES_A_WORKER,
        wait: float = WAIT_SECONDS,
        observe: Callable[[str, float], None] = _ignore,
    ) -> None:
        """workers: one for each core, two at least, unless said. None starts before the first page.

        observe: told how each piece of work ended (done, late, failed) and how many seconds that took.
        """
        self._observe: Final = observe
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([_PRELOAD])
        _start_fork_server()
        self._seconds: Final = seconds
        self._wait: Final = wait
        self._pool: Final = ProcessPool(
            max_workers=workers or max(2, os.cpu_count() or 1),
            max_tasks=pages,
            initializer=_confine,
            initargs=(memory,),
            context=context,
        )

    async def warm_up(self) -> None:
        """Start the workers, so that the first page does not wait for imports."""
        await self.render("<p>ready</p>", "https://localhost/", raw=True)

    async def render(self, html: str, url: str, *, raw: bool) -> Rendering:
        """See Extractor. A call that is cancelled ends its worker's work."""
        try:
            async with asyncio.timeout(self._wait):
                rendering = await self._run(partial(render_page, html, url, raw=raw))
        except TimeoutError:
            rendering = None
        return rendering if rendering is not None else await self._fall_back(html)

    async def _fall_back(self, html: str) -> Rendering:
        """The plain text, in a worker too; of a page that defeats even that, in a thread of ours."""
        try:
            async with asyncio.timeout(self._wait):
                rendering = await self._run(partial(render_fallback, html))
        except TimeoutError:
            rendering = None
        return rendering if rendering is not None else await asyncio.to_thread(render_fallback, html)

    async def run[T](self, work: Callable[[], T]) -> T | None:
        """The result of other work on a page; None when that cost a worker its life, or more than it may.

        What `work` raises is raised here, but for MemoryError and OSError.
        """
        try:
            async with asyncio.timeout(self._wait):
                return await self._run(work)
        except TimeoutError:
            return None

    async def _run[T](self, work: Callable[[], T]) -> T | None:
        """The result of a worker; None when the page cost it its life, or more than it may."""
        started, outcome = time.perf_counter(), "failed"
        try:
            future = self._pool.schedule(work, timeout=self._seconds)
            result = await asyncio.wrap_future(future)
            outcome = "done"
            return result
        except TimeoutError:
            outcome = "late"
            _log.info("a page took more than %s s to render", self._seconds)
        except (ProcessExpired, MemoryError, WorkerCancelledError, OSError) as error:
            _log.info("a page could not be rendered: %s", type(error).__name__)
        finally:
            self._observe(outcome, time.perf_counter() - started)
        return None

    def close(self) -> None:
        """End the workers; what still waits is dropped."""
        self._pool.stop()  # type: ignore[no-untyped-call]
        self._pool.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _start_fork_server() -> None:
    """Start the process that workers are forked from, without the working directory on its import path."""
    with inherited_environment(PYTHONSAFEPATH="1"):
        forkserver.ensure_running()


def _confine(memory: int) -> None:
    """In a new worker: bounded memory, no core files, no part in the terminal's signals."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    limit = _address_space() + memory
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _address_space() -> int:
    """Bytes of address space this process has now (Linux); elsewhere a guess on the safe side."""
    try:
        return int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        return 1 << 30
