"""A minimal h2 client over a TLS RawConnection; header checks are off, so a test sends what it likes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import h2.config
import h2.connection
import h2.events

from tests.kit.client import RawConnection, Response

Pairs = Sequence[tuple[str, str]]


class StreamResetError(Exception):
    """The peer reset the stream; `response` is what came before it (None: no head)."""

    def __init__(self, code: int, response: Response | None) -> None:
        super().__init__(f"stream reset, code {code}")
        self.code = code
        self.response = response


class ConnectionEndedError(Exception):
    """The connection ended (GOAWAY `code`, or None for a bare close) while a response was awaited."""

    def __init__(self, code: int | None) -> None:
        super().__init__(f"h2 connection ended, code {code}")
        self.code = code


@dataclass(slots=True)
class _Stream:
    headers: tuple[tuple[str, str], ...] = ()
    informational: list[int] = field(default_factory=list)
    body: bytearray = field(default_factory=bytearray)
    ended: bool = False
    reset: int | None = None


class H2Client:
    """`window` False never opens flow-control windows again, as a stalled client does."""

    def __init__(self, connection: RawConnection, *, window: bool = True) -> None:
        self.connection = connection
        self._window = window
        self._streams: dict[int, _Stream] = {}
        self._goaway: int | None = None
        self.h2 = h2.connection.H2Connection(
            h2.config.H2Configuration(
                client_side=True,
                header_encoding="latin-1",
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
            )
        )
        self.h2.initiate_connection()
        self.flush()

    def flush(self) -> None:
        self.connection.send(self.h2.data_to_send())

    def request(
        self,
        authority: str,
        path: str = "/",
        method: str = "GET",
        headers: Pairs = (),
        body: bytes = b"",
        *,
        scheme: str = "https",
        end: bool = True,
    ) -> int:
        """Send a request; the stream's number. `end=False` leaves it open for `send_data`."""
        pseudo = [(":method", method), (":scheme", scheme), (":authority", authority), (":path", path)]
        return self.send_headers([*pseudo, *headers], body, end=end)

    def send_headers(self, headers: Pairs, body: bytes = b"", *, end: bool = True) -> int:
        """Send exactly these fields, pseudo fields included."""
        stream = self.h2.get_next_available_stream_id()
        self._streams[stream] = _Stream()
        self.h2.send_headers(stream, list(headers), end_stream=end and not body)
        if body:
            self.h2.send_data(stream, body, end_stream=end)
        self.flush()
        return stream

    def send_data(self, stream: int, data: bytes, *, end: bool = False) -> None:
        self.h2.send_data(stream, data, end_stream=end)
        self.flush()

    def reset(self, stream: int) -> None:
        self.h2.reset_stream(stream)
        self.flush()

    def read_response(self, stream: int) -> Response:
        """Wait for the whole answer. Raises StreamResetError or ConnectionEndedError."""
        state = self._streams[stream]
        while not state.ended:
            if state.reset is not None:
                raise StreamResetError(state.reset, _response(state, False) if state.headers else None)
            self._pump()
        return _response(state, True)

    def wait_head(self, stream: int) -> None:
        """Wait until the answer has begun."""
        while not self._streams[stream].headers:
            self._pump()

    def get(self, authority: str, path: str = "/", headers: Pairs = ()) -> Response:
        return self.read_response(self.request(authority, path, headers=headers))

    def _pump(self) -> None:
        try:
            data = self.connection.receive()
        except ConnectionError as error:
            raise ConnectionEndedError(self._goaway) from error
        if not data:
            raise ConnectionEndedError(self._goaway)
        for event in self.h2.receive_data(data):
            match event:
                case h2.events.ResponseReceived(stream_id=stream, headers=headers):
                    self._streams[stream].headers = tuple((str(k), str(v)) for k, v in headers)
                case h2.events.InformationalResponseReceived(stream_id=stream, headers=headers):
                    self._streams[stream].informational.append(int(headers[0][1]))
                case h2.events.DataReceived(stream_id=stream, data=chunk, flow_controlled_length=length):
                    self._streams[stream].body += chunk
                    if self._window:
                        self.h2.acknowledge_received_data(length, stream)
                case h2.events.StreamEnded(stream_id=stream):
                    self._streams[stream].ended = True
                case h2.events.StreamReset(stream_id=stream, error_code=code):
                    self._streams[stream].reset = int(code)
                case h2.events.ConnectionTerminated(error_code=code):
                    self._goaway = None if code is None else int(code)
        pending = self.h2.data_to_send()
        if pending:
            self.connection.send(pending)


def _response(state: _Stream, complete: bool) -> Response:
    status = next(int(value) for name, value in state.headers if name == ":status")
    fields = tuple((name, value) for name, value in state.headers if not name.startswith(":"))
    return Response(status, "", fields, bytes(state.body), complete, tuple(state.informational))
