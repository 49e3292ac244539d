"""The decoders, fed whole, byte by byte and in random pieces: SPEC 1.8; bug cases C027, C029, C031, C035."""

import gzip
import random
import tracemalloc
import zlib
from collections.abc import Iterable, Iterator

import brotli
import pytest
from backports import zstd
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy_addons.policy import decoders
from proxy_addons.policy.codings import MAX_MEMBERS, PIECE, ZSTD_WINDOW_LOG_MAX, BrokenBodyError, Coding
from proxy_addons.policy.decoders import make_decoder
from tests.kit import bodies

ONE = bytes.fromhex("1f8b0800000000000203b329b0cbcf4bb5d12fb00300d800c1880a000000")  # <p>one</p>
TWO = bytes.fromhex("1f8b0800000000000203b329b02b29cfb7d12fb003001e8371830a000000")  # <p>two</p>
SKIPPABLE = b"\x50\x2a\x4d\x18" + (6).to_bytes(4, "little") + b"hidden"  # RFC 8878 3.1.2

FORMS = list(bodies.Coding)
CODINGS = list(Coding)


def coding_of(form: bodies.Coding) -> Coding:
    return Coding(form.token)


def decode(coding: Coding, chunks: Iterable[bytes]) -> bytes:
    """What the chunks decode to, the law on pieces asserted on the way."""
    decoder = make_decoder(coding)
    output = bytearray()
    for chunk in chunks:
        for piece in decoder.feed(chunk):
            assert isinstance(piece, bytes)
            assert 0 < len(piece) <= PIECE
            output += piece
    decoder.finish()
    return bytes(output)


def in_bytes(body: bytes) -> Iterator[bytes]:
    return (body[at : at + 1] for at in range(len(body)))


def in_random_pieces(body: bytes, seed: int, largest: int) -> Iterator[bytes]:
    sizes = random.Random(seed)
    at = 0
    while at < len(body):
        size = sizes.randint(0, largest)
        yield body[at : at + size]
        at += size


def ways_to_cut(body: bytes) -> dict[str, list[bytes]]:
    ways = {
        "whole": [body],
        "first byte alone": [body[:1], body[1:]],
        "last byte alone": [body[:-1], body[-1:]],
        "small pieces": list(in_random_pieces(body, 1, 40)),
        "large pieces": list(in_random_pieces(body, 2, 40_000)),
    }
    if len(body) <= 5_000:
        ways["byte by byte"] = list(in_bytes(body))
    return ways


def outcome(coding: Coding, chunks: Iterable[bytes]) -> bytes | None:
    """What the chunks decode to, None for broken. Any other error goes through."""
    try:
        return decode(coding, chunks)
    except BrokenBodyError:
        return None


def prose(size: int) -> bytes:
    words = random.Random(7)
    return b" ".join(words.choice([b"gate", b"way", b"hop", b"origin", b"cap"]) for _ in range(size // 4))[
        :size
    ]


CONTENTS = {
    "nothing": b"",
    "one byte": b"a",
    "a short page": b"<p>hello</p>\n" * 20,
    "one piece exactly": prose(PIECE),
    "a long page": prose(400_000),
    "zeros": bytes(1_000_000),
    "noise": random.Random(5).randbytes(150_000),
}


@pytest.mark.parametrize("content", CONTENTS.values(), ids=list(CONTENTS))
@pytest.mark.parametrize("form", FORMS)
def test_however_a_body_is_cut_it_decodes_to_the_same_bytes(form: bodies.Coding, content: bytes) -> None:
    body = bodies.encode_body(content, form)

    for way, chunks in ways_to_cut(body).items():
        assert decode(coding_of(form), chunks) == content, way


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize(
    "chunks", [[], [b""], [b"", b""]], ids=["no chunk", "an empty chunk", "two empty chunks"]
)
def test_no_bytes_at_all_are_a_whole_body(coding: Coding, chunks: list[bytes]) -> None:
    assert decode(coding, chunks) == b""


@pytest.mark.parametrize("form", FORMS)
def test_a_body_cut_anywhere_breaks_off(form: bodies.Coding) -> None:
    body = bodies.encode_body(b"<p>" + prose(300) + b"</p>", form)

    for length in range(1, len(body)):
        for chunks in ([body[:length]], list(in_bytes(body[:length]))):
            with pytest.raises(BrokenBodyError):
                decode(coding_of(form), chunks)


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"<p>plain</p>", id="C029: plain text under a coding"),
        pytest.param(b"p", id="a single plain byte"),
        pytest.param(bytes(100), id="NULs"),
        pytest.param(b"\x1f\x8b\x08junkjunkjunk", id="half a gzip header and junk"),
        pytest.param(b"\xff" * 100, id="ones"),
    ],
)
def test_a_body_that_is_not_of_its_coding_is_broken(coding: Coding, body: bytes) -> None:
    for way, chunks in ways_to_cut(body).items():
        assert outcome(coding, chunks) is None, way


