"""Bombs: what is small on the wire and huge in memory costs the gateway less than 128 MiB, however many come.

Two kinds. A *gibibyte* inflates to 1 GiB and is cut at the cap. A *held* body is worse: it fills the window of its
decoder, stays just under the cap and then does not end, so that every decoder at work is at its largest at once.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import brotli
import pytest
from backports import zstd

from proxy_addons.addons.decoder_slots import GATEWAY_WINDOWS, share_windows
from tests.gateway.footprint import MIB, measure_baseline, scratch_file
from tests.gateway.lines import wait_lines
from tests.gateway.paths import OPEN
from tests.kit import bodies, replies
from tests.kit.bodies import Coding
from tests.kit.exchange import Exchange, Route
from tests.kit.gateway import World
from tests.kit.sync import Gate, Watch

AT_ONCE = 32
GIB = 1 << 30
CAP = 8 * MIB
ALLOWED_RISE = 128 * MIB
LONG = 60.0
EDGE = 1000


@dataclass(frozen=True, slots=True)
class Packed:
    """A coded body: `start` decodes to just under the cap without an end, `end` completes it."""

    encoding: str
    start: bytes
    end: bytes = b""


# --- bodies, made once ----------------------------------------------------------------------------------------


def repeated_deflate() -> bytes:
    """The middle of a raw deflate stream of 1 GiB of zeros: one flushed block of 1 MiB, 1,024 times."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return (packer.compress(bytes(MIB)) + packer.flush(zlib.Z_FULL_FLUSH)) * (GIB // MIB)


@cache
def gibibytes() -> dict[str, Packed]:
    blocks, last = repeated_deflate(), b"\x03\x00"
    gzipped = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03" + blocks
    twice = zlib.compressobj(9, zlib.DEFLATED, 31)
    return {
        "gzip": Packed("gzip", gzipped, last + bytes(8)),
        "deflate": Packed("deflate", b"\x78\xda" + blocks, last + bytes(4)),
        "br": Packed("br", bodies.bomb(Coding.BR, GIB)),
        "zstd": Packed("zstd", bodies.bomb(Coding.ZSTD, GIB)),
        "gzip in gzip": Packed("gzip, gzip", twice.compress(gzipped) + twice.flush()),
    }


@cache
def held_bodies() -> dict[str, Packed]:
    """Just under the cap, of data that no window can forget: nothing in it repeats."""
    data = random.Random(7).randbytes(CAP - 64 * 1024)
    gz, raw = zlib.compressobj(1, zlib.DEFLATED, 31), zlib.compressobj(1, zlib.DEFLATED, -15)
    br = brotli.Compressor(quality=1, lgwin=24)
    zs = zstd.ZstdCompressor(options={zstd.CompressionParameter.window_log: 23})
    inner, outer = brotli.Compressor(quality=1, lgwin=24), brotli.Compressor(quality=1, lgwin=24)
    start = outer.process(inner.process(data) + inner.flush()) + outer.flush()
    return {
        "br-in-br": Packed("br, br", start, outer.process(inner.finish()) + outer.finish()),
        "gzip": Packed("gzip", gz.compress(data) + gz.flush(zlib.Z_SYNC_FLUSH), gz.flush()),
        "deflate": Packed("deflate", raw.compress(data) + raw.flush(zlib.Z_SYNC_FLUSH), raw.flush()),
        "br": Packed("br", br.process(data) + br.flush(), br.finish()),
        "zstd": Packed("zstd", zs.compress(data, zs.FLUSH_BLOCK), zs.flush()),
    }


# --- the stage ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[1, 2], ids=["one worker", "two workers"])
def shared_world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    slow = {"total_timeout": LONG}
    with World(
        tmp_path_factory.mktemp("bombs"), profiles={"test": slow, "open": slow}, workers=request.param
    ) as world:
        for name, packed in gibibytes().items():
            world.plain.route(f"/{name}".replace(" ", "-"), whole(packed))
        yield world


def whole(packed: Packed) -> Route:
    return replies.body_as_is(packed.start + packed.end, packed.encoding, length=False)


def holding(packed: Packed, gate: Gate) -> Route:
    """The start at once, the end once the gate is open."""

    async def route(exchange: Exchange) -> None:
        fields = [("content-type", replies.HTML), ("content-encoding", packed.encoding)]
        await replies.start_chunked(exchange, fields)
        await replies.send_chunk(exchange, packed.start)
        await gate.wait()
        await replies.send_chunk(exchange, packed.end)
        await replies.end_chunked(exchange)

    return route


