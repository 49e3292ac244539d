"""Records, clocks and logs for the tests of the audit package."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from proxy_addons.audit import (
    AuditKeys,
    AuditLog,
    CloseRecord,
    DecisionRecord,
    EventRecord,
    Outcome,
    VerifyReport,
    verify_directory,
)
from proxy_addons.audit.files import list_files

KEYS = AuditKeys.generate()
"""Shared by tests that do not look at keys; lives in memory."""

SERIES = "gateway-0"
START_NS = 1_767_225_600_000_000_000
"""2026-01-01T00:00:00Z."""


class Clock:
    """A wall clock that moves a millisecond a look, and may be set."""

    def __init__(self) -> None:
        self.now = START_NS

    def __call__(self) -> int:
        self.now += 1_000_000
        return self.now


class Monotonic:
    """Seconds that pass only when told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def decision(verdict: Outcome = Outcome.ALLOWED, **changes: Any) -> DecisionRecord:
    values: dict[str, Any] = {
        "agent": "local",
        "profile": "default",
        "policy": "p1",
        "fetch_id": "f1",
        "hop": 0,
        "method": "GET",
        "url": "https://example.com/a",
        "verdict": verdict,
    }
    return DecisionRecord(**values | changes)


def close(seq: int, **changes: Any) -> CloseRecord:
    values: dict[str, Any] = {
        "decision": seq,
        "agent": "local",
        "fetch_id": "f1",
        "hop": 0,
        "verdict": Outcome.ALLOWED,
        "status": 200,
    }
    return CloseRecord(**values | changes)


def event(name: str = "note", **changes: Any) -> EventRecord:
    return EventRecord(event=name, **changes)


def open_log(directory: Path, series: str = SERIES, keys: AuditKeys = KEYS, **options: Any) -> AuditLog:
    options.setdefault("clock", Clock())
    return AuditLog.open(directory, series, keys, **options)


def write_chain(directory: Path, lines: int, series: str = SERIES, **options: Any) -> None:
    """A chain that was opened, given `lines` decisions and closed in order."""
    log = open_log(directory, series, **options)
    for number in range(lines):
        log.append(decision(url=f"https://example.com/{number}"))
    log.close()


def verify(directory: Path, **options: Any) -> VerifyReport:
    return verify_directory(directory, [KEYS.public], **options)


def series_paths(directory: Path, series: str = SERIES) -> list[Path]:
    return [file.path for file in list_files(directory).get(series, [])]


def raw_lines(directory: Path, series: str = SERIES) -> list[bytes]:
    return [line for path in series_paths(directory, series) for line in path.read_bytes().splitlines(True)]


def members(directory: Path, series: str = SERIES) -> list[dict[str, Any]]:
    return [json.loads(line) for line in raw_lines(directory, series)]


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """The system refuses to make any file longer than `size` bytes (EFBIG), taking what still fits."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def numbered() -> Iterator[int]:
    return count(1)
