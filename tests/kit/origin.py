"""A scripted real web server in a thread: HTTP/1.1 plain, HTTP/1.1 over TLS, h2 over TLS (by ALPN).

    with Origin("127.0.0.10", tls=pki.server_context("a.example", alpn=H2)) as origin:
        origin.route("/article", replies.page("<p>hello"))
        ...
        await origin.wait_connections(1)
        assert origin.connections[0].sni == "a.example"

Every accepted connection is recorded at accept, before any TLS. Without a route: 200, `hello {target}`.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import weakref
from collections.abc import Coroutine

from tests.kit.exchange import Connection, Ending, Exchange, H1Exchange, Request, Route
from tests.kit.origin_h2 import H2Session
from tests.kit.ports import bound_socket
from tests.kit.sync import PATIENCE, Gate, ThreadedServer, Watch


class Origin(ThreadedServer):
    """Listens on `host`:`port` (0 = a free one); `tls` makes it an https server."""

    def __init__(self, host: str = "127.0.0.1", port: int = 0, *, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(f"origin-{host}")
        self.host = host
        self._sock = bound_socket(host, port)
        self.port: int = self._sock.getsockname()[1]
        self._tls = tls
        self._server_names: weakref.WeakKeyDictionary[object, str | None] = weakref.WeakKeyDictionary()
        if tls is not None:
            tls.sni_callback = self._note_server_name
        self.hold_handshake: Gate | None = None
        """When set, TLS (or the first read) starts only once the gate is open."""
        self._routes: dict[str, Route] = {}
        self._watch = Watch()
        self._connections: list[Connection] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: weakref.WeakSet[asyncio.StreamWriter] = weakref.WeakSet()

    def route(self, path: str, route: Route) -> None:
        """Answer `path` (without query) by this coroutine function; `*` is for every path without its own."""
        self._routes[path] = route

    # -- what happened

    @property
    def connections(self) -> list[Connection]:
        with self._watch:
            return list(self._connections)

    @property
    def accepts(self) -> int:
        return len(self.connections)

    @property
    def requests(self) -> list[Request]:
        """All requests of all connections, in order of connections."""
        with self._watch:
            return [request for connection in self._connections for request in connection.requests]

    def forget(self) -> None:
        with self._watch:
            self._connections.clear()

    async def wait_connections(self, number: int, timeout: float = PATIENCE) -> list[Connection]:
        await self._watch.wait(
            lambda: len(self._connections) >= number,
            f"{number} connections to {self.host}:{self.port}",
            timeout,
        )
        return self.connections

    async def wait_requests(self, number: int, timeout: float = PATIENCE) -> list[Request]:
        await self._watch.wait(lambda: len(self.requests) >= number, f"{number} requests", timeout)
        return self.requests

    async def wait_closed(self, timeout: float = PATIENCE) -> None:
        """Wait until every connection has ended."""
        await self._watch.wait(
            lambda: all(connection.ending is not None for connection in self._connections),
            f"the end of all connections to {self.host}:{self.port}",
            timeout,
        )

    # -- inside the server's loop

    async def _start(self) -> None:
        self._sock.listen(512)
        self._sock.setblocking(False)
        self._spawn(self._accept())

    async def _close(self) -> None:
        self._sock.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in list(self._writers):
            writer.transport.abort()  # nobody is left to take part in the end of TLS
        await asyncio.sleep(0)

    def _spawn(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            sock, peer = await loop.sock_accept(self._sock)
            with self._watch:
                connection = Connection(len(self._connections), peer[:2], self._tls is not None, self._watch)
                self._connections.append(connection)
            self._spawn(self._serve(sock, connection))

    async def _serve(self, sock: socket.socket, connection: Connection) -> None:
        if self.hold_handshake is not None:
            await self.hold_handshake.wait()
        reader = asyncio.StreamReader(limit=1 << 20)
        protocol = _Recorder(reader, connection)
        loop = asyncio.get_running_loop()
        try:
            transport, _ = await loop.connect_accepted_socket(lambda: protocol, sock, ssl=self._tls)
        except (OSError, ssl.SSLError) as error:
            with self._watch:
                connection.handshake_error = str(error) or type(error).__name__
                connection.ending = connection.ending or Ending.PEER_RESET
            sock.close()
            return
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        self._writers.add(writer)
        tls = transport.get_extra_info("ssl_object")
        if tls is not None:
            with self._watch:
                connection.sni = self._server_names.get(tls)
                connection.alpn = tls.selected_alpn_protocol()
        try:
            if connection.alpn == "h2":
                await H2Session(connection, reader, writer, self._answer).run()
            else:
                await self._serve_h1(connection, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError) as error:
            with self._watch:
                connection.notes.append(type(error).__name__)
        finally:
            writer.close()

    async def _serve_h1(
        self, connection: Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while (request := await _read_request(connection, reader)) is not None:
            exchange = H1Exchange(request, connection, reader, writer)
            await self._answer(exchange)
            if exchange.finished:
                return

    async def _answer(self, exchange: Exchange) -> None:
        with self._watch:
            exchange.connection.requests.append(exchange.request)
        route = self._routes.get(exchange.request.path) or self._routes.get("*") or _hello
        await route(exchange)

    def _note_server_name(self, tls: object, name: str | None, context: ssl.SSLContext) -> None:
        self._server_names[tls] = name


class _Recorder(asyncio.StreamReaderProtocol):
    """Notes how the connection ended, also while a route is busy and nobody reads."""

    def __init__(self, reader: asyncio.StreamReader, connection: Connection) -> None:
        super().__init__(reader)
        self._connection = connection

    def _end(self, ending: Ending) -> None:
        with self._connection.watch:
            if self._connection.ending is None:
                self._connection.ending = ending

    def eof_received(self) -> bool | None:
        self._end(Ending.PEER_FIN)
        return super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(Ending.OURS if exc is None else Ending.PEER_RESET)
        super().connection_lost(exc)


async def _read_request(connection: Connection, reader: asyncio.StreamReader) -> Request | None:
    """One request, read as permissively as a careless origin would; None at a clean end."""

    async def line() -> bytes:
        data = await reader.readline()
        with connection.watch:
            connection.received += data
        return data

    async def exactly(number: int) -> bytes:
        data = await reader.readexactly(number)
        with connection.watch:
            connection.received += data
        return data

    head = b""
    while not head.endswith(b"\r\n\r\n"):
        more = await line()
        if not more:
            return None
        head += more
    first, *lines = head[:-4].split(b"\r\n")
    method, _, rest = first.decode("latin-1").partition(" ")
    target, _, version = rest.rpartition(" ")
    pairs = [entry.decode("latin-1").partition(":") for entry in lines if b":" in entry]
    headers = tuple((name, value.strip()) for name, _, value in pairs)
    lowered = {name.strip().lower(): value for name, value in headers}
    body = b""
    if "chunked" in lowered.get("transfer-encoding", "").lower():
        while size := _chunk_size(await line()):
            body += await exactly(size)
            await line()
        while (await line()).strip():
            pass
    elif lowered.get("content-length", "").isdigit():
        body = await exactly(int(lowered["content-length"]))
    return Request(method, target, headers, body, version, head)


def _chunk_size(line: bytes) -> int:
    if not line:  # the peer left in the middle of a body
        raise asyncio.IncompleteReadError(b"", None)
    return int(line.split(b";")[0], 16)


async def _hello(exchange: Exchange) -> None:
    body = f"hello {exchange.request.target}\n".encode()
    with contextlib.suppress(ConnectionError):
        await exchange.respond(200, [("content-type", "text/plain; charset=utf-8")], body)
