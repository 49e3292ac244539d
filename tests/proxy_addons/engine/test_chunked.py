"""The chunked reader: bodies cut anywhere read the same, nothing that holds no body grows, ends are exact."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import h11
import pytest
from h11._readers import ChunkedReader as H11Reader
from h11._receivebuffer import ReceiveBuffer
from hypothesis import given
from hypothesis import strategies as st

from proxy_addons.engine.chunked import ChunkedReader
from proxy_addons.policy.limits import MAX_HEAD_BYTES

CHUNKS = st.lists(st.binary(min_size=1, max_size=40), max_size=8)
EXTENSIONS = st.sampled_from([b"", b";a", b";name=value", b';q="a b"'])


Reader = Callable[[ReceiveBuffer], object]


def read(reader: Reader, wire: bytes) -> tuple[bytes, bool, bytes]:
    """The body, whether it ended, and what is left after it."""
    buffer, body = ReceiveBuffer(), b""
    buffer += wire
    while (event := reader(buffer)) is not None:
        if isinstance(event, h11.EndOfMessage):
            return body, True, bytes(buffer)
        assert isinstance(event, h11.Data)
        body += event.data
    return body, False, bytes(buffer)


def cut(wire: bytes, cuts: list[int]) -> list[bytes]:
    """`wire` in pieces, none of them empty."""
    places = sorted({place % (len(wire) + 1) for place in cuts} | {0, len(wire)})
    return [wire[start:end] for start, end in pairwise(places)]


def render(chunks: list[bytes], extension: bytes = b"", trailers: bytes = b"") -> bytes:
    body = b"".join(b"%x%s\r\n%s\r\n" % (len(chunk), extension, chunk) for chunk in chunks)
    return body + b"0\r\n" + trailers + b"\r\n"


@given(chunks=CHUNKS, extension=EXTENSIONS, cuts=st.lists(st.integers(0, 500), max_size=12))
def test_a_body_reads_the_same_wherever_it_is_cut(
    chunks: list[bytes], extension: bytes, cuts: list[int]
) -> None:
    wire = render(chunks, extension, b"X-Sum: 1\r\n") + b"GET /next"
    reader, buffer, body, ended = ChunkedReader(), ReceiveBuffer(), b"", False
    for piece in cut(wire, cuts):
        buffer += piece
        while not ended and (event := reader(buffer)) is not None:
            ended = isinstance(event, h11.EndOfMessage)
            body += b"" if isinstance(event, h11.EndOfMessage) else bytes(event.data)
    assert (body, ended, bytes(buffer)) == (b"".join(chunks), True, b"GET /next")


@given(chunks=CHUNKS, extension=EXTENSIONS)
def test_h11_reads_the_same_bodies(chunks: list[bytes], extension: bytes) -> None:
    wire = render(chunks, extension)
    assert read(ChunkedReader(), wire) == read(H11Reader(), wire)


def test_all_that_one_read_brought_is_one_piece() -> None:
    buffer = ReceiveBuffer()
    buffer += b"1\r\nA\r\n" * 1000
    event = ChunkedReader()(buffer)
    assert isinstance(event, h11.Data)
    assert bytes(event.data) == b"A" * 1000


@pytest.mark.parametrize(
    ("wire", "why"),
    [
        pytest.param(b"5\r\nhello!\r\n", "longer", id="a chunk longer than its size"),
        pytest.param(b"5\r\nhelloX", "longer", id="no line end after a chunk, known at its first octet"),
        pytest.param(b"\r\n", "malformed", id="no size"),
        pytest.param(b"+5\r\nhello\r\n", "malformed", id="a sign before the size"),
        pytest.param(b"0x5\r\nhello\r\n", "malformed", id="a prefix before the size"),
        pytest.param(b"1_0\r\n", "malformed", id="a digit separator"),
        pytest.param(b"5;a\nb\r\nhello\r\n", "malformed", id="a bare line feed in an extension"),
        pytest.param(b"5;a\0\r\nhello\r\n", "malformed", id="a NUL in an extension"),
        pytest.param(b"1" * 17 + b"\r\n", "malformed", id="a size of 17 digits"),
        pytest.param(b"5;" + b"e" * MAX_HEAD_BYTES, "too long", id="an extension without end"),
        pytest.param(b"0\r\nX: " + b"t" * MAX_HEAD_BYTES, "too long", id="a trailer without end"),
        pytest.param(
            b"0\r\n" + b"X: y\r\n" * (MAX_HEAD_BYTES // 6 + 1), "too long", id="trailers without end"
        ),
    ],
)
def test_what_is_no_chunked_body_is_an_error(wire: bytes, why: str) -> None:
    with pytest.raises(h11.RemoteProtocolError, match=why):
        read(ChunkedReader(), wire)


@pytest.mark.parametrize(
    "wire",
    [
        pytest.param(b"5;" + b"e" * (MAX_HEAD_BYTES - 2), id="an extension just within the bound"),
        pytest.param(b"0\r\n" + b"X: y\r\n" * (MAX_HEAD_BYTES // 6), id="trailers just within the bound"),
        pytest.param(b"5\r\nhello\r", id="half a line end"),
        pytest.param(b"5\r\nhel", id="half a chunk"),
    ],
)
def test_what_may_still_become_one_is_waited_for(wire: bytes) -> None:
    assert not read(ChunkedReader(), wire)[1]


def test_a_connection_that_ends_within_the_body_breaks_it() -> None:
    with pytest.raises(h11.RemoteProtocolError):
        ChunkedReader().read_eof()
