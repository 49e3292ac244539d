"""The h2 side of the scripted origin: frames by the h2 package, header checks off to see odd requests."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions

from tests.kit.exchange import Connection, Exchange, Request, Route


class H2Session:
    """One h2 connection: a task a stream, answers as flow control allows."""

    def __init__(
        self,
        connection: Connection,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        answer: Route,
    ) -> None:
        self.connection = connection
        self._reader = reader
        self._writer = writer
        self._answer = answer
        self._heads: dict[int, tuple[tuple[str, str], ...]] = {}
        self._bodies: dict[int, bytearray] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self.window_opened = asyncio.Event()
        self.h2 = h2.connection.H2Connection(
            h2.config.H2Configuration(
                client_side=False,
                header_encoding="latin-1",
                validate_inbound_headers=False,
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
            )
        )

    async def run(self) -> None:
        self.h2.initiate_connection()
        await self.flush()
        try:
            while data := await self._reader.read(65536):
                with self.connection.watch:
                    self.connection.received += data
                for event in self.h2.receive_data(data):
                    self._handle(event)
                await self.flush()
        except h2.exceptions.ProtocolError as error:
            with self.connection.watch:
                self.connection.notes.append(str(error))
            await self.flush()
        finally:
            for task in self._tasks.values():
                task.cancel()

    async def flush(self) -> None:
        data = self.h2.data_to_send()
        if data:
            self._writer.write(data)
            with self.connection.watch:
                self.connection.sent += len(data)
            await self._writer.drain()

    def close(self) -> None:
        self._writer.close()

    def _handle(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.RequestReceived(stream_id=stream, headers=headers):
                self._heads[stream] = tuple((str(name), str(value)) for name, value in headers)
                self._bodies[stream] = bytearray()
            case h2.events.DataReceived(stream_id=stream, data=data, flow_controlled_length=length):
                self._bodies[stream] += data
                self.h2.acknowledge_received_data(length, stream)
            case h2.events.TrailersReceived(headers=headers):
                with self.connection.watch:
                    self.connection.notes.append(f"trailers {headers}")
            case h2.events.StreamEnded(stream_id=stream):
                self._dispatch(stream)
            case h2.events.StreamReset(stream_id=stream):
                if stream in self._tasks:
                    self._tasks[stream].cancel()
            case h2.events.WindowUpdated() | h2.events.RemoteSettingsChanged():
                self.window_opened.set()

    def _dispatch(self, stream: int) -> None:
        headers = self._heads[stream]
        pseudo = {name: value for name, value in headers if name.startswith(":")}
        request = Request(
            pseudo.get(":method", ""), pseudo.get(":path", ""), headers, bytes(self._bodies[stream]), "h2"
        )
        task = asyncio.get_running_loop().create_task(self._serve(H2Exchange(request, self, stream)))
        self._tasks[stream] = task

    async def _serve(self, exchange: H2Exchange) -> None:
        try:
            await self._answer(exchange)
        except (ConnectionError, h2.exceptions.ProtocolError) as error:
            with self.connection.watch:
                self.connection.notes.append(type(error).__name__)


class H2Exchange(Exchange):
    def __init__(self, request: Request, session: H2Session, stream: int) -> None:
        super().__init__(request, session.connection)
        self._session = session
        self.stream = stream

    async def informational(self, status: int, headers: Iterable[tuple[str, str]] = ()) -> None:
        await self.start(status, headers)

    async def start(self, status: int, headers: Iterable[tuple[str, str]] = (), reason: str = "") -> None:
        fields = [(":status", str(status)), *((name.lower(), value) for name, value in headers)]
        self._session.h2.send_headers(self.stream, fields)
        await self._session.flush()

    async def data(self, chunk: bytes) -> None:
        connection = self._session.h2
        while chunk:
            room = min(connection.local_flow_control_window(self.stream), connection.max_outbound_frame_size)
            if room <= 0:
                self._session.window_opened.clear()
                await self._session.window_opened.wait()
                continue
            connection.send_data(self.stream, chunk[:room])
            chunk = chunk[room:]
            await self._session.flush()

    async def end(self, *, keep: bool = True) -> None:
        self._session.h2.end_stream(self.stream)
        await self._session.flush()
        if not keep:
            self._session.close()

    async def close(self) -> None:
        self._session.h2.close_connection()
        await self._session.flush()
        self._session.close()

    def abort(self) -> None:
        self._session.h2.reset_stream(self.stream, h2.errors.ErrorCodes.INTERNAL_ERROR)
        self._session._writer.write(self._session.h2.data_to_send())

    async def raw(self, data: bytes) -> None:
        raise TypeError("h2 has no raw bytes")

    async def read(self, limit: int = 65536) -> bytes:
        raise TypeError("h2 has no raw bytes")
