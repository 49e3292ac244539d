"""Lines handed on behind their writers: all of them, whole, in the order of their chain, at least once."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from proxy_addons.audit.pruning import prune_chains
from proxy_addons.audit.retention import Retention
from proxy_addons.audit.shipping import BLOCK_BYTES, CURSOR_FILE, Shipper
from tests.proxy_addons.audit.kit import (
    KEYS,
    SERIES,
    decision,
    open_log,
    raw_lines,
    series_paths,
    verify,
    write_chain,
)


class Taken:
    """Whoever takes the lines."""

    def __init__(self) -> None:
        self.blocks: list[bytes] = []

    def __call__(self, block: bytes) -> None:
        self.blocks.append(block)

    @property
    def lines(self) -> list[bytes]:
        return b"".join(self.blocks).splitlines(True)

    def of(self, chain: str) -> list[bytes]:
        return [line for line in self.lines if json.loads(line)["chain"] == chain]


def ship(directory: Path) -> list[bytes]:
    """One start: all that is there for it, and its place kept."""
    taken = Taken()
    shipper = Shipper(directory, taken)
    run(shipper)
    shipper.save()
    return taken.lines


def run(shipper: Shipper) -> None:
    while shipper.turn():
        pass


@pytest.fixture
def begun(tmp_path: Path) -> tuple[Shipper, Taken]:
    """One that began before there was a log."""
    taken = Taken()
    return Shipper(tmp_path, taken), taken


def test_every_line_of_every_chain_and_file_is_handed_on_as_it_stands(
    tmp_path: Path, begun: tuple[Shipper, Taken]
) -> None:
    shipper, taken = begun
    for series in ("gateway-0", "gateway-1", "daemon"):
        write_chain(tmp_path, 20, series, rotate_bytes=2200)
    run(shipper)

    for series in ("gateway-0", "gateway-1", "daemon"):
        assert taken.of(series) == raw_lines(tmp_path, series)


def test_what_is_handed_on_is_whole_lines_always(tmp_path: Path, begun: tuple[Shipper, Taken]) -> None:
    shipper, taken = begun
    log = open_log(tmp_path)
    path = series_paths(tmp_path)[0]
    whole = path.read_bytes()
    with path.open("ab") as file:
        file.write(b'{"kind":"half')
        file.flush()
        run(shipper)
        assert taken.lines == whole.splitlines(True)
        file.write(b'"}\n')
    run(shipper)
    assert taken.lines[-1] == b'{"kind":"half"}\n'
    assert all(block.endswith(b"\n") for block in taken.blocks)
    log.close()


def test_the_first_start_begins_behind_what_is_there_and_a_chain_that_comes_later_at_its_beginning(
    tmp_path: Path,
) -> None:
    write_chain(tmp_path, 20, rotate_bytes=2200)
    before = raw_lines(tmp_path)
    taken = Taken()
    shipper = Shipper(tmp_path, taken)
    run(shipper)
    assert taken.lines == []

    write_chain(tmp_path, 3, rotate_bytes=2200)
    write_chain(tmp_path, 3, "gateway-1")
    run(shipper)
    assert taken.of(SERIES) == raw_lines(tmp_path)[len(before) :]
    assert taken.of("gateway-1") == raw_lines(tmp_path, "gateway-1")


def test_a_new_start_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    assert ship(tmp_path) == []
    write_chain(tmp_path, 20, rotate_bytes=2200)
    first = ship(tmp_path)
    write_chain(tmp_path, 20, rotate_bytes=2200)
    second = ship(tmp_path)

    assert first + second == raw_lines(tmp_path)
    assert ship(tmp_path) == []


def test_a_start_after_a_crash_repeats_what_was_not_kept_and_leaves_nothing_out(tmp_path: Path) -> None:
    ship(tmp_path)
    shipper = Shipper(tmp_path, Taken())
    shipper.save()
    write_chain(tmp_path, 5)
    run(shipper)  # and killed before it kept its place

    assert ship(tmp_path) == raw_lines(tmp_path)


def test_a_taker_that_fails_gets_the_same_lines_again(tmp_path: Path) -> None:
    class Failing(Taken):
        fails = True

        def __call__(self, block: bytes) -> None:
            if self.fails:
                raise BrokenPipeError
            super().__call__(block)

    taken = Failing()
    shipper = Shipper(tmp_path, taken)
    write_chain(tmp_path, 5)
    with pytest.raises(BrokenPipeError):
        run(shipper)
    taken.fails = False
    run(shipper)

    assert taken.lines == raw_lines(tmp_path)


@pytest.mark.parametrize(
    "content", [b"", b"no json", b"[]", b'{"gateway-0": 3}', b'{"gateway-0": {"number": "x"}}']
)
def test_a_cursor_that_cannot_be_read_is_as_none(tmp_path: Path, content: bytes) -> None:
    write_chain(tmp_path, 5)
    (tmp_path / CURSOR_FILE).write_bytes(content)

    assert ship(tmp_path) == []
    write_chain(tmp_path, 1)
    assert ship(tmp_path)


def test_lines_removed_before_they_were_handed_on_are_counted(tmp_path: Path) -> None:
    ship(tmp_path)
    write_chain(tmp_path, 2, rotate_bytes=2200)
    shipped = ship(tmp_path)
    write_chain(tmp_path, 40, rotate_bytes=2200)
    prune_chains(tmp_path, KEYS, Retention(keep_bytes=0))
    notice, *rest = ship(tmp_path)
    left = raw_lines(tmp_path)
    first = json.loads(left[0])["seq"]

    assert json.loads(notice) == {
        "kind": "skipped", "chain": SERIES, "from": len(shipped) + 1, "to": first - 1,
    }  # fmt: skip
    assert rest == left


def test_a_repaired_torn_line_is_handed_on_once_it_is_whole(
    tmp_path: Path, begun: tuple[Shipper, Taken]
) -> None:
    shipper, taken = begun
    write_chain(tmp_path, 3)
    with series_paths(tmp_path)[0].open("ab") as file:
        file.write(b'{"kind":"deci')
    run(shipper)
    write_chain(tmp_path, 3)
    run(shipper)

    assert taken.lines == raw_lines(tmp_path)


def test_a_log_that_was_taken_away_and_begins_again_is_handed_on(tmp_path: Path) -> None:
    ship(tmp_path)
    write_chain(tmp_path, 20, rotate_bytes=2200)
    ship(tmp_path)
    for path in (*series_paths(tmp_path), tmp_path / f"{SERIES}.head"):
        path.unlink()
    write_chain(tmp_path, 3)

    assert ship(tmp_path) == raw_lines(tmp_path)


@pytest.mark.parametrize(
    ("foreign", "shown"),
    [
        pytest.param(b"\x1b[2Jgone\n", b"\\x1b[2Jgone\n", id="a terminal's escape"),
        pytest.param("né\n".encode(), b"n\\xc3\\xa9\n", id="not ASCII"),
        pytest.param(b"\r\x00\n", b"\\x0d\\x00\n", id="control characters"),
    ],
)
def test_what_others_put_into_a_file_is_shown_as_text(
    tmp_path: Path, begun: tuple[Shipper, Taken], foreign: bytes, shown: bytes
) -> None:
    shipper, taken = begun
    write_chain(tmp_path, 1)
    with series_paths(tmp_path)[0].open("ab") as file:
        file.write(foreign)
    run(shipper)

    assert taken.lines[-1] == shown


def test_a_file_without_an_end_of_line_stops_nothing(tmp_path: Path, begun: tuple[Shipper, Taken]) -> None:
    shipper, taken = begun
    (tmp_path / "gateway-1-000001.jsonl").write_bytes(b"x" * (2 * BLOCK_BYTES) + b"\n")
    write_chain(tmp_path, 3)
    run(shipper)

    assert [line for line in taken.lines if not line.startswith(b"x")] == raw_lines(tmp_path)


def test_while_several_writers_write_rotate_and_prune_every_chain_is_handed_on_in_order(
    tmp_path: Path,
) -> None:
    """Nothing twice, nothing out of order; what went unread is counted."""
    taken = Taken()
    shipper = Shipper(tmp_path, taken)
    ended = threading.Event()

    def write(series: str) -> None:
        log = open_log(tmp_path, series, rotate_bytes=4000, checkpoint_lines=50)
        log.retain(Retention(keep_bytes=60_000))
        for number in range(600):
            log.append(decision(url=f"https://example.com/{number}"))
            if number % 20 == 0:
                log.flush()
        log.close()

    def read() -> None:
        while not ended.is_set():
            shipper.turn()
        run(shipper)

    writers = [threading.Thread(target=write, args=(f"gateway-{n}",)) for n in range(3)]
    reader = threading.Thread(target=read)
    for thread in (reader, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    ended.set()
    reader.join()

    for chain in verify(tmp_path).chains:
        assert chain.ok
        assert chain.head is not None
        at = 0
        for line in map(json.loads, taken.of(chain.chain)):
            if line["kind"] == "skipped":
                assert line["from"] == at + 1
                at = line["to"]
            else:
                assert line["seq"] == at + 1
                at = line["seq"]
        assert at == chain.head.seq
