"""Heads with one reading: ours, which looks at the common ones itself, against stock's own judgement of each."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mitmproxy import http
from mitmproxy.net.http.validate import validate_headers
from mitmproxy.proxy.layers.http._events import (
    RequestEndOfMessage,
    RequestHeaders,
    ResponseData,
    ResponseEndOfMessage,
    ResponseHeaders,
)

from proxy_addons.engine.framing import OwedBodies, OwedBody, is_clear_head

NAMES = st.sampled_from(
    [
        b"Host",
        b"Content-Length",
        b"content-length",
        b"Transfer-Encoding",
        b"X",
        b"",
        b"a b",
        b"a\n",
        b"a\nb",
        b"\xff",
    ]
)
VALUES = st.sampled_from(
    [b"5", b"05", b"", b"-1", b"5\n", b"chunked", b"gzip", b"a\r\n b", b"a\nb", b"a\0", b"a\r\n", b"9" * 30]
)
FIELDS = st.lists(st.tuples(NAMES, VALUES), max_size=4).map(tuple)


def stock_says(message: http.Message) -> bool:
    """The rules of this file's docstring, by stock's validator alone, field by field."""
    if isinstance(message, http.Response):
        if message.status_code < 200 and message.status_code != 101:
            return False
        message.headers.fields = tuple((n, v.replace(b"\r\n ", b" ")) for n, v in message.headers.fields)
        if re.search(rb"[\r\n\0]", message.data.reason):
            return False
    try:
        validate_headers(message)
    except ValueError:
        return False
    # Stock's `$` also matches before a line feed at the end of a name, which is no token (RFC 9110, 5.6.2).
    return not any(
        re.search(rb"[\r\n\0]", value) or name.endswith(b"\n") for name, value in message.headers.fields
    )


@given(FIELDS, st.sampled_from([b"HTTP/1.0", b"HTTP/1.1", b"HTTP/2.0"]))
def test_requests(fields: tuple[tuple[bytes, bytes], ...], version: bytes) -> None:
    def make() -> http.Request:
        return http.Request(
            "a", 80, b"GET", b"http", b"", b"/", version, http.Headers(fields), None, None, 0, 0
        )

    assert is_clear_head(make()) == stock_says(make())


@given(FIELDS, st.sampled_from([100, 101, 200, 204]), st.sampled_from([b"OK", b"O\nK"]))
def test_answers(fields: tuple[tuple[bytes, bytes], ...], status: int, reason: bytes) -> None:
    def make() -> http.Response:
        return http.Response(b"HTTP/1.1", status, reason, http.Headers(fields), None, None, 0, 0)

    ours, stock = make(), make()
    assert is_clear_head(ours) == stock_says(stock)
    if is_clear_head(ours):
        assert ours.headers.fields == stock.headers.fields, "unfolded alike"


@pytest.mark.parametrize(
    ("values", "owed"),
    [([], 0), ([b"5"], 5), ([b""], 0), ([b"x"], 0), ([b"5", b"5"], 0)],
    ids=[
        "no length owes nothing",
        "a length is owed",
        "an empty one is none",
        "nor is a word",
        "nor are two",
    ],
)
def test_what_a_length_owes(values: list[bytes], owed: int) -> None:
    head = http.Headers([(b"Content-Length", value) for value in values])
    body = OwedBody()
    body.declare(http.Request("a", 80, b"PUT", b"http", b"", b"/", b"HTTP/1.1", head, None, None, 0, 0))
    body.take(b"x" * (owed - 1) if owed else b"")
    assert body.is_short is (owed > 0)
    body.take(b"x")
    assert not body.is_short


@pytest.mark.parametrize(
    ("method", "status", "sent", "short"),
    [
        (b"GET", 200, b"1234", True),
        (b"GET", 200, b"12345", False),
        (b"HEAD", 200, b"", False),
        (b"GET", 204, b"", False),
        (b"GET", 304, b"", False),
    ],
    ids=["a byte is missing", "whole", "HEAD has no body", "nor has 204", "nor has 304"],
)
def test_what_an_answer_owes_by_its_method_and_status(
    method: bytes, status: int, sent: bytes, short: bool
) -> None:
    five = http.Headers([(b"Content-Length", b"5")])
    request = http.Request("a", 80, method, b"http", b"", b"/", b"HTTP/1.1", http.Headers(), None, None, 0, 0)
    answer = http.Response(b"HTTP/1.1", status, b"", five, None, None, 0, 0)
    owed = OwedBodies()
    seen = [
        owed.end_short(event)
        for event in (
            RequestHeaders(1, request, end_stream=True),
            RequestEndOfMessage(1),
            ResponseHeaders(1, answer),
            ResponseData(1, sent),
            ResponseEndOfMessage(1),
        )
    ]
    assert owed.request_ended
    assert seen == [False, False, False, False, short]
