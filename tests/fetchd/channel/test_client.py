"""The real channel: what goes out, what is refused, and that no error says more than our own words."""

from __future__ import annotations

import asyncio
import inspect
import logging
import traceback
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpcore
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fetchd.channel import ChannelRequest, Secret
from fetchd.channel.client import FOREIGN_ERRORS, HttpChannel, make_roots
from fetchd.errors import ChannelError
from tests.kit import replies
from tests.kit.bodies import Coding, encode_body
from tests.kit.exchange import Exchange
from tests.kit.listener import CountingListener
from tests.kit.origin import Origin
from tests.kit.pki import Pki
from tests.kit.ports import free_port
from tests.kit.sync import Gate

KEY = "canary-0123456789"
ROOTS = make_roots()


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    return Pki(tmp_path)


@pytest.fixture
def origin(pki: Pki) -> Iterator[Origin]:
    with Origin(tls=pki.server_context("localhost", "127.0.0.1")) as origin:
        yield origin


@asynccontextmanager
async def open_channel(pki: Pki, port: int, host: str = "localhost") -> AsyncIterator[HttpChannel]:
    async with HttpChannel(f"https://{host}:{port}", make_roots([str(pki.ca_path)])) as channel:
        yield channel


def ask(origin_port: int, path: str = "/", host: str = "localhost", **more: object) -> ChannelRequest:
    return ChannelRequest("GET", f"https://{host}:{origin_port}{path}", **more)  # type: ignore[arg-type]


async def read(channel: HttpChannel, request: ChannelRequest) -> bytes:
    async with channel.send(request) as answer:
        return b"".join([chunk async for chunk in answer.chunks])


async def test_the_request_is_exactly_this(pki: Pki, origin: Origin) -> None:
    async with open_channel(pki, origin.port) as channel:
        request = ChannelRequest(
            "POST",
            f"https://localhost:{origin.port}/v1/search?q=%C3%A9#f",
            (("Content-Type", "application/json"),),
            b"{}",
            ("Authorization", "Bearer "),
            Secret(KEY),
        )
        await read(channel, request)

    (seen,) = origin.requests
    assert (seen.method, seen.target, seen.version) == ("POST", "/v1/search?q=%C3%A9", "HTTP/1.1")
    assert seen.headers == (
        ("Host", f"localhost:{origin.port}"),
        ("User-Agent", "fetchd"),
        ("Accept-Encoding", "identity"),
        ("Content-Type", "application/json"),
        ("Authorization", f"Bearer {KEY}"),
        ("Content-Length", "2"),
    )
    assert seen.body == b"{}"


async def test_an_address_is_verified_as_an_address(pki: Pki, origin: Origin) -> None:
    async with open_channel(pki, origin.port, "127.0.0.1") as channel:
        assert await read(channel, ask(origin.port, host="127.0.0.1")) == b"hello /\n"


async def test_a_connection_is_kept_for_the_next_request(pki: Pki, origin: Origin) -> None:
    async with open_channel(pki, origin.port) as channel:
        for _ in range(3):
            await read(channel, ask(origin.port))

    assert origin.accepts == 1


async def test_a_connection_that_the_server_closed_is_not_used_again(pki: Pki, origin: Origin) -> None:
    async def once(exchange: Exchange) -> None:
        await exchange.respond(200, [("content-type", "text/plain")], b"x")
        await exchange.close()

    origin.route("/", once)
    async with open_channel(pki, origin.port) as channel:
        for number in range(1, 4):
            assert await read(channel, ask(origin.port)) == b"x"
            await origin.connections[number - 1].wait_closed()
            await asyncio.sleep(0.01)  # the end has been sent; it takes the loop a turn to read it

    assert origin.accepts == 3


