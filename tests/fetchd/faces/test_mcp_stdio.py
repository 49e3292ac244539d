"""MCP on standard input and output: real pipes to a real process; what is on them, and how it ends."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCResponse, TextContent

from fetchd.core.caller import Caller
from fetchd.core.envelope import CUT_OUT
from fetchd.extract.pool import ProcessExtractor
from fetchd.faces.calls import Calls
from fetchd.faces.line_io import LineReader, LineWriter, read_descriptor
from fetchd.faces.mcp_server import make_server
from fetchd.faces.mcp_stdio import MAX_MESSAGE_BYTES, MAX_UNREAD, Wire, serve_stdio
from fetchd.fetch import WebFetch
from fetchd.transport.fake import FakeTransport
from proxy_addons.policy.limits import DEFAULT_PROFILE
from tests.fetchd.faces.served import HANGS, HANGS_IN_BODY, TEXT, URL, PlainClient, WatchedLog
from tests.fetchd.faces.stdio_daemon import HANGING_URL, PROGRESS_SECONDS, SLOW_URL
from tests.kit.corpora import REPOSITORY
from tests.kit.sync import PATIENCE

MODULE = ("-m", "tests.fetchd.faces.stdio_daemon")
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(REPOSITORY)}


@dataclass
class Server:
    """A server, spoken to by the line."""

    to_server: asyncio.StreamWriter
    from_server: asyncio.StreamReader

    async def send(self, *lines: bytes) -> None:
        self.to_server.write(b"".join(line + b"\n" for line in lines))
        await self.to_server.drain()

    async def read(self) -> dict[str, Any]:
        """The next message; every line of standard output is one (C079)."""
        line = await asyncio.wait_for(self.from_server.readline(), PATIENCE)
        found = json.loads(line)
        assert isinstance(found, dict) and found["jsonrpc"] == "2.0"
        return found

    async def answer(self, request_id: object) -> dict[str, Any]:
        """The answer with this id; notifications before it are passed over."""
        while True:
            found = await self.read()
            if "method" not in found:
                assert found["id"] == request_id
                return found

    async def shake_hands(self) -> None:
        await self.send(request(1, "initialize", HELLO))
        assert (await self.answer(1))["result"]["serverInfo"]["name"] == "fetchd"
        await self.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')


def request(request_id: int, method: str, params: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}).encode()


def call(request_id: int, url: str, **meta: Any) -> bytes:
    params: dict[str, Any] = {"name": "web_fetch", "arguments": {"url": url}}
    return request(request_id, "tools/call", params | ({"_meta": meta} if meta else {}))


@dataclass
class Here(Server):
    """The server in this process, over real pipes."""

    serving: asyncio.Task[None]
    transport: FakeTransport
    log: WatchedLog
    unread: BinaryIO
    """What it writes, for who wants to read or close it himself."""


@asynccontextmanager
async def serve(*, read: bool = True) -> AsyncIterator[Here]:
    """read: whether somebody reads what it writes."""
    loop = asyncio.get_running_loop()
    transport = FakeTransport({URL: TEXT, HANGING_URL: HANGS, SLOW_URL: HANGS_IN_BODY})
    log = WatchedLog()
    read_from, wire_in = os.pipe()
    wire_out, write_to = os.pipe()
    fcntl.fcntl(write_to, fcntl.F_SETPIPE_SZ, 4096)
    pipe, protocol = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, os.fdopen(wire_in, "wb", 0)
    )
    writer = asyncio.StreamWriter(pipe, protocol, None, loop)
    reader, unread = asyncio.StreamReader(1 << 24), os.fdopen(wire_out, "rb", 0)
    if read:
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), unread)
    with ProcessExtractor(1) as extractor:
        calls = Calls(WebFetch(transport, extractor, log))
        serving = asyncio.create_task(
            serve_stdio(
                make_server(calls, Caller("local", DEFAULT_PROFILE), progress_seconds=PROGRESS_SECONDS),
                read_from,
                write_to,
            )
        )
        try:
            yield Here(writer, reader, serving, transport, log, unread)
            writer.close()
            await asyncio.wait_for(serving, PATIENCE)
        finally:
            serving.cancel()
            writer.close()
            for descriptor in (read_from, write_to):
                os.close(descriptor)
            await asyncio.gather(serving, return_exceptions=True)


@dataclass
class There(Server):
    """The server as a process of its own."""

    process: asyncio.subprocess.Process

    async def read_errors(self, mark: str) -> None:
        """Until standard error says this."""
        assert self.process.stderr is not None
        while (await asyncio.wait_for(self.process.stderr.readline(), PATIENCE)).decode().strip() != mark:
            pass

    async def close(self) -> tuple[bytes, bytes, int]:
        """Close its input: what it still said on both streams, and its exit status."""
        out, errors = await asyncio.wait_for(self.process.communicate(), PATIENCE)
        assert self.process.returncode is not None
        return out, errors, self.process.returncode


@asynccontextmanager
async def start() -> AsyncIterator[There]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, *MODULE, env=ENVIRONMENT,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None
    try:
        yield There(process.stdin, process.stdout, process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
async def test_the_official_client_is_served(era: Any) -> None:
    parameters = StdioServerParameters(command=sys.executable, args=[*MODULE], env=ENVIRONMENT)
    with tempfile.TemporaryFile("w+") as errors:
        async with Client(stdio_client(parameters, errlog=errors), mode=era) as client:
            (tool,) = (await client.list_tools()).tools
            result = await client.call_tool("web_fetch", {"url": URL})
            refused = await client.call_tool("web_fetch", {"url": "nothing"})
            with pytest.raises(MCPError) as caught:
                await client.call_tool("nothing", {})

    (block,) = result.content
    assert tool.name == "web_fetch"
    assert isinstance(block, TextContent) and CUT_OUT.fullmatch(block.text)
    assert (result.is_error, refused.is_error) == (False, True)
    assert caught.value.error.code == -32602


async def test_nothing_but_messages_is_written() -> None:
    """Bug case C079: prints, warnings, debug logs and children all end on standard error."""
    async with start() as server:
        await server.shake_hands()
        await server.send(call(2, URL))
        assert (await server.answer(2))["result"]["isError"] is False
        out, errors, status = await server.close()

    assert (out, status) == (b"", 0)
    for said in (b"a stray print", b"a warning", b"a debug line", b"a child", b"call success", b"ended"):
        assert said in errors


async def test_the_end_of_input_drops_calls_and_ends_cleanly() -> None:
    async with start() as server:
        await server.shake_hands()
        await server.send(call(2, HANGING_URL))
        await server.read_errors("hanging")
        _, errors, status = await server.close()

    assert status == 0
    assert errors.index(b"call aborted") < errors.index(b"ended")
    assert b"Traceback" not in errors


async def test_progress_and_cancellation() -> None:
    async with serve() as server:
        await server.shake_hands()
        await server.send(call(2, SLOW_URL, progressToken="p"))
        told: list[dict[str, Any]] = []
        while len(told) < 2 or told[-1]["message"] != "reading the page, 5 bytes":
            found = await server.read()
            assert found["method"] == "notifications/progress"
            told.append(found["params"])
        assert {row["progressToken"] for row in told} == {"p"}
        assert [row["progress"] for row in told] == sorted({row["progress"] for row in told})

        await server.send(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}')
        await asyncio.wait_for(server.log.written.wait(), PATIENCE)
        assert server.transport.open_answers == 0
        await server.send(request(3, "tools/list", {}))
        assert (await server.answer(3))["result"]["tools"]


async def test_a_client_that_does_not_read_does_not_hold_up_the_end() -> None:
    """Its pipe is full; the answers that do not fit are given up after the end of its input."""
    async with serve(read=False) as server:
        await server.send(request(1, "initialize", HELLO), *[request(3, "tools/list", {})] * 40)
        await server.send(call(2, HANGING_URL))
        await asyncio.wait_for(server.transport.hanging.wait(), PATIENCE)
        server.to_server.close()
        await asyncio.wait_for(server.serving, PATIENCE)

        assert server.transport.open_answers == 0
        server.unread.close()


async def turn_the_loop() -> None:
    """Everything that can run without anything from outside has run."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_nothing_more_is_read_while_too_many_answers_wait() -> None:
    unread, written = os.pipe()
    fcntl.fcntl(written, fcntl.F_SETPIPE_SZ, 4096)
    wire = Wire(LineWriter(written))
    answer = JSONRPCResponse(jsonrpc="2.0", id=1, result={"text": "x" * 5000})
    running = asyncio.ensure_future(wire.run())
    handlers = [asyncio.ensure_future(wire.to_client.send(SessionMessage(answer))) for _ in range(MAX_UNREAD)]
    room = asyncio.ensure_future(wire.wait_for_room())
    await asyncio.wait_for(room, PATIENCE)  # one of them is being written
    handlers.append(asyncio.ensure_future(wire.to_client.send(SessionMessage(answer))))
    await turn_the_loop()
    room = asyncio.ensure_future(wire.wait_for_room())
    await turn_the_loop()
    assert not room.done()

    lines = LineReader(read_descriptor(unread), MAX_MESSAGE_BYTES)
    read = [await anext(lines) for _ in handlers]
    await asyncio.wait_for(asyncio.gather(room, *handlers), PATIENCE)
    assert len(read) == MAX_UNREAD + 1
    wire.to_client.close()
    await asyncio.wait_for(running, PATIENCE)
    assert wire.flushed.is_set()
    for descriptor in (written, unread):
        os.close(descriptor)


