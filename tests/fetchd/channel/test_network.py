"""Names and connections: what is looked up, where a hanging look-up waits, and which address is taken."""

from __future__ import annotations

import asyncio
import socket
import threading

import pytest
from aiohappyeyeballs import AddrInfoType

from fetchd.channel import ChannelRequest
from fetchd.channel.client import HttpChannel, make_roots
from fetchd.channel.network import MAX_ADDRESSES, SystemLookup
from fetchd.errors import ChannelError
from tests.kit.listener import BlackHole
from tests.kit.origin import Origin


def forbid(*_: object, **__: object) -> list[AddrInfoType]:
    pytest.fail("the system was asked")


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", ["127.0.0.1"]),
        ("10.1.2.3", ["10.1.2.3"]),
        ("::1", ["::1"]),
        ("localhost", ["127.0.0.1", "::1"]),
        ("searx.localhost.", ["127.0.0.1", "::1"]),
    ],
)
async def test_addresses_and_localhost_are_not_asked_for(
    monkeypatch: pytest.MonkeyPatch, host: str, expected: list[str]
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", forbid)

    assert [str(found[4][0]) for found in await SystemLookup()(host, 443)] == expected


async def test_a_name_is_asked_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def answer(host: str, port: int, **_: object) -> list[AddrInfoType]:
        asked.append((host, port))
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (f"10.0.0.{n}", port)) for n in range(40)]

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    found = await SystemLookup()("search.internal", 8443)

    assert asked == [("search.internal", 8443)]
    assert len(found) == MAX_ADDRESSES and found[1][4] == ("10.0.0.1", 8443)


@pytest.mark.parametrize("error", [socket.gaierror(-2, "Name or service not known"), UnicodeError("label")])
async def test_a_failed_look_up_is_an_OSError(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(*_: object, **__: object) -> list[AddrInfoType]:
        raise error

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    with pytest.raises(OSError, match=r"not known|looked up"):
        await SystemLookup()("search.internal", 443)


async def test_a_look_up_that_hangs_can_be_left_and_holds_only_its_own_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hanging, started = threading.Event(), threading.Semaphore(0)

    def hang(host: str, port: int, **_: object) -> list[AddrInfoType]:
        started.release()
        hanging.wait()
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.1", port))]

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    lookup = SystemLookup(at_once=2)
    tasks = [asyncio.create_task(lookup("search.internal", 443)) for _ in range(3)]
    for _ in range(2):
        await asyncio.to_thread(started.acquire)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

    assert all(task.cancelled() for task in tasks)
    assert all(thread.daemon for thread in threading.enumerate() if thread.name == "channel-lookup")
    assert await asyncio.to_thread(lambda: "free") == "free"
    later = asyncio.create_task(lookup("search.internal", 443))
    await asyncio.sleep(0)
    assert not started.acquire(blocking=False), "a third thread was started"
    hanging.set()
    assert len(await later) == 1


async def test_a_dead_address_does_not_fail_the_request() -> None:
    with Origin() as origin, BlackHole("127.0.0.2", origin.port):

        async def lookup(host: str, port: int) -> list[AddrInfoType]:
            return [
                (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))
                for address in ("127.0.0.2", "127.0.0.3", "127.0.0.1")
            ]

        url = f"http://localhost:{origin.port}"
        async with (
            HttpChannel(url, make_roots(), lookup=lookup) as channel,
            channel.send(ChannelRequest("GET", f"{url}/")) as answer,
        ):
            assert answer.status == 200


async def test_a_name_without_an_address_is_an_error() -> None:
    async def lookup(host: str, port: int) -> list[AddrInfoType]:
        return []

    async with HttpChannel("https://search.example", make_roots(), lookup=lookup) as channel:
        with pytest.raises(ChannelError):
            async with channel.send(ChannelRequest("GET", "https://search.example/")):
                pytest.fail("there is no answer")