@pytest.mark.parametrize(
    ("coding", "body", "content"),
    [
        pytest.param(Coding.GZIP, ONE, b"<p>one</p>", id="one gzip member"),
        pytest.param(Coding.GZIP, ONE + TWO, b"<p>one</p><p>two</p>", id="C027: two members are joined"),
        pytest.param(Coding.GZIP, ONE + b"\r\n", b"<p>one</p>", id="C035: CR LF after the member is ignored"),
        pytest.param(Coding.GZIP, ONE + bytes(8), b"<p>one</p>", id="C035: NUL padding is ignored"),
        pytest.param(Coding.GZIP, ONE + b"junk", b"<p>one</p>", id="C035: junk is ignored"),
        pytest.param(Coding.GZIP, ONE + b"junk" + TWO, b"<p>one</p>", id="a member behind junk is junk"),
        pytest.param(
            Coding.GZIP, ONE + bytes(8) + TWO, b"<p>one</p><p>two</p>", id="a member behind padding counts"
        ),
        pytest.param(Coding.GZIP, ONE + bytes(8) + b"junk" + TWO, b"<p>one</p>", id="padding, then junk"),
        pytest.param(Coding.GZIP, ONE + b"\x1f", b"<p>one</p>", id="a lone 1f starts no member"),
        pytest.param(Coding.GZIP, ONE + b"\x1fx" + TWO, b"<p>one</p>", id="1f and another byte are junk"),
        pytest.param(
            Coding.GZIP, ONE + b"\x1f\x8b", None, id="1f 8b starts a member, and this one breaks off"
        ),
        pytest.param(
            Coding.GZIP, ONE + b"\x1f\x8bjunkjunk", None, id="1f 8b starts a member, and this one is broken"
        ),
        pytest.param(Coding.GZIP, bytes(8) + ONE, None, id="padding before the first member"),
        pytest.param(Coding.GZIP, ONE[:-8] + b"\0\0\0\0" + ONE[-4:], None, id="a wrong checksum"),
        pytest.param(Coding.GZIP, ONE[:-4] + b"\0\0\0\0", None, id="a wrong length"),
        pytest.param(
            Coding.DEFLATE, bytes.fromhex("b329b02b4a2cb7d12fb00300"), b"<p>raw</p>", id="C031: bare"
        ),
        pytest.param(
            Coding.DEFLATE,
            bytes.fromhex("18d3b329b02bb7b4d12fb003000dd902b4"),
            b"<p>w9</p>",
            id="C031: zlib form, window of 512 bytes",
        ),
        pytest.param(Coding.DEFLATE, b"\x03\x00", b"", id="bare and empty"),
        pytest.param(Coding.DEFLATE, zlib.compress(b""), b"", id="zlib form and empty"),
        pytest.param(
            Coding.DEFLATE, zlib.compress(b"x") + b"junk", b"x", id="junk after the zlib form is ignored"
        ),
        pytest.param(Coding.DEFLATE, zlib.compress(b"") + b"junk", b"", id="junk after an empty zlib form"),
        pytest.param(Coding.DEFLATE, bodies.raw_deflate(b"x") + b"junk", b"x", id="junk after the bare form"),
        pytest.param(Coding.DEFLATE, zlib.compress(b"x" * 50)[:-4] + bytes(4), None, id="a wrong Adler-32"),
        pytest.param(
            Coding.DEFLATE,
            # A stored block of 156 bytes whose padding bits make its first two bytes a zlib header (789c).
            b"\x78\x9c\x00\x63\xff" + b"r" * 156 + b"\x01\x00\x00\xff\xff",
            b"r" * 156,
            id="bare data that begins like the zlib form",
        ),
        pytest.param(
            Coding.DEFLATE,
            b"\x78\x20\x00\xdf\xff" + b"r" * 32 + b"\x01\x00\x00\xff\xff",
            b"r" * 32,
            id="bare data that begins like a zlib form with a dictionary",
        ),
        pytest.param(
            Coding.DEFLATE, b"\x78\x9c\x4b\x07\xff\xff\xff", None, id="a zlib form that breaks after output"
        ),
        pytest.param(
            Coding.DEFLATE,
            b"\x78\x9c" + b"\x00\x00\x00\xff\xff" * 200 + zlib.compress(b"late")[2:],
            b"late",
            id="a zlib form whose first output comes after a thousand bytes",
        ),
        pytest.param(Coding.BR, brotli.compress(b"x") + b"junk", None, id="junk after br is broken"),
        pytest.param(Coding.BR, brotli.compress(b"x") * 2, None, id="br is not joined"),
        pytest.param(Coding.BR, bytes.fromhex("111e") + bytes(12), None, id="large-window brotli"),
        pytest.param(
            Coding.ZSTD, zstd.compress(b"a") + zstd.compress(b"b"), b"ab", id="zstd frames are joined"
        ),
        pytest.param(Coding.ZSTD, SKIPPABLE + zstd.compress(b"a"), b"a", id="a skippable frame first"),
        pytest.param(Coding.ZSTD, zstd.compress(b"a") + SKIPPABLE, b"a", id="a skippable frame last"),
        pytest.param(Coding.ZSTD, SKIPPABLE, b"", id="a skippable frame alone"),
        pytest.param(Coding.ZSTD, SKIPPABLE[:-1], None, id="a skippable frame that breaks off"),
        pytest.param(Coding.ZSTD, zstd.compress(b"a") + b"junk", None, id="junk after zstd is broken"),
        pytest.param(Coding.ZSTD, zstd.compress(b"a") + b"\x28", None, id="the start of a frame is no frame"),
        pytest.param(Coding.ZSTD, b"\x27\xb5\x2f\xfd" + bytes(20), None, id="the format of zstd 0.7"),
        pytest.param(
            Coding.ZSTD, zstd.compress(b"a") + b"\x22\xb5\x2f\xfd" + bytes(20), None, id="zstd 0.2 second"
        ),
    ],
)
def test_what_ends_a_stream_and_what_may_follow(coding: Coding, body: bytes, content: bytes | None) -> None:
    for way, chunks in ways_to_cut(body).items():
        assert outcome(coding, chunks) == content, way