class Clients:
    """Many clients at once; each counts what it gets."""

    def __init__(self, world: World, paths: Sequence[str]) -> None:
        self._world, self._paths = world, paths
        self._watch = Watch()
        self._received = [0] * len(paths)

    def run(self, meanwhile: Callable[[], None] = lambda: None) -> list[bytes]:
        """The first EDGE bytes of each answer and the last, when all have ended."""
        with ThreadPoolExecutor(len(self._paths)) as pool:
            fetched = [pool.submit(self._fetch, number) for number in range(len(self._paths))]
            meanwhile()
            return [one.result() for one in fetched]

    def wait_received(self, size: int, number: int) -> None:
        """Wait until so many clients have got so many bytes."""
        self._watch.wait_sync(
            lambda: sum(got >= size for got in self._received) >= number,
            f"{size} bytes at {number} clients",
            LONG / 2,
        )

    def _fetch(self, number: int) -> bytes:
        with self._world.gateway.open(OPEN) as proxy:
            proxy.sock.settimeout(LONG)
            host = f"a.example:{self._world.plain.port}"
            close = [("Connection", "close")]
            proxy.request("GET", self._world.plain_url(self._paths[number]), host, close)
            head = tail = b""
            while True:
                try:
                    data = proxy.receive(1 << 18)
                except ConnectionError:
                    data = b""
                if not data:
                    return head + tail
                head, tail = head or data[:EDGE], (tail + data)[-EDGE:]
                with self._watch:
                    self._received[number] += len(data)


def warm_up(world: World) -> None:
    """Load what a first use loads, so that only the bombs are measured."""
    small = {coding: bodies.encode_body(b"warm", coding) for coding in Coding}
    for coding, body in small.items():
        world.plain.route(f"/warm-{coding}", replies.body_as_is(body, coding.token))
    Clients(world, [f"/warm-{coding}" for coding in Coding] * 8).run()


# --- the tests ----------------------------------------------------------------------------------------


def test_32_bodies_of_a_gibibyte_at_once_are_cut_within_128_mib(world: World) -> None:
    warm_up(world)
    kinds = [f"/{name}".replace(" ", "-") for name in gibibytes()]
    paths = (kinds * AT_ONCE)[:AT_ONCE]
    assert min(paths.count(kind) for kind in kinds) >= 6
    baseline = measure_baseline(world.gateway)
    answers = Clients(world, paths).run()

    assert baseline.rise() < ALLOWED_RISE
    assert all(answer.startswith(b"HTTP/1.1 200") for answer in answers)
    assert not any(answer.endswith(b"\r\n0\r\n\r\n") for answer in answers)
    lines = wait_lines(world.gateway, "close", AT_ONCE, rule="byte-cap")
    assert {line["decoded_bytes"] for line in lines[-AT_ONCE:]} == {CAP}


@pytest.mark.parametrize("kinds", [("br",), ("br-in-br",), ("zstd",), ("gzip", "br", "zstd", "deflate")])
def test_32_bodies_held_under_the_cap_at_once_stay_within_128_mib(
    world: World, kinds: tuple[str, ...]
) -> None:
    warm_up(world)
    gate = Gate()
    packed = {kind: held_bodies()[kind] for kind in kinds}
    for kind in kinds:
        world.plain.route(f"/held-{kind}", holding(packed[kind], gate))
    light = sum(AT_ONCE // len(kinds) for kind in kinds if kind in ("gzip", "deflate"))
    clients = Clients(world, [f"/held-{kind}" for kind in kinds] * (AT_ONCE // len(kinds)))
    windows = 2 if kinds == ("br-in-br",) else 1
    share = share_windows(world.gateway.events[0]["workers"])
    at_work = light + (share // windows if light < AT_ONCE else 0)

    baseline = measure_baseline(world.gateway)

    def until_all_decoders_are_full() -> None:
        clients.wait_received(min(len(body.start) for body in packed.values()), at_work)
        gate.open()

    answers = clients.run(until_all_decoders_are_full)
    print("rise", baseline.rise() / MIB)
    assert baseline.rise() < ALLOWED_RISE
    assert all(answer.startswith(b"HTTP/1.1 200") for answer in answers)
    assert all(answer.endswith(b"\r\n0\r\n\r\n") for answer in answers)


def count_locked(path: Path) -> int:
    """Bytes of a file that processes hold locks on (Linux)."""
    inode = path.stat().st_ino
    rows = [row.split() for row in Path("/proc/locks").read_text().splitlines() if f":{inode} " in row]
    return sum(int(end) - int(start) + 1 for *_, start, end in rows)


def test_many_workers_together_hold_no_more_windows_than_few(tmp_path: Path) -> None:
    """Six workers, of whom each must be able to hold two: measured at the moment when all windows are full."""
    slow = {"total_timeout": LONG}
    with World(tmp_path, profiles={"test": slow, "open": slow}, workers=6) as world:
        warm_up(world)
        gate, packed = Gate(), held_bodies()["br"]
        world.plain.route("/held-br", holding(packed, gate))
        clients = Clients(world, ["/held-br"] * AT_ONCE)
        baseline = measure_baseline(world.gateway)
        measured: list[tuple[int, int]] = []

        def until_all_windows_are_full() -> None:
            clients.wait_received(len(packed.start), GATEWAY_WINDOWS)
            measured.append(
                (baseline.rise_now(), count_locked(scratch_file(world.gateway, "decoder-windows")))
            )
            gate.open()

        answers = clients.run(until_all_windows_are_full)
    ((rise, held),) = measured
    assert held == GATEWAY_WINDOWS
    assert rise < ALLOWED_RISE
    assert all(answer.endswith(b"\r\n0\r\n\r\n") for answer in answers)
