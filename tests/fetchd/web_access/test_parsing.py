"""Answers, whole and streamed: one reading, and nothing that failed reads as empty."""

from __future__ import annotations

import json
import typing
from collections.abc import Callable
from typing import Any

import pytest
from anthropic.types import WebFetchToolResultErrorCode, WebSearchToolResultErrorCode
from hypothesis import example, given
from hypothesis import strategies as st

from fetchd.web_access.dialects import chat, messages, responses, shape_of
from fetchd.web_access.errors import AnswerError, RefusalError
from fetchd.web_access.reading import read_object
from fetchd.web_access.sse import EventReader
from fetchd.web_access.values import Citation, Completion, Event, ServerToolCall, Stop, Usage, WebRow
from proxy_addons.policy.vendors.dialects import DIALECTS
from tests.kit import vendor_answers as answers

ok, failed = ServerToolCall.ok, ServerToolCall.failed
URL = "https://docs.rs/1"


def read_whole(name: str, answer: object, pending: dict[str, str] | None = None) -> Completion:
    shape = shape_of(DIALECTS[name])
    return shape.parse(read_object(answers.whole(answer)), "p", pending or {})


def read_stream(name: str, body: bytes, size: int = 1 << 20) -> tuple[Completion, list[ServerToolCall]]:
    """The answer, and the tools that were seen on the way; fed in pieces of `size` bytes."""
    shape = shape_of(DIALECTS[name])
    reader, assembler = EventReader(), shape.assembler("p")
    seen: list[ServerToolCall] = []
    for start in range(0, len(body), size):
        for event in reader.feed(body[start : start + size]):
            seen += [one for one in assembler.feed(event) if isinstance(one, ServerToolCall)]
    return shape.parse(assembler.finish(), "p", {}), seen


EVENTS: dict[str, Callable[[Any], Any]] = {
    "anthropic": answers.message_events,
    "openai-chat": answers.chat_events,
    "openai-responses": answers.response_events,
}


def read_both(name: str, answer: answers.Object) -> Completion:
    """The whole and the streamed reading, which are one."""
    found = read_whole(name, answer)
    body = answers.stream(EVENTS[name](answer), named=name != "openai-chat", done=name == "openai-chat")
    for size in (1 << 20, 7, 1):
        streamed, seen = read_stream(name, body, size)
        assert streamed == found
        if name != "openai-chat":
            assert seen == [call for call in found.calls if call.error != messages.NO_RESULT]
    return found


# -------------------------------------------------------------------------------------------------- Anthropic


def test_a_message_that_searched_and_fetched():
    found = read_both(
        "anthropic",
        answers.message(
            answers.text("I look. "),
            answers.search_use(),
            answers.search_result(URL, "https://docs.rs/2"),
            answers.fetch_use(),
            answers.fetch_result("https://docs.rs/a", title="Other"),
            answers.text("Found.", answers.search_citation(URL), answers.document_citation(title="Other")),
            searches=1,
            fetches=1,
        ),
    )
    assert (found.text, found.stop, found.stop_reason) == ("I look. Found.", Stop.END, "end_turn")
    assert found.calls == (ok("p", "web_search"), ok("p", "web_fetch"))
    assert found.rows == (
        WebRow(URL, "A page", "5 days ago"),
        WebRow("https://docs.rs/2", "A page", "5 days ago"),
        WebRow("https://docs.rs/a", "Other", "2026-08-25T08:00:00.000000+00:00"),
    )
    assert found.citations == (
        Citation(URL, "A page", "quoted"),
        Citation("https://docs.rs/a", "Other", "Text."),
    )
    assert (found.usage, found.model) == (Usage(100, 20, 2), "claude-model")


def test_a_search_that_found_nothing_ran():
    found = read_both("anthropic", answers.message(answers.search_use(), answers.search_result(), searches=1))
    assert found.calls == (ok("p", "web_search"),)
    assert (found.rows, found.citations) == ((), ())


CODES = [
    *(("web_search", code) for code in typing.get_args(WebSearchToolResultErrorCode)),
    *(("web_fetch", code) for code in typing.get_args(WebFetchToolResultErrorCode)),
    ("web_search", "a_code_of_tomorrow"),
]


