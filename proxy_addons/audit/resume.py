"""Where a starting writer goes on, after looking at what its predecessor left.

- Nothing: a new chain.
- Whole lines to the end, the signed head (the checkpoint in the head file) among them: go on.
- Bytes at the end that are no lines of this chain, behind the signed head: moved to `<file>.torn-N`, noted,
  go on.
- A broken line further up: noted, go on.
- The signed head missing or another line in its place: nothing is touched. A new file goes on from the signed
  head, noted, so that `verify` names the place for ever; no later checkpoint vouches for what was found.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from proxy_addons.audit.chain import (
    START,
    ChainWalker,
    Fault,
    Head,
    Line,
    SignatureCheck,
    check_signature,
    parse_line,
)
from proxy_addons.audit.event_record import EventRecord, LogEvent
from proxy_addons.audit.files import SeriesFile, list_files, read_head, read_lines
from proxy_addons.audit.keys import sync_directory


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """`head`: the line to follow. `file`: the file to go on in, cut to `size` bytes; None: begin file
    `number`.

    `notes`: what a reader of the log has to know, to be written first.
    """

    head: Head
    number: int
    file: SeriesFile | None
    size: int
    notes: tuple[EventRecord, ...]


@dataclass(frozen=True, slots=True)
class _Scan:
    """What was found in the last files of a series. `good_size`: bytes of the last file up to its last whole
    line.

    The first `inner_faults` of `faults` have a whole line behind them."""

    end: Head
    signed_hash: str | None
    good_size: int
    torn_bytes: int
    faults: tuple[str, ...]
    inner_faults: int


def load_resume_point(directory: Path, series: str, keys: Mapping[str, SignatureCheck]) -> ResumePoint:
    """Looks at the series, moves torn bytes aside, and says where to go on. Raises OSError."""
    files = list_files(directory).get(series, [])
    raw_head = read_head(directory, series)
    signed, notes = _parse_signed_head(series, raw_head, keys)
    if not files:
        if signed is None:
            return ResumePoint(START, 1, None, 0, notes)
        return ResumePoint(
            signed, 1, None, 0, (*notes, _damage("all files of this series are missing", signed))
        )
    scan = _scan(series, _choose_files(files, signed), keys, signed)
    last = files[-1]
    if signed is None and raw_head is None and scan.end.seq:
        notes += (EventRecord(event=LogEvent.DAMAGE_FOUND, detail=f"{series}.head is missing"),)
    if signed is not None and scan.signed_hash != signed.hash:
        what = "is another one" if scan.signed_hash else "is missing"
        place = f"; {scan.faults[0]}" if scan.faults else f"; the files end at line {scan.end.seq}"
        note = _damage(f"line {signed.seq}, signed by the last checkpoint, {what}{place}", signed)
        return ResumePoint(signed, last.number + 1, None, 0, (*notes, note))
    notes += tuple(
        EventRecord(event=LogEvent.DAMAGE_FOUND, detail=fault)
        for fault in scan.faults[: min(1, scan.inner_faults)]
    )
    if scan.torn_bytes:
        notes += (_move_torn_bytes(last.path, scan.good_size, scan.torn_bytes),)
    return ResumePoint(scan.end, last.number, last, scan.good_size, notes)


def _parse_signed_head(
    series: str, raw: bytes | None, keys: Mapping[str, SignatureCheck]
) -> tuple[Head | None, tuple[EventRecord, ...]]:
    if raw is None:
        return None, ()
    line = parse_signed_head(series, raw, keys)
    if isinstance(line, Line):
        return line.head, ()
    return None, (EventRecord(event=LogEvent.DAMAGE_FOUND, detail=f"{series}.head: {line.detail}"),)


def parse_signed_head(series: str, raw: bytes, keys: Mapping[str, SignatureCheck]) -> Line | Fault:
    """The content of a head file → its checkpoint, or what is wrong with it."""
    line = parse_line(raw)
    if isinstance(line, Fault):
        return line
    walker = ChainWalker(series, keys, expected=None)
    _, fault = walker.accept(raw)
    return fault or check_signature(line, keys) or line


def _choose_files(files: list[SeriesFile], signed: Head | None) -> list[SeriesFile]:
    """The last file, and those before it until the signed head and a readable line are among them."""
    start = len(files) - 1
    while start > 0:
        first = _first_seq(files[start])
        if first is not None and (signed is None or first <= signed.seq):
            break
        start -= 1
    return files[start:]


def _first_seq(file: SeriesFile) -> int | None:
    for _, raw in read_lines(file.path):
        line = parse_line(raw)
        return line.seq if isinstance(line, Line) else None
    return None


def _scan(
    series: str, files: list[SeriesFile], keys: Mapping[str, SignatureCheck], signed: Head | None
) -> _Scan:
    walker = ChainWalker(series, keys, expected=None, check_json=False)
    signed_hash: str | None = None
    good_size = size = 0
    faults: list[str] = []
    trailing: list[
        str
    ] = []  # faults behind the last whole line of the last file: torn bytes, no damage of their own
    for file in files:
        faults += trailing
        trailing.clear()
        good_size = size = 0
        for number, (offset, raw) in enumerate(read_lines(file.path), start=1):
            size = offset + len(raw)
            line, fault = walker.accept(raw)
            if fault is not None:
                trailing.append(f"{file.path.name} line {number}: {fault.detail}")
            if line is not None:
                good_size = size
                faults += trailing
                trailing.clear()
                if signed and line.seq == signed.seq:
                    signed_hash = line.hash
    return _Scan(walker.head, signed_hash, good_size, size - good_size, (*faults, *trailing), len(faults))


def _damage(what: str, signed: Head) -> EventRecord:
    return EventRecord(
        event=LogEvent.DAMAGE_FOUND,
        detail=f"{what}; going on from the last signed line",
        facts={"seq": signed.seq, "hash": signed.hash},
    )


def _move_torn_bytes(path: Path, good_size: int, count: int) -> EventRecord:
    number = 1
    while (aside := path.with_name(f"{path.name}.torn-{number}")).exists():
        number += 1
    fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "wb") as target, path.open("rb") as source:
        source.seek(good_size)
        while block := source.read(1 << 20):
            target.write(block)
        target.flush()
        os.fsync(fd)
    sync_directory(path.parent)
    return EventRecord(
        event=LogEvent.TORN_LINE,
        detail=f"torn line repaired: {count} bytes moved to {aside.name}",
        facts={"bytes": count, "file": aside.name},
    )
