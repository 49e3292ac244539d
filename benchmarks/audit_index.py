"""How quickly a million lines of the audit log are filtered, and how long the index takes to be made of them.

`python -m benchmarks --part audit`, or this module by itself, writes a log into the temporary directory (no chain:
its hashes are not looked at here), indexes it as `fetchd up` would, and asks what the operator's page asks. A week of
twelve agents, 2,000 hosts with a long tail, one hop in twelve refused.
"""

import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from fetchd.audit_index.indexer import take_in
from fetchd.audit_index.interface import SLOT, Cursor, Filter, Name
from fetchd.audit_index.reading import SqliteAuditIndex
from fetchd.audit_index.writing import IndexWriter
from proxy_addons.audit import (
    CallOutcome,
    CloseRecord,
    DecisionRecord,
    FetchRecord,
    Outcome,
    PhaseTimes,
    Record,
)

LINES = 1_000_000
INDEX_ROUNDS = 40
QUESTION_BOUND_MS = 500.0
"""The slowest question, 95 of a hundred: what a person does not call waiting."""
CHAINS = ("gateway-0", "gateway-1", "daemon")
FILE_LINES = 100_000
"""About 64 MiB, as the log rotates."""
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
WEEK = timedelta(days=7)
RULES = ("host", "scheme", "ip-literal", "no-allowed-address", "redirect-cap", "method", "byte-cap")
MICRO = 1_000_000


@dataclass(frozen=True, slots=True)
class QuestionRow:
    """Milliseconds of one question, asked many times with other values."""

    name: str
    median_ms: float
    p95_ms: float
    most_ms: float


@dataclass(frozen=True, slots=True)
class IndexFigures:
    """lines a second of making it; bytes on disk; the questions."""

    lines: int
    log_bytes: int
    index_bytes: int
    seconds: float
    questions: list[QuestionRow]


def write_log(folder: Path, lines: int, seed: int = 7) -> int:
    """A log of about so many lines; its bytes."""
    chooser = random.Random(seed)
    size = 0
    share = lines // len(CHAINS)
    for chain in CHAINS:
        records = _fetches(chooser, share) if chain == "daemon" else _hops(chooser, share)
        for number, start in enumerate(range(0, share, FILE_LINES), start=1):
            count = min(FILE_LINES, share - start)
            with (folder / f"{chain}-{number:06d}.jsonl").open("w", encoding="ascii") as file:
                for seq in range(start + 1, start + count + 1):
                    moment = BEGIN + WEEK * (seq / share)
                    size += file.write(_line(chain, seq, moment, next(records)(seq)))
    return size


def _line(chain: str, seq: int, moment: datetime, record: Record) -> str:
    stamp = f"{moment:%Y-%m-%dT%H:%M:%S.%f}Z"
    return (
        f'{{"kind":"{record.kind}","chain":"{chain}","seq":{seq},"time":"{stamp}","prev":"{"0" * 64}",'
        f'{record.render_text()},"hash":"{"0" * 64}"}}\n'
    )


def _hops(chooser: random.Random, lines: int) -> Iterator[Callable[[int], Record]]:
    while True:
        agent, host = f"agent-{chooser.randrange(12)}", _host(chooser)
        fetch_id = f"{chooser.getrandbits(80):020x}"
        words: dict[str, Any] = {"agent": agent, "fetch_id": fetch_id, "hop": 0}
        url = f"https://{host}/{chooser.randrange(5000)}"
        refused = chooser.random() < 1 / 12
        rule = chooser.choice(RULES)

        def decide(
            _: int, words: Any = words, url: str = url, refused: bool = refused, rule: str = rule
        ) -> Record:
            return DecisionRecord(
                **words, profile="p", policy="p@12345678", method="GET", url=url,
                verdict=Outcome.REFUSED if refused else Outcome.ALLOWED,
                rule=rule if refused else None, detail="refused" if refused else None,
            )  # fmt: skip

        yield decide
        if not refused:
            ms = chooser.random() * 900

            def end(seq: int, words: Any = words, ms: float = ms) -> Record:
                return CloseRecord(
                    **words, decision=seq - 1, verdict=Outcome.ALLOWED, status=200, media_type="text/html",
                    wire_bytes=9_000, decoded_bytes=40_000, ms=PhaseTimes(1.0, 10.0, 20.0, ms / 2, ms),
                )  # fmt: skip

            yield end


def _fetches(chooser: random.Random, lines: int) -> Iterator[Callable[[int], Record]]:
    while True:
        url = f"https://{_host(chooser)}/{chooser.randrange(5000)}"
        words: dict[str, Any] = {
            "agent": f"agent-{chooser.randrange(12)}", "fetch_id": f"{chooser.getrandbits(80):020x}",
            "outcome": chooser.choice((CallOutcome.SUCCESS, CallOutcome.SUCCESS, CallOutcome.SOFT)),
        }  # fmt: skip

        def fetch(_: int, words: Any = words, url: str = url) -> Record:
            return FetchRecord(
                **words, tool="web_fetch", profile="p", policy="p@12345678", url=url, final_url=url,
                status=200, bytes=40_000, ms=300.0,
            )  # fmt: skip

        yield fetch


def _host(chooser: random.Random) -> str:
    return f"h{min(int(chooser.paretovariate(0.6)), 2_000)}.example"


