"""The shared transport over a scripted channel: sizes, deadline, pauses that a provider asks for, the key masked."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetchd.channel import Secret
from fetchd.channel.fake import FakeChannel, ScriptedReply
from fetchd.core.caller import Caller
from fetchd.core.failures import FailureKind
from fetchd.search.interface import SearchAnswer, SearchArguments, SearchFailure, SearchRow
from fetchd.search.providers.asking import MAX_ANSWER_BYTES, MAX_TRIES, RemoteProvider
from fetchd.search.providers.brave import BRAVE
from fetchd.search.providers.dialect import Dialect, Settings
from fetchd.search.providers.gateway import GATEWAY
from fetchd.search.providers.masking import mask_body
from fetchd.search.providers.searxng import SEARXNG
from fetchd.search.providers.tavily import TAVILY
from proxy_addons.policy.limits import DEFAULT_PROFILE

BASE = "https://search.example"
KEY = "canary-0123456789"
ESCAPED = "".join(f"\\u{ord(letter):04x}" for letter in KEY)
"""As JSON may write it."""
CALLER = Caller("bot", DEFAULT_PROFILE)
RUST = SearchArguments("rust")
EMPTY = b'{"results":[]}'
DIALECTS = (GATEWAY, BRAVE, SEARXNG, TAVILY)


def reply(
    status: int = 200, body: bytes = EMPTY, *fields: tuple[str, str], chunk: int = 1 << 16
) -> ScriptedReply:
    chunks = [body[at : at + chunk] for at in range(0, len(body), chunk)]
    return ScriptedReply(status, fields, chunks)


def provider(
    replies: ScriptedReply | Sequence[ScriptedReply],
    dialect: Dialect = GATEWAY,
    *,
    deadline: float = 5.0,
    max_wait: float = 10.0,
    key: str = KEY,
) -> tuple[RemoteProvider, FakeChannel]:
    settings = Settings(BASE, Secret(key))
    request = dialect.render(RUST, settings)
    assert not isinstance(request, SearchFailure)
    channel = FakeChannel({request.url: replies})
    return RemoteProvider(dialect, settings, channel, deadline=deadline, max_wait=max_wait), channel


async def ask(
    replies: ScriptedReply | Sequence[ScriptedReply], dialect: Dialect = GATEWAY, *, deadline: float = 5.0
) -> SearchAnswer | SearchFailure:
    found, channel = provider(replies, dialect, deadline=deadline, max_wait=0.0)
    outcome = await found.search(RUST, CALLER)
    assert channel.open_answers == 0
    return outcome


def failure(outcome: SearchAnswer | SearchFailure) -> tuple[str, str]:
    assert isinstance(outcome, SearchFailure), outcome
    return outcome.kind, outcome.message


TRANSPORT = (FailureKind.TRANSPORT, "request failed")


async def test_an_answer() -> None:
    assert await ask(reply(200, b'{"results":[{"url":"u"}]}')) == SearchAnswer((SearchRow("u"),))


@pytest.mark.parametrize("size", [MAX_ANSWER_BYTES, MAX_ANSWER_BYTES + 1])
@pytest.mark.parametrize("chunk", [1 << 10, 1 << 20])
async def test_exactly_so_many_bytes_and_not_one_more(size: int, chunk: int) -> None:
    body = EMPTY + b" " * (size - len(EMPTY))
    outcome = await ask(reply(200, body, chunk=chunk))

    if size == MAX_ANSWER_BYTES:
        assert outcome == SearchAnswer(())
    else:
        assert failure(outcome) == (
            FailureKind.BACKEND,
            "malformed search response: body exceeds 262144 bytes",
        )


async def test_a_body_over_the_cap_is_that_whatever_its_shape() -> None:
    _, message = failure(await ask(reply(200, b"<html>" * 100_000)))

    assert message == "malformed search response: body exceeds 262144 bytes"


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (ScriptedReply(unreachable=True), TRANSPORT),
        (ScriptedReply(302), TRANSPORT),
        (ScriptedReply(200, [], [b'{"results"'], broken=True), TRANSPORT),
        (ScriptedReply(200, [], [b"x"], hangs="body"), TRANSPORT),
        (ScriptedReply(hangs="head"), TRANSPORT),
        (reply(204, b""), (FailureKind.BACKEND, "malformed search response: body is not JSON")),
        (reply(304, b""), (FailureKind.BACKEND, "backend returned 304: (empty body)")),
        (reply(502, b"upstream down"), (FailureKind.BACKEND, "backend returned 502: upstream down")),
        (reply(500, b"x" * (1 << 20)), (FailureKind.BACKEND, "backend returned 500: " + "x" * 2000)),
        (
            ScriptedReply(500, [], [b"part"], broken=True),
            (FailureKind.BACKEND, "backend returned 500, and its error body could not be read"),
        ),
        (
            ScriptedReply(500, [], [b"part"], hangs="body"),
            (FailureKind.BACKEND, "backend returned 500, and its error body could not be read"),
        ),
    ],
)
async def test_every_end(script: ScriptedReply, expected: tuple[str, str]) -> None:
    deadline = 0.05 if script.hangs else 5.0

    assert failure(await ask(script, deadline=deadline)) == expected


async def test_an_error_body_has_its_own_short_time() -> None:
    settings = Settings(BASE, Secret(KEY))
    channel = FakeChannel({f"{BASE}/v1/search": ScriptedReply(500, [], [b"part"], hangs="body")})
    found = RemoteProvider(GATEWAY, settings, channel, deadline=3600.0, error_body=0.05)

    message = failure(await found.search(RUST, CALLER))[1]
    assert message == "backend returned 500, and its error body could not be read"


async def test_an_error_body_that_does_not_end_is_shown_as_soon_as_enough_is_there() -> None:
    script = ScriptedReply(500, [], [b"x" * 9000], hangs="body")

    assert failure(await ask(script))[1] == "backend returned 500: " + "x" * 2000


async def test_cancellation_leaves_no_request_behind() -> None:
    found, channel = provider(ScriptedReply(hangs="head"))
    task = asyncio.create_task(found.search(RUST, CALLER))
    await channel.hanging.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert channel.open_answers == 0


# -- pauses

BUSY = ("Retry-After", "0")


@pytest.mark.parametrize("status", [429, 503])
async def test_a_busy_provider_is_asked_again_when_it_says(status: int) -> None:
    found, channel = provider([reply(status, b"busy", BUSY), reply()])

    assert await found.search(RUST, CALLER) == SearchAnswer(())
    assert len(channel.sent) == 2


async def test_so_many_tries_and_no_more() -> None:
    found, channel = provider(reply(429, b"busy", BUSY))

    assert failure(await found.search(RUST, CALLER))[1] == "backend returned 429: busy"
    assert len(channel.sent) == MAX_TRIES


@pytest.mark.parametrize(
    "fields", [(), (("Retry-After", "soon"),), (BUSY, BUSY), (("Retry-After", "-1"),), (("Retry-After", ""),)]
)
async def test_without_a_time_it_is_not_asked_again(fields: tuple[tuple[str, str], ...]) -> None:
    found, channel = provider([reply(429, b"busy", *(field for field in fields if field[1])), reply()])

    assert failure(await found.search(RUST, CALLER))[1] == "backend returned 429: busy"
    assert len(channel.sent) == 1


@pytest.mark.parametrize("status", [400, 401, 500, 502, 200])
async def test_other_answers_are_not_repeated(status: int) -> None:
    found, channel = provider([reply(status, b"x", BUSY), reply()])
    await found.search(RUST, CALLER)

    assert len(channel.sent) == 1


@pytest.mark.parametrize("seconds", ["6", "86400", "9" * 30, "Fri, 31 Dec 2100 23:59:59 GMT"])
async def test_a_pause_beyond_the_deadline_is_not_waited_for(seconds: str) -> None:
    found, channel = provider(reply(429, b"busy", ("Retry-After", seconds)), deadline=5.0)

    assert failure(await found.search(RUST, CALLER))[1] == "backend returned 429: busy"
    assert len(channel.sent) == 1


async def test_a_date_in_the_past_is_now() -> None:
    past = ("Retry-After", "Fri, 31 Dec 1999 23:59:59 GMT")
    found, _ = provider([reply(503, b"", past), reply()])

    assert await found.search(RUST, CALLER) == SearchAnswer(())


async def test_all_searches_leave_a_busy_provider_alone_and_none_hears_of_another_ones_answer() -> None:
    found, channel = provider(reply(429, b"you asked for: secret plans", ("Retry-After", "30")))
    await found.search(RUST, CALLER)
    second = failure(await found.search(RUST, CALLER))

    assert second == (FailureKind.BACKEND, "backend returned 429: it asked for a pause; try again in 30 s")
    assert len(channel.sent) == 1


async def test_a_pause_of_a_day_is_held_for_a_minute() -> None:
    found, _ = provider(reply(503, b"", ("Retry-After", "86400")))
    await found.search(RUST, CALLER)

    assert failure(await found.search(RUST, CALLER))[1].endswith("try again in 60 s")


async def test_a_short_pause_is_waited_for_by_the_next_search_too() -> None:
    found, channel = provider([reply(429, b"busy", ("Retry-After", "1")), reply()])
    both = await asyncio.gather(found.search(RUST, CALLER), found.search(RUST, CALLER))

    assert list(both) == [SearchAnswer(()), SearchAnswer(())]
    assert len(channel.sent) == 3


async def test_a_pause_beyond_the_callers_time_is_told_and_not_waited_for() -> None:
    """As with fallbacks, where a provider has a part of the call's time."""
    found, channel = provider(reply(429, b"busy", ("Retry-After", "4")), deadline=30.0)
    ends = asyncio.get_running_loop().time() + 3.0

    assert failure(await found.search(RUST, CALLER, ends))[1] == "backend returned 429: busy"
    assert len(channel.sent) == 1


