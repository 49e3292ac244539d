"""Tampering with a log directory: each kind is found, and named by file and line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from proxy_addons.audit import AuditKeys, Head, parse_head, verify_directory
from proxy_addons.audit.chain import START, Check, seal_line
from tests.proxy_addons.audit.kit import (
    KEYS,
    SERIES,
    decision,
    members,
    open_log,
    raw_lines,
    series_paths,
    verify,
    write_chain,
)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Three files and a signed stop."""
    write_chain(tmp_path, 9, rotate_bytes=2200)
    assert len(series_paths(tmp_path)) == 3 and verify(tmp_path).ok
    return tmp_path


def first_finding(directory: Path, **options: object) -> tuple[str, int, Check]:
    finding = next(f for chain in verify(directory, **options).chains for f in chain.findings)
    return finding.file, finding.line, finding.check


def test_a_whole_log_is_reported_with_its_head_and_times(log: Path) -> None:
    (chain,) = verify(log).chains
    last = members(log)[-1]

    assert chain.ok and chain.chain == SERIES and chain.files == 3
    assert chain.lines == len(raw_lines(log)) == last["seq"]
    assert chain.head == Head(last["seq"], last["hash"])
    assert (chain.first_time, chain.last_time) == (members(log)[0]["time"], last["time"])
    assert chain.unsigned == 0