async def test_bytes_that_nobody_asked_for_end_a_connection(pki: Pki, origin: Origin) -> None:
    gate = Gate()

    async def more(exchange: Exchange) -> None:
        await exchange.respond(200, [], b"x")
        await gate.wait()
        await exchange.raw(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nfake")
        gate_sent.open()

    gate_sent = Gate()
    origin.route("/first", more)
    async with open_channel(pki, origin.port) as channel:
        assert await read(channel, ask(origin.port, "/first")) == b"x"
        gate.open()
        await gate_sent.wait()
        await asyncio.sleep(0.01)
        assert await read(channel, ask(origin.port, "/second")) == b"hello /second\n"


async def test_an_answer_that_was_not_asked_for_is_nobodys(pki: Pki, origin: Origin) -> None:
    async def two(exchange: Exchange) -> None:
        first = b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx"
        await exchange.raw(first + b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nfake")

    origin.route("/first", two)
    async with open_channel(pki, origin.port) as channel:
        assert await read(channel, ask(origin.port, "/first")) == b"x"
        assert await read(channel, ask(origin.port, "/second")) == b"hello /second\n"

    assert origin.accepts == 2


async def test_chunks_come_as_they_are_sent(pki: Pki, origin: Origin) -> None:
    gates = [Gate(), Gate()]
    fields = [("content-type", "text/event-stream")]
    origin.route("/", replies.trickle([b"data: 1\n\n", b"data: 2\n\n"], gates, fields))
    async with open_channel(pki, origin.port) as channel, channel.send(ask(origin.port)) as answer:
        for gate, expected in zip(gates, (b"data: 1\n\n", b"data: 2\n\n"), strict=True):
            gate.open()
            assert await anext(answer.chunks) == expected
        assert [chunk async for chunk in answer.chunks] == []


async def test_gzip_is_undone_as_it_comes(pki: Pki, origin: Origin) -> None:
    packer = zlib.compressobj(wbits=31)
    parts = [packer.compress(text) + packer.flush(zlib.Z_SYNC_FLUSH) for text in (b"data: 1", b"data: 2")]
    parts.append(packer.flush())
    gates = [Gate(), Gate(), Gate()]
    origin.route("/", replies.trickle(parts, gates, [("content-encoding", "gzip")]))
    async with open_channel(pki, origin.port) as channel, channel.send(ask(origin.port)) as answer:
        for gate, expected in zip(gates, (b"data: 1", b"data: 2"), strict=False):
            gate.open()
            assert await anext(answer.chunks) == expected
        gates[2].open()
        assert [chunk async for chunk in answer.chunks] == []


async def test_a_bomb_comes_in_small_pieces(pki: Pki, origin: Origin) -> None:
    origin.route("/", replies.encoded(b"\0" * (20 << 20), Coding.GZIP))
    async with open_channel(pki, origin.port) as channel, channel.send(ask(origin.port)) as answer:
        assert len(await anext(answer.chunks)) <= 65536
    await origin.wait_closed()


@pytest.mark.parametrize("coding", ["br", "zstd", "made-up", "gzip, gzip, gzip"])
async def test_a_coding_that_costs_memory_is_refused(pki: Pki, origin: Origin, coding: str) -> None:
    origin.route("/", replies.answer(200, b"x", headers=[("content-encoding", coding)]))
    async with open_channel(pki, origin.port) as channel:
        with pytest.raises(ChannelError, match="content coding"):
            await read(channel, ask(origin.port))


async def test_a_body_that_does_not_decode_is_an_error(pki: Pki, origin: Origin) -> None:
    whole = encode_body(b"x" * 5000, Coding.GZIP)
    origin.route("/", replies.answer(200, whole[:-9], headers=[("content-encoding", "gzip")]))
    async with open_channel(pki, origin.port) as channel:
        with pytest.raises(ChannelError, match="could not be decoded"):
            await read(channel, ask(origin.port))


# -- where it connects


@pytest.mark.parametrize(
    "url",
    [
        "https://localhost/",
        "https://127.0.0.1:{port}/",
        "http://localhost:{port}/",
        "https://localhost.:{port}/",
        "https://user@localhost:{port}/",
        "https://localhost:{port}@other.example/",
        "https://other.example\\@localhost:{port}/",
        "https://other.example#@localhost:{port}/",
        "https://localhost%2eother.example:{port}/",
        "//localhost:{port}/",
        "file:///etc/passwd",
        "",
    ],
)
async def test_no_other_host_is_connected_to(tmp_path: Path, url: str) -> None:
    with CountingListener() as listener:
        async with HttpChannel(f"https://localhost:{listener.port}", make_roots()) as channel:
            with pytest.raises(ChannelError, match=r"another host|not absolute"):
                await read(channel, ChannelRequest("GET", url.format(port=listener.port)))

        assert listener.accepts == 0


async def test_another_spelling_of_the_host_is_the_host(pki: Pki, origin: Origin) -> None:
    async with open_channel(pki, origin.port) as channel:
        request = ChannelRequest("GET", f"HTTPS:\\\\LocalHost:{origin.port}/a/../b")
        assert await read(channel, request) == b"hello /b\n"


async def test_a_redirect_is_not_followed_and_its_connection_closed(pki: Pki, origin: Origin) -> None:
    with CountingListener() as elsewhere:
        origin.route("/", replies.redirect(f"https://127.0.0.1:{elsewhere.port}/?key={KEY}"))
        async with open_channel(pki, origin.port) as channel:
            with pytest.raises(ChannelError, match="redirected \\(302\\)") as caught:
                await read(channel, ask(origin.port))
            await origin.wait_closed()

        assert elsewhere.accepts == 0
    assert KEY not in str(caught.value)


async def test_the_environment_has_no_effect(
    pki: Pki, origin: Origin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys, home = tmp_path / "keys.log", tmp_path / "home"
    home.mkdir()
    (home / ".netrc").write_text(f"machine localhost login user password {KEY}\n")
    (home / ".netrc").chmod(0o600)
    with CountingListener() as proxy:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        monkeypatch.setenv("HOME", str(home))
        monkeypatch.setenv("NETRC", str(home / ".netrc"))
        monkeypatch.setenv("SSLKEYLOGFILE", str(keys))
        async with open_channel(pki, origin.port) as channel:
            assert await read(channel, ask(origin.port)) == b"hello /\n"

        assert proxy.accepts == 0
    assert not keys.exists()
    assert origin.requests[0].values("authorization") == []


async def test_the_environment_adds_no_authority(
    pki: Pki, origin: Origin, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.setenv(name, str(pki.ca_path))
    async with HttpChannel(f"https://localhost:{origin.port}", make_roots()) as channel:
        with pytest.raises(ChannelError, match="certificate was not accepted"):
            await read(channel, ask(origin.port))
    assert origin.requests == []


def test_a_root_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("")
    for path in (tmp_path / "missing.pem", tmp_path / "empty.pem"):
        with pytest.raises(ChannelError, match=path.name):
            make_roots([str(path)])


# -- what goes wrong


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


async def test_a_name_that_is_not_found() -> None:
    async with HttpChannel("https://nobody.invalid", make_roots()) as channel:
        with pytest.raises(ChannelError, match="the connection failed"):
            await read(channel, ChannelRequest("GET", "https://nobody.invalid/"))


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
