"""A vendor's answer read on the side: what it says of web tools, however it is cut; and that nothing can upset it."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy_addons.policy.vendors import answers, json_text
from proxy_addons.policy.vendors.answer_facts import MAX_ROWS, AnswerFacts
from proxy_addons.policy.vendors.answers import EventStream, WholeAnswer, make_reader
from proxy_addons.policy.vendors.endpoints import BodyKind
from tests.kit import vendors

Make = Callable[..., dict[str, Any]]
Stream = Callable[[dict[str, Any]], list[bytes]]
KINDS: dict[BodyKind, tuple[Make, Stream]] = {
    BodyKind.MESSAGES: (vendors.message, vendors.message_events),
    BodyKind.RESPONSES: (vendors.response, vendors.response_events),
    BodyKind.CHAT: (vendors.completion, vendors.completion_events),
}


def read_stream(kind: BodyKind, pieces: Iterable[bytes]) -> AnswerFacts:
    reader = EventStream(kind)
    for piece in pieces:
        reader.feed(piece)
    reader.finish()
    return reader.facts


def read_whole(kind: BodyKind, value: object) -> AnswerFacts:
    reader = WholeAnswer(kind)
    reader.feed(json.dumps(value).encode())
    reader.finish()
    return reader.facts


def calls_of(facts: AnswerFacts) -> list[tuple[str, str | None, bool]]:
    return [(one.tool, one.error, one.ended) for one in facts.calls.values()]


@pytest.mark.parametrize("kind", KINDS)
def test_whole_streamed_and_cut_anywhere_say_the_same(kind: BodyKind) -> None:
    make, stream = KINDS[kind]
    whole = make()
    text = b"".join(stream(whole))
    expected = read_whole(kind, whole)

    assert expected.complete
    assert list(expected.citations) == [vendors.SOURCE_SHOWN]
    for pieces in ([text], stream(whole), [text[n : n + 1] for n in range(len(text))]):
        assert read_stream(kind, pieces) == expected
    assert read_stream(kind, [text.replace(b"\n", b"\r\n")]) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_that_breaks_off_is_not_complete(kind: BodyKind) -> None:
    make, stream = KINDS[kind]
    whole = make()
    *begun, _ = stream(whole)

    assert not read_stream(kind, begun).complete
    reader = WholeAnswer(kind)
    reader.feed(json.dumps(whole).encode()[:-1])
    reader.finish()
    assert reader.facts == AnswerFacts()


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_reported_is_not_nought(kind: BodyKind) -> None:
    make, stream = KINDS[kind]
    whole = make(searches=None)
    for facts in (read_whole(kind, whole), read_stream(kind, stream(whole))):
        assert facts.search_requests is None
        assert facts.input_tokens == 11
    whole = make(searches=0)
    for facts in (read_whole(kind, whole), read_stream(kind, stream(whole))):
        assert facts.search_requests == 0


ERRORS = [
    "invalid_tool_input", "unavailable", "max_uses_exceeded", "too_many_requests", "query_too_long",
    "request_too_large", "url_too_long", "url_not_allowed", "url_not_in_prior_context", "url_not_accessible",
    "unsupported_content_type", "content_too_large", "an_error_of_tomorrow",
]  # fmt: skip


@pytest.mark.parametrize("code", ERRORS)
def test_a_search_that_failed_within_a_200_is_told_from_an_empty_one(code: str) -> None:
    whole = vendors.message(error=code)
    for facts in (
        read_whole(BodyKind.MESSAGES, whole),
        read_stream(BodyKind.MESSAGES, vendors.message_events(whole)),
    ):
        assert calls_of(facts) == [("web_search", code, True)]
    empty = {**whole, "content": [{"type": "web_search_tool_result", "tool_use_id": "s", "content": []}]}
    assert calls_of(read_whole(BodyKind.MESSAGES, empty)) == [("web_search", None, True)]


@pytest.mark.parametrize("status", ["failed", "incomplete"])
def test_a_failed_call_of_a_response_is_told(status: str) -> None:
    whole = vendors.response(status=status)
    for facts in (
        read_whole(BodyKind.RESPONSES, whole),
        read_stream(BodyKind.RESPONSES, vendors.response_events(whole)),
    ):
        assert calls_of(facts) == [("web_search", status, True)]


def test_a_pause_leaves_its_call_open() -> None:
    whole = vendors.message(stop="pause_turn")
    for facts in (
        read_whole(BodyKind.MESSAGES, whole),
        read_stream(BodyKind.MESSAGES, vendors.message_events(whole)),
    ):
        assert (facts.paused, calls_of(facts)) == (True, [("web_search", None, False)])


def test_a_fetch_is_told_too() -> None:
    failed = {"type": "web_fetch_tool_result_error", "error_code": "url_not_allowed"}
    block = {"type": "web_fetch_tool_result", "tool_use_id": "s", "content": failed}
    assert calls_of(read_whole(BodyKind.MESSAGES, {"content": [block]})) == [
        ("web_fetch", "url_not_allowed", True)
    ]


@pytest.mark.parametrize(
    ("kind", "event", "stop"),
    [
        (BodyKind.MESSAGES, {"type": "error", "error": {"type": "overloaded_error"}}, "overloaded_error"),
        (BodyKind.RESPONSES, {"type": "error", "code": "server_error"}, "server_error"),
        (
            BodyKind.RESPONSES,
            {
                "type": "response.incomplete",
                "response": {"incomplete_details": {"reason": "max_output_tokens"}},
            },
            "max_output_tokens",
        ),
        (BodyKind.CHAT, {"error": {"code": 502, "message": "x"}, "choices": []}, "error"),
    ],
)
def test_an_error_in_a_stream_is_why_it_stopped(kind: BodyKind, event: dict[str, Any], stop: str) -> None:
    assert read_stream(kind, [vendors.sse(event)]).stop == stop


def test_of_an_address_the_query_is_not_kept_and_of_the_text_nothing() -> None:
    for kind, (make, stream) in KINDS.items():
        whole = make()
        for facts in (read_whole(kind, whole), read_stream(kind, stream(whole))):
            assert "secret-query" not in repr(facts)
            assert vendors.QUOTED not in repr(facts)
            assert vendors.TITLE not in repr(facts)


@pytest.mark.parametrize("kind", KINDS)
def test_an_endless_line_is_passed_over_in_bounded_room(
    kind: BodyKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "MAX_LINE", 1000)
    make, stream = KINDS[kind]
    reader = EventStream(kind)
    reader.feed(b"data: ")
    for _ in range(50):
        reader.feed(b"x" * 100)
        assert len(reader._rest) <= 1000
    reader.feed(b"\n\n")
    monkeypatch.undo()
    reader.feed(b"".join(stream(make())))
    reader.finish()

    assert list(reader.facts.citations) == [vendors.SOURCE_SHOWN]
    assert not reader.facts.complete


@pytest.mark.parametrize("media_type", ["text/event-stream", "application/json"])
def test_an_answer_in_crumbs_takes_no_more_room_than_its_bytes(media_type: str) -> None:
    """A list of pieces of two octets would take thirty times as much."""
    reader = make_reader(BodyKind.MESSAGES, media_type)
    assert reader is not None
    tracemalloc.start()
    try:
        for count in range(20_000):
            reader.feed(b"%02d" % (count % 100))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 100_000


def test_an_event_of_very_many_parts_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parsed, eight megabytes of empty lists would take two hundred."""
    event = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": [[]] * 100}
    for bound, stop in ((1000, "end_turn"), (100, None)):
        monkeypatch.setattr(json_text, "MAX_CONTAINERS", bound)
        assert read_stream(BodyKind.MESSAGES, [b"data: %s\n\n" % json.dumps(event).encode()]).stop == stop


