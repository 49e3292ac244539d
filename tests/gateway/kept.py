"""A client that keeps its connections, by any way in: what an agent's own HTTP client does."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Self
from urllib.parse import urlsplit

from tests.gateway.paths import OPEN, Ask, Entry, Pairs, TlsInTls, client_context, listener_tls
from tests.kit.client import RawConnection, Response
from tests.kit.client_h2 import H2Client
from tests.kit.gateway import World


class KeptClient:
    """One connection to the gateway, or one tunnel for each host and port, used again and again.

    Not for `websocket`, whose connection serves one request. credentials: sent beside each URL, or each CONNECT.
    """

    def __init__(self, world: World, entry: Entry, *, listener: int = OPEN, credentials: Pairs = ()) -> None:
        assert entry is not Entry.WEBSOCKET
        self._credentials = credentials
        self._world, self.entry, self._listener = world, entry, listener
        self._stack = ExitStack()
        self._tunnels: dict[str, RawConnection | H2Client] = {}
        self._proxy: RawConnection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def scheme(self) -> str:
        return self.entry.scheme

    def url(self, path: str, host: str = "a.example") -> str:
        """The URL of a path at this way's origin."""
        return f"{self.scheme}://{host}:{self.entry.origin(self._world).port}{path}"

    def get(self, url: str, headers: Pairs = (), *, method: str = "GET", body: bytes = b"") -> Response:
        """Ask for `url`; a CONNECT that is refused gives its answer."""
        parts = urlsplit(url)
        path = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
        if self.entry in (Entry.ABSOLUTE_HTTP, Entry.ABSOLUTE_HTTPS, Entry.TLS_LISTENER):
            proxy = self._proxy = self._proxy or self._open()
            proxy.request(method, url, parts.netloc, [*self._credentials, *headers], body)
            return proxy.read_response(method)
        inside = self._tunnels.get(parts.netloc)
        if inside is None:
            opened = self._tunnel(parts.netloc, parts.hostname or "")
            if isinstance(opened, Response):
                return opened
            inside = self._tunnels[parts.netloc] = opened
        if isinstance(inside, H2Client):
            lowered = [(name.lower(), value) for name, value in headers]
            return inside.read_response(inside.request(parts.netloc, path, method, lowered, body))
        inside.request(method, path, parts.netloc, headers, body)
        return inside.read_response(method)

    def connection(self) -> RawConnection:
        """The connection on which the first request went out (HTTP/1)."""
        found = self._proxy or next(iter(self._tunnels.values()))
        assert isinstance(found, RawConnection)
        return found

    def h2_connection(self) -> RawConnection:
        """The connection under the first tunnel's h2."""
        found = next(iter(self._tunnels.values()))
        assert isinstance(found, H2Client)
        return found.connection

    def h2(self, authority: str, host: str) -> H2Client:
        """A tunnel of its own, its TLS and h2 standing."""
        opened = self._tunnel(authority, host)
        assert isinstance(opened, H2Client)
        return opened

    def _open(self) -> RawConnection:
        proxy = self._stack.enter_context(self._world.gateway.open(self._listener))
        over_tls = self.entry in (Entry.TLS_LISTENER, Entry.TLS_LISTENER_CONNECT)
        return self._stack.enter_context(listener_tls(self._world, proxy)) if over_tls else proxy

    def _tunnel(self, netloc: str, host: str) -> RawConnection | H2Client | Response:
        outer = self._open()
        default = 80 if self.scheme == "http" else 443
        authority = netloc if ":" in netloc.rpartition("]")[2] else f"{netloc}:{default}"
        answer = outer.connect(authority, headers=self._credentials)
        if answer.status != 200:
            return answer
        if self.entry is Entry.CONNECT_PLAIN:
            return outer
        context = client_context(self._world, Ask())
        if self.entry is Entry.TLS_LISTENER_CONNECT:
            return TlsInTls(outer, self._world, Ask(host=host))
        alpn = ("h2",) if self.entry is Entry.CONNECT_H2 else ("http/1.1",)
        inside = self._stack.enter_context(outer.start_tls(host, context, alpn))
        return H2Client(inside) if self.entry is Entry.CONNECT_H2 else inside