def zstd_frame(content: bytes, window_log: int) -> bytes:
    packer = zstd.ZstdCompressor(options={zstd.CompressionParameter.window_log: window_log})
    return packer.compress(content) + packer.flush()


def test_a_zstd_window_of_8_mib_is_read() -> None:
    assert decode(Coding.ZSTD, [zstd_frame(b"w" * 9_000_000, ZSTD_WINDOW_LOG_MAX)]) == b"w" * 9_000_000


def test_a_zstd_window_over_8_mib_is_broken_before_any_output() -> None:
    decoder = make_decoder(Coding.ZSTD)
    frame = zstd_frame(b"w" * 9_000_000, ZSTD_WINDOW_LOG_MAX + 1)

    with pytest.raises(BrokenBodyError, match="too much memory"):
        next(decoder.feed(frame))


def test_a_zstd_frame_that_needs_a_dictionary_is_broken() -> None:
    samples = [b"sample %d of a dictionary" % number for number in range(200)]
    dictionary = zstd.train_dict(samples, 1024)

    assert outcome(Coding.ZSTD, [zstd.compress(samples[0], zstd_dict=dictionary)]) is None


@pytest.mark.parametrize(
    ("coding", "member"),
    [(Coding.GZIP, gzip.compress(b"m")), (Coding.ZSTD, zstd.compress(b"m"))],
    ids=["gzip members", "zstd frames"],
)
def test_members_are_counted(coding: Coding, member: bytes) -> None:
    assert decode(coding, [member * MAX_MEMBERS]) == b"m" * MAX_MEMBERS
    with pytest.raises(BrokenBodyError, match="more than 16384 members"):
        decode(coding, [member * (MAX_MEMBERS + 1)])


