"""HTTP/1 on both sides: request targets read by our parser, heads bounded, framing made safe.

N1   an h2 client's body without a length went unframed to an h1 origin: a second request in disguise.
N4   103 (and 100, 102) from an origin was taken as the final answer: interim answers are skipped.
N14  heads had no bound: 64 KiB both ways; nor had what a client sends ahead of its turn.
"""

import re
import time
from typing import Any, cast

from h11._readers import ContentLengthReader, Http10Reader
from mitmproxy import http
from mitmproxy.proxy import commands, context, events, layer
from mitmproxy.proxy.layers.http import _http1
from mitmproxy.proxy.layers.http._base import ReceiveHttp
from mitmproxy.proxy.layers.http._events import ErrorCode, HttpEvent, RequestHeaders, ResponseProtocolError

from proxy_addons.engine.chunked import ChunkedReader
from proxy_addons.engine.hops import HttpLayerView, Origin, Session
from proxy_addons.engine.lean import expected_body_size, read_fields
from proxy_addons.engine.refusals import not_http, refuse_bytes
from proxy_addons.engine.request_line import RequestLine, TargetForm, parse_request_line
from proxy_addons.policy.limits import CLIENT_HEAD_SECONDS, MAX_HEAD_BYTES
from proxy_addons.policy.verdicts import Verdict

_INTERIM = re.compile(rb"HTTP/1\.[01] 1(?!01)[0-9][0-9][ \r]")
NOWHERE = "invalid.invalid"
"""The host of a request whose target names none; such a hop is always refused, and never dialled."""


class _Unpaused(_http1.Http1Connection):
    """Nothing that an HTTP/1 connection says is waited for: stock's account of pauses is left out."""

    def handle_event(self, event: events.Event) -> layer.CommandGenerator[None]:
        """Stock's `_handle_event`."""
        if isinstance(event, HttpEvent):
            return self.send(event)
        if isinstance(event, events.DataReceived) and self.state != self.passthrough:
            self.buf += event.data
        steps: layer.CommandGenerator[None] = self.state(event)
        return steps


