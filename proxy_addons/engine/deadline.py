"""The one deadline of a client connection: set, put off and lifted several times a hop, missed seldom."""

import asyncio
from collections.abc import Callable


class Deadline:
    """Calls `on_late`, with the reason it was given, unless lifted or set anew in time.

    A lifted deadline keeps its timer for the next one, which it serves in half the steps.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, on_late: Callable[[str], None]) -> None:
        self._loop, self._on_late = loop, on_late
        self._timer: asyncio.TimerHandle | None = None
        self._due: float | None = None
        self._why = ""

    def set(self, seconds: float, why: str) -> None:
        """`on_late` is called `seconds` from now, and no other time."""
        self._due, self._why = self._loop.time() + seconds, why
        if self._timer is None or self._timer.when() > self._due:
            self._set_timer(self._due)

    def lift(self) -> None:
        """What was asked for is there."""
        self._due = None

    def close(self) -> None:
        """The connection is over."""
        self._due = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(when, self._ring)

    def _ring(self) -> None:
        """The timer has come: for the deadline, for one that was put off since, or for none."""
        assert self._timer is not None
        rang, self._timer = self._timer.when(), None
        if self._due is None:
            return
        if self._due > rang:
            self._set_timer(self._due)
        else:
            self._due = None
            self._on_late(self._why)
