"""A vendor over a scripted channel: what is sent, what is bounded, and what is said of what went wrong."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from fetchd.channel import Secret
from fetchd.channel.fake import FakeChannel, ScriptedReply
from fetchd.web_access import vendor as vendor_module
from fetchd.web_access.declaration import WebAccess
from fetchd.web_access.errors import AnswerError, RefusalError, UnreachableError, VendorError
from fetchd.web_access.preparing import prepare_filter
from fetchd.web_access.values import Completion, Conversation, ServerToolCall, Told, Usage
from fetchd.web_access.vendor import VendorClient
from proxy_addons.policy.vendors.dialects import DIALECTS
from tests.kit import vendor_answers as answers

KEY = "sk-0123456789-secret"
BASE = "https://vendor.example/base"
JSON, EVENTS = [("Content-Type", "application/json")], [("Content-Type", "text/event-stream")]
ASKED = Conversation("model", "What is new?", 1000)
ANSWER = answers.message(
    answers.search_use(), answers.search_result("https://docs.rs/1"), answers.text("Found.")
)


def make(reply: ScriptedReply, dialect: str = "anthropic") -> tuple[VendorClient, FakeChannel]:
    channel = FakeChannel({BASE + DIALECTS[dialect].path: reply})
    return VendorClient("p", "model", DIALECTS[dialect], BASE, channel, Secret(KEY)), channel


async def complete(
    reply: ScriptedReply, dialect: str = "anthropic", seen: list[Told] | None = None
) -> Completion:
    client, channel = make(reply, dialect)
    web = prepare_filter(WebAccess.search(), client.dialect, "p")
    try:
        return await client.complete(web, ASKED, {}, (seen if seen is not None else []).append)
    finally:
        assert channel.open_answers == 0


def streamed(events: Sequence[answers.Object]) -> ScriptedReply:
    return ScriptedReply(200, EVENTS, [answers.stream(events)])


@pytest.mark.parametrize(
    ("dialect", "field"),
    [
        ("anthropic", ("x-api-key", "")),
        ("openai-responses", ("Authorization", "Bearer ")),
        ("openrouter", ("Authorization", "Bearer ")),
    ],
)
async def test_the_key_goes_in_the_vendor_s_own_field_and_nowhere_else(
    dialect: str, field: tuple[str, str]
) -> None:
    client, channel = make(ScriptedReply(200, JSON, [b"{}"]), dialect)
    with pytest.raises(AnswerError):
        await client.complete(prepare_filter(WebAccess(), client.dialect, "p"), ASKED, {}, lambda _: None)
    (request,) = channel.sent
    assert request.secret_field == field
    assert KEY not in repr((request, client))
    assert KEY.encode() not in request.body


async def test_the_source_s_fetch_brings_its_beta_field() -> None:
    client, channel = make(
        ScriptedReply(200, EVENTS, [answers.stream(answers.message_events(ANSWER))]), "anthropic-2025"
    )
    await client.complete(
        prepare_filter(WebAccess().with_fetch(), client.dialect, "p"), ASKED, {}, lambda _: None
    )
    assert ("anthropic-beta", "web-fetch-2025-09-10") in channel.sent[0].fields


async def test_an_answer_is_read_as_it_says_it_is() -> None:
    told: list[Told] = []
    found = await complete(streamed(list(answers.message_events(ANSWER))), seen=told)
    used = [one for one in told if isinstance(one, ServerToolCall)]
    assert (found.text, used) == ("Found.", [ServerToolCall.ok("p", "web_search")])
    assert await complete(ScriptedReply(200, JSON, [answers.whole(ANSWER)])) == found
    assert await complete(ScriptedReply(200, [], [answers.whole(ANSWER)])) == found
    odd = [("Content-Type", " Text/Event-Stream ; charset=UTF-8")]
    assert await complete(ScriptedReply(200, odd, [answers.stream(answers.message_events(ANSWER))])) == found


async def test_a_large_document_in_one_event_is_read() -> None:
    big = answers.message(
        answers.fetch_use(), answers.fetch_result(text="x" * 3_000_000), answers.text("Found.")
    )
    body = answers.stream(answers.message_events(big))
    pieces = [body[start : start + 65_536] for start in range(0, len(body), 65_536)]
    assert (await complete(ScriptedReply(200, EVENTS, pieces))).text == "Found."


def said(message: str, status: int = 400, kind: str = "") -> ScriptedReply:
    error = {"message": message} | ({"type": kind} if kind else {})
    return ScriptedReply(status, JSON, [answers.whole({"error": error})])


FAILURES = [
    # what it says, reply, error, text
    ("unreachable", ScriptedReply(unreachable=True), UnreachableError, "could not be reached: scripted: unreachable"),
    ("broken", ScriptedReply(200, EVENTS, [b"event: x\n"], broken=True), UnreachableError, "could not be reached"),
    ("a redirect", ScriptedReply(302, [("Location", "https://evil.test/")]), UnreachableError, "redirected"),
    ("401", said(f"bad {KEY}", 401, "authentication_error"), RefusalError,
     "answered with HTTP 401: authentication_error: bad [key]"),
    ("a page", ScriptedReply(502, [("Content-Type", "text/html")], [b"<html>" + KEY.encode()]), RefusalError,
     "answered with HTTP 502"),
    ("a large page", ScriptedReply(500, JSON, [b"x" * 100_000]), RefusalError, "answered with HTTP 500"),
    ("terminal codes", said("\x1b[2J\u202e"), RefusalError,
     "answered with HTTP 400: \\u{001b}[2J\\u{202e}"),
    ("an error in a stream", streamed([answers.message_error()]), RefusalError,
     "answered with an error inside a 200: overloaded_error: Overloaded"),
    ("an empty stream", streamed([]), AnswerError, "the stream broke off before the end of the message"),
    ("no JSON", ScriptedReply(200, JSON, [b"hello"]), AnswerError, "the answer is not JSON"),
]  # fmt: skip


@pytest.mark.parametrize(("what", "reply", "kind", "text"), FAILURES, ids=[row[0] for row in FAILURES])
async def test_each_failure_is_named(
    what: str, reply: ScriptedReply, kind: type[VendorError], text: str
) -> None:
    with pytest.raises(kind) as caught:
        await complete(reply)
    assert text in str(caught.value)
    assert str(caught.value).isprintable()
    assert KEY not in f"{caught.value!r} {caught.value.__cause__!r} {caught.value.__context__!r}"


async def test_an_answer_has_a_bound_whole_and_streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    body, events = answers.whole(ANSWER), answers.stream(answers.message_events(ANSWER))
    monkeypatch.setattr(vendor_module, "MAX_ANSWER_BYTES", len(body))
    await complete(ScriptedReply(200, JSON, [body]))
    with pytest.raises(AnswerError, match=f"over {len(body)} bytes"):
        await complete(ScriptedReply(200, JSON, [body, b" "]))
    with pytest.raises(AnswerError, match=f"over {len(body)} bytes"):
        await complete(ScriptedReply(200, EVENTS, [events]))


async def test_an_answer_with_endless_citations_or_tools_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vendor_module, "MAX_FACTS", 3)
    cited = answers.message(
        answers.text("x", *(answers.search_citation(f"https://docs.rs/{n}") for n in range(4)))
    )
    used = answers.message(*(answers.search_result(use_id=str(n)) for n in range(4)))
    for answer in (cited, used):
        with pytest.raises(AnswerError, match="more than 3"):
            await complete(ScriptedReply(200, JSON, [answers.whole(answer)]))
        with pytest.raises(AnswerError, match="more than 3"):
            await complete(streamed(list(answers.message_events(answer))))


TOLD_OF_FAILURES = [
    # what it says, dialect, events or the whole answer, what was told by then
    ("a stream that breaks off", "anthropic", list(answers.message_events(ANSWER))[:-1], Usage(100, 20)),
    ("one that breaks off early", "anthropic", list(answers.message_events(ANSWER))[:3], Usage(1, 1)),
    ("an error in a stream", "anthropic", [next(answers.message_events(ANSWER)), answers.message_error()],
     Usage(1, 1)),
    ("a whole answer that is none", "anthropic", ANSWER | {"stop_reason": None}, Usage(100, 20)),
    ("a response that failed", "openai-responses",
     [{"type": "response.failed", "response": answers.response() | {"status": "failed"}}], Usage(100, 20)),
    ("an error in a choice", "openrouter",
     {"usage": {"prompt_tokens": 7, "completion_tokens": None}, "choices": [{"message": {}, "error": {"code": 502}}]},
     Usage(7)),
    ("a chunk with counters", "openrouter", [{"choices": [], "usage": {"prompt_tokens": 7}}], Usage(7)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("what", "dialect", "sent", "usage"), TOLD_OF_FAILURES, ids=[row[0] for row in TOLD_OF_FAILURES]
)
async def test_the_counters_of_an_answer_that_failed_are_told(
    what: str, dialect: str, sent: Any, usage: Usage
) -> None:
    told: list[Told] = []
    reply = streamed(sent) if isinstance(sent, list) else ScriptedReply(200, JSON, [answers.whole(sent)])
    with pytest.raises(VendorError):
        await complete(reply, dialect, told)
    known = Usage()
    for one in told:
        known = known.replaced_by(one) if isinstance(one, Usage) else known
    assert known == usage


async def test_a_key_in_an_error_of_a_stream_is_masked() -> None:
    with pytest.raises(RefusalError) as caught:
        await complete(streamed([answers.message_error(KEY, json.dumps({"key": KEY}))]))
    assert KEY not in f"{caught.value} {caught.value.code}"


@pytest.mark.parametrize("before", range(470, 505, 5))
async def test_a_key_is_masked_before_a_message_is_cut(before: int) -> None:
    with pytest.raises(RefusalError) as caught:
        await complete(said("x" * before + KEY))
    assert "sk-" not in str(caught.value)


async def test_a_key_in_an_answer_is_masked_wherever_it_stands() -> None:
    answer = answers.message(
        answers.text(KEY, answers.search_citation(f"https://evil.test/?{KEY}", KEY, KEY))
    )
    for reply in (
        ScriptedReply(200, JSON, [answers.whole(answer)]),
        streamed(list(answers.message_events(answer))),
    ):
        assert KEY not in repr(await complete(reply))
