"""What goes by age and size, and what a writer does: it says so, signed; it removes; what is left can be verified."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy_addons.audit import AuditLog, Check, Head, verify_directory
from proxy_addons.audit.housekeeping import HOUSEKEEPING_SECONDS
from proxy_addons.audit.moments import render_time
from proxy_addons.audit.pruning import plan_chains, prune_chains
from proxy_addons.audit.reader import Follower, read_all
from proxy_addons.audit.retention import (
    DAY_SECONDS,
    SMALLEST_ROTATION,
    LogFile,
    Retention,
    load_log_files,
    plan_pruning,
)
from tests.proxy_addons.audit.kit import (
    KEYS,
    SERIES,
    START_NS,
    Clock,
    Monotonic,
    decision,
    event,
    file_size_limit,
    members,
    open_log,
    raw_lines,
    series_paths,
    verify,
    write_chain,
)

DAY = DAY_SECONDS * 1_000_000_000
ALL = Retention(keep_bytes=0)
"""Everything that may go."""


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def log(tmp_path: Path, clock: Clock) -> Iterator[AuditLog]:
    """A chain in four files or more, still being written."""
    log = open_log(tmp_path, clock=clock, rotate_bytes=2200, checkpoint_lines=5)
    for number in range(20):
        log.append(decision(url=f"https://example.com/{number}"))
    log.flush()
    yield log
    log.close()


def names(directory: Path) -> list[str]:
    return [path.name for path in series_paths(directory)]


# -- the plan: which files go


def log_file(number: int, size: int, day: int | None, series: str = SERIES, *, last: bool = False) -> LogFile:
    """A file whose last line is of `day` days after the start; None: it cannot be read."""
    newest = "" if day is None else render_time(START_NS + day * DAY)
    return LogFile(series, number, Path(f"{series}-{number:06d}.jsonl"), size, newest, last)


PLANS: list[Any] = [
    pytest.param(Retention(), [], id="without limits nothing goes"),
    pytest.param(Retention(keep_days=6), [("a", 1)], id="what ended before the limit goes"),
    pytest.param(Retention(keep_days=5), [("a", 1), ("b", 1)], id="a day less, a file more"),
    pytest.param(Retention(keep_days=1), [("a", 1), ("b", 1), ("a", 2)], id="never the last file of a chain"),
    pytest.param(Retention(keep_days=100), [], id="nothing is so old"),
    pytest.param(Retention(keep_bytes=500), [], id="exactly the size is kept"),
    pytest.param(Retention(keep_bytes=499), [("a", 1)], id="a byte less, and the oldest goes"),
    pytest.param(Retention(keep_bytes=399), [("a", 1), ("b", 1)], id="oldest first, of whatever chain"),
    pytest.param(
        Retention(keep_bytes=0), [("a", 1), ("b", 1), ("a", 2)], id="the last files stay, however large"
    ),
    pytest.param(Retention(keep_days=6, keep_bytes=399), [("a", 1), ("b", 1)], id="both limits"),
]


@pytest.mark.parametrize(("keep", "expected"), PLANS)
def test_what_goes_by_age_and_size(keep: Retention, expected: list[tuple[str, int]]) -> None:
    files = (
        log_file(1, 100, 3, "a"), log_file(2, 100, 6, "a"), log_file(3, 100, 9, "a", last=True),
        log_file(1, 100, 4, "b"), log_file(2, 100, 9, "b", last=True),
    )  # fmt: skip

    planned = plan_pruning(files, keep, START_NS + 10 * DAY)

    assert [(file.series, file.number) for file in planned] == expected


def test_a_file_that_cannot_be_dated_has_the_time_of_the_next() -> None:
    files = (log_file(1, 1, None), log_file(2, 1, 3), log_file(3, 1, None), log_file(4, 1, 9, last=True))

    planned = plan_pruning(files, Retention(keep_days=5), START_NS + 10 * DAY)

    assert [file.number for file in planned] == [1, 2]


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 400), st.none() | st.integers(0, 30)), max_size=20
    ),
    st.none() | st.integers(1, 40),
    st.none() | st.integers(0, 3000),
)
def test_what_goes_is_the_beginning_of_each_chain_and_no_more_than_it_takes(
    described: list[tuple[str, int, int | None]], days: int | None, size: int | None
) -> None:
    """Whatever clocks did: no gap within a chain, its last file stays, and the newest that went was needed."""
    files = []
    for series in "abc":
        own = [row for row in described if row[0] == series]
        files += [
            log_file(number, row[1], row[2], series, last=number == len(own))
            for number, row in enumerate(own, 1)
        ]
    keep = Retention(days, size)
    planned = plan_pruning(tuple(files), keep, START_NS + 31 * DAY)

    for series in "abc":
        gone = [file.number for file in planned if file.series == series]
        assert gone == list(range(1, len(gone) + 1))
    assert not any(file.last for file in planned)
    left = tuple(file for file in files if file not in planned)
    if size is not None:
        assert sum(file.size for file in left) <= size or all(file.last for file in left)
    if size is not None and days is None and planned:
        assert sum(file.size for file in left) + planned[-1].size > size


@pytest.mark.parametrize(
    ("keep", "usual", "expected"),
    [
        (Retention(), 64 << 20, 64 << 20),
        (Retention(keep_days=1), 64 << 20, 64 << 20),
        (Retention(keep_bytes=64 << 20), 64 << 20, 2 << 20),
        (Retention(keep_bytes=1 << 40), 64 << 20, 64 << 20),
        (Retention(keep_bytes=1), 64 << 20, SMALLEST_ROTATION),
        (Retention(keep_bytes=1), 500, 500),
    ],
)
def test_with_a_limit_of_size_files_are_a_small_part_of_it(
    keep: Retention, usual: int, expected: int
) -> None:
    assert keep.rotate_bytes(usual) == expected


# -- what a writer does


def test_the_beginning_goes_and_the_chain_says_so_before(tmp_path: Path, log: AuditLog) -> None:
    before = names(tmp_path)
    lines = members(tmp_path)
    log.retain(ALL)

    removed = log.keep_house()
    left = members(tmp_path)
    (said,) = (line for line in left if line.get("event") == "pruned")
    (signed,) = (line for line in left if line.get("reason") == "pruned")

    assert [file.path.name for file in removed] == before[:-1]
    assert names(tmp_path) == before[-1:]
    assert said["facts"] == {
        "files": len(removed), "bytes": sum(file.size for file in removed),
        "seq": left[0]["seq"] - 1, "hash": left[0]["prev"],
    }  # fmt: skip
    assert said["detail"] == (
        f"{before[0]} to {before[-2]} removed, lines to {left[0]['seq'] - 1}; kept: 0 bytes"
    )
    assert signed["through"] == f"{left[0]['seq'] - 1}:{left[0]['prev']}"
    assert signed["seq"] == said["seq"] + 1
    assert lines[left[0]["seq"] - 1] == left[0]


def test_what_is_left_is_whole_and_verify_says_how_much_went(tmp_path: Path, log: AuditLog) -> None:
    log.retain(ALL)
    log.keep_house()
    (chain,) = verify(tmp_path).chains

    assert chain.ok
    assert chain.pruned == members(tmp_path)[0]["seq"] - 1 > 0
    assert chain.notes == ()


def test_it_goes_on_after_a_restart_and_may_go_on_removing(tmp_path: Path, log: AuditLog) -> None:
    log.retain(ALL)
    log.keep_house()
    log.close()
    again = open_log(tmp_path, rotate_bytes=2200)
    again.retain(ALL)
    for number in range(20):
        again.append(decision(url=f"https://example.com/{number}"))
    again.flush()
    again.keep_house()
    again.close()
    (chain,) = verify(tmp_path).chains

    assert chain.ok
    assert chain.pruned == members(tmp_path)[0]["seq"] - 1
    assert len(series_paths(tmp_path)) == 1


def test_run_does_it_each_minute(tmp_path: Path) -> None:
    now = Monotonic()
    log = open_log(tmp_path, rotate_bytes=2200, monotonic=now)
    log.retain(ALL)
    log.flush()
    for number in range(20):
        log.append(decision(url=f"https://example.com/{number}"))
    log.flush()  # a rotation asks for it at once
    assert len(names(tmp_path)) == 1

    log.retain(Retention())
    for number in range(20):
        log.append(decision(url=f"https://example.com/{number}"))
    now.now += HOUSEKEEPING_SECONDS
    log.flush()
    assert len(names(tmp_path)) > 2  # without limits all stays

    log.retain(ALL)
    log.flush()
    assert len(names(tmp_path)) == 1
    log.close()


def test_with_a_limit_of_days_a_file_is_left_after_a_day_and_goes_when_it_is_old(
    tmp_path: Path, clock: Clock
) -> None:
    log = open_log(tmp_path, clock=clock)
    log.retain(Retention(keep_days=3))
    log.append(decision())
    log.keep_house()
    assert len(names(tmp_path)) == 1
    clock.now += DAY
    log.keep_house()
    assert len(names(tmp_path)) == 2
    clock.now += 2 * DAY
    log.keep_house()
    assert len(names(tmp_path)) == 2
    clock.now += DAY
    assert [file.number for file in log.keep_house()] == [1]
    log.close()

    assert verify(tmp_path).ok
    assert not [line for line in members(tmp_path) if line["kind"] == "decision"]


def test_a_chain_that_says_of_nobody_gets_no_file_a_day(tmp_path: Path, clock: Clock) -> None:
    log = open_log(tmp_path, clock=clock)
    log.retain(Retention(keep_days=3))
    log.append(decision())
    for _ in range(10):
        clock.now += DAY
        log.keep_house()
    log.close()

    assert names(tmp_path) == [f"{SERIES}-000002.jsonl"]


def test_torn_bytes_go_with_the_file_they_came_from(tmp_path: Path) -> None:
    write_chain(tmp_path, 3)
    (path,) = series_paths(tmp_path)
    with path.open("ab") as file:
        file.write(b'{"kind":"deci')
    write_chain(tmp_path, 20, rotate_bytes=2200)
    assert list(tmp_path.glob("*.torn-1"))

    prune_chains(tmp_path, KEYS, ALL)

    assert list(tmp_path.glob("*.torn-*")) == []


def test_when_the_disk_is_full_nothing_goes_unsaid(tmp_path: Path, log: AuditLog) -> None:
    """What cannot be said in the chain is not done."""
    before = names(tmp_path)
    log.retain(ALL)
    with file_size_limit(series_paths(tmp_path)[-1].stat().st_size), pytest.raises(OSError, match="large"):
        log.keep_house()

    assert names(tmp_path) == before
    assert verify(tmp_path).ok
    assert log.keep_house()


def test_a_disk_that_is_full_while_it_keeps_house_by_itself_stops_nobody(
    tmp_path: Path, log: AuditLog
) -> None:
    log.retain(ALL)
    with file_size_limit(series_paths(tmp_path)[-1].stat().st_size):
        log.flush()
    log.append(decision())
    log.flush()

    assert log.available


def test_said_and_not_done_is_done_by_the_next_start(
    tmp_path: Path, log: AuditLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process died between the two: nothing is missing, and the next removes it."""
    log.retain(ALL)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        with pytest.raises(PermissionError):
            log.keep_house()
    log.close()
    assert verify(tmp_path).ok
    assert verify(tmp_path).chains[0].pruned == 0

    prune_chains(tmp_path, KEYS, ALL)
    assert verify(tmp_path).ok
    assert len(names(tmp_path)) == 1


