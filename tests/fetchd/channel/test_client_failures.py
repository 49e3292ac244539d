"""What goes wrong on the channel: no answer, a broken one, cancellation; errors say our own words and no more."""

from __future__ import annotations

import asyncio
import inspect
import logging
import socket
import traceback

import httpcore
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fetchd.channel import ChannelRequest, Secret
from fetchd.channel.client import FOREIGN_ERRORS, HttpChannel, make_roots
from fetchd.errors import ChannelError
from tests.fetchd.channel.opened import KEY, ask, open_channel, read
from tests.kit import replies
from tests.kit.bodies import Coding, encode_body
from tests.kit.exchange import Exchange
from tests.kit.origin import Origin
from tests.kit.pki import Pki
from tests.kit.ports import free_port
from tests.kit.sync import PATIENCE, Gate

ROOTS = make_roots()


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        (lambda pki: pki.wrong_name_context(), "certificate was not accepted: Hostname mismatch"),
        (lambda pki: pki.self_signed_context("localhost"), "certificate was not accepted: self-signed"),
        (lambda pki: pki.unknown_ca_context("localhost"), "certificate was not accepted"),
        (
            lambda pki: pki.expired_context("localhost"),
            "certificate was not accepted: certificate has expired",
        ),
    ],
)
async def test_a_certificate_that_is_not_the_hosts(pki: Pki, context: object, expected: str) -> None:
    with Origin(tls=context(pki)) as origin:  # type: ignore[operator]
        async with open_channel(pki, origin.port) as channel:
            with pytest.raises(ChannelError, match=expected):
                await read(channel, ask(origin.port, secret_field=("X-Key", ""), secret=Secret(KEY)))
    assert origin.requests == []


async def test_plain_http_where_tls_is_due(pki: Pki) -> None:
    heard = bytearray()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.extend(await reader.read(65536))
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with open_channel(pki, port) as channel:
            with pytest.raises(ChannelError, match="TLS failed"):
                await read(channel, ask(port, secret_field=("X-Key", ""), secret=Secret(KEY)))
    assert KEY.encode() not in heard


async def test_nobody_listens(pki: Pki) -> None:
    port = free_port()
    async with open_channel(pki, port) as channel:
        with pytest.raises(ChannelError, match="the connection failed"):
            await read(channel, ask(port))


async def test_a_name_that_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    async with HttpChannel("https://nobody.invalid", ROOTS) as channel:
        with pytest.raises(ChannelError, match="the connection failed: Name or service not known") as caught:
            await read(channel, ChannelRequest("GET", "https://nobody.invalid/"))

    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    "wire",
    [
        pytest.param(b"SSH-2.0-OpenSSH_9.6\r\n", id="another protocol"),
        pytest.param(b"", id="closed without a word"),
        pytest.param(b"HTTP/1.1 200 OK\r\nX: " + b"a" * 200_000 + b"\r\n\r\n", id="a head of 200 KB"),
        pytest.param(b"HTTP/1.1 200 OK\r\nX: " + b"a" * 66_000 + b"\r\n\r\n", id="a head just too long"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", id="a length that is none"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", id="a body too short"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", id="a chunk that is none"
        ),
        pytest.param(b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", id="a switch"),
        pytest.param(f"HTTP/1.1 200 OK\r\n{KEY}\x00: {KEY}\r\n\r\n".encode(), id="a field that is none"),
        pytest.param(f"HTTP/9.9 {KEY}\r\n\r\n".encode(), id="our key where the status should be"),
    ],
)
async def test_broken_answers_say_nothing_of_the_other_side(pki: Pki, origin: Origin, wire: bytes) -> None:
    origin.route("*", replies.wire(wire))
    async with open_channel(pki, origin.port) as channel:
        with pytest.raises(ChannelError) as caught:
            await read(channel, ask(origin.port, secret_field=("X-Key", ""), secret=Secret(KEY)))

    assert KEY not in "".join(traceback.format_exception(caught.value))
    assert caught.value.__cause__ is None and caught.value.__context__ is None


async def test_a_reset_is_an_error(pki: Pki, origin: Origin) -> None:
    origin.route("*", replies.close_mid_body(b"part", reset=True))
    async with open_channel(pki, origin.port) as channel:
        with pytest.raises(ChannelError) as caught:
            await read(channel, ask(origin.port))
    assert caught.value.__context__ is None


async def test_an_early_answer_is_read_although_the_body_did_not_go_out(pki: Pki, origin: Origin) -> None:
    async def refuse(exchange: Exchange) -> None:
        await exchange.respond(413, [("connection", "close")], b"too large")
        await exchange.close()

    origin.route("*", refuse)
    async with open_channel(pki, origin.port) as channel:
        url = f"https://localhost:{origin.port}/"
        async with channel.send(ChannelRequest("POST", url, body=b"x" * 100_000)) as answer:
            assert answer.status == 413