# -- the way


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda one: one.name)
async def test_installations_on_the_way_are_told_to_another_installation_alone(dialect: Dialect) -> None:
    found, channel = provider(reply(500, b"x"), dialect)
    await found.search(RUST, replace(CALLER, way=("fetchd-a", "fetchd-b")))
    (request,) = channel.sent

    told = [value for name, value in request.fields if name == "Via"]
    assert told == (["1.1 fetchd-a, 1.1 fetchd-b"] if dialect is GATEWAY else [])


# -- the key


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda one: one.name)
@pytest.mark.parametrize("status", [401, 403, 422, 429, 500])
@pytest.mark.parametrize(
    "body",
    [
        f"bad key {KEY}!",
        json.dumps({"error": {"code": KEY, "detail": KEY}}),
        json.dumps({"errors": [{"code": "VALIDATION", "meta": {"errors": [{"loc": [KEY]}]}}]}),
        json.dumps({"detail": {"error": KEY}}),
        json.dumps({"detail": [{"msg": KEY}]}),
        json.dumps({"error": f"Bearer {KEY}"}),
        f'{{"error": "{ESCAPED}"}}',
        f'{{"detail": {{"error": "{ESCAPED}"}}}}',
        "x" * 1995 + KEY,
        "x" * (8000 - 5) + KEY,
        KEY * 500,
    ],
)
async def test_an_error_that_repeats_the_key_is_masked(
    dialect: Dialect, status: int, body: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    outcome = await ask(reply(status, body.encode()), dialect)

    message = failure(outcome)[1]
    assert KEY not in message and KEY[:6] not in message
    assert KEY not in caplog.text


@pytest.mark.parametrize("escaped", [False, True])
async def test_a_row_that_repeats_the_key_is_masked(escaped: bool) -> None:
    shown = ESCAPED if escaped else KEY
    row = f'{{"url":"https://a.example/?k={shown}","title":"{shown}","description":"{shown}","age":"{shown}",'
    row += f'"site_name":"{shown}","extra_snippets":["{shown}"]}}'
    outcome = await ask(reply(200, f'{{"results":[{row}]}}'.encode()))

    assert outcome == SearchAnswer(
        (SearchRow("https://a.example/?k=[key]", "[key]", "[key]", "[key]", "[key]", ("[key]",)),)
    )


@pytest.mark.parametrize(
    "shown", ["sk/a+b=c-0123", "sk%2Fa%2Bb%3Dc-0123", "sk/a%2Bb%3Dc-0123", "sk\\/a+b=c-0123"]
)
async def test_the_usual_spellings_of_a_key_are_masked_too(shown: str) -> None:
    found, _ = provider(reply(401, f"no such key: {shown}!".encode()), key="sk/a+b=c-0123")

    assert failure(await found.search(RUST, CALLER))[1] == "backend returned 401: no such key: [key]!"


@given(st.binary(max_size=40), st.integers(0, 60), st.text("ab", min_size=8, max_size=12))
def test_no_end_of_a_body_holds_most_of_a_key(before: bytes, length: int, key: str) -> None:
    body = (before + key.encode() * 6)[:length]
    masked = mask_body(body, Secret(key))

    assert key.encode() not in masked
    assert not masked.endswith(key.encode()[: len(key) - 1])


def test_nothing_prints_the_key() -> None:
    found, _ = provider(reply())

    assert KEY not in repr(found) + repr(Settings(BASE, Secret(KEY)))


# -- anything


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda one: one.name)
@given(
    body=st.binary(max_size=200)
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from("results web error errors detail url title type usage code meta".split()),
                inner,
            )
        ),
        max_leaves=20,
    ).map(lambda value: json.dumps(value).encode()),
    status=st.sampled_from([200, 204, 299, 300, 400, 401, 403, 404, 422, 429, 432, 500, 503, 599]),
)
def test_any_bytes_are_an_answer_or_a_named_failure(dialect: Dialect, body: bytes, status: int) -> None:
    outcome = asyncio.run(ask(reply(status, body), dialect))

    if isinstance(outcome, SearchAnswer):
        assert 200 <= status < 300
    else:
        assert outcome.kind in (FailureKind.BACKEND, FailureKind.TRANSPORT)
        start = "malformed search response: " if status < 300 else f"backend returned {status}: "
        assert outcome.message.startswith((start, "no results, and not every one of its engines answered"))
        assert not any(ord(letter) < 32 for letter in outcome.message)
