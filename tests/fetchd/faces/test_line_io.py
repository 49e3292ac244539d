"""Lines over descriptors: split whatever way they arrive, bounded, and never in the way of the event loop."""

from __future__ import annotations

import asyncio
import fcntl
import io
import os
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetchd.faces.line_io import (
    QUEUED_LINES,
    LineReader,
    LineWriter,
    read_descriptor,
    read_stream,
    split_lines,
)
from tests.kit.sync import PATIENCE

BOUND = 8


def in_chunks(chunks: Sequence[bytes]) -> Iterator[bytes | None]:
    left = iter(chunks)
    return split_lines(lambda size: next(left, b""), BOUND)


@pytest.mark.parametrize(
    ("chunks", "lines"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([b"a\nb\n"], [b"a", b"b"], id="two lines"),
        pytest.param([b"a\nb"], [b"a", b"b"], id="no end of line at the end"),
        pytest.param([b"\n\n"], [b"", b""], id="empty lines are lines"),
        pytest.param([b"12345678\n"], [b"12345678"], id="just the bound"),
        pytest.param([b"123456789\n", b"a\n"], [None, b"a"], id="one more"),
        pytest.param([b"1234", b"5678", b"9\na\n"], [None, b"a"], id="one more, in pieces"),
        pytest.param([b"123456789", b"0" * 20, b"\na"], [None, b"a"], id="a long one is passed over whole"),
        pytest.param([b"123456789"], [None], id="a long one at the end"),
        pytest.param([b"12345678"], [b"12345678"], id="just the bound at the end"),
    ],
)
def test_lines(chunks: list[bytes], lines: list[bytes | None]) -> None:
    assert list(in_chunks(chunks)) == lines


@given(st.binary(max_size=60).map(lambda data: data.replace(b"\x00", b"\n")), st.lists(st.integers(1, 7)))
def test_how_the_bytes_arrive_makes_no_difference(data: bytes, sizes: list[int]) -> None:
    chunks, at = [], 0
    for size in sizes:
        chunks.append(data[at : at + size])
        at += size
    chunks = [chunk for chunk in [*chunks, data[at:]] if chunk]
    whole = data.split(b"\n")
    expected = [line if len(line) <= BOUND else None for line in (whole if whole[-1] else whole[:-1])]

    assert list(in_chunks(chunks)) == expected


async def test_a_reader_takes_no_more_than_it_may_hold() -> None:
    read = 0

    def chunk(size: int) -> bytes:
        nonlocal read
        read += 1
        return b"x\n"

    lines = LineReader(chunk, BOUND)
    assert [await anext(lines) for _ in range(5)] == [b"x"] * 5
    assert read <= 5 + QUEUED_LINES + 1


async def test_the_end_stays_the_end() -> None:
    lines = LineReader(io.BytesIO(b"a").read, BOUND)

    assert [line async for line in lines] == [b"a"]
    assert [line async for line in lines] == []


async def test_a_descriptor_that_does_not_block_is_waited_for() -> None:
    """Another process may have made it so."""
    read_from, write_to = os.pipe()
    for descriptor in (read_from, write_to):
        flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
        fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | os.O_NONBLOCK)
    lines = LineReader(read_descriptor(read_from), 1 << 20)
    waiting = asyncio.ensure_future(anext(lines))
    await LineWriter(write_to).write(b"x" * 500_000)

    assert await asyncio.wait_for(waiting, PATIENCE) == b"x" * 500_000
    os.close(write_to)
    assert [line async for line in lines] == []
    os.close(read_from)


async def test_a_writer_says_when_nobody_reads() -> None:
    read_from, write_to = os.pipe()
    os.close(read_from)
    with pytest.raises(BrokenPipeError):
        await LineWriter(write_to).write(b"x")
    os.close(write_to)


async def test_a_write_that_is_given_up_does_not_break_the_next() -> None:
    read_from, write_to = os.pipe()
    fcntl.fcntl(write_to, fcntl.F_SETPIPE_SZ, 4096)
    writer = LineWriter(write_to)
    stuck = asyncio.ensure_future(writer.write(b"a" * 10_000))
    await asyncio.sleep(0)
    stuck.cancel()
    after = asyncio.ensure_future(writer.write(b"b"))
    lines = LineReader(read_descriptor(read_from), 1 << 20)

    assert [await anext(lines), await anext(lines)] == [b"a" * 10_000, b"b"]
    await asyncio.wait_for(after, PATIENCE)
    os.close(write_to)
    assert [line async for line in lines] == []
    os.close(read_from)


def test_a_stream_is_read_past_its_buffer_where_it_has_a_descriptor() -> None:
    read_from, write_to = os.pipe()
    os.write(write_to, b"a")
    with os.fdopen(read_from, "rb") as stream:
        assert read_stream(stream)(10) == b"a"
    os.close(write_to)
    assert read_stream(io.BytesIO(b"b"))(10) == b"b"
