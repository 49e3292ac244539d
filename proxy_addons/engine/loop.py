"""The event loop of a worker: its `create_connection` is the one way out (law 4).

mitmproxy connects by `asyncio.open_connection`, which ends here with the host name still in place. The plan of the
dial (which hop, judged how) is set by the `server_connect` hook in the same task's context; without a plan there is
no connection. `getaddrinfo` does not exist here, so no library can resolve past the judge.

Calls put on the loop are dozens a hop: asyncio's, in fewer steps. Equality: tests/proxy_addons/engine/test_loop.py.
"""

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass
from heapq import heappush
from typing import Any, Never

from proxy_addons.dial import Dialer, DialRefusedError, Judged
from proxy_addons.engine.hops import Hop, Origin
from proxy_addons.engine.refusals import INTERNAL, time_is_up

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DialPlan:
    """What the next connection of this task may go to."""

    dialer: Dialer
    judged: Judged
    hop: Hop
    origin: Origin


PLAN: ContextVar[DialPlan | None] = ContextVar("fetchd_dial_plan", default=None)


class _LeanHandle(asyncio.Handle):
    """A call that is made soon; keeps no account for asyncio's debug mode."""

    __slots__ = ()

    def __init__(self, callback: Any, args: Any, loop: Any, context: Context | None) -> None:
        self._context: Context = copy_context() if context is None else context
        self._loop, self._callback, self._args = loop, callback, args
        self._cancelled = False
        self._repr = self._source_traceback = None


class _LeanTimer(asyncio.TimerHandle):
    """A call that is made at a time; the same."""

    __slots__ = ()

    def __init__(self, when: float, callback: Any, args: Any, loop: Any, context: Context | None) -> None:
        self._context: Context = copy_context() if context is None else context
        self._loop, self._callback, self._args = loop, callback, args
        self._cancelled = False
        self._repr = self._source_traceback = None
        self._when, self._scheduled = when, True

    def cancel(self) -> None:
        if not self._cancelled:
            self._loop._timer_handle_cancelled(self)
            self._cancelled = True
            self._callback = self._args = None  # type: ignore[assignment]

    def __lt__(self, other: Any) -> bool:
        return bool(self._when < other._when)  # the loop's heap holds nothing but timers


class EgressLoop(asyncio.SelectorEventLoop):
    """Connects only where a plan says, only to judged addresses."""

    _closed: bool
    _debug: bool
    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]

    def call_soon(  # type: ignore[override]  # without the variadic types of the stub
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """As in asyncio."""
        if self._closed or self._debug:
            return super().call_soon(callback, *args, context=context)
        handle = _LeanHandle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """As in asyncio."""
        if self._closed or self._debug or when is None:
            return super().call_at(when, callback, *args, context=context)
        timer = _LeanTimer(when, callback, args, self, context)
        heappush(self._scheduled, timer)
        return timer

    async def create_connection(  # type: ignore[override]  # one signature instead of overloads
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int | None = None,
        *,
        sock: socket.socket | None = None,
        **options: Any,
    ) -> tuple[asyncio.BaseTransport, asyncio.BaseProtocol]:
        """As in asyncio; raises OSError (only) when there is no plan, or the dial is refused or fails."""
        plan = PLAN.get()
        PLAN.set(None)
        if sock is not None or plan is None or plan.origin.address != (host, port):
            raise OSError("no connection without a judged plan")
        try:
            async with asyncio.timeout_at(plan.hop.deadline):
                connected, plan.origin.report = await plan.dialer.connect(plan.judged, plan.hop.profile)
        except DialRefusedError as error:
            plan.origin.failure, plan.origin.report = error.verdict, error.report
            raise
        except TimeoutError:
            plan.origin.failure = time_is_up(plan.hop)
            raise
        except OSError:
            raise
        except Exception as error:  # law 5: mitmproxy waits forever on anything that is no OSError
            plan.origin.failure = INTERNAL
            logger.exception("the dialer failed")
            raise OSError(INTERNAL.message) from error
        try:
            return await super().create_connection(protocol_factory, sock=connected)
        except BaseException:
            connected.close()
            raise

    async def getaddrinfo(self, *args: Any, **options: Any) -> Never:
        """Names are resolved by the dialer's resolver and nowhere else."""
        raise OSError("no name is resolved past the judge")
