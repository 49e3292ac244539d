"""The byte meter: SPEC 1.8 and 2.1 rows 4 and 5; bug cases C029 and C033."""

import gzip
import json
import random
import subprocess
import sys
import tracemalloc
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator

import brotli
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy_addons.policy import metering
from proxy_addons.policy.codings import PIECE, BodyError, BrokenBodyError, Coding, OverCapError
from proxy_addons.policy.decoders import Decoder, make_decoder
from proxy_addons.policy.metering import BodyMeter
from tests.kit import bodies

MIB = 1 << 20
CAP = 8 * MIB
Forms = tuple[bodies.Coding, ...]

SINGLES: list[Forms] = [(form,) for form in bodies.Coding]
PAIRS: list[Forms] = [(inner, outer) for inner in bodies.Coding for outer in bodies.Coding]
LAYERS: list[Forms] = [(), *SINGLES, *PAIRS]


def label(forms: Forms) -> str:
    return "+".join(forms) or "plain"


def codings_of(forms: Forms) -> tuple[Coding, ...]:
    return tuple(Coding(form.token) for form in forms)


def noise(size: int) -> bytes:
    return random.Random(size).randbytes(size)


def cut(body: bytes, size: int) -> Iterator[bytes]:
    return (body[at : at + size] for at in range(0, len(body), size))


def read(meter: BodyMeter, chunks: Iterable[bytes], into: bytearray) -> None:
    """Meter a whole body, keeping its bytes as the daemon does."""
    for chunk in chunks:
        for piece in meter.feed(chunk):
            assert 0 < len(piece) <= PIECE
            into += piece
    meter.finish()


def count(meter: BodyMeter, chunks: Iterable[bytes], _into: bytearray) -> None:
    """Meter a whole body, dropping its bytes as the gateway does."""
    for chunk in chunks:
        meter.count(chunk)
    meter.finish()


WAYS = pytest.mark.parametrize("meter_body", [read, count], ids=["read", "counted"])
Metering = Callable[[BodyMeter, Iterable[bytes], bytearray], None]


# ------------------------------------------------------------------------------------------------- the cap


@WAYS
@pytest.mark.parametrize("size", [7, 100_000, 1 << 30], ids=["small chunks", "large chunks", "whole"])
@pytest.mark.parametrize("forms", LAYERS, ids=label)
def test_exactly_the_cap_is_accepted(forms: Forms, size: int, meter_body: Metering) -> None:
    content = noise(3_000) + bytes(70_000)
    body = bodies.encode_body(content, *forms)
    meter, held = BodyMeter(codings_of(forms), len(content)), bytearray()

    meter_body(meter, cut(body, size), held)

    assert (meter.wire_bytes, meter.decoded_bytes) == (len(body), len(content))
    assert bytes(held) == (content if meter_body is read else b"")


@WAYS
@pytest.mark.parametrize("size", [7, 100_000, 1 << 30], ids=["small chunks", "large chunks", "whole"])
@pytest.mark.parametrize("forms", LAYERS, ids=label)
def test_one_byte_over_the_cap_is_refused_with_the_cap_in_hand(
    forms: Forms, size: int, meter_body: Metering
) -> None:
    content = noise(3_000) + bytes(70_000)
    body = bodies.encode_body(content, *forms)
    meter, held = BodyMeter(codings_of(forms), len(content) - 1), bytearray()

    with pytest.raises(OverCapError, match="exceeds 72999 bytes"):
        meter_body(meter, cut(body, size), held)

    assert meter.decoded_bytes == len(content) - 1
    assert bytes(held) == (content[:-1] if meter_body is read else b"")


@WAYS
@pytest.mark.parametrize("forms", [(), *SINGLES], ids=label)
def test_a_cap_of_nothing_accepts_an_empty_body_alone(forms: Forms, meter_body: Metering) -> None:
    meter_body(BodyMeter(codings_of(forms), 0), [bodies.encode_body(b"", *forms)], bytearray())

    with pytest.raises(OverCapError):
        meter_body(BodyMeter(codings_of(forms), 0), [bodies.encode_body(b"x", *forms)], bytearray())