def test_a_flipped_byte_in_any_line_of_any_file_is_named(log: Path) -> None:
    for path in series_paths(log):
        whole = path.read_bytes()
        start = 0
        for number, line in enumerate(whole.splitlines(True), start=1):
            for position in (0, 3, len(line) // 2, len(line) - 20, len(line) - 1):
                changed = bytearray(whole)
                changed[start + position] ^= 0x01
                path.write_bytes(changed)

                assert first_finding(log)[:2] == (path.name, number), (path.name, number, position)
            start += len(line)
        path.write_bytes(whole)


def test_a_tail_cut_at_any_place_is_found(log: Path) -> None:
    """At each line boundary, and in the middle of each line, of the last file."""
    path = series_paths(log)[-1]
    whole = path.read_bytes()
    start = 0
    for number, line in enumerate(whole.splitlines(True), start=1):
        path.write_bytes(whole[:start])
        assert first_finding(log) == (path.name, 0, Check.TAIL)

        path.write_bytes(whole[: start + len(line) // 2])
        assert first_finding(log) == (path.name, number, Check.TORN)
        start += len(line)


def test_a_missing_tail_is_told_in_line_numbers(log: Path) -> None:
    path = series_paths(log)[-1]
    last = members(log)[-1]["seq"]
    path.write_bytes(b"".join(path.read_bytes().splitlines(True)[:-2]))

    (finding,) = verify(log).chains[0].findings

    assert finding.detail == (
        f"lines {last - 1} to {last} are missing at the end; the last checkpoint names line {last}"
    )


@pytest.mark.parametrize(("number", "check"), [(1, Check.FILE), (2, Check.FILE), (3, Check.TAIL)])
def test_a_missing_file_is_named(log: Path, number: int, check: Check) -> None:
    paths = series_paths(log)
    paths[number - 1].unlink()

    expected = paths[1] if number == 3 else paths[number - 1]
    assert first_finding(log) == (expected.name, 0, check)


def test_all_files_missing_is_found_by_the_head_file_left(log: Path) -> None:
    for path in series_paths(log):
        path.unlink()

    assert first_finding(log) == (f"{SERIES}-000001.jsonl", 0, Check.TAIL)


def test_a_chain_of_which_nothing_is_left_is_found_by_the_expected_head(log: Path) -> None:
    head = verify(log).chains[0].head
    assert head is not None
    for path in log.iterdir():
        path.unlink()

    assert verify(log).chains == ()
    assert not verify(log, expected_heads={SERIES: head}).ok


HEAD_FILES: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "of another chain": lambda path: path.write_bytes(
        path.read_bytes().replace(SERIES.encode(), b"gateway-1")
    ),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "a line that is no checkpoint": lambda path: path.write_bytes(raw_lines(path.parent)[2]),
}


@pytest.mark.parametrize("case", HEAD_FILES)
def test_a_spoiled_head_file_is_found(log: Path, case: str) -> None:
    HEAD_FILES[case](log / f"{SERIES}.head")

    file, _, check = first_finding(log)
    assert (file, check) == (f"{SERIES}.head", Check.HEAD)


def test_a_log_rewritten_without_the_key_is_found_by_the_head_file(tmp_path: Path) -> None:
    """Every checkpoint left out, every hash made to fit."""
    write_chain(tmp_path, 5)
    head, forged = START, []
    for member in members(tmp_path):
        line, head = seal_line(SERIES, head, member["time"], decision(url="https://forged.example/"))
        forged.append(line)
    path = series_paths(tmp_path)[0]
    path.write_bytes(b"".join(forged))

    assert first_finding(tmp_path) == (path.name, len(forged), Check.HEAD)


def test_a_cut_tail_with_an_older_head_is_found_only_by_the_expected_head(tmp_path: Path) -> None:
    """The limit of what files alone can show, and the way past it."""
    write_chain(tmp_path, 3)
    older = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    write_chain(tmp_path, 3)
    head = verify(tmp_path).chains[0].head
    assert head is not None
    for name, content in older.items():
        (tmp_path / name).write_bytes(content)

    assert verify(tmp_path).ok
    assert first_finding(tmp_path, expected_heads={SERIES: head}) == (f"{SERIES}-000001.jsonl", 0, Check.TAIL)


def test_an_expected_head_that_holds_is_no_finding(log: Path) -> None:
    line = members(log)[3]

    assert verify(log, expected_heads={SERIES: Head(line["seq"], line["hash"])}).ok


def test_an_expected_head_with_another_hash_is_named_at_its_line(log: Path) -> None:
    path = series_paths(log)[0]

    found = first_finding(log, expected_heads={SERIES: parse_head("2:" + "0" * 64)})

    assert found == (path.name, 2, Check.HEAD)


def test_a_tail_cut_and_then_gone_on_with_by_a_restart_stays_named(log: Path) -> None:
    """A new writer does not paper over a gap: what it adds goes to a new file behind the signed head."""
    path = series_paths(log)[-1]
    lines = path.read_bytes().splitlines(True)
    path.write_bytes(b"".join(lines[:-2]))
    due = json.loads(lines[-2])["seq"]
    write_chain(log, 2)
    write_chain(log, 2)

    (chain,) = verify(log).chains
    first = chain.findings[0]
    assert (first.file, first.line, first.check) == (f"{SERIES}-000004.jsonl", 1, Check.SEQ)
    assert first.detail == f"seq {due + 2} where {due} is due; lines {due} to {due + 1} are missing"
    assert chain.finding_count == 1
    notes = [m["detail"] for m in members(log) if m.get("event") == "damage-found"]
    assert len(notes) == 1 and f"line {due + 1}, signed by the last checkpoint, is missing" in notes[0]


def test_a_forged_tail_is_not_signed_by_the_next_start(tmp_path: Path) -> None:
    """A rewritten file that the next writer found in place must not become signed history."""
    write_chain(tmp_path, 5)
    path = series_paths(tmp_path)[0]
    head, forged = START, []
    for member in members(tmp_path):
        line, head = seal_line(SERIES, head, member["time"], decision(url="https://forged.example/"))
        forged.append(line)
    path.write_bytes(b"".join(forged))
    write_chain(tmp_path, 1)

    assert first_finding(tmp_path) == (f"{SERIES}-000002.jsonl", 1, Check.PREV)


def test_a_foreign_key_accepts_no_checkpoint(log: Path) -> None:
    report = verify_directory(log, [AuditKeys.generate().public])

    assert {finding.check for finding in report.chains[0].findings} == {Check.HEAD, Check.SIGNATURE}


def test_one_broken_chain_leaves_the_others_whole(log: Path) -> None:
    write_chain(log, 2, series="daemon")
    path = series_paths(log, "daemon")[0]
    path.write_bytes(path.read_bytes().replace(b"example", b"exemple", 1))

    report = verify(log)

    assert [(chain.chain, chain.ok) for chain in report.chains] == [("daemon", False), (SERIES, True)]
    assert not report.ok


def test_a_file_under_the_name_of_another_chain_is_found(log: Path) -> None:
    shutil.copy(series_paths(log)[0], log / "gateway-1-000001.jsonl")

    broken = {chain.chain: chain.findings for chain in verify(log).chains if not chain.ok}

    assert list(broken) == ["gateway-1"]
    assert Check.CHAIN in {finding.check for finding in broken["gateway-1"]}


def test_a_log_is_whole_while_it_is_being_written(tmp_path: Path) -> None:
    log = open_log(tmp_path, rotate_bytes=3000, checkpoint_lines=5)
    for _ in range(30):
        log.append(decision())
        log.flush()
        (chain,) = verify(tmp_path).chains
        assert chain.ok, chain.findings
    assert verify(tmp_path).chains[0].unsigned < 5
    log.close()


def test_the_list_of_findings_is_bounded_and_the_count_is_not(tmp_path: Path) -> None:
    write_chain(tmp_path, 1)
    with series_paths(tmp_path)[0].open("ab") as file:
        file.write(b"no\n" * 150)

    (chain,) = verify(tmp_path).chains

    assert (len(chain.findings), chain.finding_count) == (100, 150)


def test_a_clock_that_goes_back_breaks_nothing(tmp_path: Path) -> None:
    times = iter([2_000_000_000_000_000_000, 1_000_000_000_000_000_000] * 20)
    log = open_log(tmp_path, clock=lambda: next(times))
    for _ in range(4):
        log.append(decision())
    log.close()

    assert verify_directory(tmp_path, [KEYS.public]).ok
