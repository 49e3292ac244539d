"""Which requests to a vendor's host are read, let through, or closed."""

from __future__ import annotations

import pytest

from proxy_addons.policy.hosts import parse_host_pattern
from proxy_addons.policy.targets import parse_target
from proxy_addons.policy.vendors.dialects import Vendor
from proxy_addons.policy.vendors.endpoints import (
    BodyKind,
    ErrorShape,
    Handling,
    VendorHosts,
    find_endpoint,
)
from tests.kit.counting import count_calls

A, O, R = Vendor.ANTHROPIC, Vendor.OPENAI, Vendor.OPENROUTER  # noqa: E741

READ = [
    (A, "/v1/messages", BodyKind.MESSAGES, "a message"),
    (A, "/v1/messages?beta=true", BodyKind.MESSAGES, "a message of a beta"),
    (A, "/team-a/anthropic/v1/messages", BodyKind.MESSAGES, "behind a base path"),
    (A, "/v1/chat/completions", BodyKind.CHAT, "the layer for OpenAI's SDK"),
    (O, "/v1/chat/completions", BodyKind.CHAT, "a chat"),
    (O, "/v1/completions", BodyKind.CHAT, "a text"),
    (O, "/v1/responses", BodyKind.RESPONSES, "a response"),
    (O, "/openai/deployments/gpt-x/chat/completions?api-version=1", BodyKind.CHAT, "a deployment"),
    (O, "/openai/v1/responses", BodyKind.RESPONSES, "a response behind a base path"),
    (R, "/api/v1/chat/completions", BodyKind.CHAT, "OpenRouter's chat"),
    (R, "/api/v1/responses", BodyKind.RESPONSES, "OpenRouter's responses"),
    (R, "/api/v1/messages", BodyKind.MESSAGES, "OpenRouter's messages"),
]


@pytest.mark.parametrize(("vendor", "path", "kind", "sentence"), READ)
def test_a_call_of_a_model_is_read(vendor: Vendor, path: str, kind: BodyKind, sentence: str) -> None:
    endpoint = find_endpoint(vendor, "POST", parse_target(f"https://x.example{path}"))
    assert (endpoint.handling, endpoint.kind) == (Handling.INSPECTED, kind)


READ_ASIDE = [
    (
        A,
        "/v1/messages/count_tokens?beta=true",
        BodyKind.MESSAGES,
        "counting: pictures are fetched, servers asked",
    ),
    (O, "/v1/responses/input_tokens", BodyKind.RESPONSES, "counting"),
    (O, "/v1/responses/compact", BodyKind.RESPONSES, "a conversation made shorter, pictures and all"),
    (O, "/v1/conversations", BodyKind.RESPONSES, "a conversation, which can hold tools"),
    (O, "/v1/conversations/conv_1/items?include=x", BodyKind.RESPONSES, "more of one"),
    (O, "/v1/moderations", BodyKind.CONTENT, "judging, of pictures too"),
    (R, "/api/v1/embeddings", BodyKind.CONTENT, "embeddings, of pictures too"),
    (R, "/api/v1/audio/speech", BodyKind.CONTENT, "options that go on to whoever speaks"),
    (R, "/api/v1/audio/transcriptions", BodyKind.CONTENT, "the same of whoever listens"),
]


@pytest.mark.parametrize(("vendor", "path", "kind", "sentence"), READ_ASIDE)
def test_what_runs_no_tool_and_still_fetches_is_read(
    vendor: Vendor, path: str, kind: BodyKind, sentence: str
) -> None:
    endpoint = find_endpoint(vendor, "POST", parse_target(f"https://x.example{path}"))
    assert (endpoint.handling, endpoint.kind, endpoint.runs) == (Handling.INSPECTED, kind, False)


def test_the_answer_of_a_call_in_the_background_is_read_when_it_is_asked_for() -> None:
    """The call itself says only that it is queued."""
    asked = find_endpoint(O, "GET", parse_target("https://x.example/v1/responses/resp_1?stream=true"))
    assert (asked.handling, asked.kind) == (Handling.HARMLESS, BodyKind.RESPONSES)
    for method, path in (("DELETE", "/v1/responses/r"), ("GET", "/v1/responses/r/input_items")):
        assert find_endpoint(O, method, parse_target(f"https://x.example{path}")).kind is None


HARMLESS = [
    (A, "GET", "/v1/messages/batches/b/results", "looking at results"),
    (A, "DELETE", "/v1/files/f", "deleting a file"),
    (A, "POST", "/v1/files", "keeping a file"),
    (O, "GET", "/v1/models", "the list of models"),
    (O, "POST", "/v1/embeddings", "embeddings"),
    (O, "POST", "/v1/uploads/u_1/parts", "a part of a file"),
    (O, "POST", "/v1/responses/resp_1/cancel", "stopping a response"),
]


@pytest.mark.parametrize(("vendor", "method", "path", "sentence"), HARMLESS)
def test_what_reaches_no_web_passes(vendor: Vendor, method: str, path: str, sentence: str) -> None:
    endpoint = find_endpoint(vendor, method, parse_target(f"https://x.example{path}"))
    assert (endpoint.handling, endpoint.kind) == (Handling.HARMLESS, None)


