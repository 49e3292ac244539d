"""Bypasses 18 and 19 of docs/bypasses.md: header fields that tell, and messages that end elsewhere for somebody."""

from __future__ import annotations

import pytest

from tests.gateway.expect import (
    NOBODY,
    Contacts,
    assert_allowed,
    assert_refused,
    audited,
    contacts,
    forget,
    try_send,
)
from tests.gateway.paths import ABSOLUTE, ALL, HTTP1, Ask, Entry, open_way, request_target, send
from tests.kit import replies
from tests.kit.client import NoResponseError, Response
from tests.kit.gateway import World

SECRET = "s3cret-0f-the-agent"

# -- 18: fields that never reach an origin

ANYWHERE = ("Authorization", "aUTHORIZATION", "Cookie", "Cookie2", "COOKIE", "Referer", "Proxy-Authorization")
"""Fields that any HTTP version carries."""
ONLY_HTTP1 = (
    "Proxy-Connection",
    "pROXY-cONNECTION",
    "Keep-Alive",
    "X-Nominated",
    "Proxy-Authenticate",
    "TE",
    "Trailer",
)
FORGED = ("Fetchd-Agent", "Fetchd-Profile", "Fetchd-Verdict", "fetchd-anything")


@pytest.mark.parametrize("entry", ALL)
def test_case_18_secrets_stay_here(world: World, entry: Entry) -> None:
    """Stock forwards Proxy-Authorization, Proxy-Connection and what Connection nominates as they were sent."""
    fields = [(name, f"Basic {SECRET}") for name in (*ANYWHERE, *FORGED)]
    if entry in ABSOLUTE:  # there it names an agent: test_identity.py
        fields.remove(("Proxy-Authorization", f"Basic {SECRET}"))
    fields += [(name, SECRET) for name in ("Authorization", "Cookie")]  # twice
    if entry is not Entry.CONNECT_H2:
        fields += [(name, SECRET) for name in ONLY_HTTP1]
        fields += [("CONNECTION", "x-nominated, Keep-Alive"), ("Connection", "close-not")]
    answer = send(world, entry, Ask(path="/secrets", headers=[*fields, ("X-Kept", "kept")]))

    assert_allowed(world, answer)
    (connection,) = entry.origin(world).connections
    assert SECRET.encode() not in bytes(connection.received)
    assert b"x-kept: kept" in bytes(connection.received).lower()
    removed = (answer.header("fetchd-removed") or "").replace(" ", "").split(",")
    assert {"authorization", "cookie", "cookie2", "referer"} <= set(removed)


@pytest.mark.parametrize("entry", HTTP1)
def test_case_18_trailers_of_a_request_stay_here(world: World, entry: Entry) -> None:
    body = b"4\r\nbody\r\n0\r\nAuthorization: " + SECRET.encode() + b"\r\nX-Trailer: t\r\n\r\n"
    if entry is Entry.WEBSOCKET:
        answer = try_send(world, entry, Ask(method="GET", headers=[("Trailer", "x"), ("TE", "trailers")]))
        assert answer is not None
        assert_allowed(world, answer)
        return
    answer = raw_request(world, entry, [("Transfer-Encoding", "chunked")], body, method="POST")

    assert_allowed(world, answer)
    (connection,) = entry.origin(world).connections
    assert connection.requests[0].body == b"body"
    assert SECRET.encode() not in bytes(connection.received)
    assert b"x-trailer" not in bytes(connection.received).lower()


CONTROL = {
    "bare CR": b"X-A: a\rAuthorization: s\r\n",
    "bare LF": b"X-A: a\nAuthorization: s\r\n",
    "NUL": b"X-A: a\x00b\r\n",
    "space before the colon": b"Authorization : s\r\n",
    "name with a control byte": b"X\x01-A: a\r\n",
    "no colon": b"Authorization\r\n",
    "empty name": b": s\r\n",
}


