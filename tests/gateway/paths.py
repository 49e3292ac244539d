"""The ways into the gateway: one function each that sends one request and gives the answer, whatever the way.

    answer = send(world, Entry.CONNECT_H2, Ask(path="/page"))
    for entry in TUNNELS: send(world, entry, Ask(server_name="evil.example"))

An `Ask` says what an honest client would say, unless one of its names is set to a lie. The listener used is the
one of profile `open`, under which every way can be walked.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, StrEnum
from types import MappingProxyType

from tests.kit.client import RawConnection, Response
from tests.kit.client_h2 import H2Client
from tests.kit.gateway import World
from tests.kit.origin import Origin

Pairs = Sequence[tuple[str, str]]

OPEN = 1
"""The listener of profile `open` in a `World` with its usual listeners."""
WEBSOCKET_FIELDS: Pairs = (
    ("Connection", "Upgrade"),
    ("Upgrade", "websocket"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
)


class Entry(StrEnum):
    """Every way a request can come in (docs/bypasses.md)."""

    ABSOLUTE_HTTP = "absolute-http"
    ABSOLUTE_HTTPS = "absolute-https"
    CONNECT_H1 = "connect-h1"
    CONNECT_H2 = "connect-h2"
    CONNECT_PLAIN = "connect-plain"
    TLS_LISTENER = "tls-listener"
    TLS_LISTENER_CONNECT = "tls-listener-connect"
    WEBSOCKET = "websocket"

    @property
    def scheme(self) -> str:
        """The scheme of the URL that such a request is for."""
        return "http" if self in (Entry.ABSOLUTE_HTTP, Entry.CONNECT_PLAIN) else "https"

    def origin(self, world: World) -> Origin:
        """The origin that an honest request of this way reaches."""
        return world.plain if self.scheme == "http" else world.origin


ALL = tuple(Entry)
TUNNELS = (
    Entry.CONNECT_H1,
    Entry.CONNECT_H2,
    Entry.CONNECT_PLAIN,
    Entry.TLS_LISTENER_CONNECT,
    Entry.WEBSOCKET,
)
"""Ways that begin with a CONNECT."""
TLS_TUNNELS = tuple(entry for entry in TUNNELS if entry is not Entry.CONNECT_PLAIN)
"""Ways with TLS in the tunnel, hence with a server name."""
ABSOLUTE = tuple(entry for entry in ALL if entry not in TUNNELS)
"""Ways whose request line holds the whole URL."""
HTTP1 = tuple(entry for entry in ALL if entry is not Entry.CONNECT_H2)
"""Ways on which the request itself is HTTP/1.1."""


class Honest(Enum):
    """Stands for the name that an honest client would say here."""

    NAME = "the name of the URL"


NAME = Honest.NAME


@dataclass(frozen=True, slots=True)
class Ask:
    """One request.

    host, port: what the URL (absolute-form) or the CONNECT names, written as they are; port None is that of the
    way's origin, "" leaves it out. server_name: the SNI, None for none. host_field: the Host field, or on h2 the
    :authority; None leaves it out.
    """

    path: str = "/"
    host: str = "a.example"
    port: int | str | None = None
    method: str = "GET"
    headers: Pairs = ()
    body: bytes = b""
    userinfo: str = ""
    server_name: str | Honest | None = NAME
    host_field: str | Honest | None = NAME
    connect_headers: Pairs = ()
    connect_host: str | Honest = NAME

    def authority(self, world: World, entry: Entry) -> str:
        """host:port as the URL or the CONNECT says it."""
        if self.port == "":
            return self.host
        return f"{self.host}:{entry.origin(world).port if self.port is None else self.port}"

    def named(self, world: World, entry: Entry) -> str | None:
        """The Host field (h2: :authority)."""
        return self.authority(world, entry) if isinstance(self.host_field, Honest) else self.host_field


def send(world: World, entry: Entry, ask: Ask, *, listener: int = OPEN) -> Response:
    """Send `ask` by `entry` on a connection of its own; a CONNECT that is refused gives its answer.

    Raises NoResponseError (HTTP/1), StreamResetError or ConnectionEndedError (h2), or ssl.SSLError, OSError where
    the gateway closes without an answer in HTTP.
    """
    with world.gateway.open(listener) as proxy:
        return WAYS[entry](world, proxy, ask)


def _absolute(entry: Entry) -> Way:
    def way(world: World, proxy: RawConnection, ask: Ask) -> Response:
        where = f"{ask.userinfo}@" if ask.userinfo else ""
        url = f"{entry.scheme}://{where}{ask.authority(world, entry)}{ask.path}"
        return _exchange(proxy, ask, url, ask.named(world, entry))

    return way


def _in_tunnel(entry: Entry) -> Way:
    def way(world: World, proxy: RawConnection, ask: Ask) -> Response:
        with tunnel(world, proxy, entry, ask) as inside:
            if isinstance(inside, Response):
                return inside
            return _exchange(inside, ask, ask.path, ask.named(world, entry))

    return way


def _connect_h2(world: World, proxy: RawConnection, ask: Ask) -> Response:
    with tunnel(world, proxy, Entry.CONNECT_H2, ask) as inside:
        if isinstance(inside, Response):
            return inside
        client = H2Client(inside)
        named = ask.named(world, Entry.CONNECT_H2)
        head = [(":method", ask.method), (":scheme", "https"), (":path", ask.path)]
        if named is not None:
            head.insert(2, (":authority", named))
        fields = [(name.lower(), value) for name, value in ask.headers]
        return client.read_response(client.send_headers([*head, *fields], ask.body))


def _tls_listener(world: World, proxy: RawConnection, ask: Ask) -> Response:
    return _absolute(Entry.TLS_LISTENER)(world, listener_tls(world, proxy), ask)


def _tls_listener_connect(world: World, proxy: RawConnection, ask: Ask) -> Response:
    entry = Entry.TLS_LISTENER_CONNECT
    outer = listener_tls(world, proxy)
    answer = _connect(outer, world, entry, ask)
    if not 200 <= answer.status < 300:
        return answer
    return _exchange(TlsInTls(outer, world, ask), ask, ask.path, ask.named(world, entry))


def _websocket(world: World, proxy: RawConnection, ask: Ask) -> Response:
    with tunnel(world, proxy, Entry.WEBSOCKET, ask) as inside:
        if isinstance(inside, Response):
            return inside
        inside.request("GET", ask.path, ask.named(world, Entry.WEBSOCKET), [*WEBSOCKET_FIELDS, *ask.headers])
        return inside.read_response()


Way = Callable[[World, RawConnection, Ask], Response]

WAYS: Mapping[Entry, Way] = MappingProxyType(
    {
        Entry.ABSOLUTE_HTTP: _absolute(Entry.ABSOLUTE_HTTP),
        Entry.ABSOLUTE_HTTPS: _absolute(Entry.ABSOLUTE_HTTPS),
        Entry.CONNECT_H1: _in_tunnel(Entry.CONNECT_H1),
        Entry.CONNECT_H2: _connect_h2,
        Entry.CONNECT_PLAIN: _in_tunnel(Entry.CONNECT_PLAIN),
        Entry.TLS_LISTENER: _tls_listener,
        Entry.TLS_LISTENER_CONNECT: _tls_listener_connect,
        Entry.WEBSOCKET: _websocket,
    }
)
"""Each way's function: world, an open connection to a listener, what to ask."""


