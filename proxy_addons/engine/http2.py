"""HTTP/2: on the client's side paths that are paths, and connection errors that leave a line; on the origin's side
streams that wait alone.

N20  bytes of a stream that waits for an addon were taken without bound; holding up the whole connection instead
     made streams wait for each other for ever (more br bodies at once than decoders).
N19  streams that are reset at once stayed while their dial was under way, without bound: 200 a connection.
N16  a `:path` not starting with "/" was forwarded (`http://evil/…`): refused as a malformed head.
     Authorities are not read by IDNA 2003, which knows fewer names than the standards of today (straße).
     Malformed HTTP/2, several host names, CONNECT: GOAWAY and a close, without an HTTP answer (SPEC 1.7).
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

import h2.config
import h2.events
from h2.errors import ErrorCodes
from mitmproxy import http
from mitmproxy.proxy import commands, context, events, layer
from mitmproxy.proxy.layers.http import _http2
from mitmproxy.proxy.layers.http._base import HttpEvent

from proxy_addons.engine.http1 import http_layer_of, session_of
from proxy_addons.engine.http2_frames import GateH2Connection
from proxy_addons.engine.refusals import not_http

MAX_STREAMS = 200
"""Requests of one client under way, those it has reset among them: h2 grants it 100 open ones, but a stream that was
reset while its dial was under way is no longer open to h2 and still here (N19, "rapid reset").
"""

STREAM_WINDOW = 1 << 18
"""Octets an origin may send to a stream that takes none: all that a stream can hold while it waits."""

_stock_parse_request_headers = _http2.parse_h2_request_headers


class GateHttp2Server(_http2.Http2Server):
    """The client's side."""

    def handle_h2_event(self, event: h2.events.Event) -> layer.CommandGenerator[bool]:
        """Refuse requests whose pseudo-fields mitmproxy would forward as they are, and one too many."""
        if isinstance(event, h2.events.RequestReceived):
            above = http_layer_of(self.context)
            if above is not None and above.open_streams() >= MAX_STREAMS:
                yield from self.protocol_error("too many requests at once", ErrorCodes.ENHANCE_YOUR_CALM)
                return True
            problem = _what_is_wrong(event.headers)
            if problem is not None:
                yield from self.protocol_error(problem)
                return True
        return bool((yield from super().handle_h2_event(event)))

    def protocol_error(self, message: str, error_code: int = 1) -> layer.CommandGenerator[None]:
        """GOAWAY, close, and a line in the audit."""
        session = session_of(self.context)
        if session is not None:
            session.recorder.refused(session, not_http(f"HTTP/2: {message}"))
        yield from super().protocol_error(message, error_code)


class StreamGoesOn(HttpEvent):
    """A stream waits no more: what it held is taken, and its origin may send as much again."""


class PatientH2Connection(GateH2Connection):
    """`owed` is what waiting streams have not been given back of their windows: at most STREAM_WINDOW each."""

    def __init__(self, config: h2.config.H2Configuration, is_waiting: Callable[[int], bool]) -> None:
        super().__init__(config)
        self.local_settings.initial_window_size = STREAM_WINDOW  # stock: 2 GiB
        self.local_settings.acknowledge()
        self._is_waiting = is_waiting
        self.owed: Counter[int] = Counter()

    def acknowledge_received_data(self, acknowledged_size: int, stream_id: int) -> None:
        """mitmproxy calls this as soon as bytes are there, whoever has taken them."""
        if acknowledged_size and self._is_waiting(stream_id):
            self.owed[stream_id] += acknowledged_size
            self.increment_flow_control_window(acknowledged_size)
        else:
            super().acknowledge_received_data(acknowledged_size, stream_id)


class GateHttp2Client(_http2.Http2Client):
    """The origin's side: a stream that waits gets no more of its window back, the connection goes on."""

    h2_conn: PatientH2Connection

    def __init__(self, context: context.Context) -> None:
        super().__init__(context)
        self.h2_conn = PatientH2Connection(self.h2_conf, self._is_waiting)
        self.h2_conn.local_settings.enable_push = 0
        self.h2_conn.local_settings.acknowledge()

    def _is_waiting(self, stream_id: int) -> bool:
        above = http_layer_of(self.context)
        return above is not None and above.is_waiting(self.their_stream_id.get(stream_id, 0))

    def owes(self, their_stream_id: int) -> bool:
        """Whether a stream has not been given back all of its window."""
        return self.our_stream_id.get(their_stream_id, 0) in self.h2_conn.owed

    def _handle_event(self, event: events.Event) -> layer.CommandGenerator[None]:
        if not isinstance(event, StreamGoesOn):
            yield from super()._handle_event(event)
            return
        stream_id = self.our_stream_id.get(event.stream_id, 0)
        owed = self.h2_conn.owed.pop(stream_id, 0)
        if owed and not self.is_closed(stream_id):
            self.h2_conn.increment_flow_control_window(owed, stream_id)
            yield commands.SendData(self.conn, self.h2_conn.data_to_send())


def _what_is_wrong(headers: Any) -> str | None:
    fields = [(bytes(name), bytes(value)) for name, value in headers]
    for pseudo in (b":method", b":scheme", b":authority", b":path", b"host"):
        if sum(name == pseudo for name, _ in fields) > 1:
            return f"repeated {pseudo.decode()}"
    found = dict(fields)
    if found.get(b":method") == b"CONNECT" or b":protocol" in found:
        return "CONNECT within a tunnel"
    path = found.get(b":path", b"")
    if not (path.startswith(b"/") or path == b"*"):
        return "path does not start with /"
    if found.get(b":scheme") not in (b"http", b"https"):
        return "unknown scheme"
    return None


def parse_request_headers(h2_headers: Any) -> tuple[str, int, bytes, bytes, bytes, bytes, http.Headers]:
    """In place of mitmproxy's: the same, but the authority is left to the integrity addon. Host and port are the
    tunnel's. Raises ValueError."""
    authority = next((value for name, value in h2_headers if name == b":authority"), b"")
    rest = [(name, value) for name, value in h2_headers if name != b":authority"]
    _, _, method, scheme, _, path, headers = _stock_parse_request_headers(rest)
    return "", 0, method, scheme, authority, path, headers