class GateHttp1Server(_Unpaused, _http1.Http1Server):
    """The client's side."""

    _head_is_timed = False
    _line_is_read = False

    @property
    def sent_ahead(self) -> int:
        """Bytes that a client sent before the answer to its last request was complete."""
        return len(self.buf) if self.state == self.wait else 0

    def read_headers(self, event: events.ConnectionEvent) -> layer.CommandGenerator[None]:
        """One request head: bounded, its line read by `request_line`, its fields by mitmproxy."""
        if isinstance(event, events.ConnectionClosed):
            yield commands.CloseConnection(self.conn)
            return
        lines = self.buf.maybe_extract_lines()
        while lines is not None and not lines:  # empty lines before a request line (RFC 9112, 2.2)
            lines = self.buf.maybe_extract_lines()
        if lines is None:
            if len(self.buf) > MAX_HEAD_BYTES:
                yield from self._refuse(not_http(f"request head exceeds {MAX_HEAD_BYTES} bytes"))
            elif self._is_no_request_line(event):
                yield from self._refuse(not_http("malformed request line"))
            elif self.buf:
                self._head_has_begun()
            return
        self._head_is_timed = self._line_is_read = False
        if sum(map(len, lines)) > MAX_HEAD_BYTES:
            yield from self._refuse(not_http(f"request head exceeds {MAX_HEAD_BYTES} bytes"))
            return
        line = parse_request_line(bytes(lines[0]))
        if line is None:
            yield from self._refuse(not_http("malformed request line"))
            return
        try:
            headers = read_fields([bytes(x) for x in lines[1:]])
            self.request = _request(line, headers)
            size = expected_body_size(self.request)
        except ValueError:
            yield from self._refuse(not_http("malformed request head"))
            return
        session = session_of(self.context)
        if session is not None:
            session.line = line
        yield ReceiveHttp(RequestHeaders(self.stream_id, self.request, size == 0))
        self.body_reader = make_body_reader(size)
        self.state = self.read_body
        yield from self.state(event)

    def _is_no_request_line(self, event: events.ConnectionEvent) -> bool:
        """Told as soon as the line is there: a client of SSH says its one line and waits."""
        if self._line_is_read or not isinstance(event, events.DataReceived) or b"\n" not in event.data:
            return False
        line, end, _ = bytes(self.buf).lstrip(b"\r\n").partition(b"\n")
        self._line_is_read = bool(end)
        return self._line_is_read and parse_request_line(line.removesuffix(b"\r")) is None

    def send(self, event: Any) -> layer.CommandGenerator[None]:
        """An answer cut short, for a client that reads until the close, ends by a reset; a tunnel's end does not."""
        cut = isinstance(event, ResponseProtocolError) and event.code is not ErrorCode.PASSTHROUGH_CLOSE
        if cut and self._ends_by_close():
            session = session_of(self.context)
            if session is not None:
                session.control.reset_client()
        steps: layer.CommandGenerator[None] = super().send(event)
        return steps

    def _ends_by_close(self) -> bool:
        if self.request is None or self.response is None or self.request.data.http_version != b"HTTP/1.0":
            return False
        return all(name.lower() != b"content-length" for name, _ in self.response.headers.fields)

    def _head_has_begun(self) -> None:
        session = session_of(self.context)
        # The first head runs under the connection's own deadline; no later piece of a head prolongs it.
        if session is not None and self.stream_id > 1 and not self._head_is_timed:
            self._head_is_timed = True
            session.control.arm(CLIENT_HEAD_SECONDS, "request head not complete in time")

    def _refuse(self, verdict: Verdict) -> layer.CommandGenerator[None]:
        """A head that is no HTTP: answered, closed, audited; there is no hop to answer for."""
        self.state = self.done
        session = session_of(self.context)
        if session is not None:
            yield commands.SendData(self.conn, refuse_bytes(session, verdict))
        yield commands.CloseConnection(self.conn)


class GateHttp1Client(_Unpaused, _http1.Http1Client):
    """The origin's side."""

    def __init__(self, context: context.Context) -> None:
        super().__init__(context)
        self._serves_h2 = False

    @property
    def is_idle(self) -> bool:
        """Whether a further request may use this connection."""
        return self.stream_id is None and self.request is None and self.state == self.read_headers

    def send(self, event: Any) -> layer.CommandGenerator[None]:
        """An h2 client's request is written as HTTP/1.1, its body framed (N1)."""
        if isinstance(event, RequestHeaders) and event.request.is_http2:
            self._serves_h2 = True
            event = RequestHeaders(
                event.stream_id, _as_http1(event.request, event.end_stream), event.end_stream
            )
        steps: layer.CommandGenerator[None] = super().send(event)
        return steps

    def mark_done(self, *, request: bool = False, response: bool = False) -> layer.CommandGenerator[None]:
        """Of several idle connections that h2 streams opened side by side to one origin, one is kept."""
        done = (self.request_done or request) and (self.response_done or response)
        if self._serves_h2 and done and self._has_idle_twin():
            yield commands.CloseConnection(self.conn)
            self.state = self.done
            return
        yield from super().mark_done(request=request, response=response)

    def _has_idle_twin(self) -> bool:
        above = http_layer_of(self.context)
        return above is not None and isinstance(self.conn, Origin) and above.has_idle_twin(self.conn)

    def read_headers(self, event: events.ConnectionEvent) -> layer.CommandGenerator[None]:
        """One response head: interim answers skipped (N4), size bounded (N14)."""
        if isinstance(event, events.DataReceived) and self.request:
            while _INTERIM.match(self.buf._data, 0, 16):
                if self.buf.maybe_extract_lines() is None:
                    break
            if not self.buf:
                return
        if len(self.buf) > MAX_HEAD_BYTES and b"\r\n\r\n" not in bytes(self.buf)[: MAX_HEAD_BYTES + 4]:
            yield from self._fail("response head too large")
            return
        yield from super().read_headers(event)

    def read_body(self, event: events.Event) -> layer.CommandGenerator[None]:
        """A close-delimited body that ends by a reset is broken; by a FIN it cannot be told from a whole one.

        An origin that has answered while the request still goes up has nothing more to say: it is let go.
        """
        if self.response_done:
            yield commands.CloseConnection(self.conn)
            self.state = self.done
            return
        cut = isinstance(event, events.ConnectionClosed) and isinstance(self.body_reader, Http10Reader)
        if cut and isinstance(self.conn, Origin) and self.conn.was_reset:
            yield from self._fail("connection reset in a close-delimited body")
            return
        yield from super().read_body(event)

    def _fail(self, message: str) -> layer.CommandGenerator[None]:
        yield commands.CloseConnection(self.conn)
        if self.stream_id is not None:
            yield ReceiveHttp(ResponseProtocolError(self.stream_id, message, ErrorCode.GENERIC_SERVER_ERROR))