@contextmanager
def tunnel(world: World, proxy: RawConnection, entry: Entry, ask: Ask) -> Iterator[RawConnection | Response]:
    """The inside of a CONNECT over `proxy`, in TLS where the way has it; the answer if it was refused."""
    answer = _connect(proxy, world, entry, ask)
    if not 200 <= answer.status < 300:
        yield answer
    elif entry is Entry.CONNECT_PLAIN:
        yield proxy
    else:
        alpn = ("h2",) if entry is Entry.CONNECT_H2 else ("http/1.1",)
        yield proxy.start_tls(server_name(ask), client_context(world, ask), alpn)


def server_name(ask: Ask) -> str | None:
    """The SNI that `ask` sends."""
    return ask.host if isinstance(ask.server_name, Honest) else ask.server_name


def client_context(world: World, ask: Ask) -> ssl.SSLContext:
    """Trusts the gateway's CA; looks at the name only where the client tells no lies."""
    context = ssl.create_default_context(cafile=str(world.gateway.ca_path))
    context.check_hostname = isinstance(ask.server_name, Honest)
    return context


def listener_tls(world: World, proxy: RawConnection) -> RawConnection:
    """TLS to the listener itself."""
    context = ssl.create_default_context(cafile=str(world.gateway.ca_path))
    context.check_hostname = False
    return proxy.start_tls("localhost", context)