@WAYS
def test_the_members_of_a_gzip_body_are_counted_together(meter_body: Metering) -> None:
    body = gzip.compress(b"a" * 60) + gzip.compress(b"b" * 40)

    meter_body(BodyMeter((Coding.GZIP,), 100), [body], bytearray())
    with pytest.raises(OverCapError):
        meter_body(BodyMeter((Coding.GZIP,), 99), [body], bytearray())


def test_the_chunk_that_crosses_the_cap_counts_in_full_on_the_wire() -> None:
    meter = BodyMeter((), 10)
    meter.count(b"12345678")

    with pytest.raises(OverCapError):
        meter.count(b"9abcdef")

    assert (meter.wire_bytes, meter.decoded_bytes) == (15, 10)


# ------------------------------------------------------------------------------------------------ the bombs


@pytest.fixture(scope="module")
def bombs() -> dict[str, tuple[tuple[Coding, ...], bytes]]:
    """Hundreds of MiB each when inflated; made once."""
    form = bodies.Coding
    packed = {name: bodies.bomb(name, 256 * MIB) for name in form}
    single = {name.value: (codings_of((name,)), body) for name, body in packed.items()}
    layered = {
        label((inner, outer)): (codings_of((inner, outer)), bodies.encode_body(packed[inner], outer))
        for inner, outer in [(form.GZIP, form.GZIP), (form.GZIP, form.BR), (form.ZSTD, form.GZIP)]
    }
    members = {"gzip members": ((Coding.GZIP,), gzip.compress(bytes(MIB)) * 256)}
    return single | layered | members


BOMBS = [form.value for form in bodies.Coding] + ["gzip+gzip", "gzip+br", "zstd+gzip", "gzip members"]


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_stops_at_the_cap_in_bounded_memory(
    name: str, bombs: dict[str, tuple[tuple[Coding, ...], bytes]]
) -> None:
    codings, body = bombs[name]
    meter = BodyMeter(codings, CAP)

    tracemalloc.start()
    try:
        with pytest.raises(OverCapError):
            meter.count(body)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert meter.decoded_bytes == CAP
    assert peak < MIB


# What Python traces is not what the libraries allocate, so the process as a whole is measured too.
MEASURE = """
import json, sys
from proxy_addons.policy.metering import BodyMeter
from proxy_addons.policy.codings import OverCapError, parse_content_encoding

def status(key):
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(key)) * 1024

body = sys.stdin.buffer.read()
meter = BodyMeter(parse_content_encoding([sys.argv[1]]), int(sys.argv[2]))
before, error = status("VmRSS"), ""
try:
    for at in range(0, len(body), 65536):
        meter.count(body[at:at + 65536])
except OverCapError:
    error = "over"
held = status("VmRSS")
meter.close()
print(json.dumps({
    "error": error, "decoded": meter.decoded_bytes,
    "peak": status("VmHWM") - before, "held": held - before, "closed": status("VmRSS") - before,
}))
"""


def measure(encoding: str, body: bytes, cap: int) -> dict[str, int | str]:
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, encoding, str(cap)], input=body, capture_output=True, check=True
    )
    answer: dict[str, int | str] = json.loads(done.stdout)
    return answer


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("name", "most"),
    [("gzip", 4 * MIB), ("deflate", 4 * MIB), ("gzip+gzip", 4 * MIB), ("br", 24 * MIB), ("zstd", 16 * MIB)],
)
def test_a_bomb_costs_the_process_a_window(
    name: str, most: int, bombs: dict[str, tuple[tuple[Coding, ...], bytes]]
) -> None:
    codings, body = bombs[name]

    seen = measure(", ".join(codings), body, CAP)

    assert (seen["error"], seen["decoded"]) == ("over", CAP)
    assert int(seen["peak"]) < most


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_close_gives_the_largest_window_back_to_the_system() -> None:
    content = noise(15 * MIB)
    body = brotli.compress(content, quality=1, lgwin=24)

    seen = measure("br", body[:-100], 64 * MIB)

    assert int(seen["held"]) > 12 * MIB  # else the test would show nothing
    assert int(seen["closed"]) < 4 * MIB


