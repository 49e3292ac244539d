"""Idle client connections (SPEC 1.7): nothing said either way for a while, and no request under way.

Stock counts the silence of a request too: one that a profile lets take two minutes was cut after one, whatever its
own limit. A request under way ends by its hop's whole time; what is idle is what waits for the next one.
Stock watches in a task of its own; here a timer looks again when the silence heard so far would be long enough.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mitmproxy.proxy.server import TimeoutWatchdog


class IdleWatchdog(TimeoutWatchdog):
    """In place of mitmproxy's: `busy` tells whether a request is under way, `on_idle` is called once."""

    def __init__(self, seconds: int, on_idle: Callable[[], None], busy: Callable[[], bool]) -> None:
        self.timeout, self.blocker = seconds, 0
        self._on_idle, self._busy = on_idle, busy
        self._loop = asyncio.get_running_loop()
        self._last = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def heard_at(self) -> float:
        """When something was said last, by the event loop's clock."""
        return self._last

    def register_activity(self) -> None:
        """Something was said."""
        self._last = self._loop.time()

    def start(self) -> None:
        """Watch from now on."""
        self._timer = self._loop.call_at(self._last + self.timeout, self._look)

    def stop(self) -> None:
        """The connection is over."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        if self._busy() or self.blocker > 0:
            self.register_activity()
        if self._last + self.timeout > self._loop.time():
            self.start()
        else:
            self._on_idle()

    @contextmanager
    def disarm(self) -> Iterator[None]:
        """While a hook waits, its connection is not idle."""
        self.blocker += 1
        try:
            yield
        finally:
            self.blocker -= 1
            if self.blocker == 0:
                self.register_activity()