def open_way(world: World, proxy: RawConnection, entry: Entry) -> RawConnection:
    """Where the requests of an HTTP/1.1 way are written, its tunnel and TLS standing (honest names)."""
    if entry in (Entry.ABSOLUTE_HTTP, Entry.ABSOLUTE_HTTPS):
        return proxy
    if entry is Entry.TLS_LISTENER:
        return listener_tls(world, proxy)
    outer = listener_tls(world, proxy) if entry is Entry.TLS_LISTENER_CONNECT else proxy
    ask = Ask()
    answer = outer.connect(ask.authority(world, entry))
    if answer.status != 200:
        raise AssertionError(f"no tunnel: {answer}")
    if entry is Entry.CONNECT_PLAIN:
        return outer
    if entry is Entry.TLS_LISTENER_CONNECT:
        return TlsInTls(outer, world, ask)
    return outer.start_tls(ask.host, client_context(world, ask))


def request_target(world: World, entry: Entry, path: str) -> str:
    """The request target by which an HTTP/1.1 way asks for `path`: the whole URL, or in a tunnel the path."""
    return f"{entry.scheme}://{Ask().authority(world, entry)}{path}" if entry in ABSOLUTE else path


class TlsInTls(RawConnection):
    """TLS inside a CONNECT that itself runs inside TLS: Python's sockets cannot be wrapped twice."""

    def __init__(self, outer: RawConnection, world: World, ask: Ask) -> None:
        super().__init__(outer.sock)
        self._outer = outer
        self._arriving, self._leaving = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = client_context(world, ask)
        context.set_alpn_protocols(["http/1.1"])
        self._tls = context.wrap_bio(self._arriving, self._leaving, server_hostname=server_name(ask))
        self._until(self._tls.do_handshake)

    def send(self, data: bytes) -> None:
        self._tls.write(data)
        self._outer.send(self._leaving.read())

    def _receive_fresh(self, limit: int = 65536) -> bytes:
        try:
            return self._until(lambda: self._tls.read(limit))
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
            return b""

    def _until[T](self, step: Callable[[], T]) -> T:
        while True:
            try:
                done = step()
            except ssl.SSLWantReadError:
                self._flush()
                data = self._outer.receive()
                if data:
                    self._arriving.write(data)
                else:
                    self._arriving.write_eof()
            else:
                self._flush()
                return done

    def _flush(self) -> None:
        if data := self._leaving.read():
            self._outer.send(data)


def _connect(proxy: RawConnection, world: World, entry: Entry, ask: Ask) -> Response:
    host = None if isinstance(ask.connect_host, Honest) else ask.connect_host
    return proxy.connect(ask.authority(world, entry), ask.connect_headers, host=host)


def _exchange(connection: RawConnection, ask: Ask, target: str, host: str | None) -> Response:
    connection.request(ask.method, target, host, ask.headers, ask.body)
    return connection.read_response(ask.method)