@WAYS
@pytest.mark.parametrize(
    ("codings", "body"),
    [
        pytest.param((Coding.GZIP,), gzip.compress(b"x") + bytes(200_000), id="padding after gzip"),
        pytest.param((Coding.GZIP,), gzip.compress(b"x") + b"-" * 200_000, id="junk after gzip"),
        pytest.param((Coding.DEFLATE,), zlib.compress(b"x") + b"-" * 200_000, id="junk after deflate"),
        pytest.param((Coding.DEFLATE,), b"\x00\x00\x00\xff\xff" * 40_000, id="empty deflate blocks"),
        pytest.param((Coding.GZIP,), b"\x1f\x8b\x08\x08" + b"\1" * 200_000, id="an endless gzip file name"),
        pytest.param(
            (Coding.ZSTD,),
            b"\x50\x2a\x4d\x18\xff\xff\xff\xff" + bytes(200_000),
            id="an endless skippable frame",
        ),
        pytest.param(
            (Coding.GZIP, Coding.GZIP),
            gzip.compress(gzip.compress(b"x") + bytes(200_000)),
            id="an outer layer that unpacks to padding",
        ),
    ],
)
def test_a_body_that_decodes_to_almost_nothing_ends_too(
    codings: tuple[Coding, ...], body: bytes, meter_body: Metering
) -> None:
    with pytest.raises(BrokenBodyError, match="more coded bytes than a body under the cap can need"):
        meter_body(BodyMeter(codings, 1_000), cut(body, 10_000), bytearray())

    BodyMeter(codings, 100_000).count(body)  # the bound follows the cap


# -------------------------------------------------------------------------------------------- broken bodies


@pytest.mark.parametrize("forms", PAIRS, ids=label)
def test_a_layered_body_cut_anywhere_breaks_off(forms: Forms) -> None:
    body = bodies.encode_body(b"<p>two layers</p>", *forms)

    for length in range(1, len(body)):
        with pytest.raises(BrokenBodyError):
            read(BodyMeter(codings_of(forms), CAP), [body[:length]], bytearray())


@pytest.mark.parametrize("forms", PAIRS, ids=label)
def test_an_inner_layer_that_breaks_off_in_a_whole_outer_one_is_broken(forms: Forms) -> None:
    inner, outer = forms
    body = bodies.encode_body(bodies.encode_body(noise(500), inner)[:-1], outer)

    with pytest.raises(BrokenBodyError, match="breaks off"):
        read(BodyMeter(codings_of(forms), CAP), [body], bytearray())


def test_layers_are_taken_off_from_the_last() -> None:
    body = bodies.encode_body(b"x", bodies.Coding.GZIP, bodies.Coding.BR)

    read(BodyMeter((Coding.GZIP, Coding.BR), 1), [body], bytearray())
    with pytest.raises(BrokenBodyError):
        read(BodyMeter((Coding.BR, Coding.GZIP), 1), [body], bytearray())


def test_c029_plain_text_under_gzip_is_broken() -> None:
    with pytest.raises(BrokenBodyError, match="gzip body is malformed"):
        BodyMeter((Coding.GZIP,), CAP).count(b"<p>plain</p>")


@pytest.mark.parametrize("forms", LAYERS, ids=label)
def test_no_body_at_all_is_whole(forms: Forms) -> None:
    meter = BodyMeter(codings_of(forms), CAP)

    meter.count(b"")
    assert list(meter.feed(b"")) == []
    meter.finish()

    assert (meter.wire_bytes, meter.decoded_bytes) == (0, 0)


# ------------------------------------------------------------------------------------------ life of a meter


