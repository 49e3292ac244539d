"""Our own sockets and ASGI servers: taken addresses, and an end that drops who is still there."""

from __future__ import annotations

import asyncio
import http.client
import socket

import pytest
from starlette.types import Receive, Scope, Send

from fetchd.running.serving import AddressInUseError, accepts, listen_on, serving
from tests.kit.sync import PATIENCE


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


def get(address: tuple[str, int]) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(*address, timeout=PATIENCE)
    try:
        connection.request("GET", "/")
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_an_application_is_served_while_the_context_lasts(host: str) -> None:
    listening = listen_on("tools", host, 0)
    address = listening.getsockname()[:2]

    assert accepts(*address)
    async with serving(answer, listening):
        assert await asyncio.to_thread(get, address) == (200, b"ok")
        assert await asyncio.to_thread(get, address) == (200, b"ok")
    assert not accepts(*address)


def test_a_taken_address_is_named_with_what_was_to_listen_there() -> None:
    with listen_on("tools", "127.0.0.1", 0) as holder:
        port = holder.getsockname()[1]
        with pytest.raises(AddressInUseError) as caught:
            listen_on("operator", "127.0.0.1", port)

    error = caught.value
    assert (error.what, error.host, error.port, error.reason) == ("operator", "127.0.0.1", port, "in use")
    with listen_on("operator", "127.0.0.1", port):
        pass  # and nobody else holds it


def test_an_address_that_is_not_ours_has_the_systems_reason() -> None:
    with pytest.raises(AddressInUseError) as caught:
        listen_on("tools", "192.0.2.1", 0)

    assert caught.value.reason == "Cannot assign requested address"


async def test_calls_under_way_see_their_client_go_and_have_ended_with_the_context() -> None:
    """SPEC 2.1: a shutdown is like a client gone."""
    begun, seen = asyncio.Event(), []

    async def hang(scope: Scope, receive: Receive, send: Send) -> None:
        begun.set()
        while (message := await receive())["type"] != "http.disconnect":
            pass
        seen.append(message["type"])

    listening = listen_on("tools", "127.0.0.1", 0)
    with socket.create_connection(listening.getsockname()) as client:
        async with serving(hang, listening):
            client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await asyncio.wait_for(begun.wait(), PATIENCE)
        assert seen == ["http.disconnect"]
        client.settimeout(PATIENCE)
        assert client.recv(1024) == b""


async def test_an_idle_connection_does_not_hold_up_the_end() -> None:
    listening = listen_on("tools", "127.0.0.1", 0)
    connection = http.client.HTTPConnection("127.0.0.1", listening.getsockname()[1], timeout=PATIENCE)

    def ask() -> bytes:
        connection.request("GET", "/")
        return connection.getresponse().read()

    async with serving(answer, listening):
        assert await asyncio.to_thread(ask) == b"ok"
    assert connection.sock is not None
    assert connection.sock.recv(1) == b""
    connection.close()