@pytest.mark.parametrize("phase", ["head", "body"])
async def test_cancellation_closes_the_connection_at_once(pki: Pki, origin: Origin, phase: str) -> None:
    gate = Gate()
    origin.route("*", replies.silent(gate) if phase == "head" else replies.headers_only(gate))
    async with open_channel(pki, origin.port) as channel:
        task = asyncio.create_task(read(channel, ask(origin.port)))
        await origin.wait_requests(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await origin.connections[0].wait_closed()
    gate.open()


async def test_so_many_connections_and_the_next_waits(pki: Pki, origin: Origin) -> None:
    gate = Gate()
    origin.route("*", replies.silent(gate, replies.text("x")))
    endpoint = f"https://localhost:{origin.port}"
    async with HttpChannel(endpoint, make_roots([str(pki.ca_path)]), max_connections=2) as channel:
        tasks = [asyncio.create_task(read(channel, ask(origin.port))) for _ in range(5)]
        await origin.wait_requests(2)
        assert origin.accepts == 2
        tasks.pop().cancel()
        gate.open()
        assert await asyncio.gather(*tasks) == [b"x"] * 4

    assert origin.accepts == 2


async def test_one_that_is_cancelled_just_when_its_turn_comes_takes_no_place_with_it(
    pki: Pki, origin: Origin
) -> None:
    endpoint = f"https://localhost:{origin.port}"
    async with HttpChannel(endpoint, make_roots([str(pki.ca_path)]), max_connections=1) as channel:
        for _ in range(3):
            async with channel.send(ask(origin.port)) as first:
                waiting = asyncio.create_task(read(channel, ask(origin.port)))
                await asyncio.sleep(0)
                assert first.status == 200  # and left unread: its connection is closed, another one is due
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting

        async with asyncio.timeout(PATIENCE):
            assert await read(channel, ask(origin.port)) == b"hello /\n"


@pytest.mark.parametrize("most", [1, 3])
async def test_cancelled_at_any_step_twice_over_no_connection_is_lost(
    pki: Pki, origin: Origin, most: int
) -> None:
    """After so many turns of the loop, for every number of them that a request takes; and once more a turn later."""
    origin.route("*", replies.answer(200, b"x" * 70_000))
    endpoint = f"https://localhost:{origin.port}"

    async def ask_and_leave(channel: HttpChannel, turns: int) -> None:
        task = asyncio.create_task(read(channel, ask(origin.port)))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async with HttpChannel(endpoint, make_roots([str(pki.ca_path)]), max_connections=most) as channel:
        for turns in range(120):
            await asyncio.gather(*(ask_and_leave(channel, turns + one) for one in range(3)))
            assert channel._connections.count <= most
            assert channel._connections.count == channel._connections.usable

        async with asyncio.timeout(PATIENCE):
            assert len(await read(channel, ask(origin.port))) == 70_000


async def test_closing_the_channel_ends_a_request_under_way(pki: Pki, origin: Origin) -> None:
    gate = Gate()
    origin.route("*", replies.silent(gate))
    async with open_channel(pki, origin.port) as channel:
        task = asyncio.create_task(read(channel, ask(origin.port)))
        await origin.wait_requests(1)
        await channel.aclose()
        with pytest.raises(ChannelError):
            await task
    gate.open()


def test_every_error_of_the_client_is_translated() -> None:
    """One that a newer version adds must be put into the table."""
    foreign = [
        kind for _, kind in inspect.getmembers(httpcore, inspect.isclass) if issubclass(kind, Exception)
    ]

    assert foreign
    assert [kind for kind in foreign if not issubclass(kind, tuple(FOREIGN_ERRORS))] == []


async def test_the_credential_is_in_no_log_and_no_repr(
    pki: Pki, origin: Origin, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    request = ask(origin.port, secret_field=("X-Key", ""), secret=Secret(KEY))
    async with open_channel(pki, origin.port) as channel:
        await read(channel, request)
        assert KEY not in repr(channel) + repr(request) + str(request)

    assert origin.requests[0].values("x-key") == [KEY]
    assert KEY not in caplog.text


# -- anything

ANSWERS = (
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + encode_body(b"hello", Coding.GZIP),
    b"HTTP/1.1 103 Early\r\nLink: <a>\r\n\r\nHTTP/1.1 429 Busy\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 302 Found\r\nLocation: https://other.example/\r\nContent-Length: 0\r\n\r\n",
)
PIECES = (
    b"\r\n",
    b"\x00",
    b"\xff",
    b": ",
    b"HTTP/1.1 200 OK\r\n",
    b"Content-Length: 99999999999999999999\r\n",
    b"Content-Length: -1\r\n",
    b"Transfer-Encoding: gzip, chunked\r\n",
    b"Content-Encoding: gzip, gzip\r\n",
    b"ffffffffffffffff\r\n",
    b"0\r\n\r\n",
)


@st.composite
def broken_answers(draw: st.DrawFn) -> bytes:
    answer = draw(st.sampled_from(ANSWERS))
    for _ in range(draw(st.integers(1, 3))):
        start, end = sorted((draw(st.integers(0, len(answer))), draw(st.integers(0, len(answer)))))
        answer = answer[:start] + draw(st.sampled_from(PIECES) | st.binary(max_size=4)) + answer[end:]
    return answer


def test_any_bytes_are_an_answer_or_our_own_error() -> None:
    """And the client raises nothing else."""

    async def run(wire: bytes) -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(wire)
            writer.close()

        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            async with HttpChannel(url, ROOTS) as channel:
                (outcome,) = await asyncio.gather(
                    read(channel, ChannelRequest("GET", f"{url}/")), return_exceptions=True
                )
        if isinstance(outcome, BaseException):
            assert type(outcome) is ChannelError
            assert outcome.__cause__ is None and outcome.__context__ is None

    @settings(max_examples=60)
    @given(broken_answers())
    def check(wire: bytes) -> None:
        asyncio.run(run(wire))

    check()
