"""A log with a bit of everything, as its writers make it, and both indexes over it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fetchd.audit_index.indexer import take_in
from fetchd.audit_index.memory import MemoryAuditIndex
from fetchd.audit_index.reading import SqliteAuditIndex
from fetchd.audit_index.writing import IndexWriter
from proxy_addons.audit import (
    AuditKeys,
    AuditLog,
    CallOutcome,
    CloseRecord,
    DecisionRecord,
    EventRecord,
    FetchRecord,
    Outcome,
    PhaseTimes,
)
from proxy_addons.audit.files import list_files, read_lines

KEYS = AuditKeys.generate()
START_NS = 1_767_225_600_000_000_000
"""2026-01-01T00:00:00Z."""
START = START_NS // 1_000
SECOND = 1_000_000


class Clock:
    """Seven seconds a look."""

    def __init__(self, now: int = START_NS) -> None:
        self.now = now

    def __call__(self) -> int:
        self.now += 7_000_000_000
        return self.now


def hop(log: AuditLog, *, end: bool = True, verdict: Outcome = Outcome.ALLOWED, **changes: Any) -> None:
    """A decision and, if it was let through and has ended, its close line."""
    words: dict[str, Any] = {
        "agent": "bot", "profile": "default", "policy": "default@1", "fetch_id": "f1", "hop": 0, "method": "GET",
        "url": "https://a.example/x",
    }  # fmt: skip
    closing = changes.pop("closing", {})
    words |= changes
    seq = log.append(DecisionRecord(**words, verdict=verdict))
    if verdict is Outcome.ALLOWED and end:
        values: dict[str, Any] = {
            "verdict": Outcome.ALLOWED, "status": 200, "decoded_bytes": 1_000,
            "ms": PhaseTimes(1.0, 2.0, 3.0, 10.0, 25.5),
        }  # fmt: skip
        shared = {name: words[name] for name in ("agent", "fetch_id", "hop")}
        log.append(CloseRecord(**shared, decision=seq, **values | closing))


def write_log(directory: Path) -> None:
    """Two gateway chains and the daemon's: every kind of row, over a quarter of an hour."""
    directory.mkdir(parents=True, exist_ok=True)
    log = AuditLog.open(directory, "gateway-0", KEYS, clock=Clock())
    for number in range(6):
        hop(log, fetch_id=f"f{number}", url=f"https://h{number % 3}.a.example/p")
    hop(log, fetch_id="g1", verdict=Outcome.REFUSED, rule="host", detail="no", url="https://evil.example/")
    hop(log, fetch_id="g2", closing={"verdict": Outcome.REFUSED, "rule": "byte-cap", "status": 200})
    hop(log, fetch_id="g3", would_refuse="method", method="POST")
    hop(log, fetch_id="g4", end=False)
    hop(log, fetch_id="g5", verdict=Outcome.REFUSED, rule="parse", url=None)
    log.append(EventRecord(event="note", detail="something", facts={"n": 1}))
    log.close()
    log = AuditLog.open(directory, "gateway-1", KEYS, clock=Clock(START_NS + 3_000_000_000))
    for number in range(4):
        hop(log, agent="other", fetch_id=f"k{number}", url="https://a.example/")
    log.append(
        CloseRecord(
            decision=9_999, agent="other", fetch_id="lost", hop=0, verdict=Outcome.ALLOWED, status=204
        )
    )
    log.close()
    log = AuditLog.open(directory, "daemon", KEYS, clock=Clock(START_NS + 1_000_000_000))
    for outcome in CallOutcome:
        log.append(
            FetchRecord(
                tool="page_read", agent="bot", profile="default", policy="default@1", fetch_id=f"f{outcome.value}",
                url="https://a.example/", outcome=outcome, failure=None if outcome.value == "success" else "x",
            )
        )  # fmt: skip
    log.close()


def foreign(directory: Path, lines: list[Any], series: str = "odd") -> None:
    """Lines that no writer of ours makes."""
    text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    (directory / f"{series}-000001.jsonl").write_bytes(text.encode("utf-8", "surrogatepass"))


def fill_memory(directory: Path) -> MemoryAuditIndex:
    index = MemoryAuditIndex()
    for series, files in list_files(directory).items():
        for file in files:
            for offset, raw in read_lines(file.path):
                index.take(series, file.number, offset, raw)
    return index


def fill(directory: Path, path: Path) -> None:
    """Takes in what the log has by now."""
    writer = IndexWriter.open(path)
    try:
        take_in(writer, directory)
    finally:
        writer.close()


@contextmanager
def reading(path: Path) -> Iterator[SqliteAuditIndex]:
    index = SqliteAuditIndex(path)
    try:
        yield index
    finally:
        index.close()