CLOSED = [
    (A, "POST", "/v1/messages/batches", "messages by the batch"),
    (A, "POST", "/v1/agents", "an agent kept at the vendor"),
    (A, "POST", "/v1/sessions/s/events", "a session of one"),
    (A, "POST", "/v1/deployments/d/run", "a deployment of one"),
    (A, "POST", "/v1/skills", "a skill"),
    (A, "POST", "/v1/tunnels", "a tunnel"),
    (A, "POST", "/v1/Messages", "another case"),
    (A, "POST", "/v1//messages", "two slashes"),
    (A, "POST", "/v1/messages/", "a slash at the end"),
    (A, "POST", "/v1/%6Dessages", "an escape"),
    (A, "POST", "/v1/messages;x=1", "a parameter"),
    (A, "POST", "/v1%2Fmessages", "an escaped slash"),
    (A, "POST", "/x/v1/files", "a harmless path behind a base path"),
    (A, "POST", "/", "no path"),
    (A, "PUT", "/v1/messages", "another method"),
    (A, "post", "/v1/messages", "a method in small letters"),
    (O, "POST", "/v1/batches", "requests by the batch"),
    (O, "POST", "/v1/assistants", "an assistant"),
    (O, "POST", "/v1/threads/runs", "a run of one"),
    (O, "POST", "/v1/threads/t/runs/r/submit_tool_outputs", "going on with one"),
    (O, "POST", "/v1/conversations/c", "a conversation that is told something else"),
    (O, "POST", "/v1/realtime/sessions", "a session by voice"),
    (O, "POST", "/v1/realtime/client_secrets", "a key for one"),
    (O, "POST", "/v1/containers", "a container, which can have a network"),
    (O, "POST", "/v1/evals", "an evaluation"),
    (O, "POST", "/v1/agents/sessions", "an agent kept at the vendor"),
    (O, "POST", "/v1/vector_stores/v/responses/x", "a path that nobody knows"),
    (R, "POST", "/api/v1/batches", "requests by the batch"),
    (R, "POST", "/api/v1/presets", "settings kept at the vendor"),
    (R, "PATCH", "/api/v1/keys/k", "a method that nobody needs"),
]


@pytest.mark.parametrize(("vendor", "method", "path", "sentence"), CLOSED)
def test_what_could_reach_the_web_or_is_not_known_is_closed(
    vendor: Vendor, method: str, path: str, sentence: str
) -> None:
    endpoint = find_endpoint(vendor, method, parse_target(f"https://x.example{path}"))
    assert endpoint.handling is Handling.CLOSED


def test_what_asks_for_another_protocol_method_or_path_is_closed() -> None:
    endpoint = find_endpoint(O, "GET", parse_target("https://x.example/v1/realtime?model=m"), diverted=True)
    assert endpoint.handling is Handling.CLOSED


@pytest.mark.parametrize(
    ("vendor", "path", "shape"),
    [
        (A, "/v1/messages", ErrorShape.ANTHROPIC),
        (A, "/v1/agents", ErrorShape.ANTHROPIC),
        (O, "/v1/responses", ErrorShape.OPENAI),
        (R, "/api/v1/chat/completions", ErrorShape.OPENROUTER),
        (R, "/api/v1/messages", ErrorShape.ANTHROPIC),
    ],
)
def test_a_refusal_speaks_as_the_sdk_expects(vendor: Vendor, path: str, shape: ErrorShape) -> None:
    assert find_endpoint(vendor, "POST", parse_target(f"https://x.example{path}")).shape is shape


@pytest.mark.parametrize(
    ("url", "vendor"),
    [
        ("https://api.anthropic.com/v1/messages", A),
        ("https://API.Anthropic.COM:443/v1/messages", A),
        ("https://api.anthropic.com./v1/messages", A),
        ("https://api.anthropic.com:8443/v1/messages", A),
        ("https://eu.api.openai.com/v1/responses", O),
        ("https://openrouter.ai/api/v1", R),
        ("https://api.anthropic.com.evil.example/", None),
        ("https://notapi.anthropic.com/", None),
        ("https://docs.rs/", None),
        (f"https://{'a.' * 3000}api.openai.com/v1/responses", O),
        (f"https://{'a.' * 3000}docs.rs/", None),
    ],
)
def test_a_host_is_found_in_any_spelling(url: str, vendor: Vendor | None) -> None:
    assert VendorHosts().find(parse_target(url)) is vendor


def test_a_host_of_a_thousand_labels_costs_no_more_than_the_longest_there_is() -> None:
    """Asked of every hop, and agents choose hosts: what is above each label would be the square of them."""
    hosts, target = VendorHosts(), parse_target(f"https://{'a.' * 3000}docs.rs/")
    assert count_calls(lambda: hosts.find(target)) < 1000


def test_hosts_of_ones_own_take_the_place_of_the_known_ones() -> None:
    hosts = VendorHosts({O: (parse_host_pattern("models.internal.example"),)})
    assert hosts.find(parse_target("https://models.internal.example/v1")) is O
    assert hosts.find(parse_target("https://api.openai.com/v1")) is None


def test_a_pattern_of_everything_makes_every_host_a_vendors_but_those_that_are_named() -> None:
    hosts = VendorHosts({R: (parse_host_pattern("*"),), A: (parse_host_pattern("*.a.example:8443"),)})
    assert hosts.find(parse_target("https://b.a.example:8443/")) is A
    assert hosts.find(parse_target("https://b.a.example/")) is R
