"""Lines and their links: sealed here, checked here, and checked with other tools."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy_addons.audit.chain import (
    GENESIS,
    MAX_LINE,
    START,
    ChainWalker,
    Check,
    CheckpointReason,
    Fault,
    Head,
    Line,
    parse_head,
    parse_line,
    seal_checkpoint,
    seal_line,
)
from tests.kit.tools import require_tool
from tests.proxy_addons.audit.kit import KEYS, SERIES, decision, event

TIME = "2026-01-01T00:00:00.000000Z"
CHECKS = {KEYS.public.id: KEYS.public.accepts}


def seal_lines(count: int) -> list[bytes]:
    """`count` event lines and a checkpoint."""
    head, lines = START, []
    for number in range(count):
        line, head = seal_line(SERIES, head, TIME, event(facts={"n": number}))
        lines.append(line)
    lines.append(seal_checkpoint(SERIES, head, TIME, CheckpointReason.STOP, KEYS.public.id, KEYS.sign)[0])
    return lines


def reseal(line: bytes, change: Callable[[bytes], bytes]) -> bytes:
    """`line` changed, with a hash that fits again: what one can forge without the key."""
    body = change(line[: line.rindex(b',"hash"')])
    return body + b',"hash":"' + sha256(body + b"}").hexdigest().encode() + b'"}\n'


def test_a_line_is_json_that_begins_with_its_place_and_ends_with_its_hash() -> None:
    line, head = seal_line(SERIES, START, TIME, decision())
    value = json.loads(line)

    assert list(value)[:5] == ["kind", "chain", "seq", "time", "prev"] and list(value)[-1] == "hash"
    assert (value["chain"], value["seq"], value["prev"]) == (SERIES, 1, GENESIS)
    assert head == Head(1, value["hash"])


def test_the_hash_is_sha256_of_the_line_without_its_hash_member() -> None:
    line, head = seal_line(SERIES, START, TIME, decision())

    assert sha256(line[: line.rindex(b',"hash"')] + b"}").hexdigest() == head.hash


def test_a_whole_chain_walks_without_fault() -> None:
    walker = ChainWalker(SERIES, CHECKS)

    assert [walker.accept(line)[1] for line in seal_lines(5)] == [None] * 6
    assert walker.head.seq == walker.checkpoint_seq == 6


def _flip(line: bytes, position: int) -> bytes:
    return line[:position] + bytes([line[position] ^ 0x01]) + line[position + 1 :]


def test_a_flipped_bit_anywhere_in_a_line_is_found() -> None:
    """Every byte of an event line and of a checkpoint, one at a time."""
    lines = seal_lines(1)
    for line in lines:
        for position in range(len(line)):
            found = parse_line(_flip(line, position))
            assert isinstance(found, Fault), position


FORGERIES: dict[str, tuple[Callable[[list[bytes]], list[bytes]], int, Check]] = {
    "a line taken out": (lambda x: [*x[:2], *x[3:]], 3, Check.SEQ),
    "the first line taken out": (lambda x: x[1:], 1, Check.SEQ),
    "two lines swapped": (lambda x: [x[0], x[2], x[1], *x[3:]], 2, Check.SEQ),
    "a line doubled": (lambda x: [x[0], x[1], x[1], *x[2:]], 3, Check.SEQ),
    "a line changed, its hash made to fit": (
        lambda x: [x[0], reseal(x[1], lambda b: b.replace(b'"n":1', b'"n":9')), *x[2:]],
        3,
        Check.PREV,
    ),
    "a line changed, its hash left": (
        lambda x: [x[0], x[1].replace(b'"n":1', b'"n":9'), *x[2:]],
        2,
        Check.HASH,
    ),
    "a line of another chain": (
        lambda x: [x[0], reseal(x[1], lambda b: b.replace(b"gateway-0", b"gateway-1")), *x[2:]],
        2,
        Check.CHAIN,
    ),
    "a line that is no JSON": (lambda x: [x[0], b'{"kind":\n', *x[2:]], 2, Check.JSON),
    "a line that is JSON but no object": (lambda x: [x[0], b"[1]\n", *x[2:]], 2, Check.JSON),
    "a line that is an object without a place": (lambda x: [x[0], b"{}\n", *x[2:]], 2, Check.FORM),
    "a line that is not ASCII": (lambda x: [x[0], '{"é":1}\n'.encode(), *x[2:]], 2, Check.JSON),
    "an empty line between": (lambda x: [x[0], b"\n", *x[1:]], 2, Check.JSON),
    "a line that ends with CR LF": (lambda x: [x[0], x[1][:-1] + b"\r\n", *x[2:]], 2, Check.FORM),
    "a line too long": (lambda x: [x[0], b" " * MAX_LINE + b"\n", *x[2:]], 2, Check.FORM),
    "the last line without newline": (lambda x: [*x[:-1], x[-1][:-1]], 5, Check.TORN),
    "a checkpoint without signature": (
        lambda x: [*x[:-1], reseal(x[-1], lambda b: b[: b.index(b',"signature"')])],
        5,
        Check.SIGNATURE,
    ),
    "a checkpoint signed with a foreign key": (
        lambda x: [*x[:-1], reseal(x[-1], lambda b: b.replace(KEYS.public.id.encode(), b"0" * 16))],
        5,
        Check.SIGNATURE,
    ),
    "a checkpoint with a time it was not signed with": (
        lambda x: [*x[:-1], reseal(x[-1], lambda b: b.replace(b"2026", b"2027"))],
        5,
        Check.SIGNATURE,
    ),
}


@pytest.mark.parametrize("case", FORGERIES)
def test_the_first_fault_is_named_at_its_line(case: str) -> None:
    forge, line, check = FORGERIES[case]
    walker = ChainWalker(SERIES, CHECKS)

    faults = [walker.accept(raw)[1] for raw in forge(seal_lines(4))]

    first = next((number, fault.check) for number, fault in enumerate(faults, 1) if fault)
    assert first == (line, check)


def test_a_chain_rehashed_without_the_key_fails_at_its_next_checkpoint() -> None:
    head, forged = START, []
    for number in range(4):
        line, head = seal_line(SERIES, head, TIME, event(facts={"n": number + 100}))
        forged.append(line)
    checkpoint = reseal(
        seal_lines(4)[-1],
        lambda b: b.replace(json.loads(seal_lines(4)[-1])["prev"].encode(), head.hash.encode()),
    )
    walker = ChainWalker(SERIES, CHECKS)

    faults = [walker.accept(raw)[1] for raw in [*forged, checkpoint]]

    assert faults[:4] == [None] * 4
    assert faults[4] is not None and faults[4].check == Check.SIGNATURE


def test_after_a_fault_the_walk_goes_on_and_finds_the_next() -> None:
    lines = seal_lines(6)
    lines[1], lines[4] = lines[1].replace(b'"n":1', b'"n":9'), b"no\n"
    walker = ChainWalker(SERIES, CHECKS)

    faults = [walker.accept(raw)[1] for raw in lines]

    assert [number for number, fault in enumerate(faults, 1) if fault] == [2, 5]


@given(raw=st.binary(max_size=200) | st.binary(max_size=200).map(lambda b: b + b"\n"))
def test_any_bytes_are_a_line_or_a_fault_and_never_an_exception(raw: bytes) -> None:
    assert isinstance(parse_line(raw), Line | Fault)


@pytest.mark.parametrize(
    "text", ["", "1", "1:", "0:" + "a" * 64, "1:" + "A" * 64, "-1:" + "a" * 64, "1:" + "a" * 63]
)
def test_a_head_in_another_form_is_refused_with_the_form_to_write(text: str) -> None:
    with pytest.raises(ValueError, match="SEQ:HASH"):
        parse_head(text)


def test_a_head_reads_back_what_it_prints() -> None:
    head = Head(12, "ab" * 32)

    assert parse_head(str(head)) == head


def test_sed_and_sha256sum_recompute_the_hash(tmp_path: Path) -> None:
    require_tool("sha256sum")
    line, head = seal_line(SERIES, START, TIME, decision(detail='quote " and \\ and é'))
    (tmp_path / "line").write_bytes(line)

    script = """sed -E 's/,"hash":"[0-9a-f]{64}"\\}$/}/' line | tr -d '\\n' | sha256sum"""
    shell = shutil.which("sh") or "sh"
    done = subprocess.run([shell, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)

    assert done.stdout.split()[0] == head.hash


def test_openssl_verifies_a_checkpoint(tmp_path: Path) -> None:
    require_tool("openssl")
    line = seal_lines(1)[-1]
    (tmp_path / "line").write_bytes(line)
    (tmp_path / "key.pem").write_bytes(KEYS.public.render_pem())

    script = """
    sed -E 's/,"signature":.*$/}/' line | tr -d '\\n' > signed
    sed -E 's/.*"signature":"([^"]*)".*/\\1/' line | openssl base64 -d -A > signature
    openssl pkeyutl -verify -pubin -inkey key.pem -rawin -in signed -sigfile signature
    """
    shell = shutil.which("sh") or "sh"
    done = subprocess.run([shell, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert (done.returncode, "Verified Successfully" in done.stdout) == (0, True), done.stderr
