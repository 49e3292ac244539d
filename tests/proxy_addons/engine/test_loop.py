"""The event loop's own calls against asyncio's: the same order, context, cancellation and errors."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy_addons.engine.loop import EgressLoop

MARK: contextvars.ContextVar[int] = contextvars.ContextVar("mark", default=0)
STEPS = st.lists(
    st.tuples(st.sampled_from(["soon", "at", "later", "threadsafe"]), st.integers(0, 3), st.booleans()),
    max_size=12,
)


def run(make: type[Any], steps: list[tuple[str, int, bool]], *, debug: bool = False) -> list[Any]:
    """What calls are made in which order, with which context; one in two may be cancelled before its turn."""
    loop = type("Timed", (make,), {"now": 0.0, "time": lambda self: self.now})()
    loop.set_debug(debug)
    made: list[Any] = []
    try:
        start = loop.time()
        handles = []
        for number, (kind, delay, cancelled) in enumerate(steps):
            context = contextvars.copy_context()
            context.run(MARK.set, number)
            handle: Any
            if kind == "soon":
                handle = loop.call_soon(lambda *got: made.append((got, MARK.get())), number, context=context)
            elif kind == "threadsafe":
                handle = loop.call_soon_threadsafe(lambda *got: made.append((got, MARK.get())), number)
            elif kind == "at":
                # No two at the same time: their order is undefined.
                when = start + delay / 1000 + number / 1e6
                handle = loop.call_at(
                    when, lambda *got: made.append((got, MARK.get())), number, context=context
                )
                made.append(handle.when() == when)
            else:
                handle = loop.call_later(delay / 1000 + number / 1e6 + 1e-7, made.append, number)
            if cancelled:
                handle.cancel()
                handle.cancel()
            handles.append(handle)
        loop.call_at(start + 0.01, loop.stop)
        loop.now = 1.0  # all that is due, in its order
        loop.run_forever()
        made.extend(handle.cancelled() for handle in handles)
        made.append(loop._timer_cancelled_count)
    finally:
        loop.close()
    return made


@given(STEPS, st.booleans())
def test_calls_are_made_as_by_asyncio(steps: list[tuple[str, int, bool]], debug: bool) -> None:
    assert run(EgressLoop, steps, debug=debug) == run(asyncio.SelectorEventLoop, steps, debug=debug)


@pytest.mark.parametrize("make", [EgressLoop, asyncio.SelectorEventLoop])
def test_a_closed_loop_takes_no_call(make: Callable[[], Any]) -> None:
    loop = make()
    loop.close()
    for call in (
        lambda: loop.call_soon(print),
        lambda: loop.call_at(0.0, print),
        lambda: loop.call_later(0, print),
    ):
        with pytest.raises(RuntimeError, match="closed"):
            call()


@pytest.mark.parametrize("make", [EgressLoop, asyncio.SelectorEventLoop])
def test_no_time_is_no_time(make: Callable[[], Any]) -> None:
    loop = make()
    with pytest.raises(TypeError):
        loop.call_at(None, print)
    loop.close()


@pytest.mark.parametrize("make", [EgressLoop, asyncio.SelectorEventLoop])
def test_a_call_that_fails_is_told_and_the_next_is_made(make: Callable[[], Any]) -> None:
    loop, told, made = make(), list[Any](), list[int]()
    loop.set_exception_handler(lambda _, what: told.append(type(what["exception"])))
    loop.call_soon(lambda: 1 / 0)
    loop.call_soon(made.append, 1)
    loop.call_soon(loop.stop)
    loop.run_forever()
    loop.close()
    assert (told, made) == ([ZeroDivisionError], [1])