@pytest.mark.parametrize(
    ("forms", "heavy"),
    [
        pytest.param((), False, id="plain is light"),
        pytest.param((bodies.Coding.GZIP, bodies.Coding.DEFLATE), False, id="gzip and deflate are light"),
        pytest.param((bodies.Coding.BR,), True, id="br is heavy"),
        pytest.param((bodies.Coding.ZSTD,), True, id="zstd is heavy"),
        pytest.param((bodies.Coding.BR, bodies.Coding.GZIP), True, id="br inside gzip is heavy"),
    ],
)
def test_heavy_tells_of_large_windows(forms: Forms, heavy: bool) -> None:
    assert BodyMeter(codings_of(forms), CAP).heavy is heavy


def test_a_meter_refuses_what_no_caller_should_ask() -> None:
    with pytest.raises(ValueError, match="at most 2 codings, not 3"):
        BodyMeter((Coding.GZIP,) * 3, CAP)
    with pytest.raises(ValueError, match="must not be negative: -1"):
        BodyMeter((), -1)


FAILURES = pytest.mark.parametrize(
    ("codings", "chunk", "kind"),
    [
        pytest.param((), b"x" * 11, OverCapError, id="plain over the cap"),
        pytest.param((Coding.BR,), brotli.compress(bytes(MIB)), OverCapError, id="br over the cap"),
        pytest.param((Coding.GZIP, Coding.ZSTD), b"\xff" * 100, BrokenBodyError, id="layered and broken"),
        pytest.param((Coding.GZIP,), gzip.compress(b"x")[:-1], BrokenBodyError, id="broken at its end"),
    ],
)


@WAYS
@FAILURES
def test_after_an_error_every_call_raises_the_same_kind(
    codings: tuple[Coding, ...], chunk: bytes, kind: type[BodyError], meter_body: Metering
) -> None:
    meter = BodyMeter(codings, 10)
    with pytest.raises(kind) as first:
        meter_body(meter, [chunk], bytearray())

    calls: list[Callable[[], object]] = [
        lambda: meter.count(b""),
        lambda: meter.count(b"x"),
        lambda: meter.feed(b"x"),  # at once, not when the pieces are read
        meter.finish,
    ]
    for call in calls:
        with pytest.raises(kind) as again:
            call()
        assert str(again.value) == str(first.value)
        assert again.value is not first.value
    wire = meter.wire_bytes
    meter.close()
    with pytest.raises(kind):
        meter.finish()
    assert meter.wire_bytes == wire == len(chunk)


@pytest.fixture
def decoders(monkeypatch: pytest.MonkeyPatch) -> list["weakref.ref[Decoder]"]:
    """A reference to every decoder made, keeping none alive."""
    made: list[weakref.ref[Decoder]] = []

    def make(coding: Coding) -> Decoder:
        decoder = make_decoder(coding)
        made.append(weakref.ref(decoder))
        return decoder

    monkeypatch.setattr(metering, "make_decoder", make)
    return made


@WAYS
@FAILURES
def test_a_kept_error_keeps_no_window(
    codings: tuple[Coding, ...],
    chunk: bytes,
    kind: type[BodyError],
    meter_body: Metering,
    decoders: list["weakref.ref[Decoder]"],
) -> None:
    meter = BodyMeter(codings, 10)

    with pytest.raises(kind) as kept:
        meter_body(meter, [chunk], bytearray())

    assert kept.value.__context__ is None
    assert len(decoders) == len(codings)
    assert [decoder() for decoder in decoders] == [None] * len(codings)


@pytest.mark.parametrize("end", [BodyMeter.finish, BodyMeter.close], ids=["finish", "close"])
@pytest.mark.parametrize("forms", SINGLES + PAIRS, ids=label)
def test_the_end_frees_the_windows(
    forms: Forms, end: Callable[[BodyMeter], None], decoders: list["weakref.ref[Decoder]"]
) -> None:
    meter = BodyMeter(codings_of(forms), CAP)
    meter.count(bodies.encode_body(b"x" * 1000, *forms))

    end(meter)

    assert [decoder() for decoder in decoders] == [None] * len(forms)
    assert meter.decoded_bytes == 1000
    end(meter)  # again changes nothing
    meter.close()


