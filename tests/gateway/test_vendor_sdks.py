"""The vendors' own SDKs as agents: through the real gateway, over CONNECT and TLS, to vendors on loopback.

Their types judge every answer that is faked; what leaves is looked at where it arrives, and what was said of it in
the audit log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from anthropic.types import Message
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from tests.gateway.vendor_stage import KEY, MONITOR, NARROW, PASS, REFUSE, VendorWorld
from tests.kit import replies, vendors

ANTHROPIC, OPENAI, OPENROUTER = vendors.NAMES
SEARCH: Any = {"type": "web_search_20250305", "name": "web_search", "max_uses": 9}
ELSEWHERE: Any = {**SEARCH, "allowed_domains": ["evil.example"]}
ASK: Any = {"model": "claude-test", "max_tokens": 10, "messages": [{"role": "user", "content": "tokio?"}]}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VendorWorld]:
    with VendorWorld(tmp_path_factory.mktemp("vendors"), alpn=("h2", "http/1.1")) as world:
        world.vendor.route("*", replies.json({}))
        message, response, completion = vendors.message(), vendors.response(), vendors.completion()
        world.vendor.route("/v1/messages", vendors.vendor_route(message, vendors.message_events(message)))
        world.vendor.route("/v1/responses", vendors.vendor_route(response, vendors.response_events(response)))
        chat = vendors.vendor_route(completion, vendors.completion_events(completion))
        world.vendor.route("/v1/chat/completions", chat)
        counted = vendors.completion(searches=2, content=vendors.QUOTED)
        routed = vendors.vendor_route(counted, vendors.completion_events(counted))
        world.vendor.route("/api/v1/chat/completions", routed)
        yield world


@pytest.fixture
def world(shared: VendorWorld) -> VendorWorld:
    shared.forget()
    return shared


@pytest.fixture(params=[False, True], ids=["h1", "h2"])
def http2(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def claude(world: VendorWorld, client: httpx2.Client) -> anthropic.Anthropic:
    return anthropic.Anthropic(
        api_key=KEY, base_url=world.base_url(ANTHROPIC), http_client=client, max_retries=0
    )


def gpt(world: VendorWorld, client: httpx2.Client, name: str = OPENAI, path: str = "/v1") -> openai.OpenAI:
    return openai.OpenAI(api_key=KEY, base_url=world.base_url(name, path), http_client=client, max_retries=0)


# ------------------------------------------------------------------------------------------------- the fakes


MESSAGES = [vendors.message(), vendors.message(error="unavailable"), vendors.message(stop="pause_turn")]


@pytest.mark.parametrize("whole", MESSAGES)
def test_the_sdk_takes_our_messages_for_anthropics(whole: dict[str, Any]) -> None:
    Message.model_validate(whole)


@pytest.mark.parametrize("whole", [vendors.response(), vendors.response(status="failed", searches=None)])
def test_the_sdk_takes_our_responses_for_openais(whole: dict[str, Any]) -> None:
    Response.model_validate(whole)


@pytest.mark.parametrize("whole", [vendors.completion(), vendors.completion(searches=1, content="x")])
def test_the_sdk_takes_our_completions_for_openais(whole: dict[str, Any]) -> None:
    ChatCompletion.model_validate(whole)


# ------------------------------------------------------------------------------------------------- Anthropic


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_a_search_is_narrowed_on_the_wire_and_the_answer_arrives_whole(
    world: VendorWorld, streamed: bool, http2: bool
) -> None:
    tool: Any = {**SEARCH, "allowed_domains": ["tokio.docs.rs", "evil.example"], "user_location": None}
    answer: Any
    with world.client(NARROW, http2=http2) as client:
        sdk = claude(world, client)
        if streamed:
            with sdk.messages.stream(**ASK, tools=[tool]) as stream:
                answer = stream.get_final_message()
                fetch_id = stream.response.headers["fetchd-id"]
        else:
            raw = sdk.messages.with_raw_response.create(**ASK, tools=[tool])
            answer, fetch_id = raw.parse(), raw.headers["fetchd-id"]

    assert answer.content[-1].text == vendors.TEXT
    (left,) = world.sent()["tools"]
    assert left == {**tool, "max_uses": 3, "allowed_domains": ["tokio.docs.rs"]}
    (line,) = world.web_lines(fetch_id)
    assert line["vendor"] == "anthropic"
    assert (line["declared"], line["narrowed"], line["complete"]) == (["web_search"], True, True)
    assert line["calls"] == [{"tool": "web_search", "error": None, "ended": True}]
    assert line["citations"] == [{"url": vendors.SOURCE_SHOWN, "within_profile": True}]
    assert (line["search_requests"], line["fetch_requests"], line["stop"]) == (1, 0, "end_turn")
    assert (line["input_tokens"], line["output_tokens"]) == (11, 7)


def test_a_search_that_no_host_of_the_profile_is_left_for_is_refused(world: VendorWorld, http2: bool) -> None:
    with (
        world.client(NARROW, http2=http2) as client,
        pytest.raises(anthropic.PermissionDeniedError) as caught,
    ):
        claude(world, client).messages.create(**ASK, tools=[ELSEWHERE])

    assert "cannot be narrowed to the profile" in str(caught.value)
    assert caught.value.response.headers["fetchd-rule"] == "web-tool"
    assert isinstance(caught.value.body, dict)
    assert caught.value.body["error"]["type"] == "permission_error"
    assert world.vendor.requests == []
    (line,) = world.gateway.decisions(fetch_id=caught.value.response.headers["fetchd-id"])
    assert (line["verdict"], line["rule"], line["status"]) == ("refused", "web-tool", 403)


def test_a_search_is_refused_and_the_sdk_shows_why(world: VendorWorld) -> None:
    with world.client(REFUSE) as client:
        sdk = claude(world, client)
        with pytest.raises(
            anthropic.PermissionDeniedError, match="web search run by the provider is not allowed"
        ):
            sdk.messages.create(**ASK, tools=[SEARCH])
        assert world.vendor.requests == []
        sdk.messages.create(**ASK, tools=[{"name": "look", "input_schema": {"type": "object"}}])

    assert world.sent()["tools"][0]["name"] == "look"


@pytest.mark.parametrize("listener", [PASS, MONITOR], ids=["pass", "monitor"])
def test_a_search_passes_untouched_and_is_read_all_the_same(world: VendorWorld, listener: int) -> None:
    with world.client(listener) as client:
        raw = claude(world, client).messages.with_raw_response.create(**ASK, tools=[SEARCH])

    assert world.sent()["tools"] == [SEARCH]
    (line,) = world.web_lines(raw.headers["fetchd-id"])
    assert (line["narrowed"], line["calls"][0]["tool"]) == (False, "web_search")
    assert line["declared"] == (None if listener == PASS else ["web_search"])
    (decision,) = world.gateway.decisions(fetch_id=raw.headers["fetchd-id"])
    assert decision["would_refuse"] == (None if listener == PASS else "web-tool")


def test_a_key_reaches_the_vendor_and_no_log(world: VendorWorld) -> None:
    for listener in (PASS, NARROW, REFUSE):
        with world.client(listener) as client:
            try:
                claude(world, client).messages.create(**ASK, tools=[SEARCH], system=f"not {KEY}-b")
                gpt(world, client).responses.create(model="gpt-test", input=KEY)
            except anthropic.PermissionDeniedError:
                assert listener == REFUSE

    for request in world.vendor.requests:
        assert any(KEY in value for _, value in request.headers)
    written = b"".join(path.read_bytes() for path in world.gateway.state.rglob("*") if path.is_file())
    assert b"canary" not in written
    assert not any("canary" in line for line in world.gateway.errors)


# ---------------------------------------------------------------------------------------------------- OpenAI


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_a_responses_search_is_narrowed(world: VendorWorld, streamed: bool, http2: bool) -> None:
    tools: Any = [{"type": "web_search"}]
    answer: Any
    with world.client(NARROW, http2=http2) as client:
        sdk = gpt(world, client)
        if streamed:
            with sdk.responses.stream(model="gpt-test", input="tokio?", tools=tools) as stream:
                answer = stream.get_final_response()
                fetch_id = stream._raw_stream.response.headers["fetchd-id"]
        else:
            raw = sdk.responses.with_raw_response.create(model="gpt-test", input="tokio?", tools=tools)
            answer, fetch_id = raw.parse(), raw.headers["fetchd-id"]

    assert answer.output_text == vendors.TEXT
    sent = world.sent()
    allowed = [*vendors.NAMES, "docs.rs", "crates.io"]
    assert sent["tools"] == [{"type": "web_search", "filters": {"allowed_domains": allowed}}]
    assert sent["max_tool_calls"] == 3
    (line,) = world.web_lines(fetch_id)
    assert line["calls"] == [{"tool": "web_search", "error": None, "ended": True}]
    assert line["citations"] == [{"url": vendors.SOURCE_SHOWN, "within_profile": True}]
    assert (line["search_requests"], line["stop"], line["complete"]) == (1, "completed", True)


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("gpt-test", {"search_context_size": "low"}),
        ("gpt-5-search-api", None),
        ("gpt-4o-search-preview", None),
    ],
)
def test_a_chat_search_cannot_be_narrowed_and_the_sdk_shows_it(
    world: VendorWorld, model: str, options: Any
) -> None:
    extra = {} if options is None else {"web_search_options": options}
    with world.client(NARROW) as client, pytest.raises(openai.PermissionDeniedError) as caught:
        gpt(world, client).chat.completions.create(
            model=model, messages=[{"role": "user", "content": "x"}], **extra
        )

    assert caught.value.code == "web-tool"
    assert "cannot be narrowed" in caught.value.message
    assert world.vendor.requests == []


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_a_chat_search_that_passes_is_read(world: VendorWorld, streamed: bool) -> None:
    asked: Any = {
        "model": "gpt-5-search-api", "messages": [{"role": "user", "content": "x"}], "web_search_options": {},
    }  # fmt: skip
    with world.client(PASS) as client:
        raw = gpt(world, client).chat.completions.with_raw_response.create(**asked, stream=streamed)
        if streamed:
            chunks: Any = raw.parse()
            assert (
                "".join(one.choices[0].delta.content or "" for one in chunks if one.choices) == vendors.TEXT
            )
        fetch_id = raw.headers["fetchd-id"]

    (line,) = world.web_lines(fetch_id)
    assert line["citations"] == [{"url": vendors.SOURCE_SHOWN, "within_profile": True}]
    assert (line["search_requests"], line["calls"]) == (None, [])
    assert (line["stop"], line["complete"], line["input_tokens"]) == ("stop", True, 11)


# ------------------------------------------------------------------------------------------------ OpenRouter


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_openrouters_tool_is_narrowed(world: VendorWorld, streamed: bool) -> None:
    tool = {"type": "openrouter:web_search", "parameters": {"engine": "exa", "allowed_domains": ["docs.rs"]}}
    asked: Any = {
        "model": "test/model", "messages": [{"role": "user", "content": "x"}], "extra_body": {"tools": [tool]},
    }  # fmt: skip
    with world.client(NARROW) as client:
        sdk = gpt(world, client, OPENROUTER, "/api/v1")
        raw = sdk.chat.completions.with_raw_response.create(**asked, stream=streamed)
        if streamed:
            list(raw.parse())

    (left,) = world.sent()["tools"]
    assert left["parameters"] == {"engine": "exa", "allowed_domains": ["docs.rs"], "max_uses": 3}
    (line,) = world.web_lines(raw.headers["fetchd-id"])
    assert (line["vendor"], line["search_requests"]) == ("openrouter", 2)


def test_the_online_suffix_is_refused_and_the_sdk_shows_it(world: VendorWorld) -> None:
    with (
        world.client(NARROW) as client,
        pytest.raises(openai.PermissionDeniedError, match="searches the web"),
    ):
        gpt(world, client, OPENROUTER, "/api/v1").chat.completions.create(
            model="openai/gpt-test:online", messages=[{"role": "user", "content": "x"}]
        )


# ------------------------------------------------------------------------------------------------- all else

PDF = ("a.pdf", b"%PDF-1.7", "application/pdf")
ASIDE: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "/v1/messages/count_tokens": (
        ANTHROPIC,
        lambda sdk: sdk.messages.with_raw_response.count_tokens(model="m", messages=ASK["messages"]),
    ),
    "/v1/files": (ANTHROPIC, lambda sdk: sdk.beta.files.with_raw_response.upload(file=PDF)),
    "/v1/responses/input_tokens": (
        OPENAI,
        lambda sdk: sdk.responses.input_tokens.with_raw_response.count(model="m", input="tokio?"),
    ),
    "/v1/responses/compact": (
        OPENAI,
        lambda sdk: sdk.responses.with_raw_response.compact(model="m", input="tokio?"),
    ),
    "/v1/conversations": (
        OPENAI,
        lambda sdk: sdk.conversations.with_raw_response.create(items=[{"role": "user", "content": "tokio?"}]),
    ),
    "/v1/conversations/conv_1/items": (
        OPENAI,
        lambda sdk: sdk.conversations.items.with_raw_response.create(
            "conv_1", items=[{"role": "user", "content": "tokio?"}]
        ),
    ),
    "/v1/moderations": (OPENAI, lambda sdk: sdk.moderations.with_raw_response.create(input="tokio?")),
    "/v1/embeddings": (OPENAI, lambda sdk: sdk.embeddings.with_raw_response.create(model="m", input=["x"])),
    "/v1/audio/transcriptions": (
        OPENAI,
        lambda sdk: sdk.audio.transcriptions.with_raw_response.create(model="m", file=("a.mp3", b"x")),
    ),
}


@pytest.mark.parametrize("listener", [NARROW, REFUSE], ids=["enforce", "refuse"])
@pytest.mark.parametrize("path", ASIDE)
def test_what_else_an_sdk_asks_for_arrives(world: VendorWorld, path: str, listener: int) -> None:
    name, call = ASIDE[path]
    with world.client(listener) as client:
        raw = call(claude(world, client) if name == ANTHROPIC else gpt(world, client))
    assert raw.status_code == 200
    (request,) = world.vendor.requests
    assert request.path.partition("?")[0] == path
    assert request.body
