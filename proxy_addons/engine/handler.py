"""One client connection's IO: mitmproxy's handler with deadlines, back-pressure, abort and a crash guard.

- Hooks run inline in `server_event`, a task only where one really waits (half of stock's cost a hop was the task).
- A layer that raises ends the connection: stock logs it and goes on feeding the half-run state machine.
- A paused layer queues events without bound (N5), a waiting one bytes (N14): the reader waits instead.
- An HTTP/2 peer that never opens its window makes us keep the body (N6): the other side's reader waits.
- What one event makes us send to a peer goes out in one write: head and body, end of handshake and request.
"""

import asyncio
import logging
import socket
import struct
from collections import Counter, deque
from collections.abc import Awaitable
from contextlib import suppress
from functools import partial
from typing import Any, cast

from mitmproxy import http
from mitmproxy.connection import Connection, ConnectionState, Server
from mitmproxy.proxy import commands, events, layer, mode_specs, server
from mitmproxy.proxy.layers import modes

from proxy_addons.audit.errors import AuditUnavailableError
from proxy_addons.engine.deadline import Deadline
from proxy_addons.engine.dispatcher import Dispatcher
from proxy_addons.engine.hops import Entry, Origin, Pipe, Recorder, Session
from proxy_addons.engine.idle import IdleWatchdog
from proxy_addons.engine.lean_handler import LeanHandler
from proxy_addons.policy.limits import MAX_HEAD_BYTES

logger = logging.getLogger(__name__)

REGULAR = mode_specs.ProxyMode.parse("regular")
MAX_QUEUED_EVENTS = 16
"""Pieces of a body a paused stream may hold before its client is read no further; one is at most 64 KiB."""
MAX_H2_BUFFER = 1 << 20
"""Bytes held for HTTP/2 streams whose reader does not open its window, before the writer is read no further."""
MAX_WAITING_FRAMES = 512
"""Frames an HTTP/2 origin may send to a stream that waits; its window bounds the bytes, not their number."""
MAX_WRITE_BUFFER = 1 << 17
_POLL_SECONDS = 0.02


