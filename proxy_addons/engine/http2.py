"""HTTP/2 on the client's side: paths that are paths, connection errors that leave a line.

N19  streams that are reset at once stayed while their dial was under way, without bound: 200 a connection.
N16  a `:path` not starting with "/" was forwarded (`http://evil/…`): refused as a malformed head.
     Authorities are not read by IDNA 2003, which knows fewer names than the standards of today (straße).
     Malformed HTTP/2, several host names, CONNECT: GOAWAY and a close, without an HTTP answer (SPEC 1.7).
"""

from typing import Any

import h2.events
from h2.errors import ErrorCodes
from mitmproxy import http
from mitmproxy.proxy import layer
from mitmproxy.proxy.layers.http import _http2

from proxy_addons.engine.http1 import http_layer_of, session_of
from proxy_addons.engine.refusals import not_http

MAX_STREAMS = 200
"""Requests of one client under way, those it has reset among them: h2 grants it 100 open ones, but a stream that was
reset while its dial was under way is no longer open to h2 and still here (N19, "rapid reset").
"""

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
