"""What an agent does to a proxy, byte by byte, over blocking sockets with a time-out.

    with open_connection("127.0.0.1", 3128) as proxy:
        proxy.connect("a.example:443")
        tunnel = proxy.start_tls("a.example", ca_path)
        tunnel.request("GET", "/", "a.example")
        answer = tunnel.read_response()

In an async test run these through `asyncio.to_thread`.
"""

from __future__ import annotations

import json
import socket
import ssl
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import h11

from tests.kit.sync import PATIENCE

Pairs = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Response:
    """One answer; `complete` is False when the connection ended inside the body (`body` = what came)."""

    status: int
    reason: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    complete: bool = True
    informational: tuple[int, ...] = ()

    def header(self, name: str) -> str | None:
        """The only field of this name (lower case), or None; two are an error."""
        values = [value for key, value in self.headers if key == name.lower()]
        if len(values) > 1:
            raise AssertionError(f"{len(values)} fields named {name}: {values}")
        return values[0] if values else None

    def json(self) -> Any:
        return json.loads(self.body)


class Closing(StrEnum):
    FIN = "closed"
    RESET = "reset"


class NoResponseError(Exception):
    """The connection ended before a whole response head; `received` is what came."""

    def __init__(self, received: bytes, closing: Closing) -> None:
        super().__init__(f"{closing} after {received!r}")
        self.received = received
        self.closing = closing


class RawConnection:
    """A client connection to a proxy, plain or inside TLS."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._buffer = b""
        self._inside: RawConnection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- bytes

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def receive(self, limit: int = 65536) -> bytes:
        """Some bytes; empty at the end. Raises ConnectionResetError or TimeoutError."""
        if self._buffer:
            data, self._buffer = self._buffer, b""
            return data
        return self._receive_fresh(limit)

    def _receive_fresh(self, limit: int = 65536) -> bytes:
        try:
            return self.sock.recv(limit)
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
            return b""

    def receive_until_closed(self) -> tuple[bytes, Closing]:
        """Everything until the end, and how it ended."""
        data = b""
        while True:
            try:
                more = self.receive()
            except ConnectionError:
                return data, Closing.RESET
            if not more:
                return data, Closing.FIN
            data += more

    def finish_sending(self) -> None:
        """Half-close (FIN)."""
        self.sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close, together with the TLS connection inside, if any."""
        (self._inside or self).sock.close()
        self.sock.close()

    def abort(self) -> None:
        """Reset the connection (RST)."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    # -- HTTP/1.1

    def request(
        self,
        method: str,
        target: str,
        host: str | None = None,
        headers: Pairs = (),
        body: bytes = b"",
    ) -> None:
        """Send one request; `target` and fields go out as given, Host first if `host` is given."""
        fields = [*([] if host is None else [("Host", host)]), *headers]
        if body:
            fields.append(("Content-Length", str(len(body))))
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields)]
        self.send("\r\n".join(lines).encode("utf-8", "surrogateescape") + b"\r\n\r\n" + body)

    def read_response(self, method: str = "GET") -> Response:
        """Read one answer to a request with `method`, strictly (h11); bytes after it are kept."""
        reader = h11.Connection(h11.CLIENT, max_incomplete_event_size=1 << 20)
        target = b"x.example:1" if method == "CONNECT" else b"/"
        proposal = [(b"host", b"x.example"), (b"connection", b"upgrade"), (b"upgrade", b"any")]
        reader.send(h11.Request(method=method.encode(), target=target, headers=proposal))
        reader.send(h11.EndOfMessage())
        if self._buffer:
            reader.receive_data(self._buffer)
        raw, self._buffer = self._buffer, b""
        head: h11.Response | None = None
        informational: list[int] = []
        body = b""
        while True:
            try:
                event = reader.next_event()
            except h11.RemoteProtocolError:
                if head is None:
                    raise
                return _response(head, body, False, informational)
            match event:
                case h11.NEED_DATA:
                    try:
                        data = self._receive_fresh()
                    except ConnectionError as error:
                        if head is None:
                            raise NoResponseError(raw, Closing.RESET) from error
                        return _response(head, body, False, informational)
                    if not data and head is None:
                        raise NoResponseError(raw, Closing.FIN)
                    raw += data
                    reader.receive_data(data)
                case h11.InformationalResponse(status_code=status):
                    informational.append(status)
                    if status == 101:
                        self._buffer = reader.trailing_data[0]
                        return Response(101, "", _pairs(event.headers), b"", True, tuple(informational))
                case h11.Response():
                    head = event
                    if method == "CONNECT" and 200 <= head.status_code < 300:
                        reader.next_event()
                        self._buffer = reader.trailing_data[0]
                        return _response(head, b"", True, informational)
                case h11.Data(data=data):
                    body += bytes(data)
                case h11.EndOfMessage():
                    assert head is not None
                    self._buffer = reader.trailing_data[0]
                    return _response(head, body, True, informational)
                case _:
                    assert head is not None
                    return _response(head, body, False, informational)

    def get(self, target: str, host: str | None = None, headers: Pairs = ()) -> Response:
        """GET `target` as it is (absolute or origin form) and read the answer."""
        self.request("GET", target, host, headers)
        return self.read_response()

    # -- tunnels

    def connect(self, authority: str, headers: Pairs = (), *, host: str | None = None) -> Response:
        """CONNECT `authority`; the tunnel is open if the status is 2xx."""
        self.request("CONNECT", authority, authority if host is None else host, headers)
        return self.read_response("CONNECT")

    def start_tls(
        self,
        server_name: str | None,
        ca: Path | ssl.SSLContext,
        alpn: Sequence[str] = ("http/1.1",),
    ) -> RawConnection:
        """TLS over this connection, trusting `ca`. `server_name` None sends no SNI (and checks no name)."""
        context = ca if isinstance(ca, ssl.SSLContext) else ssl.create_default_context(cafile=str(ca))
        if server_name is None:
            context.check_hostname = False
        if alpn:
            context.set_alpn_protocols(list(alpn))
        self._inside = RawConnection(context.wrap_socket(self.sock, server_hostname=server_name))
        return self._inside

    @property
    def alpn(self) -> str | None:
        return self.sock.selected_alpn_protocol() if isinstance(self.sock, ssl.SSLSocket) else None


def open_connection(
    host: str, port: int, timeout: float = PATIENCE, *, source: str | None = None
) -> RawConnection:
    """A TCP connection to a proxy, from the address `source`; later waits are bounded by `timeout` seconds."""
    sock = socket.create_connection((host, port), timeout, (source, 0) if source is not None else None)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return RawConnection(sock)


def _pairs(headers: Any) -> tuple[tuple[str, str], ...]:
    return tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in headers)


def _response(head: h11.Response, body: bytes, complete: bool, informational: Sequence[int]) -> Response:
    reason = bytes(head.reason).decode("latin-1")
    return Response(head.status_code, reason, _pairs(head.headers), body, complete, tuple(informational))