class GateHandler(LeanHandler):
    """Implements `hops.ConnectionControl` and `places.Occupant`."""

    def __init__(
        self,
        master: Any,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        entry: Entry,
        recorder: Recorder,
    ) -> None:
        super().__init__(master, reader, writer, master.options, REGULAR)
        writer.transport.set_write_buffer_limits(high=MAX_WRITE_BUFFER)
        self.session = Session(self.client, entry, self, recorder)
        self.layer = modes.HttpProxy(self.layer.context)
        self._has_first_layer = False
        self.timeout_watchdog = IdleWatchdog(master.options.tcp_timeout, self._end_idle, self._has_request)
        self._client_writer = writer
        self._dispatcher = cast(Dispatcher, master.addons)
        self._waiting_for: Counter[Connection] = Counter()
        self._deadline = Deadline(asyncio.get_running_loop(), partial(self.end, "client-timeout"))
        self._dead = False
        self._unsent: dict[Connection, list[bytes]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._hooks_under_way: set[commands.StartHook] = set()

    # --- control -------------------------------------------------------------------------------------------------

    def abort(self, why: str) -> None:
        """Drop client and origins now; what was written to the client before is flushed, nothing more is."""
        self._write_unsent(self.client)
        self._dead = True
        self.client.error = self.client.error or why  # the dispatcher opens nothing new for it
        logger.debug("connection aborted: %s", why)
        for connection in list(self.transports):
            if connection is self.client:
                self._close_client(why)
            else:
                self._drop(connection, why)

    def end(self, name: str, why: str) -> None:
        """As `abort`, with an event `name` in the log, but where it has ended already."""
        if self._dead:
            return
        with suppress(AuditUnavailableError):  # to end it needs no line
            self.session.recorder.event(self.session, name, why)
        self.abort(why)

    def reset_client(self) -> None:
        """End the client connection by a reset, where a close would look like the end of an answer."""
        io = self.transports.get(self.client)
        if io is not None and isinstance(io.writer, asyncio.StreamWriter):
            self._unsent.pop(self.client, None)
            linger_not = struct.pack("ii", 1, 0)
            io.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger_not)
            io.writer.transport.abort()

    def abort_origin(self, origin: Server, why: str) -> None:
        """Drop one upstream connection now, unflushed."""
        if origin in self.transports:
            self._drop(origin, why)

    def watch_resets(self, origin: Server) -> None:
        """A close-delimited body that ends by a reset is broken: remember which it was."""
        io = self.transports[origin]
        if isinstance(origin, Origin) and io.reader is not None:
            reader = cast(asyncio.StreamReader, io.reader)
            io.reader = cast(asyncio.StreamReader, _ResetSpy(reader, origin))

    def arm(self, seconds: float, why: str) -> None:
        """Close the connection unless disarmed or re-armed within `seconds`."""
        self._deadline.set(seconds, why)

    def disarm(self) -> None:
        """Lift the deadline set by `arm`."""
        self._deadline.lift()

    def stop_timers(self) -> None:
        """The connection is over."""
        self._deadline.close()

    def idle_since(self) -> float | None:
        """When it was heard last; None while a request or a WebSocket is under way, or a hook waits."""
        if self.timeout_watchdog.blocker > 0 or any(one.is_in_use() for one in self.session.http_layers):
            return None
        return self.timeout_watchdog.heard_at

    def owes(self) -> bool:
        """Whether the client has yet to take what was written for it."""
        return self._client_writer.transport.get_write_buffer_size() > 0

    def evict(self) -> None:
        """Close the client now, to make room."""
        self.abort("made room for another client")
        self._client_writer.transport.abort()

    def _end_idle(self) -> None:
        if self.client in self.transports:
            self._close_client("timeout")

    def _has_request(self) -> bool:
        return any(view.has_request() for view in self.session.http_layers)

    def _close_client(self, why: str) -> None:
        io = self.transports[self.client]
        if io.handler is not None:
            io.handler.cancel(why)
        elif io.writer is not None:
            io.writer.close()

    def _drop(self, connection: Connection, why: str) -> None:
        self._unsent.pop(connection, None)
        io = self.transports[connection]
        if isinstance(io.writer, asyncio.StreamWriter):
            io.writer.transport.abort()
        connection.state = ConnectionState.CLOSED
        if io.handler is not None:
            io.handler.cancel(why)

    # --- events and commands -------------------------------------------------------------------------------------

    def later(self, event: events.Event) -> None:
        """Feed an event of our own (a hop's time is up) to the layers."""
        task = asyncio.get_running_loop().create_task(self.server_event(event))
        self.wakeup_timer.add(task)
        task.add_done_callback(self.wakeup_timer.discard)

    def run_hook(self, hook: commands.StartHook) -> bool:
        """Run a hook now; where one of its functions waits, a task does the rest, and this is False.

        Such a hook is passed up by each layer, so that each knows where its end belongs: it is run once.
        """
        if hook in self._hooks_under_way:
            return False
        waiting = self._dispatcher.run(hook)
        if waiting is None:
            return True
        self._hooks_under_way.add(hook)
        self._spawn(self._await_hook(hook, waiting), f"hook {hook.name}")
        return False

    async def server_event(self, event: events.Event) -> None:
        """As in mitmproxy, with inline hooks; see the module docstring."""
        async with (
            self._server_event_lock
        ):  # tasks are eager: one may begin, and bring an event, within an event
            if self._dead and not isinstance(event, events.ConnectionClosed):
                return
            self.timeout_watchdog.register_activity()
            try:
                self._run(event)
            except Exception:  # law 5: a layer crashed; its state machine must not be fed again
                logger.exception("a layer crashed; connection dropped")
                self._write_unsent(self.client)
                self._dead = True
                self._tell_crash()
                self.abort("layer crash")

    def _run(self, event: events.Event) -> None:
        queue: deque[events.Event] = deque((event,))
        while queue:
            for command in self.layer.handle_event(queue.popleft()):
                if type(command) is commands.SendData:
                    self._send(command)
                elif isinstance(command, commands.StartHook):
                    if self.run_hook(command) and command.blocking:
                        queue.append(events.HookCompleted(command))
                else:
                    self._obey(command)
        if self._unsent:
            self._write_unsent()
        if not self._has_first_layer:
            self._find_first_layer()
        if self.session.pipe is not None:
            self._shorten(self.session.pipe)

    def _find_first_layer(self) -> None:
        """Once it is known what the client speaks, the layers that asked for it only hand events on."""
        above = getattr(self.layer._handle_event, "__self__", None)
        if isinstance(above, layer.NextLayer) and above.layer is not None and above._paused is None:
            self.layer, self._has_first_layer = above.layer, True

    def _shorten(self, pipe: Pipe) -> None:
        """Within a tunnel the layers of the CONNECT only copy: feed the layer inside it (a fifth of a hop's cost)."""
        inside = pipe.take_child()
        if inside is not None:
            self.layer, self.session.pipe = inside, None

    def _send(self, command: commands.SendData) -> None:
        """Keep for the one write at the end of the event."""
        if not self._dead:  # else: bytes that came in one piece with those on which a hook failed
            self._unsent.setdefault(command.connection, []).append(command.data)

    def _write_unsent(self, only: Connection | None = None) -> None:
        """Write what was kept; with `only`, the rest is dropped."""
        unsent, self._unsent = self._unsent, {}
        for connection, pieces in unsent.items():
            if only is not None and connection is not only:
                continue
            io = self.transports.get(connection)
            if io is not None and io.writer is not None and not io.writer.is_closing():
                io.writer.write(pieces[0] if len(pieces) == 1 else b"".join(pieces))

    def _obey(self, command: commands.Command) -> None:
        if isinstance(command, commands.Log):
            logger.debug("%s", command.message)
        elif isinstance(command, commands.OpenConnection):
            task = self._spawn(self.open_connection(command), "origin")
            self.transports[command.connection] = server.ConnectionIO(handler=task)
        elif isinstance(command, commands.RequestWakeup):
            self.wakeup_timer.add(self._spawn(self.wakeup(command), "wakeup"))
        elif isinstance(command, commands.ConnectionCommand) and command.connection not in self.transports:
            return  # closed already
        elif isinstance(command, commands.CloseTcpConnection):
            self._write_unsent()
            self.close_connection(command.connection, command.half_close)
        elif isinstance(command, commands.CloseConnection):
            self._write_unsent()
            self.close_connection(command.connection, False)
        else:
            raise TypeError(f"unexpected command: {command}")

    async def handle_connection(self, connection: Connection) -> None:
        """As in mitmproxy; an origin that is let go is owed nothing, and may never read what is left for it."""
        writer = self.transports[connection].writer
        try:
            await super().handle_connection(connection)
        finally:
            if connection is not self.client and isinstance(writer, asyncio.StreamWriter):
                writer.transport.abort()

    async def _await_hook(self, command: commands.StartHook, waiting: Awaitable[None]) -> None:
        data = command.args()[0]
        origins = Counter([data.server_conn] if isinstance(data, http.HTTPFlow) else ())
        self._waiting_for += origins
        try:
            with self.timeout_watchdog.disarm():
                await waiting
        finally:
            self._waiting_for -= origins
            # The task may have begun, and ended, within the event that brought the hook.
            asyncio.get_running_loop().call_soon(self._hooks_under_way.discard, command)
        if command.blocking:
            await self.server_event(events.HookCompleted(command))

    async def handle_hook(self, hook: commands.StartHook) -> None:
        """Hooks that the handler itself starts (connections made and lost)."""
        waiting = self._dispatcher.run(hook)
        if waiting is not None:
            with self.timeout_watchdog.disarm():
                await waiting

    def _spawn(self, work: Any, name: str) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)  # the event loop itself holds tasks only weakly
        task.add_done_callback(self._tasks.discard)
        return task

    def _tell_crash(self) -> None:
        try:
            self.session.recorder.event(self.session, "internal", "a protocol layer crashed")
        except Exception:  # law 5: the connection is dropped whatever the log says
            logger.exception("a layer crash could not be audited")

    # --- back-pressure -------------------------------------------------------------------------------------------

    async def drain_writers(self) -> None:
        """Called by each reader after each chunk: wait here, and the peer's bytes stay in its kernel."""
        if any(map(_is_behind, self.transports.values())):
            await super().drain_writers()
        io = self.transports.get(self.client)
        if io is None:
            return
        reader = asyncio.current_task()
        if reader is io.handler:
            while self._client_must_wait():  # noqa: ASYNC110 (mitmproxy's state tells nobody)
                await asyncio.sleep(_POLL_SECONDS)
            return
        for origin in [one for one, io in self.transports.items() if io.handler is reader]:
            while self._origin_must_wait(origin):  # noqa: ASYNC110 (the same)
                await asyncio.sleep(_POLL_SECONDS)

    def _client_must_wait(self) -> bool:
        if self.client not in self.transports:
            return False
        for view in self.session.http_layers:
            if (
                view.most_queued() > MAX_QUEUED_EVENTS
                or view.uploads_held() > MAX_H2_BUFFER
                or view.sent_ahead() > MAX_HEAD_BYTES
            ):
                return True
        return False

    def _origin_must_wait(self, origin: Connection) -> bool:
        if self.client not in self.transports or self.client.state is not ConnectionState.OPEN:
            return False
        hook_waits = self._waiting_for[origin] > 0
        # Streams of an HTTP/2 origin wait one by one (GateHttp2Client): some may have to end for others to go on.
        allowed = MAX_WAITING_FRAMES if origin.alpn == b"h2" else 0
        return any(
            (hook_waits and view.most_answers_queued() >= allowed) or view.h2_buffered() > MAX_H2_BUFFER
            for view in self.session.http_layers
        )

    def log(self, message: str, level: int = logging.INFO, exc_info: Any = None) -> None:
        """mitmproxy's connection log holds host names of clients at info; ours is the audit."""
        logger.debug("%s", message, exc_info=exc_info)


def _is_behind(io: server.ConnectionIO) -> bool:
    """Whether bytes wait to be taken by the peer; without any, mitmproxy's drain only takes its time."""
    writer = io.writer
    return isinstance(writer, asyncio.StreamWriter) and writer.transport.get_write_buffer_size() > 0


class _ResetSpy:
    """A reader that notes a reset on the connection before passing it on."""

    def __init__(self, reader: asyncio.StreamReader, origin: Origin) -> None:
        self._reader, self._origin = reader, origin

    async def read(self, size: int) -> bytes:
        try:
            return await self._reader.read(size)
        except ConnectionResetError:
            self._origin.was_reset = True
            raise
