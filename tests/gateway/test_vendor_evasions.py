"""Framings, codings, protocols and paths around a web tool: what leaves the gateway is narrowed, or nothing leaves.

The bodies themselves are tried in tests/proxy_addons/policy/vendors/test_evasions.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.vendor_stage import MONITOR, NARROW, PASS, REFUSE, VendorWorld
from tests.kit import replies, vendors
from tests.kit.bodies import Coding, bomb, content_encoding, encode_body
from tests.kit.client import NoResponseError, RawConnection, Response
from tests.kit.client_h2 import H2Client
from tests.kit.sync import Gate

ANTHROPIC, OPENAI, OPENROUTER = vendors.NAMES
SEARCH = {"type": "web_search_20250305", "name": "web_search"}
ASKED = {"model": "claude-test", "max_tokens": 1, "messages": [{"role": "user", "content": "x"}]}
PLAIN = json.dumps(ASKED).encode()
SEARCHING = json.dumps({**ASKED, "tools": [SEARCH]}).encode()
NARROWED = {**SEARCH, "max_uses": 3, "allowed_domains": [*vendors.NAMES, "docs.rs", "crates.io"]}
JSON = ("Content-Type", "application/json")
READ = [coding for coding in Coding if coding.token != "deflate"]
"""Codings of request bodies that have one reading."""
Pairs = Sequence[tuple[str, str]]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VendorWorld]:
    with VendorWorld(tmp_path_factory.mktemp("vendors"), alpn=("h2", "http/1.1")) as world:
        world.vendor.route("*", replies.json(vendors.message()))
        yield world


@pytest.fixture
def world(shared: VendorWorld) -> VendorWorld:
    shared.forget()
    shared.vendor.route("*", replies.json(vendors.message()))
    return shared


def tunnel(world: VendorWorld, listener: int, name: str = ANTHROPIC, alpn: str = "http/1.1") -> RawConnection:
    connection = world.gateway.open(listener)
    assert connection.connect(f"{name}:{world.vendor.port}").status == 200
    return connection.start_tls(name.lower().rstrip("."), world.gateway.ca_path, alpn=(alpn,))


def post(
    world: VendorWorld,
    body: bytes,
    headers: Pairs = (JSON,),
    *,
    path: str = "/v1/messages",
    method: str = "POST",
    name: str = ANTHROPIC,
    listener: int = NARROW,
) -> Response:
    with tunnel(world, listener, name) as inside:
        inside.request(method, path, f"{name}:{world.vendor.port}", headers, body)
        return inside.read_response(method)


def assert_narrowed(world: VendorWorld, answer: Response) -> None:
    assert (answer.status, answer.header("fetchd-verdict")) == (200, "allowed"), answer.body
    (request,) = world.vendor.requests
    assert json.loads(request.body)["tools"] == [NARROWED]
    assert request.values("content-length") == [str(len(request.body))]
    assert request.values("content-encoding") == request.values("transfer-encoding") == []


def assert_refused(world: VendorWorld, answer: Response, status: int = 403, rule: str = "web-tool") -> None:
    assert (answer.status, answer.header("fetchd-rule")) == (status, rule), answer.body
    assert world.vendor.requests == []
    assert answer.header("content-type") == "application/json"
    (line,) = world.gateway.decisions(fetch_id=answer.header("fetchd-id"))
    assert (line["verdict"], line["rule"], line["status"]) == ("refused", rule, status)
    assert not world.gateway.lines("web", fetch_id=answer.header("fetchd-id"))


# -------------------------------------------------------------------------------------------- codings, framings


@pytest.mark.parametrize(
    "codings",
    [*((coding,) for coding in READ), (Coding.GZIP, Coding.BR)],
    ids=lambda codings: "+".join(codings),
)
def test_a_coded_body_is_decoded_and_narrowed(world: VendorWorld, codings: tuple[Coding, ...]) -> None:
    field = ("Content-Encoding", content_encoding(*codings))
    assert_narrowed(world, post(world, encode_body(SEARCHING, *codings), (JSON, field)))


@pytest.mark.parametrize("coding", READ)
def test_a_coded_body_without_web_tools_leaves_as_it_came(world: VendorWorld, coding: Coding) -> None:
    body = encode_body(PLAIN, coding)
    assert post(world, body, (JSON, ("Content-Encoding", coding.token))).status == 200
    (request,) = world.vendor.requests
    assert (request.body, request.values("content-encoding")) == (body, [coding.token])


UNREADABLE: dict[str, tuple[bytes, Pairs]] = {
    "a coding that nobody knows": (SEARCHING, (JSON, ("Content-Encoding", "aws-chunked"))),
    "three codings": (SEARCHING, (JSON, ("Content-Encoding", "gzip, gzip, gzip"))),
    "a coding that it does not have": (SEARCHING, (JSON, ("Content-Encoding", "gzip"))),
    "deflate, which may be two bodies in one": (
        encode_body(SEARCHING, Coding.DEFLATE),
        (JSON, ("Content-Encoding", "deflate")),
    ),
    "half a coded body": (encode_body(SEARCHING, Coding.GZIP)[:-9], (JSON, ("Content-Encoding", "gzip"))),
    "a bomb": (bomb(Coding.GZIP, 40 << 20), (JSON, ("Content-Encoding", "gzip"))),
    "a form of parts": (SEARCHING, (("Content-Type", "multipart/form-data; boundary=x"),)),
    "plain text": (SEARCHING, (("Content-Type", "text/plain"),)),
    "another charset": (SEARCHING, (("Content-Type", "application/json; charset=utf-7"),)),
    "two charsets": (SEARCHING, (("Content-Type", "application/json; charset=utf-8; charset=utf-7"),)),
    "a charset in the extended form": (SEARCHING, (("Content-Type", "application/json; charset*=utf-7"),)),
    "two content types": (SEARCHING, (("Content-Type", "application/json"), ("Content-Type", "text/plain"))),
    "a content type that is none": (SEARCHING, (("Content-Type", "json"),)),
    "no body": (b"", (JSON, ("Content-Length", "0"))),
}


@pytest.mark.parametrize("sentence", UNREADABLE)
def test_a_body_that_cannot_be_read_is_refused(world: VendorWorld, sentence: str) -> None:
    body, headers = UNREADABLE[sentence]
    answer = post(world, body, headers)
    assert_refused(world, answer)
    assert "cannot be held to the profile" in answer.json()["error"]["message"]


def test_a_body_without_a_content_type_is_read_as_json(world: VendorWorld) -> None:
    assert_narrowed(world, post(world, SEARCHING, ()))


@pytest.mark.parametrize("size", [1, 7, 65536])
def test_chunks_are_put_together_and_narrowed(world: VendorWorld, size: int) -> None:
    chunks = [SEARCHING[at : at + size] for at in range(0, len(SEARCHING), size)]
    framed = b"".join(b"%x;ext=1\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\nx: y\r\n\r\n"
    with tunnel(world, NARROW) as inside:
        inside.request(
            "POST",
            "/v1/messages",
            f"{ANTHROPIC}:{world.vendor.port}",
            (JSON, ("Transfer-Encoding", "chunked")),
        )
        inside.send(framed)
        assert_narrowed(world, inside.read_response())


def test_chunks_without_web_tools_leave_as_they_came(world: VendorWorld) -> None:
    with tunnel(world, NARROW) as inside:
        fields = (JSON, ("Transfer-Encoding", "chunked"))
        inside.request("POST", "/v1/messages", f"{ANTHROPIC}:{world.vendor.port}", fields)
        inside.send(b"%x\r\n%s\r\n0\r\n\r\n" % (len(PLAIN), PLAIN))
        assert inside.read_response().status == 200
        (request,) = world.vendor.requests
        assert request.body == PLAIN
        # The connection goes on, and so does the one to the vendor.
        inside.request("POST", "/v1/messages", f"{ANTHROPIC}:{world.vendor.port}", (JSON,), PLAIN)
        assert inside.read_response().status == 200
    assert [request.body for request in world.vendor.requests] == [PLAIN, PLAIN]


def test_frames_of_http2_without_a_length_are_narrowed(world: VendorWorld) -> None:
    with tunnel(world, NARROW, alpn="h2") as inside:
        client = H2Client(inside)
        fields = [("content-type", "application/json")]
        stream = client.request(f"{ANTHROPIC}:{world.vendor.port}", "/v1/messages", "POST", fields, SEARCHING)
        answer = client.read_response(stream)
    assert_narrowed(world, answer)


def test_a_digest_of_the_body_that_came_does_not_go_with_another(world: VendorWorld) -> None:
    digests = [("Content-MD5", "x"), ("Digest", "x"), ("Content-Digest", "x"), ("Repr-Digest", "x")]
    assert_narrowed(world, post(world, SEARCHING, (JSON, *digests)))
    (request,) = world.vendor.requests
    assert not any(request.values(name.lower()) for name, _ in digests)


def test_whoever_waits_for_a_continue_gets_it(world: VendorWorld) -> None:
    with tunnel(world, NARROW) as inside:
        length = ("Content-Length", str(len(SEARCHING)))
        fields = (JSON, length, ("Expect", "100-continue"))
        inside.request("POST", "/v1/messages", f"{ANTHROPIC}:{world.vendor.port}", fields)
        assert inside.receive().startswith(b"HTTP/1.1 100")
        assert world.vendor.requests == []
        inside.send(SEARCHING)
        assert_narrowed(world, inside.read_response())


# ----------------------------------------------------------------------------------------- paths, names, protocols


@pytest.mark.parametrize(
    ("name", "path"),
    [
        (ANTHROPIC, "/v1/messages?beta=true"),
        (ANTHROPIC, "/base/path/v1/messages"),
        (ANTHROPIC, "/x/../v1/./messages"),
        (ANTHROPIC, "/x/%2e%2e/v1/messages"),
        (ANTHROPIC.upper(), "/v1/messages"),
        (f"{ANTHROPIC}.", "/v1/messages"),
    ],
)
def test_a_call_is_found_under_any_base_path_and_spelling(world: VendorWorld, name: str, path: str) -> None:
    assert_narrowed(world, post(world, SEARCHING, path=path, name=name))


def test_a_call_is_found_in_the_absolute_form(world: VendorWorld) -> None:
    url = f"https://{ANTHROPIC}:{world.vendor.port}/v1/messages"
    with world.gateway.open(NARROW) as connection:
        connection.request("POST", url, f"{ANTHROPIC}:{world.vendor.port}", (JSON,), SEARCHING)
        assert_narrowed(world, connection.read_response())


CLOSED: dict[str, tuple[str, str, str, bytes, Pairs]] = {
    "messages by the batch": (ANTHROPIC, "POST", "/v1/messages/batches", b'{"requests": []}', (JSON,)),
    "a batch out of a file": (OPENAI, "POST", "/v1/batches", b'{"input_file_id": "f"}', (JSON,)),
    "a run of an assistant": (OPENAI, "POST", "/v1/threads/runs", b"{}", (JSON,)),
    "a path of tomorrow": (OPENAI, "POST", "/v2/responses/new", b"{}", (JSON,)),
    "a harmless path, and another in a field": (
        OPENAI,
        "POST",
        "/v1/embeddings",
        b"{}",
        (JSON, ("X-Original-URL", "/v1/responses")),
    ),
    "a harmless method, and another in a field": (
        OPENAI,
        "GET",
        "/v1/models",
        b"",
        (("X-HTTP-Method-Override", "POST"),),
    ),
    "a path in another case": (ANTHROPIC, "POST", "/v1/Messages", SEARCHING, (JSON,)),
    "a path with an escape": (ANTHROPIC, "POST", "/v1/%6Dessages", SEARCHING, (JSON,)),
    "a body where none belongs": (ANTHROPIC, "GET", "/v1/messages", SEARCHING, (JSON,)),
    "another method": (ANTHROPIC, "DELETE", "/v1/messages", SEARCHING, (JSON,)),
}


COUNTED = json.dumps({
    **ASKED,
    "mcp_servers": [{"type": "url", "name": "m", "url": "https://evil.example/?secret"}],
}).encode()  # fmt: skip
MODERATED = b'{"input": [{"type": "image_url", "image_url": {"url": "https://evil.example/?secret"}}]}'


@pytest.mark.parametrize(
    ("name", "path", "body"),
    [(ANTHROPIC, "/v1/messages/count_tokens", COUNTED), (OPENAI, "/v1/moderations", MODERATED)],
)
def test_what_the_vendor_fetches_without_running_a_tool_is_judged(
    world: VendorWorld, name: str, path: str, body: bytes
) -> None:
    answer = post(world, body, path=path, name=name)
    assert_refused(world, answer)
    assert "host not allowed: evil.example" in answer.json()["error"]["message"]
    counted = post(world, SEARCHING, path="/v1/messages/count_tokens")
    assert_narrowed(world, counted)
    assert not world.web_lines(str(counted.header("fetchd-id")))  # nothing ran that there were a line of


@pytest.mark.parametrize("listener", [NARROW, REFUSE], ids=["enforce", "refuse"])
@pytest.mark.parametrize("sentence", CLOSED)
def test_what_nobody_can_hold_is_closed(world: VendorWorld, sentence: str, listener: int) -> None:
    name, method, path, body, headers = CLOSED[sentence]
    answer = post(world, body, headers, path=path, method=method, name=name, listener=listener)
    assert_refused(world, answer)
    assert "fetchd" in answer.json()["error"]["message"]


def test_a_body_behind_an_http2_get_is_closed(world: VendorWorld) -> None:
    with tunnel(world, NARROW, alpn="h2") as inside:
        client = H2Client(inside)
        stream = client.request(f"{ANTHROPIC}:{world.vendor.port}", "/v1/models", "GET", [], SEARCHING)
        assert_refused(world, client.read_response(stream))


@pytest.mark.parametrize(
    ("name", "method", "path"),
    [(ANTHROPIC, "GET", "/v1/models"), (OPENAI, "DELETE", "/v1/files/f"), (OPENAI, "POST", "/v1/embeddings")],
)
@pytest.mark.parametrize("listener", [PASS, NARROW, REFUSE], ids=["pass", "enforce", "refuse"])
def test_what_reaches_no_web_passes(
    world: VendorWorld, name: str, method: str, path: str, listener: int
) -> None:
    body = b"anything" if method == "POST" else b""
    assert post(world, body, (), path=path, method=method, name=name, listener=listener).status == 200
    assert world.vendor.requests[0].body == body


@pytest.mark.parametrize("name", ["docs.rs", "crates.io"])
def test_other_hosts_are_nobodys_vendors(world: VendorWorld, name: str) -> None:
    """Nothing is looked at there: the dial fails, by no rule of web tools."""
    with world.gateway.open(NARROW) as connection:
        connection.request(
            "POST", f"https://{name}:{world.vendor.port}/v1/messages", name, (JSON,), b"not JSON"
        )
        assert connection.read_response().header("fetchd-rule") in ("authority-mismatch", "dns-failed")


def test_which_hosts_are_a_vendors_is_the_configurations_and_taken_by_a_reload(tmp_path: Path) -> None:
    with VendorWorld(tmp_path) as world:
        world.vendor.route("*", replies.json(vendors.message()))
        assert_refused(world, post(world, b"not JSON"))
        config = world.gateway._told["config"]
        config["vendors"] = {"anthropic": {"hosts": ["models.internal.example"]}}
        assert world.gateway.reload(config)["event"] == "reloaded"
        answer = post(world, b"not JSON")
        assert answer.status == 200
        assert not world.web_lines(str(answer.header("fetchd-id")))
        config["vendors"] = {"openai": {"hosts": [ANTHROPIC]}, "anthropic": {"hosts": []}}
        assert world.gateway.reload(config)["event"] == "reloaded"
        answer = post(world, b"not JSON", path="/v1/responses")
        assert answer.json()["error"]["code"] == "web-tool"


def test_a_websocket_is_closed(tmp_path: Any) -> None:
    with VendorWorld(tmp_path) as world:
        config = world.gateway._told["config"]
        config["profiles"]["narrowing"]["upgrades"] = ["websocket"]
        assert world.gateway.reload(config)["event"] == "reloaded"
        fields = [
            ("Connection", "upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ]  # fmt: skip
        answer = post(world, b"", fields, path="/v1/realtime?model=m", method="GET", name=OPENAI)
        assert_refused(world, answer)


# ---------------------------------------------------------------------------------------------------------- bounds


BOUND = 32 << 20


def test_a_body_of_exactly_the_bound_is_read(world: VendorWorld) -> None:
    body = SEARCHING + b" " * (BOUND - len(SEARCHING))
    assert_narrowed(world, post(world, body))


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_one_byte_more_is_refused(world: VendorWorld, framing: str) -> None:
    body = SEARCHING + b" " * (BOUND + 1 - len(SEARCHING))
    field = ("Content-Length", str(len(body))) if framing == "length" else ("Transfer-Encoding", "chunked")
    with tunnel(world, NARROW) as inside:
        inside.request("POST", "/v1/messages", f"{ANTHROPIC}:{world.vendor.port}", (JSON, field))
        if framing == "chunked":
            try:
                inside.send(b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))
            except ConnectionError:
                pass
        try:
            answer = inside.read_response()
        except (NoResponseError, ConnectionError):
            # It was answered and then closed while this client was still sending: TCP may drop the answer then.
            assert framing == "chunked"
            assert world.gateway.decisions(rule="request-cap")
            assert world.vendor.requests == []
            return
    assert_refused(world, answer, 413, "request-cap")
    assert answer.json()["error"]["type"] == "request_too_large"


def test_a_body_that_is_kept_counts_for_the_budget_of_the_day(tmp_path: Path) -> None:
    with VendorWorld(tmp_path) as world:
        world.vendor.route("*", replies.answer(200, b"{}", "application/json"))
        config = world.gateway._told["config"]
        config["profiles"]["narrowing"]["bytes_per_day"] = len(PLAIN) * 2
        assert world.gateway.reload(config)["event"] == "reloaded"
        assert post(world, PLAIN).status == 200
        answer = post(world, PLAIN)
        assert (answer.status, answer.header("fetchd-rule")) == (429, "budget")
        assert len(world.vendor.requests) == 1


# --------------------------------------------------------------------------------------------------------- monitor


@pytest.mark.parametrize(
    ("body", "path", "would"),
    [
        (SEARCHING, "/v1/messages", "web-tool"),
        (b"not JSON", "/v1/messages", "web-tool"),
        (b"{}", "/v1/messages/batches", "web-tool"),
        (PLAIN, "/v1/messages", None),
    ],
)
def test_a_profile_that_monitors_changes_nothing(
    world: VendorWorld, body: bytes, path: str, would: str | None
) -> None:
    answer = post(world, body, path=path, listener=MONITOR)
    assert answer.status == 200
    assert world.vendor.requests[0].body == body
    (line,) = world.gateway.decisions(fetch_id=answer.header("fetchd-id"))
    assert (line["verdict"], line["would_refuse"]) == ("allowed", would)


# --------------------------------------------------------------------------------------------------------- answers


@pytest.mark.parametrize("listener", [PASS, NARROW], ids=["pass", "enforce"])
def test_an_event_passes_before_the_next_is_made(world: VendorWorld, listener: int) -> None:
    events = vendors.message_events(vendors.message())
    gates = [Gate() for _ in events]
    fields = [("content-type", "text/event-stream")]
    world.vendor.route("/v1/messages", replies.trickle(events, gates, fields))
    with tunnel(world, listener) as inside:
        inside.request("POST", "/v1/messages", f"{ANTHROPIC}:{world.vendor.port}", (JSON,), SEARCHING)
        got = b""
        for event, gate in zip(events, gates, strict=True):
            gate.open()
            while event not in got:
                got += inside.receive()
    world.vendor.route("/v1/messages", replies.json(vendors.message()))


@pytest.mark.parametrize("coding", [None, Coding.GZIP, Coding.DEFLATE])
def test_an_answer_passes_byte_for_byte_and_is_read(world: VendorWorld, coding: Coding | None) -> None:
    plain = b"".join(vendors.message_events(vendors.message(error="max_uses_exceeded")))
    sent = plain if coding is None else encode_body(plain, coding)
    fields = [] if coding is None else [("content-encoding", coding.token)]
    world.vendor.route("/v1/messages", replies.answer(200, sent, "text/event-stream", fields))
    answer = post(world, PLAIN)
    world.vendor.route("/v1/messages", replies.json(vendors.message()))

    assert answer.body == sent
    (line,) = world.web_lines(str(answer.header("fetchd-id")))
    assert line["calls"] == [{"tool": "web_search", "error": "max_uses_exceeded", "ended": True}]
    assert line["complete"] is True


def test_the_answer_of_a_call_in_the_background_is_read_when_it_is_fetched(world: VendorWorld) -> None:
    """The call itself is answered that it is queued."""
    world.vendor.route("/v1/responses/resp_1", replies.json(vendors.response()))
    answer = post(world, b"", (), path="/v1/responses/resp_1", method="GET", name=OPENAI)

    assert answer.status == 200
    (line,) = world.web_lines(str(answer.header("fetchd-id")))
    assert (line["endpoint"], line["declared"], line["complete"]) == ("responses", None, True)
    assert [call["tool"] for call in line["calls"]] == ["web_search"]


BROKEN: dict[str, bytes] = {
    "nothing": b"",
    "no events": b"\x00\xff" * 1000,
    "an event that is no JSON": b"data: {\n\n" * 100,
    "a line without end": b"data: " + b"x" * 3_000_000,
    "half a stream": b"".join(vendors.message_events(vendors.message())[:-2]),
}


@pytest.mark.parametrize("sentence", BROKEN)
def test_an_answer_that_cannot_be_read_passes_all_the_same(world: VendorWorld, sentence: str) -> None:
    body = BROKEN[sentence]
    world.vendor.route("/v1/messages", replies.answer(200, body, "text/event-stream"))
    answer = post(world, PLAIN)
    world.vendor.route("/v1/messages", replies.json(vendors.message()))

    assert answer.body == body
    (line,) = world.web_lines(str(answer.header("fetchd-id")))
    assert line["complete"] is False


def test_an_error_of_the_vendor_passes_and_has_no_line(world: VendorWorld) -> None:
    world.vendor.route("/v1/messages", replies.answer(529, b'{"type": "error"}', "application/json"))
    answer = post(world, PLAIN)
    world.vendor.route("/v1/messages", replies.json(vendors.message()))

    assert (answer.status, answer.body) == (529, b'{"type": "error"}')
    assert not world.web_lines(str(answer.header("fetchd-id")))
