"""MCP over standard input and output: one JSON-RPC message a line (modelcontextprotocol.io, transports).

The SDK's server runs on streams of ours, because its own transport drops a line it cannot read without an answer,
bounds no line, and holds up the end of the process until the client closes its pipe.

Standard output carries messages and nothing else: meanwhile descriptor 1 is standard error, for us and for every
process we start, and descriptor 0 is empty.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import anyio
from anyio.streams.memory import MemoryObjectSendStream
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCMessage

from proxy_addons.policy.limits import MIB

from .line_io import LineReader, LineWriter, read_descriptor
from .mcp_json import UnreadableMessageError, parse_message

MAX_MESSAGE_BYTES: Final = MIB
FLUSH_SECONDS: Final = 2.0
"""For the last answers, after the end of input, to a client that may not read them."""
MAX_UNREAD: Final = 64
"""Answers that wait to be written; with more, nothing is read until the client reads."""


@contextmanager
def claimed_stdio() -> Iterator[tuple[int, int]]:
    """The descriptors to read and to write messages; 0 and 1 are something else as long as this lasts.

    Raises OSError.
    """
    taken: list[int] = []
    try:
        # Above 2, or a closed standard error would become the wire; not inherited by what we start.
        taken += (fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3) for descriptor in (0, 1))
        empty = os.open(os.devnull, os.O_RDONLY)
        os.dup2(empty, 0)
        os.close(empty)
        os.dup2(2, 1)
        yield taken[0], taken[1]
    finally:
        for descriptor, private in enumerate(taken):
            os.dup2(private, descriptor)
            # Not closed: a thread may still be reading it, and would then read whatever gets its number.


async def serve_stdio(server: Server[Any], read_from: int, write_to: int) -> None:
    """Serve one client until its input ends, or nobody reads its output any more.

    Calls still at work then are dropped.
    """
    to_server, from_client = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    wire = Wire(LineWriter(write_to))
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(
                _read, LineReader(read_descriptor(read_from), MAX_MESSAGE_BYTES), to_server, wire
            )
            group.start_soon(wire.run)
            await server.run(from_client, wire.to_client, server.create_initialization_options())
            with anyio.move_on_after(FLUSH_SECONDS):
                await wire.flushed.wait()
            group.cancel_scope.cancel()
    except* OSError:
        pass  # nobody reads: there is no one left to serve
    finally:
        for stream in (to_server, from_client):
            stream.close()
        wire.close()


async def _read(
    lines: LineReader, to_server: MemoryObjectSendStream[SessionMessage | Exception], wire: "Wire"
) -> None:
    async with to_server:
        async for line in lines:
            if line is not None and not line.strip():
                continue
            await wire.wait_for_room()
            try:
                message = parse_message(line)
            except UnreadableMessageError as error:
                await wire.write(error.answer)
            else:
                await to_server.send(SessionMessage(message))


class Wire:
    """Messages on their way to the client. `flushed` is set when the server has ended and the last is written."""

    def __init__(self, writer: LineWriter) -> None:
        self.to_client, self._from_server = anyio.create_memory_object_stream[SessionMessage](0)
        self.flushed: Final = anyio.Event()
        self._writer: Final = writer
        self._taken = anyio.Event()

    async def run(self) -> None:
        """Write what the server sends, until it ends; raises OSError when nobody reads any more."""
        async with self._from_server:
            async for sent in self._from_server:
                self._taken.set()
                self._taken = anyio.Event()
                await self.write(sent.message)
        self.flushed.set()

    def close(self) -> None:
        """Nothing more is sent."""
        self.to_client.close()
        self._from_server.close()

    async def write(self, message: JSONRPCMessage) -> None:
        line = message.model_dump_json(by_alias=True, exclude_unset=True)
        await self._writer.write(line.encode("utf-8"))

    async def wait_for_room(self) -> None:
        """Until fewer than MAX_UNREAD handlers wait to hand over their answers."""
        while self._from_server.statistics().tasks_waiting_send >= MAX_UNREAD:
            await self._taken.wait()