def test_a_removal_that_fails_is_said_once(
    tmp_path: Path, log: AuditLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.retain(ALL)
    monkeypatch.setattr(Path, "unlink", refuse)
    for _ in range(3):
        with pytest.raises(PermissionError):
            log.keep_house()

    assert [line["event"] for line in members(tmp_path) if line.get("event") == "pruned"] == ["pruned"]


def refuse(*_: object, **__: object) -> None:
    raise PermissionError(1, "Operation not permitted")


@pytest.mark.parametrize("kept", [1, 2, 3])
def test_half_done_is_whole(tmp_path: Path, log: AuditLog, kept: int) -> None:
    """Killed while removing: the last of those that were to go are still there."""
    contents = {path: path.read_bytes() for path in series_paths(tmp_path)}
    log.retain(ALL)
    removed = log.keep_house()
    for file in removed[-kept:]:
        file.path.write_bytes(contents[file.path])
    (chain,) = verify(tmp_path).chains

    assert chain.ok
    assert chain.pruned == members(tmp_path)[0]["seq"] - 1


# -- what nobody else can do in its name


@pytest.fixture
def pruned(tmp_path: Path, log: AuditLog) -> dict[str, bytes]:
    """A chain of which the first file was removed by rule; what that and the others held."""
    contents = {path.name: path.read_bytes() for path in series_paths(tmp_path)}
    log.retain(Retention(keep_bytes=sum(len(content) for content in contents.values()) - 1))
    log.keep_house()
    log.close()
    assert names(tmp_path)[0] == f"{SERIES}-000002.jsonl"
    assert verify(tmp_path).ok
    return contents


def findings(directory: Path) -> list[tuple[str, Check]]:
    return [(finding.file, finding.check) for chain in verify(directory).chains for finding in chain.findings]


def test_another_file_taken_away_is_a_finding(tmp_path: Path, pruned: dict[str, bytes]) -> None:
    series_paths(tmp_path)[0].unlink()

    assert findings(tmp_path) == [
        (f"{SERIES}-000001.jsonl", Check.FILE), (f"{SERIES}-000002.jsonl", Check.FILE),
    ]  # fmt: skip


def test_a_file_taken_out_of_the_middle_is_a_finding(tmp_path: Path, pruned: dict[str, bytes]) -> None:
    series_paths(tmp_path)[1].unlink()

    assert findings(tmp_path) == [(f"{SERIES}-000003.jsonl", Check.FILE)]


def test_lines_taken_from_the_first_file_that_is_left_are_a_finding(
    tmp_path: Path, pruned: dict[str, bytes]
) -> None:
    first = series_paths(tmp_path)[0]
    first.write_bytes(b"".join(first.read_bytes().splitlines(True)[1:]))

    assert findings(tmp_path) == [(f"{SERIES}-000001.jsonl", Check.FILE)]


def test_the_record_of_a_removal_without_its_signature_is_none(
    tmp_path: Path, pruned: dict[str, bytes]
) -> None:
    """Written by somebody who can write files and has no key: hashes fit, the signature cannot."""
    assert verify_directory(tmp_path, []).chains[0].finding_count > 1
    assert (f"{SERIES}-000001.jsonl", Check.FILE) in [
        (finding.file, finding.check) for finding in verify_directory(tmp_path, []).chains[0].findings
    ]


def test_an_event_that_says_so_removes_nothing(tmp_path: Path) -> None:
    """Any line may claim it; only the signed checkpoint counts."""
    log = open_log(tmp_path, rotate_bytes=2200)
    for number in range(20):
        log.append(decision(url=f"https://example.com/{number}"))
    lines = members(tmp_path)
    boundary = len(series_paths(tmp_path)[0].read_bytes().splitlines())
    through = Head(boundary, lines[boundary - 1]["hash"])
    log.append(
        event("pruned", facts={"seq": through.seq, "hash": through.hash}, detail=f'"through":"{through}"')
    )
    log.close()
    series_paths(tmp_path)[0].unlink()

    assert findings(tmp_path) == [(f"{SERIES}-000001.jsonl", Check.FILE)]


def test_whatever_else_is_taken_away_is_found(tmp_path: Path, pruned: dict[str, bytes]) -> None:
    """Every choice of the files that are left."""
    left = {path: path.read_bytes() for path in series_paths(tmp_path)}
    for size in range(1, len(left) + 1):
        for chosen in combinations(left, size):
            for path in chosen:
                path.unlink()
            assert not verify(tmp_path).ok, chosen
            for path in chosen:
                path.write_bytes(left[path])
    assert verify(tmp_path).ok


def test_a_beginning_put_in_the_place_of_what_was_removed_is_found(tmp_path: Path) -> None:
    """Made by somebody without the key: whole in itself, and with a gap behind it that was really removed."""
    write_chain(tmp_path, 30, rotate_bytes=2200)
    prune_chains(tmp_path, KEYS, ALL)
    forged = tmp_path / "forged"
    write_chain(forged, 1)
    lines = [line for line in raw_lines(forged) if b'"kind":"checkpoint"' not in line]
    (tmp_path / f"{SERIES}-000001.jsonl").write_bytes(lines[0])

    assert not verify(tmp_path).ok


def test_the_record_of_another_chain_says_nothing_of_this_one(tmp_path: Path) -> None:
    for series in ("gateway-0", "gateway-1"):
        write_chain(tmp_path, 20, series, rotate_bytes=2200)
    prune_chains(tmp_path, KEYS, ALL, leave={"gateway-1"})
    series_paths(tmp_path, "gateway-1")[0].unlink()

    assert findings(tmp_path) == [("gateway-1-000001.jsonl", Check.FILE)]


def test_files_put_back_are_verified_as_before(tmp_path: Path, pruned: dict[str, bytes]) -> None:
    name = f"{SERIES}-000001.jsonl"
    (tmp_path / name).write_bytes(pruned[name])
    assert verify(tmp_path).ok
    assert verify(tmp_path).chains[0].pruned == 0

    (tmp_path / name).write_bytes(pruned[name].replace(b"example.com/1", b"example.com/9"))
    assert findings(tmp_path)[0] == (name, Check.HASH)


def test_a_head_kept_elsewhere_of_a_line_that_went_cannot_be_compared_but_the_last_one(
    tmp_path: Path, pruned: dict[str, bytes]
) -> None:
    lines = pruned[f"{SERIES}-000001.jsonl"].splitlines(True)
    heads = [Head(number, line.split(b'"hash":"')[1][:64].decode()) for number, line in enumerate(lines, 1)]
    (early,) = verify(tmp_path, expected_heads={SERIES: heads[2]}).chains
    (last,) = verify(tmp_path, expected_heads={SERIES: heads[-1]}).chains
    (wrong,) = verify(tmp_path, expected_heads={SERIES: replace(heads[-1], hash="0" * 64)}).chains

    assert (early.ok, early.notes) == (
        True, ("line 3, which the expected head names, was removed and cannot be compared",),
    )  # fmt: skip
    assert (last.ok, last.notes) == (True, ())
    assert [finding.check for finding in wrong.findings] == [Check.HEAD]


def test_where_the_log_was_changed_at_the_edge_nothing_goes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Else the removal would vouch for whatever stands at the end of what went."""
    write_chain(tmp_path, 12, rotate_bytes=2200)
    paths = series_paths(tmp_path)
    for path in paths[:-1]:
        path.write_bytes(path.read_bytes()[:-30] + b'"}\n')
    (outcome,) = prune_chains(tmp_path, KEYS, ALL)

    assert outcome.why == "the end of a file that would go is not what the next one follows"
    assert series_paths(tmp_path) == paths
    assert "the next file does not follow it" in caplog.text


def test_where_the_log_was_changed_at_one_edge_what_lies_before_an_earlier_one_goes(tmp_path: Path) -> None:
    write_chain(tmp_path, 20, rotate_bytes=2200)
    paths = series_paths(tmp_path)
    paths[-2].write_bytes(paths[-2].read_bytes()[:-30] + b'"}\n')
    prune_chains(tmp_path, KEYS, ALL)

    assert series_paths(tmp_path) == paths[-2:]
    assert {check for _, check in findings(tmp_path)} <= {Check.FORM, Check.HASH, Check.SEQ, Check.PREV}


# -- several chains, and chains that nobody writes


def test_the_limit_of_size_counts_all_chains_and_each_writer_removes_its_own(tmp_path: Path) -> None:
    first, second = (open_log(tmp_path, series, rotate_bytes=2200) for series in ("gateway-0", "gateway-1"))
    for number in range(20):
        for log in (first, second):
            log.append(decision(url=f"https://example.com/{number}"))
    size = sum(file.size for file in load_log_files(tmp_path))
    for log in (first, second):
        log.flush()
        log.retain(Retention(keep_bytes=size // 2))
    removed = [log.keep_house() for log in (first, second)]

    assert {file.series for file in removed[0]} == {"gateway-0"}
    assert {file.series for file in removed[1]} == {"gateway-1"}
    assert sum(file.size for file in load_log_files(tmp_path)) <= size // 2 + 2 * 2200
    assert verify(tmp_path).ok
    for log in (first, second):
        log.close()


def test_a_chain_that_is_being_written_is_left_to_its_writer(tmp_path: Path, log: AuditLog) -> None:
    before = names(tmp_path)
    (outcome,) = prune_chains(tmp_path, KEYS, ALL)

    assert f"is being written by process {os.getpid()}" in outcome.why
    assert names(tmp_path) == before
    assert [file.number for file in plan_chains(tmp_path, ALL)[SERIES]] == list(range(1, len(before)))


def test_the_last_file_of_a_chain_without_a_writer_goes_once_it_is_old(tmp_path: Path, clock: Clock) -> None:
    """As that of a worker whom a smaller configuration has no more: it is left for another file first."""
    write_chain(tmp_path, 3, clock=clock)
    keep = Retention(keep_days=3)
    clock.now += 4 * DAY
    assert prune_chains(tmp_path, KEYS, keep, clock=clock)[0].why == ""
    clock.now += 4 * DAY
    prune_chains(tmp_path, KEYS, keep, clock=clock)
    for _ in range(3):
        clock.now += 4 * DAY
        assert prune_chains(tmp_path, KEYS, keep, clock=clock) == []

    assert [path.name for path in series_paths(tmp_path)] == [f"{SERIES}-000002.jsonl"]
    assert verify(tmp_path).ok


# -- readers beside it


def test_a_reader_in_the_midst_of_it_goes_on(tmp_path: Path, log: AuditLog) -> None:
    """Begun before, ended after: it has what it had read, and what is left."""
    reading = read_all(tmp_path)
    follower = Follower(tmp_path)
    backward = follower.read_backward()[0]
    next(reading)
    next(backward)
    log.retain(ALL)
    log.keep_house()

    rest = [line.number("seq") for line in reading]
    left = [line["seq"] for line in members(tmp_path)]
    assert set(left) <= set(rest)
    assert rest == sorted(rest, key=lambda seq: seq or 0)
    assert len(list(backward)) < len(left)
    log.append(decision(url="https://example.com/after"))
    assert "https://example.com/after" in [line.text("url") for line in follower.poll()]


def test_verify_and_readers_beside_a_writer_that_prunes_find_nothing_amiss(tmp_path: Path) -> None:
    log = open_log(tmp_path, rotate_bytes=3000, checkpoint_lines=7)
    log.retain(Retention(keep_bytes=30_000))
    ended = threading.Event()
    failures: list[BaseException | str] = []

    def look() -> None:
        try:
            while not ended.is_set():
                report = verify(tmp_path)
                failures.extend(str(finding) for chain in report.chains for finding in chain.findings)
                for _ in read_all(tmp_path):
                    pass
        except BaseException as error:  # noqa: BLE001 (told to the test)
            failures.append(error)

    reader = threading.Thread(target=look)
    reader.start()
    for number in range(1500):
        log.append(decision(url=f"https://example.com/{number}"))
        if number % 10 == 0:
            log.flush()
    ended.set()
    reader.join()
    log.close()
    (chain,) = verify(tmp_path).chains

    assert failures == []
    assert chain.ok
    assert chain.pruned > 100
    assert chain.head is not None
    assert len(raw_lines(tmp_path)) + chain.pruned == chain.head.seq
