"""A client connection in one task against mitmproxy's three: the same hooks and events, however it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mitmproxy import options
from mitmproxy.proxy import commands, events, mode_servers, mode_specs, server
from mitmproxy.test import taddons

from proxy_addons.engine.idle import IdleWatchdog
from proxy_addons.engine.lean_handler import LeanHandler
from tests.proxy_addons.engine.fakes import Clock

REGULAR = mode_specs.ProxyMode.parse("regular")


class Noted:
    """What both handlers do alike in this test: take note, and end as the test has it end."""

    said: list[str]
    how: str
    has_read: asyncio.Event
    transports: Any
    client: Any

    async def handle_hook(self, hook: commands.StartHook) -> None:
        self.said.append(hook.name)
        if self.how == "refused" and hook.name == "client_connected":
            self.client.error = "no"

    async def server_event(self, event: events.Event) -> None:
        self.said.append(type(event).__name__)
        task = self.transports[self.client].handler
        if isinstance(event, events.DataReceived):
            self.has_read.set()
        if self.how == "the client closes" and isinstance(event, events.ConnectionClosed):
            asyncio.get_running_loop().call_soon(task.cancel, "its layers close it")
        if self.how == "crash" and isinstance(event, events.DataReceived):
            raise RuntimeError("a fault of ours")
        if self.how == "cancelled while it reads" and isinstance(event, events.DataReceived):
            asyncio.get_running_loop().call_soon(task.cancel, "why")
        if self.how == "cancelled by itself" and isinstance(event, events.DataReceived):
            task.cancel("why")
        if self.how == "cancelled on its last step" and isinstance(event, events.ConnectionClosed):
            self.client.state = self.client.state.__class__.CLOSED
            task.cancel("why")

    def log(self, *_: Any, **__: Any) -> None:
        """Nothing."""


class Stock(Noted, mode_servers.ProxyConnectionHandler):
    """As it comes."""


class Lean(Noted, LeanHandler):
    """In one task."""


@asynccontextmanager
async def connected(kind: type[Any], how: str) -> AsyncIterator[tuple[Any, asyncio.StreamWriter]]:
    accepted: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.set_result((reader, writer))

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listening:
        _, peer = await asyncio.open_connection(*listening.sockets[0].getsockname())
        reader, writer = await accepted
        with taddons.context() as context:
            handler = kind(context.master, reader, writer, options.Options(tcp_timeout=600), REGULAR)
            handler.said, handler.how, handler.has_read = [], how, asyncio.Event()
            if kind is Lean:
                handler.timeout_watchdog = IdleWatchdog(600, lambda: None, lambda: False)
            yield handler, peer
        peer.close()
        writer.close()


async def outcome(kind: type[Any], how: str) -> list[Any]:
    async with connected(kind, how) as (handler, peer):
        peer.write(b"something")
        if how in ("the client closes", "cancelled on its last step"):
            peer.write_eof()
        task = asyncio.ensure_future(handler.handle_client())
        if how == "the worker ends":
            await handler.has_read.wait()
            task.cancel()
        ended = "returned"
        try:
            await task
        except asyncio.CancelledError:
            ended = "cancelled"
        left = handler.client in handler.transports and how not in ("crash", "the worker ends")
        return [handler.said, ended, left, task.cancelling() if ended == "returned" else None]


WAYS = (
    "the client closes",
    "refused",
    "cancelled while it reads",
    "cancelled by itself",
    "cancelled on its last step",
)


@pytest.mark.parametrize("how", WAYS)
async def test_a_connection_ends_as_in_stock(how: str) -> None:
    assert await outcome(Lean, how) == await outcome(Stock, how)


async def test_a_crash_of_the_reader_still_tells_that_the_client_is_gone() -> None:
    lean = await outcome(Lean, "crash")
    assert lean == await outcome(Stock, "crash")
    assert lean[0][-1] == "client_disconnected"


async def test_the_end_of_the_worker_ends_the_task_itself() -> None:
    """Nothing is told any more; stock's reader, a task of its own, hears of it later."""
    said, ended, _, _ = await outcome(Lean, "the worker ends")
    assert ended == "cancelled" and "client_disconnected" not in said


async def test_stock_sets_up_nothing_that_is_left_out() -> None:
    async with connected(Stock, "") as (stock, _), connected(Lean, "") as (lean, _):
        assert set(vars(stock)) - set(vars(lean)) == {"log_prefix"}
        assert issubclass(Lean, server.ConnectionHandler)


# --- idleness ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "idle"),
    [
        (lambda _, __: None, True),
        (lambda dog, _: dog.register_activity(), False),
        (lambda _, busy: busy.append(True), False),
        (lambda dog, _: setattr(dog, "blocker", 1), False),
        (lambda dog, _: dog.stop(), False),
    ],
    ids=["silence", "heard in between", "a request is under way", "a hook waits", "it is over"],
)
def test_silence_ends_a_connection_once(what: Callable[[Any, list[bool]], None], idle: bool) -> None:
    clock, ended, busy = Clock(), [], list[bool]()

    async def make() -> IdleWatchdog:
        return IdleWatchdog(10, lambda: ended.append(clock.now), lambda: bool(busy))

    dog = clock.run_until_complete(make())
    dog.start()
    clock.ring(9.0)
    assert not ended
    what(dog, busy)
    clock.ring(1.5)
    assert bool(ended) is idle
    dog.blocker = 0
    busy.clear()
    for _ in range(3):
        clock.ring(15.0)
    assert len(ended) == (0 if dog._timer is None and not idle and not ended else 1)
    clock.close()
