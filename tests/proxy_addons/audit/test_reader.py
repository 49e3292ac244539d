"""All chains as one log: order, the end of it, and what comes."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from proxy_addons.audit.reader import Follower, LogLine, parse_log_line, read_all
from tests.proxy_addons.audit.kit import START_NS, decision, event, open_log, series_paths, write_chain


def seqs(lines: list[LogLine]) -> list[tuple[str, int | float | None]]:
    return [(line.chain, line.number("seq")) for line in lines]


def test_chains_are_merged_by_time(tmp_path: Path) -> None:
    tick = count(START_NS, 1_000_000)
    one = open_log(tmp_path, "one", clock=lambda: next(tick))
    two = open_log(tmp_path, "two", clock=lambda: next(tick))
    for _ in range(2):
        one.append(decision())
        two.append(decision())
    one.close()
    two.close()

    lines = list(read_all(tmp_path))

    assert [line.time for line in lines] == sorted(line.time for line in lines)
    assert [line.chain for line in lines] == [*["one"] * 2, *["two"] * 2, *["one", "two"] * 3]


def test_a_clock_that_goes_back_does_not_change_the_order_of_a_chain(tmp_path: Path) -> None:
    times = iter([START_NS + 5, START_NS + 6, START_NS - 10**12, START_NS - 10**11, START_NS + 7])
    log = open_log(tmp_path, clock=lambda: next(times))
    log.append(decision())
    log.append(decision())
    log.close()

    assert [line.number("seq") for line in read_all(tmp_path)] == [1, 2, 3, 4, 5]


def test_a_follower_gives_what_was_there_backwards_and_then_what_comes(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append(decision())
    follower = Follower(tmp_path)
    log.append(decision())

    (backward,) = follower.read_backward()
    assert [line.number("seq") for line in backward] == [3, 2, 1]
    assert seqs(follower.poll()) == [("gateway-0", 4)]
    assert follower.poll() == []
    log.close()
    assert seqs(follower.poll()) == [("gateway-0", 5)]


def test_following_survives_rotation_and_loses_no_line(tmp_path: Path) -> None:
    log = open_log(tmp_path, rotate_bytes=1500)
    follower = Follower(tmp_path)
    seen: list[int | float | None] = []
    for number in range(30):
        log.append(decision())
        if number % 7 == 0:
            log.flush()
            seen += [line.number("seq") for line in follower.poll()]
    log.close()
    seen += [line.number("seq") for line in follower.poll()]

    assert len(series_paths(tmp_path)) > 5
    assert seen == list(range(3, log.head.seq + 1))


def test_a_chain_that_begins_later_is_followed_from_its_start(tmp_path: Path) -> None:
    follower = Follower(tmp_path)
    write_chain(tmp_path, 1, series="daemon")

    assert seqs(follower.poll()) == [("daemon", 1), ("daemon", 2), ("daemon", 3), ("daemon", 4)]


def test_an_unfinished_line_waits_until_it_is_whole(tmp_path: Path) -> None:
    write_chain(tmp_path, 0)
    path = series_paths(tmp_path)[0]
    with path.open("ab") as file:
        file.write(b'{"half":')
        file.flush()
        follower = Follower(tmp_path)
        assert follower.poll() == []
        file.write(b"1}\n")
        file.flush()
        (line,) = follower.poll()

    assert line.members == {"half": 1}


def test_a_torn_line_cut_off_by_a_restart_does_not_stop_the_follower(tmp_path: Path) -> None:
    write_chain(tmp_path, 0)
    with series_paths(tmp_path)[0].open("ab") as file:
        file.write(b'{"half":')
    follower = Follower(tmp_path)
    write_chain(tmp_path, 1)

    assert [line.text("event") for line in follower.poll() if line.text("event")] == ["torn-line", "resumed"]


@pytest.mark.parametrize(
    "raw",
    [b"", b"no", b"[1]", b"\xff\xfe", b"[" * 100_000, b'{"seq":1e999}', b'{"seq":"7","time":7,"hop":true}'],
)
def test_any_line_is_read_and_odd_members_are_none(raw: bytes) -> None:
    line = parse_log_line("gateway-0", raw + b"\n")

    assert line.raw == raw and line.time == "" and line.text("agent") is None
    assert line.number("hop") is None


def test_events_keep_their_facts(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append(event("policy-changed", facts={"version": "p2"}))
    log.close()

    assert list(read_all(tmp_path))[2].members["facts"] == {"version": "p2"}
