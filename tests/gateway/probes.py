"""One probe for each hole of docs/mitmproxy-holes.md: is it open in this proxy? The same steps for stock and ours.

A probe returns True when the hole shows. It raises when the proxy does not do what any proxy must: a wall that lets
nothing through has no holes, and proves nothing.
"""

from __future__ import annotations

import base64
import hashlib
import select
import ssl
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import h2.config
import h2.connection
import h2.settings
import h11
from cryptography import x509

from tests.gateway.memory import MIB, peak, reset_peak
from tests.gateway.paths import WEBSOCKET_FIELDS
from tests.kit import replies
from tests.kit.client import NoResponseError, RawConnection, Response
from tests.kit.client_h2 import ConnectionEndedError, H2Client, StreamResetError
from tests.kit.exchange import Exchange, H1Exchange
from tests.kit.origin import Origin
from tests.kit.sync import Gate

SECOND = b"GET /smuggled HTTP/1.1\r\nHost: evil.example\r\nCookie: s=1\r\n\r\n"
HOST = "a.example"


@dataclass(frozen=True, slots=True)
class Subject:
    """A proxy under test. `open_small` leads to a listener whose answers are metered at 1 KiB.

    slow: host:port whose connection is not made for a while. late: a port of a.example where nobody listens yet.
    patience: seconds after which a missing answer is a hang.
    """

    open: Callable[[], RawConnection]
    open_small: Callable[[], RawConnection]
    ca: Path
    pid: int
    origin: Origin
    plain: Origin
    slow: str
    late: int
    key_log: Path
    patience: float

    def url(self, path: str) -> str:
        return f"http://{HOST}:{self.plain.port}{path}"

    def get(self, path: str, headers: replies.Pairs = ()) -> Response:
        """One plain GET on a connection of its own."""
        with self.open() as proxy:
            return self.ask(proxy, path, headers)

    def ask(self, proxy: RawConnection, path: str, headers: replies.Pairs = ()) -> Response:
        proxy.sock.settimeout(self.patience)
        return proxy.get(self.url(path), f"{HOST}:{self.plain.port}", headers)

    @property
    def authority(self) -> str:
        return f"{HOST}:{self.origin.port}"

    def tunnel(self, proxy: RawConnection, alpn: str = "http/1.1") -> RawConnection:
        assert proxy.connect(self.authority).status == 200
        return proxy.start_tls(HOST, ssl.create_default_context(cafile=str(self.ca)), (alpn,))

    def h2(self, proxy: RawConnection) -> H2Client:
        return H2Client(self.tunnel(proxy, "h2"))


def grown(subject: Subject, before: int) -> float:
    """MiB that the worker's memory has grown by at its highest."""
    return (peak(subject.pid) - before) / MIB


def targets(origin: Origin) -> list[str]:
    return [request.target for request in origin.requests]


# -- framing


def probe_n1(subject: Subject) -> bool:
    """An h2 body without a length goes unframed to an HTTP/1 origin: a second request in disguise."""
    with subject.open() as proxy, suppress(ConnectionEndedError, StreamResetError):
        client = subject.h2(proxy)
        assert (
            client.read_response(client.request(subject.authority, "/n1", "POST", body=SECOND)).status == 200
        )
        # A last request: by its answer the origin has read what came before. An answer too many ends the connection.
        client.get(subject.authority, "/n1-end")
    assert "/n1" in targets(subject.origin)
    return "/smuggled" in targets(subject.origin)


def probe_n2(subject: Subject) -> bool:
    """`Connection: content-length` makes whoever strips nominated fields send a body unframed."""
    fields = [("Connection", "content-length"), ("Content-Length", str(len(SECOND)))]
    with subject.open() as proxy:
        proxy.request("POST", subject.url("/strip-nominated"), f"{HOST}:{subject.plain.port}", fields)
        proxy.send(SECOND)
        status = proxy.read_response().status
    assert status in (200, 400)
    if status == 200:
        subject.plain._watch.wait_sync(lambda: len(targets(subject.plain)) >= 2, "a second request")
    return "/smuggled" in targets(subject.plain)


def probe_n3(subject: Subject) -> bool:
    """Trailers of a chunked answer hang the client."""

    async def with_trailers(exchange: Exchange) -> None:
        await replies.start_chunked(exchange, [("content-type", "text/plain")])
        await replies.send_chunk(exchange, b"whole")
        await replies.end_chunked(exchange, [("x-trailer", "t")])

    subject.plain.route("/n3", with_trailers)
    try:
        answer = subject.get("/n3")
    except (TimeoutError, NoResponseError):
        return True
    return not (answer.complete and answer.body == b"whole")


def probe_n4(subject: Subject) -> bool:
    """An interim answer is taken for the final one."""
    subject.plain.route("/n4", replies.informational_first([103, 102, 100], replies.text("final")))
    try:
        return subject.get("/n4").body != b"final"
    except (TimeoutError, NoResponseError):
        return True


# -- memory


