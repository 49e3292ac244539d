"""Waiting for facts across threads and event loops; no test of ours waits for time to pass."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self

PATIENCE = 30.0
"""Seconds after which a wait gives up: an upper bound for a broken test, never part of a test's meaning."""


class Gate:
    """Opened once by any thread; awaited in any event loop, or waited for in any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._opened = threading.Event()
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    def open(self) -> None:
        with self._lock:
            self._opened.set()
            waiting, self._waiting = self._waiting, []
        for loop, event in waiting:
            with contextlib.suppress(RuntimeError):  # that loop is closed: nobody waits there any more
                loop.call_soon_threadsafe(event.set)

    @property
    def is_open(self) -> bool:
        return self._opened.is_set()

    async def wait(self) -> None:
        event = asyncio.Event()
        with self._lock:
            if self._opened.is_set():
                return
            self._waiting.append((asyncio.get_running_loop(), event))
        await event.wait()

    def wait_sync(self, timeout: float = PATIENCE) -> None:
        if not self._opened.wait(timeout):
            raise TimeoutError("the gate was not opened")


class Watch:
    """Facts guarded by one condition: servers change them under `with watch:`, tests wait for a predicate."""

    def __init__(self) -> None:
        self._condition = threading.Condition(threading.RLock())

    def __enter__(self) -> Self:
        self._condition.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._condition.notify_all()
        self._condition.release()

    def wait_sync(self, predicate: Callable[[], bool], what: str, timeout: float = PATIENCE) -> None:
        with self._condition:
            if not self._condition.wait_for(predicate, timeout):
                raise TimeoutError(f"never happened: {what}")

    async def wait(self, predicate: Callable[[], bool], what: str, timeout: float = PATIENCE) -> None:
        await asyncio.to_thread(self.wait_sync, predicate, what, timeout)


class LoopThread:
    """A daemon thread running one event loop; coroutines are handed to it and their results handed back."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            raise RuntimeError(f"{self._name} is not running")
        return self._loop

    def start(self) -> None:
        ready = threading.Event()

        def run() -> None:
            with asyncio.Runner() as runner:
                self._loop = runner.get_loop()
                self._stop = asyncio.Event()
                ready.set()
                runner.run(self._wait_for_stop())

        self._thread = threading.Thread(target=run, name=self._name, daemon=True)
        self._thread.start()
        ready.wait(PATIENCE)

    async def _wait_for_stop(self) -> None:
        await self._stop.wait()

    def call[T](self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` in the thread's loop and return its result (blocks the caller)."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(PATIENCE)

    def stop(self) -> None:
        """End the loop; its remaining tasks are cancelled."""
        if self._thread is None:
            return
        self.loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(PATIENCE)
        if self._thread.is_alive():
            raise TimeoutError(f"{self._name} did not stop")
        self._thread = self._loop = None


class ThreadedServer:
    """Base of the kit's servers: `_start` and `_close` run inside the server's own loop."""

    def __init__(self, name: str) -> None:
        self._thread = LoopThread(name)

    async def _start(self) -> None:
        raise NotImplementedError

    async def _close(self) -> None:
        raise NotImplementedError

    def start(self) -> Self:
        self._thread.start()
        try:
            self._thread.call(self._start())
        except BaseException:
            self._thread.stop()
            raise
        return self

    def stop(self) -> None:
        self._thread.call(self._close())
        self._thread.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.start)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)
