"""Bypasses 14 to 16 of docs/bypasses.md: bodies that are larger than they look."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from functools import cache

import brotli
import pytest

from tests.gateway.expect import assert_allowed, contacts, forget, recent_lines
from tests.gateway.memory import MIB, peak, reset_peak, worker_of
from tests.gateway.paths import ALL, HTTP1, Ask, Entry, send
from tests.kit import replies
from tests.kit.bodies import Coding, bomb, content_encoding, encode_body
from tests.kit.client import Response
from tests.kit.client_h2 import StreamResetError
from tests.kit.exchange import Exchange, H1Exchange, Route
from tests.kit.gateway import World

CAP = 8 << 20
INFLATED = 64 << 20
SMALL = 2
SMALL_CAP = 1024


@pytest.fixture(scope="module")
def shared_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The third listener has a profile that takes 1 KiB."""
    small = {"small": {"byte_cap": SMALL_CAP, "schemes": ["https", "http"], "upgrades": ["websocket"]}}
    folder = tmp_path_factory.mktemp("bodies")
    with World(folder, profiles=small, listeners=("test", "open", "small")) as world:
        yield world


def get(world: World, entry: Entry, path: str, listener: int = 1) -> Response | None:
    """What a client holds in the end; None when nothing came but a reset."""
    try:
        return send(world, entry, Ask(path=path), listener=listener)
    except StreamResetError as error:
        return error.response


def assert_cut(world: World, answer: Response | None, cap: int) -> None:
    """Over the cap: an answer of ours before the body, or a body that visibly breaks off within the cap."""
    assert contacts(world).connects == 1
    if answer is not None and answer.status != 200:
        assert (answer.status, answer.header("fetchd-rule")) == (502, "byte-cap")
    elif answer is not None:
        assert not answer.complete
        assert len(answer.body) <= cap
    closed = recent_lines(world, "close")
    if answer is not None:
        closed = [line for line in closed if line["fetch_id"] == answer.header("fetchd-id")]
    assert closed and closed[-1]["rule"] == "byte-cap"


# -- 14, 15: bombs

BOMBS: dict[str, tuple[Coding, ...]] = {
    "gzip": (Coding.GZIP,),
    "deflate": (Coding.DEFLATE,),
    "raw deflate": (Coding.RAW_DEFLATE,),
    "br": (Coding.BR,),
    "zstd": (Coding.ZSTD,),
    "gzip in gzip": (Coding.GZIP, Coding.GZIP),
    "br in gzip": (Coding.BR, Coding.GZIP),
    "zstd in br": (Coding.ZSTD, Coding.BR),
}


@cache
def bomb_body(kind: str) -> bytes:
    inner, *outer = BOMBS[kind]
    return encode_body(bomb(inner, INFLATED), *outer)


@pytest.mark.parametrize("kind", BOMBS)
@pytest.mark.parametrize("entry", ALL)
def test_case_14_the_cap_counts_inflated_bytes(world: World, entry: Entry, kind: str) -> None:
    """Stock counts what is on the wire, then inflates 64 MiB of it."""
    codings = BOMBS[kind]
    path = f"/bomb/{kind.replace(' ', '-')}"
    entry.origin(world).route(path, replies.body_as_is(bomb_body(kind), content_encoding(*codings)))
    assert_cut(world, get(world, entry, path), CAP)

    forget(world)
    honest = encode_body(b"x" * 100_000, *codings)
    entry.origin(world).route("/honest", replies.body_as_is(honest, content_encoding(*codings)))
    answer = send(world, entry, Ask(path="/honest"))
    assert_allowed(world, answer)
    assert answer.complete and answer.body == honest


@pytest.mark.parametrize("entry", ALL)
def test_case_14_members_of_one_gzip_body_count_together(world: World, entry: Entry) -> None:
    """Four members of 3 MiB each are 12 MiB; decoders that stop after the first see 3."""
    member = gzip.compress(bytes(3 << 20))
    entry.origin(world).route("/members", replies.body_as_is(member * 4, "gzip"))
    assert_cut(world, get(world, entry, "/members"), CAP)

    forget(world)
    entry.origin(world).route("/two", replies.body_as_is(member * 2, "gzip"))
    answer = send(world, entry, Ask(path="/two"))
    assert_allowed(world, answer)
    assert answer.complete and answer.body == member * 2


@pytest.mark.parametrize("kind", BOMBS)
def test_case_15_memory_stays_near_nothing(world: World, kind: str) -> None:
    """A cap that is applied to the finished decode is no cap: watch the worker, not the verdict."""
    world.origin.route("/memory", replies.body_as_is(bomb_body(kind), content_encoding(*BOMBS[kind])))
    worker = worker_of(world.gateway.process.pid)
    before = reset_peak(worker)
    for _ in range(4):
        assert_cut(world, get(world, Entry.ABSOLUTE_HTTPS, "/memory"), CAP)
        forget(world)

    assert peak(worker) - before < 48 * MIB