def probe_n5(subject: Subject) -> bool:
    """A client uploads while the connection to the origin is not made yet."""
    chunk = b"10000\r\n" + bytes(0x10000) + b"\r\n"
    before = reset_peak(subject.pid)
    with subject.open() as proxy:
        fields = [("Transfer-Encoding", "chunked")]
        proxy.request("POST", f"http://{subject.slow}/n5", subject.slow, fields)
        proxy.sock.setblocking(False)
        for _ in range(1024):
            if not select.select([], [proxy.sock], [], 1.0)[1]:
                break
            with suppress(BlockingIOError, ConnectionError):
                proxy.sock.send(chunk)
        return grown(subject, before) > 40


def probe_n6(subject: Subject) -> bool:
    """An h2 client asks for much and never opens its windows."""
    size, streams = 4 << 20, 16

    async def big(exchange: Exchange) -> None:
        await exchange.start(200, [("content-type", "text/plain"), ("content-length", str(size))])
        for _ in range(size >> 16):
            await exchange.data(bytes(1 << 16))

    subject.origin.route("/n6", big)
    before = reset_peak(subject.pid)
    with subject.open() as proxy:
        tls = subject.tunnel(proxy, "h2")
        client = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
        closed = {h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 0, h2.settings.SettingCodes.ENABLE_PUSH: 0}
        client.local_settings = h2.settings.Settings(client=True, initial_values=closed)
        client.initiate_connection()
        head = [(":method", "GET"), (":scheme", "https"), (":authority", subject.authority), (":path", "/n6")]
        for stream in range(1, 2 * streams, 2):
            client.send_headers(stream, head, end_stream=True)
        tls.send(client.data_to_send())
        with suppress(TimeoutError):  # a proxy with back-pressure never takes all of it
            subject.origin._watch.wait_sync(
                lambda: sum(c.sent for c in subject.origin._connections) >= size * streams, "all of it", 3.0
            )
        assert sum(connection.sent for connection in subject.origin.connections) > 0
        return grown(subject, before) > 40


def probe_n7(subject: Subject) -> bool:
    """A request body is kept whole, several times over."""
    size = 48 << 20
    before = reset_peak(subject.pid)
    with subject.open() as proxy:
        fields = [("Content-Length", str(size))]
        proxy.request("POST", subject.url("/n7"), f"{HOST}:{subject.plain.port}", fields)
        for _ in range(size >> 20):
            proxy.send(bytes(1 << 20))
        assert proxy.read_response().status == 200
    assert len(subject.plain.requests[-1].body) == size
    return grown(subject, before) > 40


