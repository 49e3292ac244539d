"""The real transport: what goes out, what is kept, and that foreign errors end here."""

from __future__ import annotations

import asyncio
import inspect

import httpcore
import pytest

from fetchd.errors import BrokenAnswerError, NoAnswerError, TransportError
from fetchd.transport import HopRequest
from fetchd.transport.fake import ScriptedAnswer
from fetchd.transport.proxied import FOREIGN_ERRORS, KEEP_ALIVE_SECONDS, ProxiedTransport
from proxy_addons.policy.limits import IDLE_SECONDS
from proxy_addons.policy.targets import parse_target
from proxy_addons.policy.wire import DaemonRequest
from tests.fetchd.scripted_gateway import SECRET, ScriptedGateway
from tests.kit import replies
from tests.kit.exchange import Ending
from tests.kit.origin import Origin
from tests.kit.ports import free_port
from tests.kit.sync import PATIENCE

TEXT = (b"Content-Type", b"text/plain")


def hop(url: str = "https://a.example/p?q=1", number: int = 0) -> HopRequest:
    return HopRequest(parse_target(url), DaemonRequest("local", "default", "id-1", number))


async def read(transport: ProxiedTransport, request: HopRequest) -> bytes:
    async with transport.send(request) as answer:
        return b"".join([chunk async for chunk in answer.chunks])


async def test_the_request_is_exactly_this() -> None:
    url = "https://a.example:8443/p?q=%C3%A9"
    with ScriptedGateway({url: ScriptedAnswer(200, [TEXT], [b"x"])}) as gateway:
        async with ProxiedTransport("127.0.0.1", gateway.origin.port, SECRET) as transport:
            await read(transport, hop(url, 3))

        (request,) = gateway.origin.requests
    assert (request.method, request.target, request.version) == ("GET", url, "HTTP/1.1")
    assert request.headers == (
        ("Host", "a.example:8443"),
        ("User-Agent", "harness-webfetch/0.0"),
        ("Accept", "*/*"),
        ("Accept-Encoding", "gzip, br"),
        ("Proxy-Authorization", f"Fetchd-Daemon {SECRET}"),
        ("Fetchd-Agent", "local"),
        ("Fetchd-Profile", "default"),
        ("Fetchd-Id", "id-1"),
        ("Fetchd-Hop", "3"),
    )
    assert request.body == b""


async def test_cookies_of_one_answer_are_not_sent_with_the_next_hop() -> None:
    url = "https://a.example/"
    script = ScriptedAnswer(200, [TEXT, (b"Set-Cookie", b"a=b")], [b"x"])
    with ScriptedGateway({url: script}) as gateway:
        async with ProxiedTransport("127.0.0.1", gateway.origin.port, SECRET) as transport:
            await read(transport, hop(url))
            await read(transport, hop(url))

        assert [request.values("cookie") for request in gateway.origin.requests] == [[], []]


async def test_a_connection_is_kept_for_the_next_hop() -> None:
    url = "https://a.example/"
    with ScriptedGateway({url: ScriptedAnswer(200, [TEXT], [b"x"])}) as gateway:
        async with ProxiedTransport("127.0.0.1", gateway.origin.port, SECRET) as transport:
            for _ in range(3):
                assert await read(transport, hop(url)) == b"x"

        assert gateway.origin.accepts == 1


async def test_proxy_variables_have_no_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    url = "https://a.example/"
    with ScriptedGateway({url: ScriptedAnswer(200, [TEXT], [b"x"])}) as gateway, Origin() as elsewhere:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{elsewhere.port}")
        async with ProxiedTransport("127.0.0.1", gateway.origin.port, SECRET) as transport:
            assert await read(transport, hop(url)) == b"x"

        assert elsewhere.accepts == 0