@pytest.mark.parametrize(("tool", "code"), CODES)
@pytest.mark.parametrize("in_list", [False, True], ids=["an object", "in a list"])
def test_each_error_inside_a_200_is_a_failed_call_with_the_vendor_s_code(tool, code, in_list):
    use, make = {
        "web_search": (answers.search_use(), answers.search_error),
        "web_fetch": (answers.fetch_use(), answers.fetch_error),
    }[tool]
    block = make(code)
    if in_list:
        block["content"] = [block["content"]]
    found = read_both("anthropic", answers.message(use, block, answers.text("I know nothing."), searches=0))
    assert found.calls == (failed("p", tool, code),)
    assert found.usage.server_tool_requests == 0


MALFORMED: list[Any] = [
    None,
    "",
    "error",
    0,
    True,
    {},
    {"type": "other"},
    ["x"],
    [None],
    [[]],
    {"error_code": None},
]


@pytest.mark.parametrize("content", MALFORMED, ids=json.dumps)
@pytest.mark.parametrize("tool", ["web_search", "web_fetch"])
def test_what_is_neither_a_result_nor_an_error_is_a_failed_call(tool, content):
    block = {"type": f"{tool}_tool_result", "tool_use_id": "x", "content": content}
    found = read_both("anthropic", answers.message(block))
    assert found.calls == (failed("p", tool, messages.UNREADABLE),)


def test_a_list_is_no_fetch_and_a_page_no_search():
    fetched = answers.fetch_result() | {"content": []}
    searched = answers.search_result() | {"content": answers.fetch_result()["content"]}
    found = read_both("anthropic", answers.message(fetched, searched))
    assert [call.error for call in found.calls] == [messages.UNREADABLE] * 2


def test_a_call_that_was_never_answered_failed():
    found = read_both("anthropic", answers.message(answers.search_use(), answers.text("Well.")))
    assert found.calls == (failed("p", "web_search", messages.NO_RESULT),)


def test_counters_that_are_not_there_are_not_0():
    assert read_whole("anthropic", answers.message()).usage.server_tool_requests is None
    partial = answers.message(searches=2)
    del partial["usage"]["server_tool_use"]["web_fetch_requests"]
    assert read_whole("anthropic", partial).usage.server_tool_requests == 2
    assert read_whole("anthropic", answers.message() | {"usage": None}).usage == Usage()
    for wrong in (-1, 1.0, "1", True, None, 1 << 60):
        usage = {
            "input_tokens": wrong,
            "output_tokens": wrong,
            "server_tool_use": {"web_search_requests": wrong},
        }
        assert read_whole("anthropic", answers.message() | {"usage": usage}).usage == Usage()


def test_tokens_read_from_a_cache_are_tokens_too():
    usage = {"input_tokens": 1, "cache_read_input_tokens": 10, "cache_creation_input_tokens": 100}
    assert read_whole("anthropic", answers.message() | {"usage": usage}).usage.input_tokens == 111


def test_a_pause_keeps_what_is_sent_back_and_the_calls_that_are_not_answered():
    blocks = [answers.text("I look."), answers.search_use("srvtoolu_9")]
    found = read_both("anthropic", answers.message(*blocks, stop="pause_turn", searches=1))
    assert found.stop is Stop.PAUSE
    assert found.calls == ()
    assert dict(found.pending) == {"srvtoolu_9": "web_search"}
    assert [block["type"] for block in found.blocks] == ["text", "server_tool_use"]

    answered = answers.message(answers.search_result(URL, use_id="srvtoolu_9"), answers.text("Found."))
    then = read_whole("anthropic", answered, dict(found.pending))
    assert then.calls == (ok("p", "web_search"),)
    silent = read_whole("anthropic", answers.message(answers.text("Found.")), dict(found.pending))
    assert silent.calls == (failed("p", "web_search", messages.NO_RESULT),)


@pytest.mark.parametrize(
    ("reason", "stop"),
    [*messages.STOPS.items(), ("tool_use", Stop.OTHER), ("compaction", Stop.OTHER)],
)
def test_why_a_message_ended(reason, stop):
    found = read_both("anthropic", answers.message(answers.text("x"), stop=reason))
    assert (found.stop, found.stop_reason) == (stop, reason)


CITED = [
    # what it says, document_index, document_title, the URL
    ("by its place", 1, "B", "https://docs.rs/b"),
    ("by its place alone", 1, None, "https://docs.rs/b"),
    ("by its title, where the place is another's", 0, "B", "https://docs.rs/b"),
    ("by its title, where there is no such place", 9, "A", "https://docs.rs/a"),
    ("not at all, where both say nothing", 9, None, None),
    ("not at all, where the title is nobody's", 9, "C", None),
]