def probe_n8(subject: Subject) -> bool:
    """A WebSocket message that inflates."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    bomb = b"".join(packer.compress(bytes(MIB)) for _ in range(96)) + packer.flush(zlib.Z_SYNC_FLUSH)
    bomb = bomb.removesuffix(b"\0\0\xff\xff")

    async def socket(exchange: Exchange) -> None:
        assert isinstance(exchange, H1Exchange)
        key = exchange.request.values("sec-websocket-key")[0] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        accept = base64.b64encode(hashlib.sha1(key.encode(), usedforsecurity=False).digest()).decode()
        fields = [("connection", "upgrade"), ("upgrade", "websocket"), ("sec-websocket-accept", accept)]
        deflates = "permessage-deflate" in "".join(exchange.request.values("sec-websocket-extensions"))
        if deflates:
            fields.append(("sec-websocket-extensions", "permessage-deflate"))
        await exchange.start(101, fields)
        if deflates:
            await exchange.raw(b"\xc1\x7f" + len(bomb).to_bytes(8, "big") + bomb)
        await exchange.raw(b"\x82\x05hello")
        await exchange.read()

    subject.plain.route("/n8", socket)
    before = reset_peak(subject.pid)
    with subject.open() as proxy:
        fields = [*WEBSOCKET_FIELDS, ("Sec-WebSocket-Extensions", "permessage-deflate")]
        assert subject.ask(proxy, "/n8", fields).status == 101
        received = b""
        with suppress(TimeoutError):  # stock deflates the last message too
            while not received.endswith(b"\x82\x05hello") and (data := proxy.receive()):
                received += data
    return grown(subject, before) > 40


def probe_n10(subject: Subject) -> bool:
    """Upstream connections that are closed are never forgotten."""

    async def once(exchange: Exchange) -> None:
        await exchange.start(200, [("content-length", "2"), ("connection", "close")])
        await exchange.data(b"ok")
        await exchange.close()

    # Stock hands `Connection: close` to the client, whose connection then ends as well; hence this path.
    subject.origin.route("/strip-connection", once)
    with subject.open() as proxy:
        tunnel = subject.tunnel(proxy)

        def ask(number: int) -> None:
            answered = 0
            for _ in range(2 * number):
                answered += tunnel.get("/strip-connection", subject.authority).status == 200
                if answered == number:
                    return
            raise AssertionError(f"{answered} of {number} answered")

        ask(30)
        before = reset_peak(subject.pid)
        ask(150)
    assert subject.origin.accepts >= 180
    return grown(subject, before) > 5


# -- state that sticks


def probe_n9(subject: Subject) -> bool:
    """Stripping `Connection` from the shared message: the upstream connection is used once too often."""

    async def last(exchange: Exchange) -> None:
        await exchange.start(200, [("content-length", "2"), ("connection", "close")])
        await exchange.data(b"ok")
        await exchange.read()  # whatever comes now is not answered
        await exchange.close()

    subject.plain.route("/strip-connection", last)
    with subject.open() as proxy:
        try:
            answers = [subject.ask(proxy, "/strip-connection") for _ in range(6)]
        except (TimeoutError, NoResponseError):
            return True
    assert answers[0].status == 200
    return any(answer.status != 200 for answer in answers)


def probe_n11(subject: Subject) -> bool:
    """A dial that failed once fails for the life of the client connection."""
    url = f"http://{HOST}:{subject.late}/n11"
    with subject.open() as proxy:
        assert proxy.get(url, f"{HOST}:{subject.late}").status == 502
        with Origin(subject.plain.host, subject.late):
            try:
                return proxy.get(url, f"{HOST}:{subject.late}").status != 200
            except NoResponseError:
                return True


# -- what is let through


def probe_n12(subject: Subject) -> bool:
    """Codings hidden in Transfer-Encoding are not seen by a meter of Content-Encoding."""
    packed = zlib.compress(bytes(MIB), wbits=31)
    head = [("content-type", "text/plain"), ("transfer-encoding", "gzip, chunked")]

    async def hidden(exchange: Exchange) -> None:
        await exchange.start(200, head)
        await replies.send_chunk(exchange, packed)
        await replies.end_chunked(exchange)

    subject.plain.route("/n12", hidden)
    subject.plain.route("/n12-honest", replies.chunked([b"honest"]))
    assert subject.get("/n12-honest").body == b"honest"
    try:
        return subject.get("/n12").status == 200
    except h11.RemoteProtocolError:  # it came through, and this client knows no such coding
        return True


def probe_n13(subject: Subject) -> bool:
    """A magic path is answered by the proxy itself; session keys are written where the environment says."""
    serial = x509.load_pem_x509_certificate(subject.ca.read_bytes()).serial_number
    answer = subject.get(f"/any/path/mitmproxy-{serial}.crl")
    assert answer.status == 200
    with subject.open() as proxy:
        assert subject.tunnel(proxy).get("/n13", subject.authority).status == 200
    keys_written = subject.key_log.exists() and subject.key_log.stat().st_size > 0
    return subject.plain.accepts == 0 or keys_written


def probe_n14(subject: Subject) -> bool:
    """Heads have no bound, in either direction."""
    subject.plain.route("/n14", replies.text("x", [("x-large", "v" * MIB)]))
    subject.plain.route("/n14-honest", replies.text("x", [("x-large", "v" * 32_000)]))
    assert subject.get("/n14-honest", [("X-Large", "v" * 32_000)]).status == 200
    # The client may be answered and closed while it still sends.
    try:
        request = subject.get("/n14-request", [("X-Large", "v" * MIB)]).status
    except (NoResponseError, ConnectionError):
        request = 400
    return request == 200 or subject.get("/n14").status == 200


def probe_n15(subject: Subject) -> bool:
    """A stream callable that raises: the chunk is dropped, the body ends as if it were whole."""
    gate = Gate()

    async def two_chunks(exchange: Exchange) -> None:
        await replies.start_chunked(exchange, [("content-type", "text/plain")])
        await replies.send_chunk(exchange, b"a" * 1000)
        await replies.send_chunk(exchange, b"b" * 1000)
        await gate.wait()
        await replies.end_chunked(exchange)

    subject.plain.route("/metered", two_chunks)
    subject.plain.route("/metered-honest", replies.chunked([b"a" * 1000]))
    with subject.open_small() as proxy, subject.open_small() as other:
        proxy.request("GET", subject.url("/metered"), f"{HOST}:{subject.plain.port}")
        subject.plain._watch.wait_sync(
            lambda: sum(c.sent for c in subject.plain._connections) > 2000, "chunks"
        )
        # The chunks were there before this exchange; the end comes in a piece of its own after it.
        honest = subject.ask(other, "/metered-honest")
        gate.open()
        assert honest.complete and len(honest.body) == 1000
        answer = proxy.read_response()
    return answer.status == 200 and answer.complete


def probe_n16(subject: Subject) -> bool:
    """An h2 path that is a URL of another place goes out as it is."""
    with subject.open() as proxy:
        assert subject.h2(proxy).get(subject.authority, "/n16").status == 200
    with subject.open() as proxy, suppress(ConnectionEndedError, StreamResetError):
        subject.h2(proxy).get(subject.authority, "http://evil.example/n16")
    return "http://evil.example/n16" in targets(subject.origin)


_PREFIX = "probe_"
PROBES: Mapping[str, Callable[[Subject], bool]] = MappingProxyType(
    {name.removeprefix(_PREFIX).upper(): probe for name, probe in vars().items() if name.startswith(_PREFIX)}
)