@pytest.mark.parametrize("kind", CONTROL)
@pytest.mark.parametrize("entry", HTTP1)
def test_case_18_no_field_hides_in_another(world: World, entry: Entry, kind: str) -> None:
    """What one parser reads as a value, the next may read as a field."""
    answer = raw_head(world, entry, CONTROL[kind])

    if kind == "bare LF" and answer is not None and answer.status == 200:
        # A line may end in LF alone (RFC 9112, 2.2): then the field was seen, and removed.
        assert b"Authorization" not in bytes(entry.origin(world).connections[0].received)
        return
    assert_refused(world, answer, "not-http", 400, closes=True)
    forget(world)
    assert_allowed(world, send(world, entry, Ask(headers=[("X-A", "a")])))


@pytest.mark.parametrize("entry", HTTP1)
def test_case_18_folded_fields_hide_nothing(world: World, entry: Entry) -> None:
    """obs-fold (RFC 9112, 5.2): refused, or the secret is gone with its field; never a line of its own."""
    answer = raw_head(
        world, entry, b"Authorization: Basic\r\n " + SECRET.encode() + b"\r\nX-A: 1\r\n\tCookie: s\r\n"
    )

    if answer is not None and answer.status == 200:
        received = bytes(entry.origin(world).connections[0].received)
        assert SECRET.encode() not in received
        assert b"\nCookie" not in received and b"\n\t" not in received and b"\n " not in received
    else:
        assert_refused(world, answer, "not-http", 400, closes=True)


@pytest.mark.parametrize("value", ["a\rb", "a\nb", "a\x00b", "a\r\nauthorization: s"])
def test_case_18_control_characters_in_h2_fields(world: World, value: str) -> None:
    attack = Ask(headers=[("x-a", value)])
    assert_refused(world, try_send(world, Entry.CONNECT_H2, attack), "not-http", 400, closes=True)
    forget(world)
    assert_allowed(world, send(world, Entry.CONNECT_H2, Ask(headers=[("x-a", "a b")])))


@pytest.mark.parametrize("name", ["Content-Length", "Host", "Transfer-Encoding", "Content-Type"])
@pytest.mark.parametrize("entry", HTTP1)
def test_case_18_nominating_what_frames_a_message(world: World, entry: Entry, name: str) -> None:
    """Removing such a field would re-frame the message (N2)."""
    answer = send(world, entry, Ask(headers=[("Connection", name)]))
    assert_refused(world, answer, "not-http", 400)
    forget(world)
    assert_allowed(world, send(world, entry, Ask(headers=[("Connection", "x-other")])))


def raw_head(world: World, entry: Entry, lines: bytes) -> Response | None:
    """The answer to a GET whose head holds `lines` as they are; None when there was none."""
    with world.gateway.open(1) as proxy:
        connection = open_way(world, proxy, entry)
        target, host = request_target(world, entry, "/raw"), Ask().authority(world, entry)
        connection.send(f"GET {target} HTTP/1.1\r\nHost: {host}\r\n".encode() + lines + b"\r\n")
        try:
            return connection.read_response()
        except (NoResponseError, OSError):
            return None


def raw_request(
    world: World, entry: Entry, fields: list[tuple[str, str]], body: bytes, *, method: str, path: str = "/raw"
) -> Response:
    """The answer to a request with these fields and, after its head, these bytes."""
    with world.gateway.open(1) as proxy:
        connection = open_way(world, proxy, entry)
        host = Ask().authority(world, entry)
        connection.request(method, request_target(world, entry, path), host, fields)
        connection.send(body)
        return connection.read_response(method)


# -- 19: smuggling

