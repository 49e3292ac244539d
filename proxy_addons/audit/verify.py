"""Is a log directory whole? Every line of every chain is looked at; each break is named by file and line.

What is compared: the lines among themselves (see `chain`), the file numbers (from 1, no gap), the signed head
file of each chain, and the heads the caller expects. Files that the writer removed itself are no gap: a signed
checkpoint of the chain says up to which line, and what is left has to begin at, or before, the line behind that
one. What nobody can see from the files alone: lines cut off
*and* an older head file put in place. Whoever fears that keeps a head elsewhere and gives it as expected.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from proxy_addons.audit.chain import START, ChainWalker, Check, Fault, Head, Line, SignatureCheck
from proxy_addons.audit.files import SeriesFile, head_path, list_files, read_head, read_lines, series_path
from proxy_addons.audit.keys import PublicKey
from proxy_addons.audit.line_text import Json
from proxy_addons.audit.resume import parse_signed_head

MAX_FINDINGS = 100
"""A chain; the count goes on, the list does not."""

_OVERTAKEN_TRIES = 5
_UNFINISHED_TRIES = 5
_UNFINISHED_WAIT = 0.02  # seconds; a live writer's line is whole long before


@dataclass(frozen=True, slots=True)
class Finding:
    """One break. `file` is a name in the log directory; `line` counts from 1, 0 = the file as a whole."""

    file: str
    line: int
    check: Check
    detail: str

    def __str__(self) -> str:
        return f"{self.file} line {self.line}: {self.detail}" if self.line else f"{self.file}: {self.detail}"


@dataclass(frozen=True, slots=True)
class ChainReport:
    """What was found of one chain. `unsigned` counts the whole lines behind its last checkpoint."""

    chain: str
    files: int
    lines: int
    first_time: str | None
    last_time: str | None
    head: Head | None
    unsigned: int
    findings: tuple[Finding, ...]
    finding_count: int
    pruned: int = 0
    """Lines that the writer removed, as it says itself."""
    notes: tuple[str, ...] = ()
    """What could not be compared, and is no fault."""

    @property
    def ok(self) -> bool:
        return self.finding_count == 0

    def render(self) -> Json:
        """A JSON object for ``audit verify --json``."""
        return {
            "chain": self.chain,
            "ok": self.ok,
            "files": self.files,
            "lines": self.lines,
            "first_time": self.first_time,
            "last_time": self.last_time,
            "head": str(self.head) if self.head else None,
            "unsigned": self.unsigned,
            "pruned": self.pruned,
            "notes": list(self.notes),
            "finding_count": self.finding_count,
            "findings": [
                {"file": f.file, "line": f.line, "check": f.check.value, "detail": f.detail}
                for f in self.findings
            ],
        }


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """All chains of a directory, by name."""

    chains: tuple[ChainReport, ...]

    @property
    def ok(self) -> bool:
        return all(chain.ok for chain in self.chains)

    def render(self) -> Json:
        return {"ok": self.ok, "chains": [chain.render() for chain in self.chains]}


def verify_directory(
    directory: Path, keys: Iterable[PublicKey], expected_heads: Mapping[str, Head] | None = None
) -> VerifyReport:
    """Looks at every chain in `directory`; it may be written meanwhile. Raises OSError.

    `expected_heads`: chain → a line it must contain; a chain that is not there at all is then broken.
    """
    checks = {key.id: key.accepts for key in keys}
    expected = dict(expected_heads or {})
    # Heads before files: a live writer moves both, and the files must not be the older of the two.
    names = sorted({*list_files(directory), *expected})
    heads = {name: read_head(directory, name) for name in names}
    files = list_files(directory)
    return VerifyReport(
        tuple(
            _verify_chain(directory, name, checks, files.get(name, []), heads[name], expected.get(name))
            for name in names
        )
    )


def _verify_chain(
    directory: Path,
    chain: str,
    checks: Mapping[str, SignatureCheck],
    files: list[SeriesFile],
    head: bytes | None,
    expected: Head | None,
) -> ChainReport:
    for _ in range(_OVERTAKEN_TRIES):
        verifier = _ChainVerifier(directory, chain, checks)
        report = verifier.verify(files, head, expected)
        if not verifier.overtaken:
            break
        # Retention took files between the listing and their turn: what is there now is looked at from the beginning.
        head = read_head(directory, chain)
        files = list_files(directory).get(chain, [])
    return report


@dataclass(slots=True)
class _Gap:
    """Files that are not there. `before`: the line before them; `behind`: the first that is there again."""

    first: int
    last: int
    before: Head
    place: int
    """Among the findings."""
    behind: Line | None = None


class _ChainVerifier:
    def __init__(self, directory: Path, chain: str, checks: Mapping[str, SignatureCheck]) -> None:
        self._directory = directory
        self._chain = chain
        self._checks = checks
        self._walker = ChainWalker(chain, checks)
        self._findings: list[Finding] = []
        self._finding_count = 0
        self._lines = 0
        self._times: tuple[str | None, str | None] = (None, None)
        self._pins: dict[int, list[tuple[Head, str]]] = {}
        self.overtaken = False
        """A file went while we looked, and no record at hand says why."""
        self._vanished = False
        self._due = 1  # number of the next file
        self._gaps: list[_Gap] = []
        self._removed: list[Head] = []  # up to where the writer says that it removed the chain, signed
        self._ends: dict[int, str] = {}  # hash by number of the last line of each file
        self._pruned = 0
        self._notes: list[str] = []

    def verify(self, files: list[SeriesFile], raw_head: bytes | None, expected: Head | None) -> ChainReport:
        signed = self._read_signed_head(raw_head, bool(files))
        if signed is not None:
            self._pin(signed, "the last checkpoint")
        if expected is not None:
            self._pin(expected, "the expected head")
        self._walk_all(files)
        while self._has_open_question() and (newer := self._find_newer(files)):
            # The record of a removal may stand in a file that was begun since.
            files = [*files, *newer]
            self._walk_all(newer)
        self.overtaken = self._vanished and self._has_open_question()
        for gap in reversed(self._gaps):
            self._judge(gap)
        self._find_missing_tail(files)
        head = self._walker.head
        return ChainReport(
            self._chain,
            len(files),
            self._lines,
            *self._times,
            head if head != START else None,
            head.seq - self._walker.checkpoint_seq if self._lines else 0,
            tuple(self._findings[:MAX_FINDINGS]),
            self._finding_count,
            self._pruned,
            tuple(self._notes),
        )

    def _pin(self, head: Head, name: str) -> None:
        self._pins.setdefault(head.seq, []).append((head, name))

    def _add(self, file: str, line: int, fault: Fault) -> None:
        self._finding_count += 1
        if len(self._findings) < MAX_FINDINGS:
            self._findings.append(Finding(file, line, fault.check, fault.detail))

    def _read_signed_head(self, raw: bytes | None, has_files: bool) -> Head | None:
        name = head_path(self._directory, self._chain).name
        if raw is None:
            if has_files:
                self._add(
                    name, 0, Fault(Check.HEAD, "missing; whether lines were cut off the end cannot be told")
                )
            return None
        line = parse_signed_head(self._chain, raw, self._checks)
        if isinstance(line, Fault):
            self._add(name, 1, Fault(Check.HEAD, f"not a checkpoint of this chain: {line.detail}"))
            return None
        return line.head

    def _walk_all(self, files: list[SeriesFile]) -> None:
        for file in files:
            if file.number > self._due:
                self._begin_gap(self._due, file.number - 1)
            self._due = file.number + 1
            self._walk(file)

    def _find_newer(self, files: list[SeriesFile]) -> list[SeriesFile]:
        return [
            file
            for file in list_files(self._directory).get(self._chain, [])
            if file.number > files[-1].number
        ]

    def _has_open_question(self) -> bool:
        return any(not self._is_explained(gap) for gap in self._gaps)

    def _is_explained(self, gap: _Gap) -> bool:
        # Only a beginning is ever removed: lines before a gap hang on nothing that is signed, and may be anybody's.
        behind = gap.behind
        return (
            behind is not None
            and gap.before == START
            and any(self._covers(removed, behind) for removed in self._removed)
        )

    def _begin_gap(self, first: int, last: int) -> None:
        self._walker.expected = None
        if self._gaps and (open_gap := self._gaps[-1]).behind is None:
            open_gap.last = last
            return
        self._gaps.append(_Gap(first, last, self._walker.head, len(self._findings)))

    def _judge(self, gap: _Gap) -> None:
        """Is it what the writer removed? Otherwise each file is a finding, at the place where it is missing."""
        if gap.behind is not None and self._is_explained(gap):
            self._pruned += max(0, gap.behind.seq - 1 - gap.before.seq)
            for seq in [seq for seq in self._pins if gap.before.seq < seq < gap.behind.seq]:
                self._judge_pruned_pins(seq)
            return
        self._finding_count += gap.last - gap.first + 1
        numbers = range(gap.first, min(gap.last, gap.first + MAX_FINDINGS) + 1)
        self._findings[gap.place : gap.place] = [
            Finding(
                series_path(self._directory, self._chain, number).name, 0, Check.FILE, "the file is missing"
            )
            for number in numbers
        ]

    def _covers(self, removed: Head, behind: Line) -> bool:
        """Whether what is missing before `behind` is part of what was removed. The rest of that, if it is still
        there, ends with the very line that the writer named: each line holds the hash of the one before."""
        if removed.seq == behind.seq - 1:
            return removed.hash == behind.prev
        return removed.seq >= behind.seq and self._ends.get(removed.seq) == removed.hash

    def _judge_pruned_pins(self, seq: int) -> None:
        removed = {head.seq: head.hash for head in self._removed}.get(seq)
        for head, name in self._pins.pop(seq):
            if removed is None:
                self._notes.append(f"line {seq}, which {name} names, was removed and cannot be compared")
            elif removed != head.hash:
                place = f"{self._chain} line {seq}"
                self._add(
                    place, 0, Fault(Check.HEAD, f"the line that was removed is not the one {name} names")
                )

    def _walk(self, file: SeriesFile) -> None:
        try:
            for number, raw in enumerate(_read_whole_lines(file.path), start=1):
                line, fault = self._walker.accept(raw)
                if fault is not None:
                    self._add(file.path.name, number, fault)
                if line is not None:
                    self._see(file.path.name, number, line)
        except FileNotFoundError:
            self._begin_gap(file.number, file.number)
            self._vanished = True
            return
        head = self._walker.head
        self._ends[head.seq] = head.hash

    def _see(self, file: str, number: int, line: Line) -> None:
        self._lines += 1
        if self._gaps and self._gaps[-1].behind is None:
            self._gaps[-1].behind = line
        if line.through is not None and line.seq == self._walker.checkpoint_seq:  # its signature holds
            self._removed.append(line.through)
        self._times = (self._times[0] or line.time, line.time)
        for head, name in self._pins.pop(line.seq, ()):
            if head.hash != line.hash:
                self._add(file, number, Fault(Check.HEAD, f"line {line.seq} is not the one {name} names"))

    def _find_missing_tail(self, files: list[SeriesFile]) -> None:
        file = files[-1].path.name if files else series_path(self._directory, self._chain, 1).name
        end = self._walker.head.seq
        for seq in sorted(self._pins):
            for _, name in self._pins[seq]:
                detail = (
                    f"lines {end + 1} to {seq} are missing at the end; {name} names line {seq}"
                    if seq > end
                    else f"line {seq}, which {name} names, is missing"
                )
                self._add(file, 0, Fault(Check.TAIL, detail))


def _read_whole_lines(path: Path) -> Iterable[bytes]:
    """The file's lines; a last one without a newline is looked at again, as a live writer may be in the midst
    of it."""
    for offset, raw in read_lines(path):
        for _ in range(_UNFINISHED_TRIES):
            if raw.endswith(b"\n"):
                break
            time.sleep(_UNFINISHED_WAIT)
            raw = next((line for _, line in read_lines(path, offset)), raw)
        yield raw
