"""Coded bodies are inflated beside the event loop, few at a time, and nobody who gives up waits for a thread."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Iterator

import pytest

from fetchd.core.caller import Caller
from fetchd.decoding import BATCH_BYTES, FREE_BYTES, BodyDecoder, Decoders
from fetchd.extract.pool import ProcessExtractor
from fetchd.fetch import WebFetch
from fetchd.transport.fake import FakeTransport, ScriptedAnswer
from proxy_addons.audit import MemoryAuditLog
from proxy_addons.policy.codings import PIECE, BodyError, BrokenBodyError, Coding, OverCapError
from proxy_addons.policy.decoders import make_decoder
from proxy_addons.policy.limits import DEFAULT_PROFILE
from tests.kit.bodies import Coding as Packing
from tests.kit.bodies import bomb, encode_body

CAP = 8 << 20
BATCHES = CAP // (BATCH_BYTES + PIECE)
SECONDS = 60.0
"""For a broken test alone."""
PAGE, BOMB = "https://a.example/page", "https://b.example/bomb"
CALLER = Caller("local", DEFAULT_PROFILE)
TEXT = (b"Content-Type", b"text/plain")
BIG_BR = encode_body(random.Random(1).randbytes(3 * FREE_BYTES), Packing.BR)


def answers(coding: bytes, body: bytes) -> dict[str, ScriptedAnswer]:
    return {
        PAGE: ScriptedAnswer(200, [TEXT], [b"a page"]),
        BOMB: ScriptedAnswer(200, [TEXT, (b"Content-Encoding", coding)], [body]),
    }


class Held:
    """Holds up whichever thread inflates, until it is let go."""

    def __init__(self) -> None:
        self.entered, self._go = threading.Event(), threading.Event()

    def let_go(self) -> None:
        self._go.set()

    def wait(self) -> None:
        self.entered.set()
        assert self._go.wait(SECONDS), "held on the event loop, where nobody can let it go"

    async def until_entered(self) -> None:
        assert await asyncio.to_thread(self.entered.wait, SECONDS)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    one = Held()

    class Slow:
        def __init__(self, coding: Coding) -> None:
            self._inner = make_decoder(coding)

        def feed(self, data: bytes) -> Iterator[bytes]:
            one.wait()
            return self._inner.feed(data)

        def finish(self) -> None:
            self._inner.finish()

    monkeypatch.setattr("proxy_addons.policy.metering.make_decoder", Slow)
    yield one
    one.let_go()


# -- the loop goes on


@pytest.mark.parametrize("packing", Packing, ids=str)
async def test_the_loop_turns_while_a_bomb_is_read(packing: Packing) -> None:
    """One chunk, unpacked up to the cap: at least a turn of the loop for each batch, whoever else is there."""
    coding = Coding(packing.token)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    body = bomb(packing, 2 * CAP)
    with Decoders().open((coding,), CAP) as decoder:
        counting = asyncio.create_task(count())
        await asyncio.sleep(0)
        before = turns
        with pytest.raises(OverCapError):
            await decoder.feed(body)
        counting.cancel()

    assert len(decoder.data) == CAP
    assert turns - before >= BATCHES


async def test_another_call_ends_while_a_bomb_is_inflated(held: Held) -> None:
    """The thread stands still all the while, so a call that needed it, or the loop it stood on, could not end."""
    with ProcessExtractor(1) as extractor:
        transport = FakeTransport(answers(b"gzip", bomb(Packing.GZIP, 2 * CAP)))
        web_fetch = WebFetch(transport, extractor, MemoryAuditLog())
        inflating = asyncio.create_task(web_fetch.call({"url": BOMB}, CALLER))
        await held.until_entered()
        other = await web_fetch.call({"url": PAGE}, CALLER)
        assert not inflating.done()
        held.let_go()
        cut = await inflating

    assert other.failure is None and "a page" in other.text
    assert (cut.failure, cut.truncated) == (None, True)


async def test_a_call_that_is_dropped_does_not_wait_for_its_thread(held: Held) -> None:
    with ProcessExtractor(1) as extractor:
        transport = FakeTransport(answers(b"gzip", bomb(Packing.GZIP, 2 * CAP)))
        web_fetch = WebFetch(transport, extractor, MemoryAuditLog())
        inflating = asyncio.create_task(web_fetch.call({"url": BOMB}, CALLER))
        await held.until_entered()
        inflating.cancel()
        with pytest.raises(asyncio.CancelledError):
            await inflating
        assert transport.open_answers == 0
        held.let_go()


async def test_a_thread_stays_taken_until_it_has_left_its_batch(held: Held) -> None:
    decoders = Decoders(threads=1)
    body = encode_body(b"x", Packing.GZIP)

    async def read() -> bytes:
        with decoders.open((Coding.GZIP,), CAP) as decoder:
            await decoder.feed(body)
            decoder.finish()
            return bytes(decoder.data)

    first = asyncio.create_task(read())
    await held.until_entered()
    first.cancel()
    held.entered.clear()
    second = asyncio.create_task(read())
    for _ in range(100):
        await asyncio.sleep(0)
    assert first.cancelled() and not held.entered.is_set()
    held.let_go()

    assert await second == b"x"


async def test_a_body_without_a_coding_costs_no_thread() -> None:
    with Decoders(threads=1).open((), CAP) as decoder:
        feeding = decoder.feed(b"plain")
        with pytest.raises(StopIteration):
            feeding.send(None)  # ends without having waited once
        decoder.finish()
    assert decoder.data == b"plain"


# -- what comes out


@pytest.mark.parametrize("codings", [(p,) for p in Packing] + [(Packing.GZIP, Packing.BR)], ids="+".join)
@pytest.mark.parametrize("cut", [1, 1000, 1 << 20])
async def test_the_body_is_whole_however_it_is_cut(codings: tuple[Packing, ...], cut: int) -> None:
    body = random.Random(2).randbytes(3000) + bytes(2 * BATCH_BYTES)
    packed = encode_body(body, *codings)
    with Decoders().open(tuple(Coding(one.token) for one in codings), CAP) as decoder:
        for at in range(0, len(packed), cut):
            await decoder.feed(packed[at : at + cut])
        decoder.finish()

    assert decoder.data == body


@pytest.mark.parametrize(("size", "over"), [(CAP, False), (CAP + 1, True)])
@pytest.mark.parametrize("packing", Packing, ids=str)
async def test_both_sides_of_the_cap(packing: Packing, size: int, over: bool) -> None:
    error: BodyError | None = None
    with Decoders().open((Coding(packing.token),), CAP) as decoder:
        try:
            await decoder.feed(bomb(packing, size))
            decoder.finish()
        except BodyError as found:
            error = found

    assert isinstance(error, OverCapError) is over
    assert len(decoder.data) == CAP


async def test_what_does_not_decode_is_broken() -> None:
    with Decoders().open((Coding.GZIP,), CAP) as decoder, pytest.raises(BrokenBodyError):
        await decoder.feed(b"no gzip")


# -- large windows


async def read_large(decoder: BodyDecoder) -> None:
    await decoder.feed(BIG_BR)


async def turn_often() -> None:
    for _ in range(50):
        await asyncio.to_thread(int)


async def test_few_bodies_hold_large_windows_and_the_next_waits_for_one() -> None:
    decoders = Decoders(heavy_bodies=1)
    with decoders.open((Coding.BR,), CAP) as waiting:
        with decoders.open((Coding.BR,), CAP) as holder:
            await read_large(holder)
            held_up = asyncio.create_task(read_large(waiting))
            await turn_often()
            assert not held_up.done()
            assert FREE_BYTES <= len(waiting.data) < FREE_BYTES + PIECE, "as much as is free, and no more"
        async with asyncio.timeout(SECONDS):
            await held_up


@pytest.mark.parametrize(
    ("codings", "waits"),
    [
        pytest.param((Packing.BR,), False, id="a small br body needs no large window"),
        pytest.param((Packing.GZIP,), False, id="gzip never does"),
        pytest.param((Packing.GZIP, Packing.GZIP), False, id="twice neither"),
        pytest.param((Packing.GZIP, Packing.BR), True, id="br around another: what it unpacked is not seen"),
        pytest.param((Packing.BR, Packing.GZIP), True, id="and within one"),
    ],
)
async def test_who_waits_for_a_window(codings: tuple[Packing, ...], waits: bool) -> None:
    decoders = Decoders(heavy_bodies=1)
    with decoders.open((Coding.BR,), CAP) as holder:
        await read_large(holder)
        with decoders.open(tuple(Coding(one.token) for one in codings), CAP) as decoder:
            feeding = asyncio.create_task(decoder.feed(encode_body(b"small", *codings)))
            if waits:
                await turn_often()
                assert not feeding.done()
                feeding.cancel()
                await asyncio.wait([feeding])
            else:
                async with asyncio.timeout(SECONDS):
                    await feeding


async def test_who_gave_up_waiting_took_nothing() -> None:
    decoders = Decoders(heavy_bodies=1)
    with decoders.open((Coding.BR,), CAP) as holder:
        await read_large(holder)
        with decoders.open((Coding.BR,), CAP) as impatient:
            waiting = asyncio.create_task(read_large(impatient))
            await turn_often()
            waiting.cancel()
            await asyncio.wait([waiting])
    with decoders.open((Coding.BR,), CAP) as next_one:
        async with asyncio.timeout(SECONDS):
            await read_large(next_one)
            await next_one.feed(b"")


async def test_a_window_comes_back_when_the_thread_has_left_it(held: Held) -> None:
    decoders = Decoders(heavy_bodies=1)
    codings = (Coding.GZIP, Coding.BR)  # takes its window at once
    body = encode_body(b"x", Packing.GZIP, Packing.BR)
    with decoders.open(codings, CAP) as first:
        feeding = asyncio.create_task(first.feed(body))
        await held.until_entered()
        feeding.cancel()
        await asyncio.wait([feeding])
    held.entered.clear()
    with decoders.open(codings, CAP) as second:
        waiting = asyncio.create_task(second.feed(body))
        await turn_often()
        assert not waiting.done() and not held.entered.is_set()
        held.let_go()
        async with asyncio.timeout(SECONDS):
            await waiting
    assert second.data == b"x"