@pytest.mark.parametrize("codings", [(), (Coding.GZIP,)], ids=["plain", "gzip"])
def test_nothing_follows_the_end_and_a_closed_body_is_not_whole(codings: tuple[Coding, ...]) -> None:
    ended, given_up = BodyMeter(codings, CAP), BodyMeter(codings, CAP)
    ended.finish()
    given_up.close()

    for meter, why in ((ended, "bytes after the end"), (given_up, "given up before its end")):
        with pytest.raises(BrokenBodyError, match=why):
            meter.count(b"x")
    with pytest.raises(BrokenBodyError, match="given up before its end"):
        given_up.finish()


@pytest.mark.parametrize("forms", [(), (bodies.Coding.GZIP,)], ids=label)
def test_a_chunk_half_read_is_not_skipped_in_silence(forms: Forms) -> None:
    meter = BodyMeter(codings_of(forms), CAP)
    assert next(iter(meter.feed(bodies.encode_body(bytes(3 * PIECE), *forms)))) == bytes(PIECE)

    for call in (lambda: meter.count(b"x"), lambda: meter.feed(b"x"), meter.finish):
        with pytest.raises(RuntimeError, match="not read to their end"):
            call()
    meter.close()


# ------------------------------------------------------------------------------------------------- property


def outcome(
    meter_body: Metering, codings: tuple[Coding, ...], cap: int, chunks: Iterable[bytes]
) -> tuple[type[BodyError] | None, bytes, int]:
    """How the body ended, what was held of it, what was counted. Other errors go through."""
    meter, held = BodyMeter(codings, cap), bytearray()
    kind: type[BodyError] | None = None
    try:
        meter_body(meter, chunks, held)
    except (OverCapError, BrokenBodyError) as error:
        kind = type(error)
    return kind, bytes(held), meter.decoded_bytes


CODINGS = st.lists(st.sampled_from(list(Coding)), max_size=2).map(tuple)
FUZZ = settings(deadline=None, max_examples=150)


@FUZZ
@given(CODINGS, st.integers(0, 300), st.lists(st.binary(max_size=200), max_size=5))
def test_any_bytes_give_bytes_up_to_the_cap_or_a_named_error(
    codings: tuple[Coding, ...], cap: int, chunks: list[bytes]
) -> None:
    kind, held, counted = outcome(read, codings, cap, chunks)

    assert len(held) == counted <= cap
    assert kind is not OverCapError or counted == cap
    assert outcome(count, codings, cap, chunks) == (kind, b"", counted)


@FUZZ
@given(st.sampled_from(LAYERS), st.binary(max_size=400), st.integers(0, 900), st.integers(1, 60))
def test_a_whole_body_is_metered_the_same_however_it_is_cut(
    forms: Forms, content: bytes, cap: int, size: int
) -> None:
    content = content * 2
    body = bodies.encode_body(content, *forms)
    expected = (None if len(content) <= cap else OverCapError, content[:cap], min(cap, len(content)))

    assert outcome(read, codings_of(forms), cap, [body]) == expected
    assert outcome(read, codings_of(forms), cap, cut(body, size)) == expected


@FUZZ
@given(st.sampled_from(LAYERS), st.integers(0, 5_000), st.integers(1, 400), st.integers(1, 400))
def test_what_the_gateway_cuts_after_the_crossing_chunk_is_over_the_cap_for_the_daemon_too(
    forms: Forms, cap: int, gateway_size: int, daemon_size: int
) -> None:
    codings = codings_of(forms)
    gateway, passed = BodyMeter(codings, cap), bytearray()
    try:
        for chunk in cut(bodies.encode_body(noise(cap + 300), *forms), gateway_size):
            passed += chunk
            gateway.count(chunk)
    except OverCapError:
        pass  # as for the daemon, asserted below

    kind, held, _ = outcome(read, codings, cap, cut(bytes(passed), daemon_size))

    assert (kind, held) == (OverCapError, noise(cap + 300)[:cap])