def test_nor_is_one_of_very_many_names_and_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parsed, eight megabytes of names would hold up every other connection for the better part of a second."""
    event = {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn"},
        "usage": dict.fromkeys("abcdefgh", 1),
    }
    for bound, stop in ((20, "end_turn"), (8, None)):
        monkeypatch.setattr(answers, "MAX_COMMAS", bound)
        assert read_stream(BodyKind.MESSAGES, [b"data: %s\n\n" % json.dumps(event).encode()]).stop == stop


def test_a_number_of_any_length_is_passed_over() -> None:
    event = b'{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":%s}}' % (
        b"9" * 5000
    )
    facts = read_stream(BodyKind.MESSAGES, [b"data: %s\n\n" % event])
    assert (facts.stop, facts.output_tokens) == ("end_turn", None)


def test_lines_without_end_are_not_read_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MAX_LINES", 1000)
    reader = EventStream(BodyKind.MESSAGES)
    for _ in range(20):
        reader.feed(b"\n" * 100)
    reader.feed(b"".join(vendors.message_events(vendors.message())))
    reader.finish()
    assert reader.facts == AnswerFacts()


def test_a_whole_answer_that_is_too_long_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MAX_WHOLE", 1000)
    reader = WholeAnswer(BodyKind.MESSAGES)
    for _ in range(50):
        reader.feed(b"x" * 100)
    assert reader.waiting == 0
    reader.finish()
    assert reader.facts == AnswerFacts()


def test_rows_are_bounded_and_what_is_left_out_is_counted() -> None:
    content = [{"type": "server_tool_use", "id": f"s{n}", "name": "web_search"} for n in range(MAX_ROWS + 3)]
    citations = [{"url": f"https://a.example/{n}"} for n in range(MAX_ROWS + 4)]
    facts = read_whole(BodyKind.MESSAGES, {"content": [*content, {"type": "text", "citations": citations}]})

    assert (len(facts.calls), len(facts.citations), facts.omitted) == (
        MAX_ROWS,
        MAX_ROWS,
        7,
    )


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
    | st.sampled_from(["message_start", "server_tool_use", "error", "https://a.example/\udc80", "x_tool_result"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            [
                "type", "content", "content_block", "delta", "citation", "citations", "url", "usage", "error", "id",
                "output", "item", "annotations", "annotation", "url_citation", "choices", "message", "response",
                "tool_use_id", "server_tool_use", "web_search_requests", "stop_reason", "status", "error_code",
            ]
        ),
        inner,
        max_size=5,
    ),
    max_leaves=15,
)  # fmt: skip


@given(st.sampled_from(list(KINDS)), st.lists(JSON, max_size=4))
def test_any_json_is_survived(kind: BodyKind, values: list[Any]) -> None:
    for value in values:
        read_whole(kind, value)
    read_stream(kind, [b"data: " + json.dumps(value).encode() + b"\n\n" for value in values])


@given(st.sampled_from(list(KINDS)), st.lists(st.binary(max_size=40), max_size=6))
def test_any_bytes_are_survived(kind: BodyKind, pieces: list[bytes]) -> None:
    for media_type in ("text/event-stream", "application/json"):
        reader = make_reader(kind, media_type)
        assert reader is not None
        for piece in pieces:
            reader.feed(piece)
        reader.finish()
        assert not reader.facts.citations


def test_other_media_types_are_not_read() -> None:
    assert make_reader(BodyKind.CHAT, "text/html") is None