@pytest.mark.parametrize(("what", "index", "title", "url"), CITED, ids=[row[0] for row in CITED])
def test_a_citation_of_a_fetched_page_is_found(what, index, title, url):
    found = read_whole(
        "anthropic",
        answers.message(
            answers.fetch_result("https://docs.rs/a", title="A"),
            answers.fetch_result("https://docs.rs/b", title="B"),
            answers.text("x", answers.document_citation(index, title)),
        ),
    )
    assert [one.url for one in found.citations] == ([url] if url else [])


def test_absent_and_blank_stay_different_facts():
    cited = [answers.search_citation(URL, None), answers.search_citation(URL, "")]
    del cited[0]["cited_text"]
    cited[1]["cited_text"] = ""
    found = read_both("anthropic", answers.message(answers.text("x", *cited)))
    assert found.citations == (Citation(URL, None, None), Citation(URL, "", ""))


# ------------------------------------------------------------------------------------------- Chat Completions


def test_a_chat_that_cites_has_searched():
    found = read_both("openai-chat", answers.chat("Found.", answers.url_citation(URL, "A page")))
    assert (found.text, found.stop, found.stop_reason) == ("Found.", Stop.END, "stop")
    assert found.citations == (Citation(URL, "A page", None),)
    assert found.calls == (ok("p", "web_search"),)
    assert found.usage == Usage(100, 20, None)


def test_a_chat_that_says_nothing_of_a_search_says_nothing():
    found = read_both("openai-chat", answers.chat("Hello."))
    assert (found.calls, found.citations, found.usage.server_tool_requests) == ((), (), None)


def test_openrouter_s_excerpt_is_the_quote():
    found = read_whole("openrouter", answers.chat("x", answers.url_citation(URL, "", "An excerpt.")))
    assert found.citations == (Citation(URL, "", "An excerpt."),)


SEARCHED, NOT_RUN = ok("p", "web_search"), failed("p", "web_tool", "not_executed")


def counters(searches: int | None, asked: int | None, ran: int | None) -> answers.Object:
    return {"web_search_requests": searches, "tool_calls_requested": asked, "tool_calls_executed": ran}


COUNTERS: list[tuple[Any, int | None, tuple[ServerToolCall, ...]]] = [
    (None, None, ()),
    ({}, None, ()),
    ({"web_search_requests": 2}, 2, (SEARCHED,)),
    (counters(None, None, 3), 3, (ok("p", "web_tool"),)),
    (counters(2, 2, 2), 2, (SEARCHED,)),
    (counters(0, 1, 0), 0, (NOT_RUN,)),
    (counters(1, 2, 1), 1, (SEARCHED, NOT_RUN)),
]


@pytest.mark.parametrize(("tools", "requests", "calls"), COUNTERS)
def test_counters_of_openrouter_are_not_added_up(tools, requests, calls):
    found = read_both("openai-chat", answers.chat("x", tools=tools))
    assert (found.usage.server_tool_requests, found.calls) == (requests, calls)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ({"error": {"code": 429, "message": "Rate limited"}}, "429"),
        ({"error": {"code": "insufficient_quota", "type": "x"}}, "insufficient_quota"),
        ({"error": "broken"}, ""),
        ({"error": {}}, ""),
        ({"choices": [{"error": {"code": 502, "message": "upstream"}, "message": {"content": ""}}]}, "502"),
        ({"choices": [{"finish_reason": "error", "message": {"content": "Half"}}]}, ""),
    ],
)
def test_an_error_inside_a_200_of_chat_is_the_vendor_s_refusal(answer, code):
    with pytest.raises(RefusalError) as caught:
        read_whole("openrouter", answer)
    assert caught.value.code == code


def test_an_error_in_the_middle_of_a_stream_of_chat_is_the_vendor_s_refusal():
    (first, *_) = answers.chat_events(answers.chat("Hello."))
    body = answers.stream([first, {"error": {"code": 502, "message": "gone"}, "choices": []}], named=False)
    with pytest.raises(RefusalError, match="answered with an error inside a 200: 502: gone"):
        read_stream("openrouter", body)


