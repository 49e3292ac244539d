"""The real channel: what goes out, what comes back as it comes, and where it connects."""

from __future__ import annotations

import asyncio
import zlib
from pathlib import Path

import pytest

from fetchd.channel import ChannelRequest, Secret
from fetchd.channel.client import HttpChannel, make_roots
from fetchd.errors import ChannelError
from tests.fetchd.channel.opened import KEY, ask, open_channel, read, until_unfit
from tests.kit import replies
from tests.kit.bodies import Coding, encode_body
from tests.kit.exchange import Exchange
from tests.kit.listener import CountingListener
from tests.kit.origin import Origin
from tests.kit.pki import Pki
from tests.kit.sync import Gate


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
            await until_unfit(channel)

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
        await until_unfit(channel)
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


async def test_chunks_of_a_byte_each_leave_others_their_turn(pki: Pki, origin: Origin) -> None:
    async def tiny(exchange: Exchange) -> None:
        await replies.start_chunked(exchange, [])
        await exchange.raw(b"1\r\nx\r\n" * 10_000)
        await replies.end_chunked(exchange)

    origin.route("/", tiny)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async with open_channel(pki, origin.port) as channel, channel.send(ask(origin.port)) as answer:
        await anext(answer.chunks)
        task = asyncio.create_task(others())
        assert sum([len(chunk) async for chunk in answer.chunks]) == 9_999
        task.cancel()

    assert turns > 100


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
