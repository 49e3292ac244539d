"""The ClientHello of a client, read once and strictly (RFC 8446, 4.1.2; RFC 6066, 3; RFC 7301, 3.1).

Only what the gateway asks of it is read: the server names and the protocols. Stock reads it with a generated parser,
field by field into some eighty objects: a fortieth of a new connection's cost. That one forgives lengths that do not
fit; here they end the connection, as they would in OpenSSL a moment later. What is taken is read alike by both:
tests/proxy_addons/engine/test_client_hello.py.
"""

from functools import cached_property
from typing import Any

from mitmproxy import tls
from mitmproxy.proxy.layers.tls import get_client_hello

_CLIENT_HELLO, _SERVER_NAME, _ALPN, _HOST_NAME = 1, 0, 16, 0
_FIXED = 2 + 32
"""Octets of version and random."""


class GateClientHello(tls.ClientHello):
    """As stock's to its readers. `names`: (type, name) of each server name of each such extension."""

    def __init__(self, message: bytes) -> None:
        """message: the body of the handshake message. Raises ValueError when it is malformed."""
        self._raw_bytes = message
        self.names: list[list[tuple[int, bytes]]] = []
        self._protocols: list[bytes] | None = None
        session, at = _vector(message, _FIXED, 1)
        suites, at = _vector(message, at, 2)
        compression, at = _vector(message, at, 1)
        if len(session) > 32 or not suites or len(suites) % 2 or not compression:
            raise ValueError("a session id, cipher suites or compression methods of no length they may have")
        if at == len(message):
            return  # TLS 1.2 without extensions
        extensions, end = _vector(message, at, 2)
        if end != len(message):
            raise ValueError("octets after the extensions")
        at = 0
        while at < len(extensions):
            kind = _number(extensions, at, 2)
            body, at = _vector(extensions, at + 2, 2)
            if kind == _SERVER_NAME:
                self.names.append(_read_names(body))
            elif kind == _ALPN:
                protocols = _read_protocols(body)
                if self._protocols is None:  # OpenSSL refuses a second one; stock takes the first
                    self._protocols = protocols

    @property
    def host_name(self) -> bytes | None:
        """The only server name, as it is on the wire; None when there is none, or several."""
        if len(self.names) != 1 or len(self.names[0]) != 1 or self.names[0][0][0] != _HOST_NAME:
            return None
        return self.names[0][0][1]

    @property
    def sni(self) -> str | None:
        """As `host_name`, where it is ASCII."""
        name = self.host_name
        return name.decode("ascii") if name is not None and name.isascii() else None

    @property
    def alpn_protocols(self) -> list[bytes]:
        """The protocols offered, in the client's order."""
        return list(self._protocols or ())

    @cached_property
    def _client_hello(self) -> Any:  # type: ignore[override]  # what else stock's class tells of a hello
        return tls.ClientHello(self._raw_bytes)._client_hello


def parse_client_hello(data: bytes) -> GateClientHello | None:
    """In place of mitmproxy's: the hello in these records, None when it is not whole; raises ValueError."""
    message = get_client_hello(data)
    if not message:
        return None
    if message[0] != _CLIENT_HELLO:
        raise ValueError("not a ClientHello")
    return GateClientHello(bytes(message[4:]))


def _read_names(body: bytes) -> list[tuple[int, bytes]]:
    listed = _whole(body)
    names, at = [], 0
    while at < len(listed):
        kind = listed[at]
        name, at = _vector(listed, at + 1, 2)
        names.append((kind, name))
    return names


def _read_protocols(body: bytes) -> list[bytes]:
    listed = _whole(body)
    names, at = [], 0
    while at < len(listed):
        name, at = _vector(listed, at, 1)
        names.append(name)
    return names


def _whole(body: bytes) -> bytes:
    """The one vector that an extension's body consists of."""
    listed, end = _vector(body, 0, 2)
    if end != len(body):
        raise ValueError("octets after a list")
    return listed


def _vector(data: bytes, at: int, width: int) -> tuple[bytes, int]:
    """A vector whose length takes `width` octets, and where it ends."""
    start = at + width
    end = start + _number(data, at, width)
    if end > len(data):
        raise ValueError("a vector longer than what holds it")
    return data[start:end], end


def _number(data: bytes, at: int, width: int) -> int:
    if at + width > len(data):
        raise ValueError("cut short")
    return int.from_bytes(data[at : at + width])