def test_a_refusal_in_a_chat_s_own_member_is_one():
    found = read_both("openai-chat", answers.chat(None, refusal="I will not."))
    assert (found.stop, found.text) == (Stop.REFUSED, "I will not.")
    assert read_both("openai-chat", answers.chat("x", finish="length")).stop is Stop.LENGTH
    assert read_both("openai-chat", answers.chat("x", finish="content_filter")).stop is Stop.REFUSED


def test_comments_keep_a_stream_alive_and_are_no_events():
    body = answers.stream(answers.chat_events(answers.chat("Hello.")), named=False)
    found, _ = read_stream("openrouter", b": OPENROUTER PROCESSING\n\n" * 3 + body)
    assert found.text == "Hello."


# -------------------------------------------------------------------------------------------------- Responses


def test_a_response_that_searched_and_opened_a_page():
    opened = {"type": "open_page", "url": "https://docs.rs/2"}
    found = read_both(
        "openai-responses",
        answers.response(
            answers.web_call(sources=(URL, "https://docs.rs/3")),
            answers.web_call(action=opened, call_id="ws_2"),
            answers.web_call(action={"type": "find_in_page", "url": URL, "pattern": "x"}, call_id="ws_3"),
            answers.output_text("Found.", (URL, "A page")),
            searches=1,
        ),
    )
    assert (found.text, found.stop) == ("Found.", Stop.END)
    assert [call.tool for call in found.calls] == ["web_search", "open_page", "find_in_page"]
    assert [row.url for row in found.rows] == [URL, "https://docs.rs/3", "https://docs.rs/2"]
    assert found.citations == (Citation(URL, "A page", None),)
    assert found.usage == Usage(100, 20, 1)


@pytest.mark.parametrize("status", ["failed", "incomplete", "in_progress", "searching"])
def test_a_search_of_a_response_that_did_not_complete_failed(status):
    found = read_both("openai-responses", answers.response(answers.web_call(status)))
    assert found.calls == (failed("p", "web_search", status),)
    assert found.usage.server_tool_requests is None


@pytest.mark.parametrize(
    "item", [{"type": "web_search_call"}, {"type": "web_search_call", "status": 7, "action": []}]
)
def test_a_search_of_a_response_without_status_failed(item):
    assert read_whole("openai-responses", answers.response(item)).calls == (
        failed("p", "web_search", "no_status"),
    )


def test_a_response_that_failed_is_the_vendor_s_refusal():
    answer = answers.response(status="failed", error={"code": "server_error", "message": "Failed."})
    with pytest.raises(RefusalError, match="server_error: Failed"):
        read_whole("openai-responses", answer)
    with pytest.raises(RefusalError, match="server_error: Failed"):
        read_stream("openai-responses", answers.stream(answers.response_events(answer)))
    with pytest.raises(RefusalError, match="rate_limit: Slow down"):
        read_stream(
            "openai-responses",
            answers.stream([{"type": "error", "code": "rate_limit", "message": "Slow down"}]),
        )


@pytest.mark.parametrize(("reason", "stop"), [*responses.STOPS.items(), ("steered", Stop.OTHER)])
def test_why_a_response_is_incomplete(reason, stop):
    found = read_both("openai-responses", answers.response(status="incomplete", reason=reason))
    assert (found.stop, found.stop_reason) == (stop, reason)


def test_items_stand_in_where_the_last_event_leaves_them_out():
    answer = answers.response(answers.web_call(sources=[URL]), answers.output_text("Found."))
    events = list(answers.response_events(answer))
    events[-1] = {**events[-1], "response": answer | {"output": []}}
    found, _ = read_stream("openai-responses", answers.stream(events))
    assert (found.text, found.rows) == ("Found.", (WebRow(URL),))


# ------------------------------------------------------------------------------------------------ broken ones


WHOLE_ANSWERS = {
    "anthropic": answers.message(answers.search_use(), answers.search_result(URL), answers.text("Found.")),
    "openai-chat": answers.chat("Found.", answers.url_citation(URL)),
    "openai-responses": answers.response(answers.web_call(sources=[URL]), answers.output_text("Found.")),
}


@pytest.mark.parametrize("name", WHOLE_ANSWERS)
def test_a_stream_that_breaks_off_anywhere_is_never_an_answer(name):
    events = list(EVENTS[name](WHOLE_ANSWERS[name]))
    needed = len(events) - (1 if name == "openai-chat" else 0)  # chat's last event has the usage alone
    for count in range(needed):
        with pytest.raises(AnswerError, match="broke off"):
            read_stream(name, answers.stream(events[:count], named=name != "openai-chat"))