async def measure_index(lines: int, rounds: int, say: Callable[[str], None] = lambda _: None) -> IndexFigures:
    """Everything, in a folder that is removed then."""
    with tempfile.TemporaryDirectory(prefix="fetchd-bench-") as name:
        folder = Path(name)
        (folder / "audit").mkdir()
        say(f"writing {lines:,} lines")
        log_bytes = await asyncio.to_thread(write_log, folder / "audit", lines)
        say("indexing")
        path = folder / "index.db"
        seconds = await asyncio.to_thread(_make, path, folder / "audit")
        index = SqliteAuditIndex(path, seconds=60)
        try:
            questions = [await _measure(name, ask, rounds) for name, ask in _questions(index)]
        finally:
            index.close()
        size = await asyncio.to_thread(_weigh, folder)
        return IndexFigures(lines, log_bytes, size, seconds, questions)


def _make(path: Path, log: Path) -> float:
    began = time.perf_counter()
    writer = IndexWriter.open(path)
    take_in(writer, log)
    writer.close()
    return time.perf_counter() - began


def _weigh(folder: Path) -> int:
    return sum(one.stat().st_size for one in folder.glob("index.db*"))


def _questions(index: SqliteAuditIndex) -> list[tuple[str, Callable[[random.Random], Awaitable[object]]]]:
    begin = int(BEGIN.timestamp()) * MICRO
    week = int(WEEK.total_seconds()) * MICRO

    def day(chooser: random.Random) -> dict[str, Any]:
        since = begin + chooser.randrange(6) * 86_400 * MICRO
        return {"since": since, "until": since + 86_400 * MICRO}

    def agent(chooser: random.Random) -> str:
        return f"agent-{chooser.randrange(12)}"

    def rows(make: Callable[[random.Random], Filter]) -> Callable[[random.Random], Awaitable[object]]:
        return lambda chooser: index.find(make(chooser))

    filters: dict[str, Callable[[random.Random], Filter]] = {
        "newest rows": lambda c: Filter(),
        "by agent": lambda c: Filter(agent=agent(c)),
        "by host": lambda c: Filter(host=_host(c)),
        "by host, a domain": lambda c: Filter(host="*.example"),
        "by verdict": lambda c: Filter(verdict=c.choice(("refused", "allowed", "soft", "open"))),
        "by rule": lambda c: Filter(rule=c.choice(RULES)),
        "by time, a day": lambda c: Filter(**day(c)),
        "by fetch id": lambda c: Filter(fetch_id=f"{c.getrandbits(16):04x}"),
        "agent, host, rule and day": lambda c: Filter(
            agent=agent(c), host=_host(c), rule=c.choice(RULES), **day(c)
        ),
        "agent and verdict, nothing found": lambda c: Filter(agent=agent(c), verdict="hard"),
    }
    asked = [(f"100 rows: {name}", rows(make)) for name, make in filters.items()]
    asked += [
        ("100 rows: deep in the past", lambda c: index.find(Filter(), before=Cursor(begin + c.randrange(week), 0))),
        ("chart of the week, all", lambda c: index.tally(Filter(), 180 * SLOT)),
        ("chart of the week, one agent", lambda c: index.tally(Filter(agent=agent(c)), 180 * SLOT)),
        ("chart of the week, one host", lambda c: index.tally(Filter(host=_host(c)), 180 * SLOT)),
        ("chart of a day", lambda c: index.tally(Filter(**day(c)), 30 * SLOT)),
        ("top hosts of the week", lambda c: index.top_hosts(Filter())),
        ("top hosts of a day", lambda c: index.top_hosts(Filter(**day(c)))),
        ("top hosts of an agent, the week", lambda c: index.top_hosts(Filter(agent=agent(c)))),
        ("names of hosts", lambda c: index.names(Name.HOST)),
    ]  # fmt: skip
    return asked


async def _measure(name: str, ask: Callable[[random.Random], Awaitable[object]], rounds: int) -> QuestionRow:
    chooser = random.Random(11)
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        await ask(chooser)
        times.append((time.perf_counter() - began) * 1000)
    return QuestionRow(name, statistics.median(times), statistics.quantiles(times, n=20)[-1], max(times))


@click.command()
@click.option("--lines", default=LINES, show_default=True, type=click.IntRange(1_000, 100_000_000))
@click.option("--rounds", default=INDEX_ROUNDS, show_default=True, type=click.IntRange(2, 1_000))
def main(lines: int, rounds: int) -> None:
    """Make the index and ask it."""
    console = Console()
    figures = asyncio.run(measure_index(lines, rounds, console.print))
    console.print(render_index(figures))


def render_index(figures: IndexFigures) -> Table:
    """A row a question; what making it took is the title."""
    table = Table(
        title=f"{figures.lines:,} audit lines, {figures.log_bytes / 2**20:.0f} MiB: index of"
        f" {figures.index_bytes / 2**20:.0f} MiB made in {figures.seconds:.1f} s"
        f" ({figures.lines / figures.seconds:,.0f} lines/s)"
    )
    table.add_column("question")
    for heading in ("median ms", "p95 ms", "most ms"):
        table.add_column(heading, justify="right")
    for row in figures.questions:
        table.add_row(row.name, f"{row.median_ms:.1f}", f"{row.p95_ms:.1f}", f"{row.most_ms:.1f}")
    return table


if __name__ == "__main__":
    main()
