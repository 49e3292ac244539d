"""Is a log directory whole? Every line of every chain is looked at; each break is named by file and line.

What is compared: the lines among themselves (see `chain`), the file numbers (from 1, no gap), the signed head
file of each chain, and the heads the caller expects. What nobody can see from the files alone: lines cut off
*and* an older head file put in place. Whoever fears that keeps a head elsewhere and gives it as expected.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from proxy_addons.audit.chain import START, ChainWalker, Check, Fault, Head, Line, SignatureCheck
from proxy_addons.audit.files import SeriesFile, head_path, list_files, read_head, read_lines, series_path
from proxy_addons.audit.keys import PublicKey
from proxy_addons.audit.record import Json
from proxy_addons.audit.resume import parse_signed_head

MAX_FINDINGS = 100
"""A chain; the count goes on, the list does not."""

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
            _ChainVerifier(directory, name, checks).verify(
                files.get(name, []), heads[name], expected.get(name)
            )
            for name in names
        )
    )


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

    def verify(self, files: list[SeriesFile], raw_head: bytes | None, expected: Head | None) -> ChainReport:
        signed = self._read_signed_head(raw_head, bool(files))
        if signed is not None:
            self._pin(signed, "the last checkpoint")
        if expected is not None:
            self._pin(expected, "the expected head")
        due = 1
        for file in files:
            if file.number > due:
                self._find_missing_files(due, file.number - 1)
                self._walker.expected = None
            due = file.number + 1
            self._walk(file)
        self._find_missing_tail(files)
        head = self._walker.head
        return ChainReport(
            self._chain,
            len(files),
            self._lines,
            *self._times,
            head if head != START else None,
            head.seq - self._walker.checkpoint_seq if self._lines else 0,
            tuple(self._findings),
            self._finding_count,
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

    def _find_missing_files(self, first: int, last: int) -> None:
        for number in range(first, min(last, first + MAX_FINDINGS) + 1):
            path = series_path(self._directory, self._chain, number)
            self._add(path.name, 0, Fault(Check.FILE, "the file is missing"))

    def _walk(self, file: SeriesFile) -> None:
        try:
            for number, raw in enumerate(_read_whole_lines(file.path), start=1):
                line, fault = self._walker.accept(raw)
                if fault is not None:
                    self._add(file.path.name, number, fault)
                if line is not None:
                    self._see(file.path.name, number, line)
        except FileNotFoundError:
            self._add(file.path.name, 0, Fault(Check.FILE, "the file is missing"))
            self._walker.expected = None

    def _see(self, file: str, number: int, line: Line) -> None:
        self._lines += 1
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
