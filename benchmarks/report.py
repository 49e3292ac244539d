"""What was measured, for people (tables) and for machines (`latest.json`), beside what is expected of it."""

import datetime
import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.audit_index import QUESTION_BOUND_MS, IndexFigures, render_index
from benchmarks.load import Shape
from benchmarks.local_search import SEARCH_BOUND_MS, SearchRow
from benchmarks.micro import Timing
from benchmarks.pages.measure import PageRow
from benchmarks.reads import STORE_BOUND, ReadRow
from benchmarks.rounds import Row
from benchmarks.vendor_calls import BOUND_SIZE, FIRST_BYTE_BOUND_MS, WAYS, VendorRow

KEPT_ALIVE = (Shape.ABSOLUTE, Shape.TUNNEL)
PAGE_BOUNDS = (("mcp-server-fetch", 20.0), ("trafilatura", 1.5))
"""How many pages a second ours is expected to bring for one of theirs."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """One sentence, the measured factor, and its bound; `at_least` says on which side it must be."""

    text: str
    measured: float
    bound: float
    at_least: bool

    @property
    def holds(self) -> bool:
        """Whether the bound was kept in this run."""
        return self.measured >= self.bound if self.at_least else self.measured <= self.bound


@dataclass(frozen=True, slots=True)
class Results:
    """One run of `make bench`. `notes`: what is missing and why."""

    rows: Sequence[Row]
    timings: Sequence[Timing]
    notes: Sequence[str] = field(default=())
    page_rows: Sequence[PageRow] = field(default=())
    read_rows: Sequence[ReadRow] = field(default=())
    vendor_rows: Sequence[VendorRow] = field(default=())
    search_rows: Sequence[SearchRow] = field(default=())
    audit_index: IndexFigures | None = None

    def row(self, proxy: str, shape: Shape) -> Row | None:
        """The row of a proxy whose name begins so."""
        return next((row for row in self.rows if row.proxy.startswith(proxy) and row.shape is shape), None)

    @property
    def expectations(self) -> list[Expectation]:
        """What can be said with the rows that are there."""
        found = []
        for shape in KEPT_ALIVE:
            ours, stock = self.row("fetchd, 1", shape), self.row("mitmdump", shape)
            if ours is not None and stock is not None:
                text = f"{shape}: requests a CPU second, ours over stock mitmdump's"
                found.append(Expectation(text, ours.per_cpu_second / stock.per_cpu_second, 2.0, True))
        ours, squid = self.row("fetchd, 1", Shape.NEW_TLS), self.row("squid", Shape.NEW_TLS)
        if ours is not None and squid is not None:
            text = f"{Shape.NEW_TLS}: CPU a hop, ours over squid's"
            found.append(Expectation(text, ours.cpu_ms / squid.cpu_ms, 1.25, False))
        ours, two = self.row("fetchd, 1", Shape.ABSOLUTE), self.row("fetchd, 2", Shape.ABSOLUTE)
        if ours is not None and two is not None:
            text = f"{Shape.ABSOLUTE}: requests a second, two workers over one"
            found.append(Expectation(text, two.rate / ours.rate, 1.5, True))
        for timing in self.timings:
            text = f"{timing.name}: microseconds"
            found.append(Expectation(text, timing.microseconds, timing.expected_below, False))
        daemon = self.page_row("fetchd")
        for name, bound in PAGE_BOUNDS:
            peer = self.page_row(name)
            if daemon is not None and peer is not None:
                text = f"pages a second, from URL to text, ours over {peer.system}"
                found.append(Expectation(text, daemon.rate / peer.rate, bound, True))
        if self.read_rows:
            smallest = min(self.read_rows, key=lambda row: row.size)
            text = f"a page read of {smallest.size >> 10} KiB: what the store adds to a bare one"
            found.append(Expectation(text, smallest.overhead, STORE_BOUND, False))
        for call in (one for one in self.vendor_rows if one.size <= BOUND_SIZE):
            text = f"a call of a model with {call.size >> 10} KiB: ms to the first byte that enforcing adds"
            found.append(Expectation(text, call.added_ms, FIRST_BYTE_BOUND_MS, False))
        for search in self.search_rows:
            text = f"a search of {search.pages:,} pages read here: ms, 95 of a hundred"
            found.append(Expectation(text, search.p95_ms, SEARCH_BOUND_MS, False))
        if self.audit_index is not None:
            slowest = max(self.audit_index.questions, key=lambda row: row.p95_ms)
            text = f"{self.audit_index.lines:,} audit lines, {slowest.name}: ms, 95 of a hundred"
            found.append(Expectation(text, slowest.p95_ms, QUESTION_BOUND_MS, False))
        return found

    def page_row(self, system: str) -> PageRow | None:
        """The row of a system whose name begins so."""
        return next((row for row in self.page_rows if row.system.startswith(system)), None)


def print_report(results: Results, console: Console) -> None:
    """The tables."""
    if results.rows:
        console.print(_hop_table(results))
    if results.page_rows:
        console.print(_page_table(results))
    if results.read_rows:
        console.print(_read_table(results))
    if results.vendor_rows:
        console.print(_vendor_table(results))
    if results.search_rows:
        console.print(_search_table(results))
    if results.audit_index is not None:
        console.print(render_index(results.audit_index))
    console.print(_expectation_table(results))
    for note in results.notes:
        console.print(note)
    console.print(
        f"{os.cpu_count()} cores, shared by proxy, load and origin; CPU a hop is the figure to compare, "
        "requests/s also tells how busy the machine was."
    )


def _hop_table(results: Results) -> Table:
    table = Table(title="A hop of 10 KiB over a TLS origin (medians of interleaved turns)")
    for heading in ("shape", "proxy"):
        table.add_column(heading)
    for heading in ("CPU ms a hop", "least to most", "a CPU second", "requests/s", "turns"):
        table.add_column(heading, justify="right")
    last = None
    for row in sorted(results.rows, key=lambda row: list(Shape).index(row.shape)):
        if last is not None and row.shape is not last:
            table.add_section()
        table.add_row(
            "" if row.shape is last else row.shape.value, row.proxy, f"{row.cpu_ms:.3f}",
            f"{row.cpu_ms_least:.3f} to {row.cpu_ms_most:.3f}", f"{row.per_cpu_second:,.0f}",
            f"{row.rate:,.0f}", str(row.turns),
        )  # fmt: skip
        last = row.shape
    return table


def _page_table(results: Results) -> Table:
    table = Table(
        title="A page, from its URL to markdown in the caller's hands (medians of interleaved turns)"
    )
    table.add_column("system")
    for heading in ("pages/s", "least to most", "CPU ms a page", "pages", "turns"):
        table.add_column(heading, justify="right")
    for row in results.page_rows:
        table.add_row(
            row.system, f"{row.rate:.2f}", f"{row.rate_least:.2f} to {row.rate_most:.2f}", f"{row.cpu_ms:,.1f}",
            str(row.pages), str(row.turns),
        )  # fmt: skip
    return table


def _read_table(results: Results) -> Table:
    table = Table(title="A page read whole, kept under its digest, with a receipt (medians)")
    for heading in ("size", "ms a read", "ms kept nowhere", "the store adds", "reads/s, 4 at once"):
        table.add_column(heading, justify="right")
    for row in results.read_rows:
        table.add_row(
            f"{row.size >> 10:,} KiB", f"{row.kept_ms:.1f}", f"{row.bare_ms:.1f}", f"{row.overhead:.0%}",
            f"{row.rate:.1f}",
        )  # fmt: skip
    return table


def _vendor_table(results: Results) -> Table:
    table = Table(
        title="A model's streamed answer: ms to its first byte, by what is done with web tools (medians)"
    )
    for heading in ("body", *WAYS, "enforcing adds"):
        table.add_column(heading, justify="right")
    for row in results.vendor_rows:
        table.add_row(
            f"{row.size >> 10:,} KiB", *(f"{row.ms[way]:.2f}" for way in WAYS), f"{row.added_ms:.2f}",
        )  # fmt: skip
    return table


def _search_table(results: Results) -> Table:
    table = Table(title="Searches of pages that were read here")
    headings = (
        "pages",
        "MB of text",
        "pages/s in",
        "ms p50",
        "ms p95",
        "most",
        "CPU p95",
        "read to found",
        "MB store",
        "MB index",
    )
    for heading in headings:
        table.add_column(heading, justify="right")
    for row in results.search_rows:
        table.add_row(
            f"{row.pages:,}", f"{row.characters / 1e6:.0f}", f"{row.rate:,.0f}", f"{row.p50_ms:.1f}",
            f"{row.p95_ms:.1f}", f"{row.most_ms:.1f}", f"{row.cpu_p95_ms:.1f}",
            f"{row.fresh_ms:.0f} ms", f"{row.store_bytes / 1e6:.0f}",
            f"{row.index_bytes / 1e6:.0f}",
        )  # fmt: skip
    return table


def _expectation_table(results: Results) -> Table:
    table = Table(title="Expected of it")
    table.add_column("figure")
    for heading in ("measured", "bound", ""):
        table.add_column(heading, justify="right")
    for one in results.expectations:
        bound = f"{'at least' if one.at_least else 'at most'} {one.bound:g}"
        table.add_row(one.text, f"{one.measured:.2f}", bound, "holds" if one.holds else "[bold]missed[/]")
    return table


def write_json(results: Results, path: Path) -> None:
    """The same in one JSON document."""
    document = {
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": {"cores": os.cpu_count(), "load": os.getloadavg(), "python": platform.python_version()},
        "rows": [asdict(row) for row in results.rows],
        "pages": [asdict(row) for row in results.page_rows],
        "reads": [asdict(row) for row in results.read_rows],
        "vendors": [asdict(row) for row in results.vendor_rows],
        "searches": [asdict(row) for row in results.search_rows],
        "audit_index": asdict(results.audit_index) if results.audit_index is not None else None,
        "functions": [asdict(timing) for timing in results.timings],
        "expectations": [{**asdict(one), "holds": one.holds} for one in results.expectations],
        "notes": list(results.notes),
    }
    path.write_text(json.dumps(document, indent=2) + "\n", "utf-8")
