"""The daemon's listeners: a bound on their clients, and who makes room."""

from __future__ import annotations

import asyncio
import http.client
import resource
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
import trustme
from starlette.types import Receive, Scope, Send

from fetchd.running.client_places import (
    DESCRIPTORS_A_PLACE,
    KEPT_DESCRIPTORS,
    LEAST_PLACES,
    MAX_PLACES,
    count_places,
)
from fetchd.running.serving import listen_on, serving
from tests.e2e.stage import Stage, post_json
from tests.kit.installed import FREE_PORTS, Up
from tests.kit.sync import PATIENCE


@pytest.mark.parametrize(
    ("descriptors", "expected"),
    [
        pytest.param(16, LEAST_PLACES, id="next to none: a few all the same"),
        pytest.param(256, 40, id="ulimit -n 256"),
        pytest.param(
            KEPT_DESCRIPTORS + DESCRIPTORS_A_PLACE * MAX_PLACES - 1, MAX_PLACES - 1, id="one too few"
        ),
        pytest.param(KEPT_DESCRIPTORS + DESCRIPTORS_A_PLACE * MAX_PLACES, MAX_PLACES, id="just enough"),
        pytest.param(resource.RLIM_INFINITY, MAX_PLACES, id="no limit"),
    ],
)
def test_as_many_places_as_descriptors_allow(
    monkeypatch: pytest.MonkeyPatch, descriptors: int, expected: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (descriptors, descriptors))
    assert count_places() == expected


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fetchd.running.client_places.count_places", lambda: 3)


class App:
    """Answers, but at /slow only once it is told to."""

    def __init__(self) -> None:
        self.go, self.begun = asyncio.Event(), asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/slow":
            self.begun.set()
            await self.go.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})


class Client:
    """One connection to the server."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._http = http.client.HTTPConnection(*address, timeout=PATIENCE)
        self._http.connect()

    async def get(self, path: str = "/") -> int:
        def ask() -> int:
            self._http.request("GET", path)
            answer = self._http.getresponse()
            answer.read()
            return answer.status

        return await asyncio.to_thread(ask)

    def send(self, data: bytes) -> None:
        assert self._http.sock is not None
        self._http.sock.sendall(data)

    async def receive(self) -> bytes:
        """The first line of what comes next."""
        assert self._http.sock is not None
        return (await asyncio.to_thread(self._http.sock.recv, 1000)).partition(b"\r\n")[0]

    async def is_closed(self) -> bool:
        assert self._http.sock is not None
        try:
            return await asyncio.to_thread(self._http.sock.recv, 1) == b""
        except ConnectionError:
            return True

    def close(self) -> None:
        self._http.close()


@pytest.mark.usefixtures("few")
async def test_the_longest_idle_client_makes_room() -> None:
    with listen_on("tools", "127.0.0.1", 0) as listening, ExitStack() as stack:
        address = listening.getsockname()[:2]
        async with serving(App(), listening):
            clients = []
            for _ in range(4):
                client = Client(address)
                stack.callback(client.close)
                clients.append(client)
                if len(clients) != 2:  # the second says nothing
                    assert await client.get() == 200
            assert await clients[0].is_closed()
            assert await clients[2].get() == 200
            newest = Client(address)
            stack.callback(newest.close)
            assert await newest.get() == 200
            assert await clients[1].is_closed()


@pytest.mark.usefixtures("few")
async def test_who_has_a_call_under_way_stays_and_if_all_have_the_newcomer_is_closed() -> None:
    app = App()
    with listen_on("tools", "127.0.0.1", 0) as listening, ExitStack() as stack:
        address = listening.getsockname()[:2]
        async with serving(app, listening), asyncio.TaskGroup() as calls:
            slow = []
            for _ in range(3):
                client = Client(address)
                stack.callback(client.close)
                slow.append(calls.create_task(client.get("/slow")))
                await app.begun.wait()
                app.begun.clear()
            newcomer = Client(address)
            stack.callback(newcomer.close)
            assert await newcomer.is_closed()
            app.go.set()
    assert [call.result() for call in slow] == [200] * 3


@pytest.mark.usefixtures("few")
async def test_who_keeps_its_request_unfinished_has_no_call_yet() -> None:
    """Else one client would hold every place with bodies that never end."""
    begun = asyncio.Semaphore(0)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "POST":
            begun.release()
            while (await receive()).get("more_body", False):
                pass
        await App()(scope, receive, send)

    with listen_on("tools", "127.0.0.1", 0) as listening, ExitStack() as stack:
        address = listening.getsockname()[:2]
        async with serving(app, listening):
            unfinished = []
            for _ in range(3):
                client = Client(address)
                stack.callback(client.close)
                client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nx")
                unfinished.append(client)
                await begun.acquire()
            newcomer = Client(address)
            stack.callback(newcomer.close)
            assert await newcomer.get() == 200
            assert await unfinished[0].is_closed()
            unfinished[2].send(b"y")  # who goes on in time has its answer
            assert await unfinished[2].receive() == b"HTTP/1.1 200 OK"


# --- all of it ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Stage, Up]]:
    """`fetchd up` under `ulimit -n 256`."""
    folder = tmp_path_factory.mktemp("limited")
    with (
        Stage(folder) as stage,
        Up(folder, "--config", str(stage.config), *FREE_PORTS, descriptors=256) as up,
    ):
        yield stage, up


def ready(up: Up) -> int:
    connection = http.client.HTTPConnection(*up.operator, timeout=PATIENCE)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.parametrize("door", ["gateway", "tools", "operator"])
@pytest.mark.parametrize(
    "said", [b"", b"GET / HTTP/1.1\r\n", b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"]
)
def test_three_hundred_idle_clients_at_any_door_keep_nobody_out(
    limited: tuple[Stage, Up], door: str, said: bytes
) -> None:
    stage, up = limited
    with ExitStack() as stack:
        for number in range(300):
            idle = stack.enter_context(socket.create_connection(getattr(up, door), PATIENCE))
            idle.sendall(said)
            if number % 50 == 49:
                assert ready(up) == 200
                page = post_json(up.tools, "/v1/tools/web_fetch", {"url": stage.url()})
                assert (page.status, page.document["failure"]) == (200, None)
        used = {
            pid: len(list(Path(f"/proc/{pid}/fd").iterdir()))
            for pid in (up.process.pid, *up.gateway_processes)
        }
        assert max(used.values()) < 256, used
    assert ready(up) == 200
    assert not any("Traceback" in line for line in up.errors), up.errors


# --- TLS ----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("said", [b"", b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/1.1\r\n\r\n"])
async def test_a_handshake_that_does_not_end_makes_room_too(said: bytes) -> None:
    authority = trustme.CA()
    server, trusting = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
    authority.issue_cert("localhost").configure_cert(server)
    authority.configure_trust(trusting)

    def get(address: tuple[str, int]) -> int:
        connection = http.client.HTTPSConnection("localhost", address[1], timeout=PATIENCE, context=trusting)
        try:
            connection.request("GET", "/")
            return connection.getresponse().status
        finally:
            connection.close()

    with listen_on("tools", "127.0.0.1", 0) as listening, ExitStack() as stack:
        address = listening.getsockname()[:2]
        async with serving(App(), listening, server):
            silent = []
            for _ in range(9):
                silent.append(stack.enter_context(socket.create_connection(address, PATIENCE)))
                silent[-1].sendall(said)
                assert await asyncio.to_thread(get, address) == 200
            with suppress(ConnectionError):  # some are told first what was wrong with their TLS
                while await asyncio.to_thread(silent[0].recv, 64):
                    pass
