"""What every channel does; the fake and the real one pass the same run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from fetchd.channel import Channel, ChannelRequest, Secret
from fetchd.channel.client import HttpChannel, make_roots
from fetchd.channel.fake import FakeChannel, ScriptedReply
from fetchd.errors import ChannelError
from tests.kit.exchange import Exchange
from tests.kit.origin import Origin
from tests.kit.pki import Pki
from tests.kit.replies import end_chunked, send_chunk, start_chunked
from tests.kit.sync import Gate

PATH = "/v1/search?q=1"
KEY = "canary-0123456789"

Opener = Callable[[ScriptedReply], AbstractAsyncContextManager[tuple[Channel, str]]]


@asynccontextmanager
async def open_fake(reply: ScriptedReply) -> AsyncIterator[tuple[Channel, str]]:
    url = f"https://search.example{PATH}"
    fake = FakeChannel({url: reply})
    yield fake, url
    assert fake.open_answers == 0


@pytest.fixture(params=["fake", "real"])
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    if request.param == "fake":
        return open_fake

    @asynccontextmanager
    async def open_real(reply: ScriptedReply) -> AsyncIterator[tuple[Channel, str]]:
        pki, gate = Pki(tmp_path), Gate()

        async def answer(exchange: Exchange) -> None:
            if reply.hangs == "head":
                await gate.wait()
            if reply.unreachable:
                await exchange.close()
                return
            await start_chunked(exchange, reply.fields, reply.status)
            for chunk in reply.chunks:
                await send_chunk(exchange, chunk)
            if reply.hangs == "body":
                await gate.wait()
            await (exchange.close() if reply.broken else end_chunked(exchange))

        with Origin(tls=pki.server_context("localhost")) as origin:
            origin.route("*", answer)
            endpoint = f"https://localhost:{origin.port}"
            async with HttpChannel(endpoint, make_roots([str(pki.ca_path)])) as channel:
                yield channel, endpoint + PATH
            gate.open()

    return open_real


async def test_an_answer_is_its_head_and_its_body(opener: Opener) -> None:
    async with (
        opener(ScriptedReply(203, [("Retry-After", "1")], [b"one", b"two"])) as (channel, url),
        channel.send(ChannelRequest("POST", url, body=b"{}")) as answer,
    ):
        body = b"".join([chunk async for chunk in answer.chunks])

    assert answer.status == 203
    assert ("retry-after", "1") in answer.fields
    assert body == b"onetwo"


async def test_another_host_is_an_error(opener: Opener) -> None:
    async with opener(ScriptedReply()) as (channel, _):
        with pytest.raises(ChannelError):
            async with channel.send(ChannelRequest("GET", "https://other.example/")):
                pytest.fail("there is no answer")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_an_error(opener: Opener, status: int) -> None:
    reply = ScriptedReply(status, [("Location", "https://other.example/")])
    async with opener(reply) as (channel, url):
        with pytest.raises(ChannelError):
            async with channel.send(ChannelRequest("GET", url)):
                pytest.fail("there is no answer")


@pytest.mark.parametrize("status", [300, 304, 400, 429, 500, 599])
async def test_any_other_status_is_an_answer(opener: Opener, status: int) -> None:
    async with (
        opener(ScriptedReply(status)) as (channel, url),
        channel.send(ChannelRequest("GET", url)) as answer,
    ):
        assert answer.status == status


async def test_no_head_is_an_error(opener: Opener) -> None:
    async with opener(ScriptedReply(unreachable=True)) as (channel, url):
        with pytest.raises(ChannelError):
            async with channel.send(ChannelRequest("GET", url)):
                pytest.fail("there is no answer")


async def test_a_body_that_breaks_off_is_an_error_after_what_came(opener: Opener) -> None:
    got = bytearray()

    async def read(channel: Channel, url: str) -> None:
        async with channel.send(ChannelRequest("GET", url)) as answer:
            async for chunk in answer.chunks:
                got.extend(chunk)

    async with opener(ScriptedReply(200, [], [b"part"], broken=True)) as (channel, url):
        with pytest.raises(ChannelError):
            await read(channel, url)

    assert got == b"part"


async def test_leaving_early_is_allowed_and_the_next_request_works(opener: Opener) -> None:
    async with opener(ScriptedReply(200, [], [b"a", b"b"])) as (channel, url):
        async with channel.send(ChannelRequest("GET", url)):
            pass
        async with channel.send(ChannelRequest("GET", url)) as answer:
            assert b"".join([chunk async for chunk in answer.chunks]) == b"ab"


@pytest.mark.parametrize("phase", ["head", "body"])
async def test_cancellation_ends_it(opener: Opener, phase: str) -> None:
    async with opener(ScriptedReply(200, [], [b"part"], hangs=phase)) as (channel, url):
        reached = asyncio.Event()

        async def ask() -> None:
            if phase == "head":
                reached.set()
            async with channel.send(ChannelRequest("GET", url)) as answer:
                async for _ in answer.chunks:
                    reached.set()

        task = asyncio.create_task(ask())
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


@pytest.mark.parametrize(
    ("request_of", "why"),
    [
        (lambda url: ChannelRequest("GET", url, (("Authorization", f"Bearer {KEY}"),)), "a credential"),
        (lambda url: ChannelRequest("GET", url, (("Cookie", KEY),)), "a cookie"),
        (lambda url: ChannelRequest("GET", url, (("Host", "other.example"),)), "another host"),
        (lambda url: ChannelRequest("GET", url, (("Transfer-Encoding", "chunked"),)), "framing"),
        (lambda url: ChannelRequest("GET", url, (("Accept", "a"), ("accept", "b"))), "a field twice"),
        (lambda url: ChannelRequest("GET", url, (("Accept", "a\r\nX: b"),)), "a line break"),
        (lambda url: ChannelRequest("GET", url, (("Acc ept", "a"),)), "a name that is none"),
        (lambda url: ChannelRequest("GET", url, (("Accept", "é"),)), "a letter outside ASCII"),
        (lambda url: ChannelRequest("GET", url, (("Accept", ""),)), "an empty value"),
        (lambda url: ChannelRequest("G ET", url), "a method that is none"),
        (lambda url: ChannelRequest("GET / HTTP/1.1\r\nX:", url), "a method with more"),
        (
            lambda url: ChannelRequest(
                "GET", url, secret_field=("X-Key", ""), secret=Secret(f"{KEY}\r\nX: y")
            ),
            "a credential with a line break",
        ),
        (
            lambda url: ChannelRequest("GET", url, secret_field=("Host", ""), secret=Secret(KEY)),
            "the host as the credential's field",
        ),
        (lambda url: ChannelRequest("GET", url, secret=Secret(KEY)), "a credential without its field"),
        (
            lambda url: ChannelRequest("GET", url, secret_field=("X-Key", "")),
            "the field without a credential",
        ),
    ],
)
async def test_what_no_request_may_carry(
    opener: Opener, request_of: Callable[[str], ChannelRequest], why: str
) -> None:
    async with opener(ScriptedReply()) as (channel, url):
        with pytest.raises(ChannelError) as caught:
            async with channel.send(request_of(url)):
                pytest.fail(why)

    assert KEY not in str(caught.value)
    assert caught.value.__cause__ is None and caught.value.__context__ is None