SECOND = b"GET /smuggled HTTP/1.1\r\nHost: evil.example\r\nCookie: s=1\r\n\r\n"
AMBIGUOUS: dict[str, list[tuple[str, str]]] = {
    "length and chunked": [("Content-Length", "4"), ("Transfer-Encoding", "chunked")],
    "chunked and length": [("Transfer-Encoding", "chunked"), ("Content-Length", "4")],
    "two lengths": [("Content-Length", "4"), ("Content-Length", "60")],
    "two lengths in one field": [("Content-Length", "4, 60")],
    "signed length": [("Content-Length", "+4")],
    "negative length": [("Content-Length", "-4")],
    "length in hex": [("Content-Length", "0x4")],
    "underscored length": [("Content-Length", "0_4")],
    "length in other digits": [("Content-Length", "\u0664")],
    "unknown coding": [("Transfer-Encoding", "identity")],
    "coding in quotes": [("Transfer-Encoding", '"chunked"')],
    "gzip before chunked": [("Transfer-Encoding", "gzip, chunked")],
    "chunked twice": [("Transfer-Encoding", "chunked, chunked")],
    "chunked in two fields": [("Transfer-Encoding", "chunked"), ("Transfer-Encoding", "chunked")],
    "coding with a control byte": [("Transfer-Encoding", "chun\x0bked")],
    "space before the colon": [("Transfer-Encoding ", "chunked")],
    "name in odd case, odd coding": [("tRANSFER-eNCODING", "xchunked")],
}
PLAIN_WAYS = [entry for entry in HTTP1 if entry is not Entry.WEBSOCKET]


@pytest.mark.parametrize("kind", AMBIGUOUS)
@pytest.mark.parametrize("entry", PLAIN_WAYS)
def test_case_19_ambiguous_requests(world: World, entry: Entry, kind: str) -> None:
    """Where the body ends must be beyond doubt, else a second request hides in it."""
    answer = raw_request(world, entry, AMBIGUOUS[kind], b"0\r\n\r\n" + SECOND, method="POST")

    assert answer.status in (400, 413), answer
    assert answer.header("fetchd-rule") in ("not-http", "request-cap")
    assert contacts(world) == NOBODY
    assert audited(world, lambda line: line["fetch_id"] == answer.header("fetchd-id"))


@pytest.mark.parametrize("entry", PLAIN_WAYS)
def test_case_19_what_is_trimmed_goes_out_trimmed(world: World, entry: Entry) -> None:
    """A vertical tab before the coding is white space to us; the origin must not be left to guess."""
    fields = [("Transfer-Encoding", "\x0bchunked")]
    answer = raw_request(world, entry, fields, b"0\r\n\r\n" + SECOND, method="POST")

    assert_allowed(world, answer)
    (request,) = entry.origin(world).requests
    assert request.values("transfer-encoding") == ["chunked"]


@pytest.mark.parametrize("entry", PLAIN_WAYS)
def test_case_19_clear_requests_connect_once(world: World, entry: Entry) -> None:
    """What follows a complete request is a request of its own, with a verdict of its own."""
    with world.gateway.open(1) as proxy:
        connection = open_way(world, proxy, entry)
        host = Ask().authority(world, entry)
        first = request_target(world, entry, "/first")
        connection.request("POST", first, host, [("Content-Length", "4")])
        connection.send(b"body" + SECOND)
        assert_allowed(world, connection.read_response())
        smuggled = connection.read_response()

    assert smuggled.header("fetchd-verdict") == "refused"
    assert [(r.target, r.body) for r in entry.origin(world).requests] == [("/first", b"body")]


@pytest.mark.parametrize("entry", PLAIN_WAYS)
def test_case_19_odd_chunks(world: World, entry: Entry) -> None:
    """Chunk sizes that two parsers read in two ways."""
    for size in (b"+4", b"0x4", b"4 4", b"-1", b"4_0", b"g"):
        with world.gateway.open(1) as proxy:
            connection = open_way(world, proxy, entry)
            fields = [("Transfer-Encoding", "chunked")]
            target, host = request_target(world, entry, "/chunks"), Ask().authority(world, entry)
            connection.request("POST", target, host, fields)
            connection.send(size + b"\r\nbody\r\n0\r\n\r\n" + SECOND)
            try:
                answer = connection.read_response()
            except (NoResponseError, OSError):
                continue
            assert answer.status != 200, size

    assert b"smuggled" not in b"".join(bytes(c.received) for c in entry.origin(world).connections)


