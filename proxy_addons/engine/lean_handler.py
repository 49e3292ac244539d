"""mitmproxy's connection handler in fewer tasks: the same hooks and events, in the same order.

Stock serves a client in three tasks: one waits for the one that reads, and one watches for silence. Here one serves
and reads, and a timer watches (`idle`). Equality with stock: tests/proxy_addons/engine/test_lean_handler.py.
"""

import asyncio
import logging
import time
from typing import Any

from mitmproxy.proxy import events, mode_servers, mode_specs, server_hooks

from proxy_addons.engine.idle import IdleWatchdog

logger = logging.getLogger(__name__)


class LeanHandler(mode_servers.ProxyConnectionHandler):
    """A client connection from its first hook to its last."""

    timeout_watchdog: IdleWatchdog

    def __init__(
        self,
        master: Any,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        options: Any,
        mode: mode_specs.ProxyMode,
    ) -> None:
        """As in mitmproxy, which also writes the client's address out for a log that is not kept."""
        self.master = master
        super(mode_servers.ProxyConnectionHandler, self).__init__(reader, writer, options, mode)

    async def handle_client(self) -> None:
        """As in mitmproxy; raises CancelledError when the task is cancelled from outside (the worker ends)."""
        self.timeout_watchdog.start()
        try:
            await self.handle_hook(server_hooks.ClientConnectedHook(self.client))
            if self.client.error:
                self._let_go()
            else:
                await self.server_event(events.Start())
                await self._read_client()
        finally:
            self.timeout_watchdog.stop()
            while self.wakeup_timer:
                self.wakeup_timer.pop().cancel()
        self.client.timestamp_end = time.time()
        await self.handle_hook(server_hooks.ClientDisconnectedHook(self.client))
        readers = [io.handler for io in self.transports.values() if io.handler is not None]
        for reader in readers:
            reader.cancel("client disconnected")
        if readers:
            await asyncio.wait(readers)

    async def _read_client(self) -> None:
        """Until the client's end. Who ends the connection cancels its reader, and always says why: such a
        cancellation ends here. One that says nothing comes from the event loop's own end, and is passed on.
        """
        task = asyncio.current_task()
        assert task is not None
        self.transports[self.client].handler = task
        try:
            await self.handle_connection(self.client)
            # Cancelled on its last step: before Python 3.13, `uncancel` would leave that to be raised later.
            if task.cancelling():
                await asyncio.sleep(0)
        except asyncio.CancelledError as error:
            if not error.args:
                raise
        except Exception:  # law 5: stock says so, and closes the rest
            logger.exception("a connection handler crashed")
        while task.cancelling():
            task.uncancel()
        self._let_go()

    def _let_go(self) -> None:
        """Where the client's reader has not done so."""
        io = self.transports.pop(self.client, None)
        if io is not None and io.writer is not None:
            io.writer.close()