@pytest.mark.parametrize("hangs", ["head", "body"])
async def test_cancellation_closes_the_connection_at_once(hangs: str) -> None:
    url = "https://a.example/"
    with ScriptedGateway({url: ScriptedAnswer(200, [TEXT], [b"x"], hangs=hangs)}) as gateway:
        async with ProxiedTransport("127.0.0.1", gateway.origin.port, SECRET) as transport:
            task = asyncio.create_task(read(transport, hop(url)))
            await gateway.origin.wait_requests(1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

            ending = await gateway.origin.connections[0].wait_closed()
            assert ending in (Ending.PEER_FIN, Ending.PEER_RESET)


@pytest.mark.parametrize("most", [1, 3])
async def test_cancelled_at_any_step_twice_over_no_connection_is_lost(most: int) -> None:
    url = "https://a.example/"

    async def fetch_and_leave(transport: ProxiedTransport, turns: int) -> None:
        task = asyncio.create_task(read(transport, hop(url)))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    with ScriptedGateway({url: ScriptedAnswer(200, [TEXT], [b"x" * 70_000])}) as gateway:
        async with ProxiedTransport(
            "127.0.0.1", gateway.origin.port, SECRET, max_connections=most
        ) as transport:
            for turns in range(80):
                await asyncio.gather(*(fetch_and_leave(transport, turns + one) for one in range(3)))
                assert transport._connections.count <= most
                assert transport._connections.count == transport._connections.usable

            async with asyncio.timeout(PATIENCE):
                assert len(await read(transport, hop(url))) == 70_000


async def test_an_answer_left_unread_closes_the_connection() -> None:
    url = "https://a.example/"
    with ScriptedGateway({url: ScriptedAnswer(200, [TEXT], [b"x"] * 100, hangs="body")}) as gateway:
        async with ProxiedTransport("127.0.0.1", gateway.origin.port, SECRET) as transport:
            async with transport.send(hop(url)):
                pass

            await gateway.origin.connections[0].wait_closed()


async def test_nobody_listens() -> None:
    async with ProxiedTransport("127.0.0.1", free_port(), SECRET) as transport:
        with pytest.raises(NoAnswerError):
            await read(transport, hop())


@pytest.mark.parametrize(
    ("wire", "error"),
    [
        pytest.param(b"SSH-2.0-OpenSSH_9.6\r\n", NoAnswerError, id="another protocol"),
        pytest.param(b"", NoAnswerError, id="closed without a word"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nX: " + b"a" * 200_000 + b"\r\n\r\n", NoAnswerError, id="a head of 200 KB"
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nX: " + b"a" * 66_000 + b"\r\n\r\n", NoAnswerError, id="a head just too long"
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", NoAnswerError, id="a length that is none"
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
            NoAnswerError,
            id="two lengths",
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", BrokenAnswerError, id="a body too short"
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            BrokenAnswerError,
            id="a chunk that is none",
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
            BrokenAnswerError,
            id="no last chunk",
        ),
    ],
)
async def test_broken_answers_by_phase(wire: bytes, error: type[TransportError]) -> None:
    with Origin() as gateway:
        gateway.route("*", replies.wire(wire))
        async with ProxiedTransport("127.0.0.1", gateway.port, SECRET) as transport:
            with pytest.raises(error) as caught:
                await read(transport, hop())

    assert type(caught.value) is error
    assert SECRET not in str(caught.value)


def test_every_error_of_the_client_is_translated() -> None:
    """One that a newer version adds must be put into the table."""
    foreign = [
        kind for _, kind in inspect.getmembers(httpcore, inspect.isclass) if issubclass(kind, Exception)
    ]

    assert foreign
    assert [kind for kind in foreign if not issubclass(kind, tuple(FOREIGN_ERRORS))] == []


def test_the_secret_is_in_no_repr() -> None:
    assert SECRET not in repr(ProxiedTransport("::1", 3128, SECRET))
    assert "http://[::1]:3128" in repr(ProxiedTransport("::1", 3128, SECRET))


def test_idle_connections_go_before_the_gateway_closes_them() -> None:
    assert KEEP_ALIVE_SECONDS < IDLE_SECONDS