def test_case_19_h2_length_that_lies(world: World) -> None:
    """A content-length that the DATA frames do not keep (RFC 9113, 8.1.1)."""
    for length in ("1", "100"):
        attack = Ask(method="POST", headers=[("content-length", length)], body=b"body" + SECOND)
        answer = try_send(world, Entry.CONNECT_H2, attack)
        assert answer is None or answer.status != 200
    assert b"smuggled" not in b"".join(r.head for r in world.origin.requests)


@pytest.mark.parametrize("name", ["transfer-encoding", "connection", "keep-alive", "proxy-connection"])
def test_case_19_h2_fields_of_http1(world: World, name: str) -> None:
    """Connection-specific fields make an h2 request malformed (RFC 9113, 8.2.2)."""
    attack = Ask(headers=[(name, "chunked")])
    assert_refused(world, try_send(world, Entry.CONNECT_H2, attack), "not-http", 400, closes=True)
    forget(world)
    assert_allowed(world, send(world, Entry.CONNECT_H2, Ask(headers=[("te", "trailers")])))


ANSWERS = {
    "length and chunked": b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "two lengths": b"Content-Length: 5\r\nContent-Length: 50\r\n\r\nhello",
    "signed length": b"Content-Length: +5\r\n\r\nhello",
    "unknown coding": b"Transfer-Encoding: identity\r\n\r\nhello",
    "gzip before chunked": b"Transfer-Encoding: gzip, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "space before the colon": b"Content-Length : 5\r\n\r\nhello",
    "bare CR in a field": b"X-A: a\rContent-Length: 5\r\n\r\nhello",
    "nominated length": b"Connection: content-length\r\nContent-Length: 5\r\n\r\nhello",
}


@pytest.mark.parametrize("kind", ANSWERS)
@pytest.mark.parametrize("entry", ALL)
def test_case_19_ambiguous_answers(world: World, entry: Entry, kind: str) -> None:
    """The same on the way back: an origin may not choose where the client sees its answer end."""
    entry.origin(world).route("/ambiguous", replies.wire(b"HTTP/1.1 200 OK\r\n" + ANSWERS[kind]))
    answer = send(world, entry, Ask(path="/ambiguous"))

    assert (answer.status, answer.header("fetchd-rule")) == (502, "upstream")
    queries = world.dns.count("a.example")
    assert contacts(world) == Contacts(1, queries)
    assert audited(world, lambda line: line["fetch_id"] == answer.header("fetchd-id"), "close")


@pytest.mark.parametrize("entry", [entry for entry in ALL if entry is not Entry.WEBSOCKET])
def test_case_19_a_clear_answer_with_more_behind_it(world: World, entry: Entry) -> None:
    """A second answer that nobody asked for is not given to the next request."""
    two = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
    entry.origin(world).route("/two", replies.wire(two, close=False))
    answer = send(world, entry, Ask(path="/two"))

    assert_allowed(world, answer)
    assert answer.body == b"hello"


@pytest.mark.parametrize("entry", ALL)
def test_case_19_folded_answers_are_unfolded(world: World, entry: Entry) -> None:
    """A proxy must (RFC 9112, 5.2): the client never sees a line that may be a field of its own."""
    head = b"HTTP/1.1 200 OK\r\nX-A: one\r\n\tX-B: two\r\nContent-Length: 5\r\n\r\nhello"
    entry.origin(world).route("/folded", replies.wire(head))
    answer = send(world, entry, Ask(path="/folded"))

    assert_allowed(world, answer)
    assert (answer.header("x-a"), answer.header("x-b"), answer.body) == ("one X-B: two", None, b"hello")