async def test_a_client_that_reads_late_gets_every_answer() -> None:
    """Far more requests than may wait; they are read as fast as their answers are."""
    requests = [request(number, "ping", {}) for number in range(2, 2 + 20 * MAX_UNREAD)]
    async with serve() as server:
        await server.shake_hands()
        sending = asyncio.create_task(server.send(*requests))
        found = [(await server.read())["id"] for _ in requests]
        await sending

    assert sorted(found) == list(range(2, 2 + len(requests)))


async def test_output_that_nobody_reads_ends_it() -> None:
    async with serve(read=False) as server:
        server.unread.close()
        await server.send(request(1, "initialize", HELLO))
        await asyncio.wait_for(server.serving, PATIENCE)


@pytest.mark.parametrize(
    ("line", "code", "request_id"),
    [
        pytest.param(b"{", -32700, None, id="half an object"),
        pytest.param(b"hello", -32700, None, id="no JSON"),
        pytest.param(b'"\xff"', -32700, None, id="not UTF-8"),
        pytest.param(b"[" * 100_000, -32700, None, id="nested too deeply"),
        pytest.param(b"[]", -32600, None, id="a batch"),
        pytest.param(b'{"jsonrpc":"2.0","id":5}', -32600, 5, id="no method, its id is kept"),
        pytest.param(b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600, None, id="an id that is none"),
        pytest.param(
            b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}', -32600, None, id="half a pair as id"
        ),
        pytest.param(b'{"jsonrpc":"2.0","id":6,"method":"\\ud800"}', -32600, None, id="in the method"),
        pytest.param(
            b'{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"\\ud800"}}',
            -32600,
            None,
            id="in the name of a tool",
        ),
        pytest.param(b'"' + b"x" * (MAX_MESSAGE_BYTES - 1) + b'"', -32600, None, id="longer than the bound"),
        pytest.param(b'{"jsonrpc":"2.0","id":6,"method":"no/such"}', -32601, 6, id="an unknown method"),
    ],
)
async def test_what_is_no_message_is_answered(line: bytes, code: int, request_id: int | None) -> None:
    async with serve() as server:
        await server.shake_hands()
        await server.send(line, b"", b"  ")
        found = await server.answer(request_id) if request_id else await server.read()
        await server.send(call(9, "nothing"))
        alive = await server.answer(9)

    assert (found["error"]["code"], found["id"]) == (code, request_id)
    assert alive["result"]["isError"] is True