NO_ANSWERS: list[Any] = [
    {},
    {"content": None},
    {"choices": []},
    {"choices": [{}]},
    {"output": []},
    {"status": "queued"},
]


@pytest.mark.parametrize("answer", NO_ANSWERS, ids=json.dumps)
@pytest.mark.parametrize("name", DIALECTS)
def test_an_object_that_is_no_answer_is_none(name, answer):
    with pytest.raises(AnswerError):
        read_whole(name, answer)


@pytest.mark.parametrize(
    "body", [b"", b"null", b"[]", b"{", b"\xff", b'{"a":NaN}', b"[" * 100_000, b"9" * 5000]
)
def test_bytes_that_are_no_json_object_are_no_answer(body):
    with pytest.raises(AnswerError):
        read_object(body)


def check_named(error: Exception) -> None:
    """One line that a terminal and a log can show."""
    assert str(error).isprintable()


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def paths(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place of a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(path for key, one in items for path in paths(one, (*at, key)))]


def put(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """`value` with another thing at a place."""
    if not path:
        return new
    copy = value.copy()
    copy[path[0]] = put(value[path[0]], path[1:], new)
    return copy


@given(st.sampled_from(list(WHOLE_ANSWERS)), st.data(), JSON_VALUES)
def test_an_answer_with_anything_at_any_place_is_an_answer_or_a_named_failure(name, data, new):
    answer = put(WHOLE_ANSWERS[name], data.draw(st.sampled_from(paths(WHOLE_ANSWERS[name]))), new)
    try:
        found = shape_of(DIALECTS[name]).parse(answer if isinstance(answer, dict) else {}, "p", {})
    except (AnswerError, RefusalError) as error:
        check_named(error)
        return
    # Whatever comes out can be written down.
    json.dumps(
        [found.text, *(one.url for one in found.citations), *(call.error for call in found.calls)]
    ).encode()
    (found.text + "".join(one.cited_text or "" for one in found.citations)).encode("utf-8")


@given(st.sampled_from(list(WHOLE_ANSWERS)), st.data(), JSON_VALUES)
def test_events_with_anything_at_any_place_are_an_answer_or_a_named_failure(name, data, new):
    events = list(EVENTS[name](WHOLE_ANSWERS[name]))
    place = data.draw(st.integers(0, len(events) - 1))
    events[place] = put(events[place], data.draw(st.sampled_from(paths(events[place]))), new)
    shape = shape_of(DIALECTS[name])
    assembler = shape.assembler("p")
    try:
        for event in events:
            assembler.feed(Event("message", json.dumps(event)))
        shape.parse(assembler.finish(), "p", {})
    except (AnswerError, RefusalError) as error:
        check_named(error)


@given(st.sampled_from(list(WHOLE_ANSWERS)), st.binary(), st.integers(1, 9))
@example("anthropic", b"\xef\xbb\xbfdata: {}\r\n\r\n", 1)
def test_any_bytes_are_a_stream_or_a_named_failure(name, body, size):
    try:
        read_stream(name, body, size)
    except (AnswerError, RefusalError) as error:
        check_named(error)


EVENT_TEXT = st.text(st.characters(exclude_characters="\r\n\0", codec="utf-8"))


@given(st.lists(st.tuples(st.sampled_from(["", "ping"]), st.lists(EVENT_TEXT, min_size=1))), st.data())
def test_an_event_stream_is_read_the_same_however_it_is_cut(events, data):
    end = data.draw(st.sampled_from(["\n", "\r\n", "\r"]))
    lines = []
    for name, parts in events:
        lines += [f"event: {name}"] * bool(name) + [f"data: {part}" for part in parts] + [":", ""]
    body = "".join(line + end for line in lines).encode()
    expected = [Event(name or "message", "\n".join(parts)) for name, parts in events]
    size = data.draw(st.integers(1, max(len(body), 1)))
    reader, found = EventReader(), []
    for start in range(0, len(body), size):
        found += reader.feed(body[start : start + size])
    found += reader.feed(b":\n")  # a CR at the very end waits for what may follow it
    assert found == expected


def test_the_parsers_of_a_dialect_are_those_of_its_path():
    assert shape_of(DIALECTS["openrouter"]).parse is chat.parse
    assert shape_of(DIALECTS["anthropic-2025"]).parse is messages.parse
