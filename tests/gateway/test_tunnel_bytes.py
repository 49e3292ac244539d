"""A tunnel that the layers of its CONNECT have been taken out of: nothing is lost, nothing doubled."""

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit import replies
from tests.kit.gateway import World


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with World(tmp_path_factory.mktemp("tunnel")) as made:
        made.origin.route("/page", replies.page("<h1>through</h1>"))
        yield made


class EagerTunnel:
    """A client that sends its ClientHello without waiting for the answer to its CONNECT."""

    def __init__(self, sock: socket.socket, name: str, ca: Path) -> None:
        self._sock, self._in, self._out = sock, ssl.MemoryBIO(), ssl.MemoryBIO()
        context = ssl.create_default_context(cafile=str(ca))
        self._tls = context.wrap_bio(self._in, self._out, server_hostname=name)

    def hello(self) -> bytes:
        with pytest.raises(ssl.SSLWantReadError):
            self._tls.do_handshake()
        return self._out.read()

    def feed(self, data: bytes) -> None:
        self._in.write(data)

    def shake_hands(self) -> None:
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._in.write(self._sock.recv(65536))
            else:
                self._sock.sendall(self._out.read())
                return

    def ask(self, data: bytes, end: bytes) -> bytes:
        self._tls.write(data)
        self._sock.sendall(self._out.read())
        got = b""
        while not got.endswith(end):
            try:
                got += self._tls.read(65536)
            except ssl.SSLWantReadError:
                self._in.write(self._sock.recv(65536))
        return got


@pytest.mark.parametrize(
    "early",
    [None, 1, 20, 200],
    ids=[
        "the ClientHello comes in the packet of the CONNECT",
        "one byte of it does",
        "less than its head does",
        "a part of it does",
    ],
)
def test_bytes_sent_along_with_a_connect_are_the_first_in_the_tunnel(world: World, early: int | None) -> None:
    request = f"GET /page HTTP/1.1\r\nHost: {world.authority()}\r\n\r\n".encode()
    with world.gateway.open() as proxy:
        tunnel = EagerTunnel(proxy.sock, "a.example", world.gateway.ca_path)
        hello = tunnel.hello()
        head = f"CONNECT {world.authority()} HTTP/1.1\r\nHost: {world.authority()}\r\n\r\n".encode()
        proxy.send(head + hello[:early])
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += proxy.sock.recv(4096)
        if early is not None:
            proxy.send(hello[early:])
        status, _, rest = answer.partition(b"\r\n\r\n")
        tunnel.feed(rest)
        tunnel.shake_hands()
        first = tunnel.ask(request, b"</h1>")
        second = tunnel.ask(request, b"</h1>")

    assert status.startswith(b"HTTP/1.1 200")
    assert first.startswith(b"HTTP/1.1 200") and second.startswith(b"HTTP/1.1 200")


async def test_a_client_that_leaves_its_tunnel_takes_the_origin_along(world: World) -> None:
    world.origin.forget()
    with world.gateway.open() as proxy:
        proxy.connect(world.authority())
        tunnel = proxy.start_tls("a.example", world.gateway.ca_path)
        assert tunnel.get("/page", world.authority()).status == 200
        assert world.origin.accepts == 1
    await world.origin.wait_closed()