def make_body_reader(expected_size: int | None) -> Any:
    """In place of mitmproxy's: None = chunked, -1 = until the connection closes."""
    if expected_size is None:
        return ChunkedReader()
    if expected_size == -1:
        return Http10Reader()
    return ContentLengthReader(expected_size)


def make_error_response(status_code: int, message: str = "") -> bytes:
    """In place of mitmproxy's HTML pages, should any path of its own still make one: a bare, closing answer."""
    return b"HTTP/1.1 %d Refused\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" % status_code


def http_layer_of(context: context.Context) -> HttpLayerView | None:
    """The nearest HTTP layer of ours above a layer."""
    for above in reversed(context.layers):
        if isinstance(getattr(above, "session", None), Session):
            return cast(HttpLayerView, above)
    return None


def session_of(context: context.Context) -> Session | None:
    """The session of a layer's connection, as the HTTP layer above it knows it."""
    above = http_layer_of(context)
    return above.session if above is not None else None


def _request(line: RequestLine, headers: http.Headers) -> http.Request:
    """mitmproxy's request, its line as our parser read it."""
    target = line.target
    host, port, scheme, authority, path = NOWHERE, 0, b"http", b"", b"/"
    if line.form is TargetForm.ORIGIN:
        path = line.raw_target.encode("utf-8", "surrogateescape")
    elif target is not None and target.host and target.port is not None:
        # "." alone is a host and no DNS name; an empty one would make mitmproxy look at the Host field.
        host, port = target.dns_name or NOWHERE, target.port
        if line.form is TargetForm.AUTHORITY:
            scheme, authority, path = b"", target.authority.encode("ascii"), b""
        else:
            scheme, path = target.scheme.encode("ascii"), target.request_path.encode("ascii")
    return http.Request(
        host, port, line.method.encode("ascii"), scheme, authority, path, line.version.encode("ascii"),
        headers, None, None, time.time(), None,
    )  # fmt: skip


def _as_http1(request: http.Request, ends: bool) -> http.Request:
    data = request.data
    fields = list(data.headers.fields)
    names = {name.lower() for name, _ in fields}
    if b"host" not in names and data.authority:
        fields.insert(0, (b"Host", data.authority))
    cookies = [value for name, value in fields if name.lower() == b"cookie"]
    if len(cookies) > 1:  # RFC 9113, 8.2.3
        fields = [field for field in fields if field[0].lower() != b"cookie"]
        fields.append((b"cookie", b"; ".join(cookies)))
    if not ends and not names & {b"content-length", b"transfer-encoding"}:
        fields.append((b"Transfer-Encoding", b"chunked"))
    return http.Request(
        data.host, data.port, data.method, data.scheme, b"", data.path, b"HTTP/1.1",
        http.Headers(fields), data.content, None, data.timestamp_start, data.timestamp_end,
    )  # fmt: skip
