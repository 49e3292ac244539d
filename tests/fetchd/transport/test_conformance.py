"""What every transport does; the fake and the real one pass the same run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from fetchd.errors import BrokenAnswerError, NoAnswerError
from fetchd.transport import HopRequest, Transport
from fetchd.transport.fake import FakeTransport, ScriptedAnswer
from fetchd.transport.proxied import ProxiedTransport
from proxy_addons.policy.targets import parse_target
from proxy_addons.policy.verdicts import Rule, refuse
from proxy_addons.policy.wire import DaemonRequest, parse_gateway_fields, parse_problem
from tests.fetchd.scripted_gateway import SECRET, ScriptedGateway

URL = "https://a.example/p?q=1"
TEXT = (b"Content-Type", b"text/plain")

Opener = Callable[[ScriptedAnswer], AbstractAsyncContextManager[Transport]]


@asynccontextmanager
async def open_fake(answer: ScriptedAnswer) -> AsyncIterator[Transport]:
    fake = FakeTransport({URL: answer})
    yield fake
    assert fake.open_answers == 0


@asynccontextmanager
async def open_real(answer: ScriptedAnswer) -> AsyncIterator[Transport]:
    with ScriptedGateway({URL: answer}) as gateway:
        async with ProxiedTransport("127.0.0.1", gateway.origin.port, SECRET) as transport:
            yield transport


@pytest.fixture(params=[open_fake, open_real], ids=["fake", "real"])
def opener(request: pytest.FixtureRequest) -> Opener:
    found: Opener = request.param
    return found


def hop() -> HopRequest:
    return HopRequest(parse_target(URL), DaemonRequest("local", "default", "id-1", 0))


async def test_an_answer_is_its_head_and_its_body(opener: Opener) -> None:
    async with (
        opener(ScriptedAnswer(203, [TEXT], [b"one", b"two"])) as transport,
        transport.send(hop()) as answer,
    ):
        body = b"".join([chunk async for chunk in answer.chunks])

    assert answer.status == 203
    assert TEXT in answer.fields
    assert body == b"onetwo"
    verdict = parse_gateway_fields(answer.fields)
    assert verdict is not None and verdict.fetch_id == "id-1"


async def test_a_refusal_is_an_answer(opener: Opener) -> None:
    script = ScriptedAnswer(refusal=refuse(Rule.DNS_FAILED, "dns resolution failed for a.example"))
    async with opener(script) as transport, transport.send(hop()) as answer:
        body = b"".join([chunk async for chunk in answer.chunks])

    verdict, document = parse_gateway_fields(answer.fields), parse_problem(body)
    assert verdict is not None and verdict.rule is Rule.DNS_FAILED
    assert document is not None and document["detail"] == "dns resolution failed for a.example"


async def test_no_head_is_NoAnswer(opener: Opener) -> None:
    async with opener(ScriptedAnswer(unreachable=True)) as transport:
        with pytest.raises(NoAnswerError):
            async with transport.send(hop()):
                pytest.fail("there is no answer")


async def test_a_body_that_breaks_off_is_BrokenAnswer_after_what_came(opener: Opener) -> None:
    got = bytearray()

    async def read(transport: Transport) -> None:
        async with transport.send(hop()) as answer:
            async for chunk in answer.chunks:
                got.extend(chunk)

    async with opener(ScriptedAnswer(200, [TEXT], [b"part"], broken=True)) as transport:
        with pytest.raises(BrokenAnswerError):
            await read(transport)

    assert got == b"part"


async def test_leaving_early_is_allowed_and_the_next_hop_works(opener: Opener) -> None:
    async with opener(ScriptedAnswer(200, [TEXT], [b"a", b"b"])) as transport:
        async with transport.send(hop()):
            pass
        async with transport.send(hop()) as answer:
            assert b"".join([chunk async for chunk in answer.chunks]) == b"ab"


@pytest.mark.parametrize("phase", ["head", "body"])
async def test_cancellation_ends_it(opener: Opener, phase: str) -> None:
    async with opener(ScriptedAnswer(200, [TEXT], [b"part"], hangs=phase)) as transport:
        reached = asyncio.Event()

        async def fetch() -> None:
            if phase == "head":
                reached.set()
            async with transport.send(hop()) as answer:
                async for _ in answer.chunks:
                    reached.set()

        task = asyncio.create_task(fetch())
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