@pytest.mark.parametrize("entry", ALL)
def test_case_15_wide_windows(world: World, entry: Entry) -> None:
    """A brotli body with the widest window, just below the cap: passes, and is decoded in bounded memory."""
    body = brotli.compress(bytes(7 << 20), quality=1, lgwin=24)
    entry.origin(world).route("/wide", replies.body_as_is(body, "br"))
    worker = worker_of(world.gateway.process.pid)
    before = reset_peak(worker)
    answer = send(world, entry, Ask(path="/wide"))

    assert_allowed(world, answer)
    assert answer.body == body
    assert peak(worker) - before < 48 * MIB


# -- 16: streaming


def too_long(declared: int | None, chunks: int, size: int) -> Route:
    """`chunks` pieces; chunked framing without a declared length, else that length whatever comes."""

    async def route(exchange: Exchange) -> None:
        head = [("content-type", "text/html")]
        if declared is not None:
            await exchange.start(200, [*head, ("content-length", str(declared))])
            for _ in range(chunks):
                await exchange.data(b"x" * size)
            await exchange.end(keep=False)
            return
        await replies.start_chunked(exchange, head)
        for _ in range(chunks):
            await replies.send_chunk(exchange, b"x" * size)
        await replies.end_chunked(exchange)

    return route


STREAMS = {
    "chunked, 9 MiB": (too_long(None, 576, 16384), 1, CAP),
    "declared 9 MiB": (too_long(9 << 20, 576, 16384), 1, CAP),
    "one byte a chunk": (too_long(None, SMALL_CAP + 1, 1), SMALL, SMALL_CAP),
    "declared 1025": (too_long(SMALL_CAP + 1, 1, SMALL_CAP + 1), SMALL, SMALL_CAP),
    "until the connection closes": (replies.no_length(b"x" * (SMALL_CAP + 1)), SMALL, SMALL_CAP),
    "until it closes, HTTP/1.0": (replies.no_length(b"x" * (SMALL_CAP + 1), version="1.0"), SMALL, SMALL_CAP),
}


@pytest.mark.parametrize("kind", STREAMS)
@pytest.mark.parametrize("entry", ALL)
def test_case_16_streams_meet_the_cap(world: World, entry: Entry, kind: str) -> None:
    """Stock has no limit for a streamed body at all."""
    route, listener, cap = STREAMS[kind]
    entry.origin(world).route("/stream", route)
    assert_cut(world, get(world, entry, "/stream", listener), cap)


EXACT = {
    "chunked": too_long(None, SMALL_CAP, 1),
    "declared": too_long(SMALL_CAP, 1, SMALL_CAP),
    "until the connection closes": replies.no_length(b"x" * SMALL_CAP),
}


@pytest.mark.parametrize("kind", EXACT)
@pytest.mark.parametrize("entry", ALL)
def test_case_16_exactly_the_cap_passes(world: World, entry: Entry, kind: str) -> None:
    entry.origin(world).route("/exact", EXACT[kind])
    answer = send(world, entry, Ask(path="/exact"), listener=SMALL)

    assert_allowed(world, answer)
    assert answer.complete and answer.body == b"x" * SMALL_CAP


@pytest.mark.parametrize("declared", [SMALL_CAP - 24, SMALL_CAP])
@pytest.mark.parametrize("entry", ALL)
def test_case_16_a_false_length_is_no_way_past(world: World, entry: Entry, declared: int) -> None:
    """More than was declared: the surplus is no part of the answer, and no second answer either."""
    entry.origin(world).route("/false", too_long(declared, 4, 1000))
    answer = send(world, entry, Ask(path="/false"), listener=SMALL)

    assert (answer.status, answer.complete, len(answer.body)) == (200, True, declared)
    assert contacts(world).connects == 1


@pytest.mark.parametrize("entry", HTTP1)
def test_case_16_trailers_do_not_pass(world: World, entry: Entry) -> None:
    """They are neither counted nor inspected, so nobody gets them."""

    async def route(exchange: Exchange) -> None:
        assert isinstance(exchange, H1Exchange)
        await replies.start_chunked(exchange, [("content-type", "text/plain"), ("trailer", "x-secret")])
        await replies.send_chunk(exchange, b"whole")
        await replies.end_chunked(exchange, [("x-secret", "s" * SMALL_CAP)])

    entry.origin(world).route("/trailers", route)
    answer = send(world, entry, Ask(path="/trailers"), listener=SMALL)

    assert_allowed(world, answer)
    assert answer.complete and answer.body == b"whole"
    assert answer.header("trailer") is answer.header("x-secret") is None