async def test_a_message_of_just_the_bound_is_read() -> None:
    body = request(2, "ping", {})
    async with serve() as server:
        await server.shake_hands()
        await server.send(body + b" " * (MAX_MESSAGE_BYTES - len(body)))
        assert (await server.answer(2))["result"] == {}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ('{"url":"u","max_chars":5.0}', "web_fetch: max_chars must be a positive integer"),
        ('{"url":"u","max_chars":true}', "web_fetch: max_chars must be a positive integer"),
        ('{"url":"u","max_chars":%s}' % ("9" * 5000), "invalid url"),
        ('{"url":"https://a.example/","url":"u"}', "invalid url"),
        ('{"url":"https://\\ud800.example/"}', "invalid url"),
        ("[]", "web_fetch: missing url argument"),
    ],
    ids=["5.0", "true", "5000 digits", "a key twice", "half a surrogate pair", "no object"],
)
@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
async def test_arguments_reach_our_parser_untouched(version: str, arguments: str, message: str) -> None:
    client: Any = PlainClient(None, version)  # type: ignore[arg-type]
    async with serve() as server:
        if version != PlainClient.MODERN:
            await server.shake_hands()
        await server.send(client.raw_call(arguments))
        result = (await server.answer(7))["result"]

    found = CUT_OUT.fullmatch(result["content"][0]["text"])
    assert (result["isError"], found is not None and found[1]) == (True, message)