@pytest.mark.parametrize("lgwin", [10, 16, 22, 24])
def test_every_brotli_window_of_rfc_7932_is_read_in_pieces(lgwin: int) -> None:
    content = prose(300_000) + bytes(2_000_000)
    body = brotli.compress(content, quality=5, lgwin=lgwin)

    for chunks in ([body], list(in_random_pieces(body, 3, 300))):
        assert decode(Coding.BR, chunks) == content


def test_a_br_block_larger_than_a_piece_is_split(monkeypatch: pytest.MonkeyPatch) -> None:
    content = prose(300_000) + bytes(2_000_000)
    monkeypatch.setattr(decoders, "_BROTLI_LIMIT", PIECE)  # blocks of 98,272 bytes

    assert decode(Coding.BR, [brotli.compress(content, quality=5)]) == content


def test_output_left_inside_zlib_when_all_input_is_taken_is_fetched() -> None:
    for size in range(PIECE, PIECE + 300):
        assert decode(Coding.DEFLATE, [bodies.raw_deflate(bytes(size))]) == bytes(size)


def test_the_second_reading_of_deflate_is_given_up_after_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    body = b"\x78\x9c\x00\x63\xff" + b"r" * 156 + b"\x01\x00\x00\xff\xff"  # fails as zlib at its seventh byte
    monkeypatch.setattr(decoders, "_PROBE_MAX", 7)
    assert outcome(Coding.DEFLATE, [body]) == b"r" * 156

    monkeypatch.setattr(decoders, "_PROBE_MAX", 6)
    assert outcome(Coding.DEFLATE, [body]) is None


def test_an_old_zstd_format_is_refused_by_us_and_not_left_to_the_library() -> None:
    with pytest.raises(BrokenBodyError, match="not a frame"):
        decode(Coding.ZSTD, [b"\x27\xb5\x2f\xfd" + bytes(20)])


@pytest.mark.parametrize("form", FORMS)
def test_a_large_chunk_is_not_copied(form: bodies.Coding) -> None:
    body = bodies.encode_body(random.Random(9).randbytes(4 << 20), form)
    decoder = make_decoder(coding_of(form))

    tracemalloc.start()
    try:
        decoded = sum(len(piece) for piece in decoder.feed(body))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert decoded == 4 << 20
    assert peak < 1 << 20


def test_an_error_says_what_the_library_found_and_no_byte_of_the_body() -> None:
    with pytest.raises(BrokenBodyError) as caught:
        decode(Coding.GZIP, [b"secret-secret-secret"])

    assert str(caught.value).startswith("gzip body is malformed: ")
    assert "incorrect header check" in str(caught.value)
    assert "secret" not in str(caught.value)


FUZZ = settings(deadline=None, max_examples=150)


@st.composite
def damaged_bodies(draw: st.DrawFn) -> tuple[Coding, bytes]:
    """Well-formed starts, so that the damage lies deep: bytes replaced, cut out, put in, a tail."""
    form = draw(st.sampled_from(FORMS))
    body = bytearray(bodies.encode_body(draw(st.binary(max_size=200)) * draw(st.integers(1, 40)), form))
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(body)))
        end = draw(st.integers(start, min(len(body), start + 4)))
        body[start:end] = draw(st.binary(max_size=4))
    return coding_of(form), bytes(body) + draw(st.binary(max_size=6))


@FUZZ
@given(st.sampled_from(CODINGS), st.binary(max_size=400), st.integers(0, 2**32))
def test_any_bytes_decode_or_are_broken_whatever_the_cut(coding: Coding, body: bytes, seed: int) -> None:
    whole = outcome(coding, [body])

    assert outcome(coding, in_bytes(body)) == whole
    assert outcome(coding, in_random_pieces(body, seed, 30)) == whole


@FUZZ
@given(damaged_bodies(), st.integers(0, 2**32))
def test_a_damaged_body_decodes_or_is_broken_whatever_the_cut(
    damaged: tuple[Coding, bytes], seed: int
) -> None:
    coding, body = damaged
    whole = outcome(coding, [body])

    assert outcome(coding, in_bytes(body)) == whole
    assert outcome(coding, in_random_pieces(body, seed, 30)) == whole


@FUZZ
@given(st.sampled_from(FORMS), st.binary(max_size=3_000), st.integers(0, 2**32))
def test_what_was_encoded_is_decoded(form: bodies.Coding, content: bytes, seed: int) -> None:
    body = bodies.encode_body(content, form)

    assert decode(coding_of(form), in_random_pieces(body, seed, 200)) == content
