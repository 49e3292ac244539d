"""Where a restarted writer goes on, by what it finds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from proxy_addons.audit.chain import Check
from tests.proxy_addons.audit.kit import (
    SERIES,
    close,
    decision,
    members,
    open_log,
    raw_lines,
    series_paths,
    verify,
    write_chain,
)


def crash(directory: Path, lines: int, tail: bytes = b"", **options: object) -> None:
    """A writer that stopped without a word behind its last line, and left `tail` in the file."""
    log = open_log(directory, **options)  # type: ignore[arg-type]
    for _ in range(lines):
        log.append(decision())
    left = {path: path.read_bytes() for path in directory.iterdir()}
    log.close()
    for path, content in left.items():
        path.write_bytes(content)  # as if `close` had never been reached
    with series_paths(directory)[-1].open("ab") as file:
        file.write(tail)


TAILS: dict[str, Callable[[bytes], bytes]] = {
    "one byte of a line": lambda line: line[:1],
    "half a line": lambda line: line[: len(line) // 2],
    "a line but for its newline": lambda line: line[:-1],
    "a whole line whose hash does not fit": lambda line: line.replace(b"GET", b"PUT"),
    "zeros, as a power cut leaves them": lambda _: bytes(4096),
    "zeros and a newline": lambda _: bytes(100) + b"\n",
    "a line repeated": lambda line: line,
    "several broken lines": lambda line: line[:40] + b"\n" + line[40:] + line[:9],
}


@pytest.mark.parametrize("case", TAILS)
def test_a_torn_tail_is_moved_aside_noted_and_the_chain_goes_on(case: str, tmp_path: Path) -> None:
    crash(tmp_path, 3)
    whole = series_paths(tmp_path)[0].read_bytes()
    last = members(tmp_path)[-1]["seq"]
    torn = TAILS[case](raw_lines(tmp_path)[-1])
    with series_paths(tmp_path)[0].open("ab") as file:
        file.write(torn)
    assert not verify(tmp_path).ok

    write_chain(tmp_path, 1)

    assert verify(tmp_path).ok
    path = series_paths(tmp_path)[0]
    assert path.read_bytes().startswith(whole)
    assert path.with_name(path.name + ".torn-1").read_bytes() == torn
    note = next(m for m in members(tmp_path) if m["seq"] == last + 1)
    assert (note["event"], note["facts"]) == (
        "torn-line",
        {"bytes": len(torn), "file": f"{SERIES}-000001.jsonl.torn-1"},
    )
    assert note["detail"].startswith(f"torn line repaired: {len(torn)} bytes")


def test_torn_tails_are_kept_apart(tmp_path: Path) -> None:
    crash(tmp_path, 1, b"first")
    crash(tmp_path, 1, b"second")
    write_chain(tmp_path, 1)

    path = series_paths(tmp_path)[0]
    assert [path.with_name(f"{path.name}.torn-{n}").read_bytes() for n in (1, 2)] == [b"first", b"second"]
    assert verify(tmp_path).ok


def test_a_restart_goes_on_in_the_same_file_with_the_next_number(tmp_path: Path) -> None:
    write_chain(tmp_path, 2)
    before = members(tmp_path)[-1]
    write_chain(tmp_path, 2)

    after = next(m for m in members(tmp_path) if m["seq"] == before["seq"] + 1)
    assert (after["event"], after["prev"]) == ("resumed", before["hash"])
    assert len(series_paths(tmp_path)) == 1 and verify(tmp_path).ok


def test_lines_written_after_the_last_checkpoint_are_kept(tmp_path: Path) -> None:
    crash(tmp_path, 7)
    write_chain(tmp_path, 0)

    assert sum(m["kind"] == "decision" for m in members(tmp_path)) == 7
    assert verify(tmp_path).ok


@pytest.mark.parametrize("content", [b"", b"half a first li"], ids=["empty", "with a torn first line"])
def test_a_file_begun_by_a_crash_is_used(tmp_path: Path, content: bytes) -> None:
    write_chain(tmp_path, 3)
    (tmp_path / f"{SERIES}-000002.jsonl").write_bytes(content)
    write_chain(tmp_path, 1)

    assert verify(tmp_path).ok
    assert len(series_paths(tmp_path)) == 2 and len(raw_lines(tmp_path)) == members(tmp_path)[-1]["seq"]


def test_a_crash_before_the_first_line_leaves_nothing_to_repair(tmp_path: Path) -> None:
    (tmp_path / f"{SERIES}-000001.jsonl").touch()
    write_chain(tmp_path, 1)

    assert verify(tmp_path).ok and members(tmp_path)[0]["event"] == "opened"


def test_a_crash_between_rotation_and_the_new_head_goes_on(tmp_path: Path) -> None:
    """The head file then names a line of an earlier file."""
    log = open_log(tmp_path, rotate_bytes=2200)
    head = (tmp_path / f"{SERIES}.head").read_bytes()
    while len(series_paths(tmp_path)) < 3:
        log.append(decision())
    log.close()
    (tmp_path / f"{SERIES}.head").write_bytes(head)
    write_chain(tmp_path, 1)

    assert verify(tmp_path).ok
    assert [m["event"] for m in members(tmp_path) if m["kind"] == "event"].count("damage-found") == 0


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "a changed line further up": (
        lambda d: _replace(d, b"example.com/1", b"example.com/9"),
        "line 4: its hash does not fit its text; one of the two was changed",
    ),
    "a missing head file": (lambda d: (d / f"{SERIES}.head").unlink(), f"{SERIES}.head is missing"),
    "a spoiled head file": (
        lambda d: (d / f"{SERIES}.head").write_text("no"),
        f"{SERIES}.head: 2 bytes without",
    ),
    "all files missing": (lambda d: series_paths(d)[0].unlink(), "all files of this series are missing"),
    "the signed last line changed": (
        lambda d: _replace(d, b'"stop"', b'"step"'),
        "signed by the last checkpoint, is missing; gateway-0-000001.jsonl line 6: its hash does not fit",
    ),
}


def _replace(directory: Path, old: bytes, new: bytes) -> None:
    path = series_paths(directory)[0]
    path.write_bytes(path.read_bytes().replace(old, new))


@pytest.mark.parametrize("case", DAMAGE)
def test_damage_is_noted_and_does_not_stop_the_writer(case: str, tmp_path: Path) -> None:
    damage, words = DAMAGE[case]
    write_chain(tmp_path, 3)
    damage(tmp_path)
    write_chain(tmp_path, 1)

    details = [m["detail"] for m in members(tmp_path) if m.get("event") == "damage-found"]
    assert len(details) == 1 and words in details[0]
    assert not list(tmp_path.glob("*.torn-*"))


def test_a_changed_signed_last_line_stays_in_place_as_evidence(tmp_path: Path) -> None:
    write_chain(tmp_path, 3)
    _replace(tmp_path, b'"stop"', b'"step"')
    spoiled = series_paths(tmp_path)[0].read_bytes()
    write_chain(tmp_path, 1)

    assert series_paths(tmp_path)[0].read_bytes() == spoiled
    (finding, *_) = verify(tmp_path).chains[0].findings
    assert (finding.file, finding.line, finding.check) == (f"{SERIES}-000001.jsonl", 6, Check.HASH)


def test_close_lines_find_their_decision_after_a_restart(tmp_path: Path) -> None:
    crash(tmp_path, 1)
    log = open_log(tmp_path)
    log.append(close(3))
    log.close()

    decisions = {m["seq"] for m in members(tmp_path) if m["kind"] == "decision"}
    assert {m["decision"] for m in members(tmp_path) if m["kind"] == "close"} <= decisions
