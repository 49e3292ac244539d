"""`python -m benchmarks`: measure, print, write `benchmarks/latest.json`."""

import asyncio
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

import click
from rich.console import Console

from benchmarks.audit_index import INDEX_ROUNDS, LINES, measure_index
from benchmarks.load import Shape
from benchmarks.local_search import NO_SEARCH, SearchRow, measure_search
from benchmarks.micro import time_functions
from benchmarks.pages.measure import PageRow, measure_pages
from benchmarks.proxies import Mitmdump, Ours, Proxy, Running, Squid
from benchmarks.reads import measure_reads
from benchmarks.report import Results, print_report, write_json
from benchmarks.rounds import Row, Sample, measure, summarize
from benchmarks.stage import HOST, Place, Stage
from benchmarks.vendor_calls import measure_vendors
from tests.kit.corpora import corpora_root

LATEST = Path(__file__).with_name("latest.json")
PROXIES = ("fetchd", "fetchd-budgets", "fetchd-2", "mitmdump", "squid")
PARTS = ("hops", "pages", "reads", "vendors", "search", "audit")
NO_SQUID = "squid ssl-bump: not measured, squid-openssl (Debian) is not installed"


@click.command()
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1, 50))
@click.option("--requests", default=1500, show_default=True, help="A turn, kept alive; new TLS: a fifth of it.",
              type=click.IntRange(5, 100_000))  # fmt: skip
@click.option(
    "--proxy", "proxies", multiple=True, type=click.Choice(PROXIES), help="Only these; default: all."
)
@click.option("--shape", "shapes", multiple=True, type=click.Choice([shape.name.lower() for shape in Shape]))
@click.option("--part", "parts", multiple=True, type=click.Choice(PARTS), help="Only this; default: all.")
@click.option("--pages", default=48, show_default=True, type=click.IntRange(2, 240), help="Of the site; each"
              " system fetches all of them a turn.")  # fmt: skip
@click.option("--output", default=LATEST, show_default=True, type=click.Path(path_type=Path))
def main(
    rounds: int, requests: int, proxies: tuple[str, ...], shapes: tuple[str, ...],
    parts: tuple[str, ...], pages: int, output: Path,
) -> None:  # fmt: skip
    """Measure side by side on loopback.

    What a hop costs in ours, in stock mitmdump and in squid ssl-bump; pages a second, from a URL to text, of ours,
    of trafilatura in one process and of mcp-server-fetch; what reading a page whole and keeping it costs; and how
    much later an answer of a model begins whose web tools are held.
    What a search of pages read here takes.
    """
    console = Console(width=max(118, Console().width))
    results = Results([], [])
    if not parts or "hops" in parts:
        wanted = [shape for shape in Shape if not shapes or shape.name.lower() in shapes]
        results = run_hops(rounds, requests, proxies or PROXIES, wanted, console)
    if not parts or "pages" in parts:
        rows, notes = run_pages(rounds, pages, console)
        results = replace(results, page_rows=rows, notes=[*results.notes, *notes])
    if not parts or "reads" in parts:
        with Stage() as place:
            reads = measure_reads(place, rounds, partial(console.print, style="dim"))
        results = replace(results, read_rows=reads)
    if not parts or "vendors" in parts:
        with Stage() as place:
            calls = measure_vendors(place, rounds, partial(console.print, style="dim"))
        results = replace(results, vendor_rows=calls)
    if not parts or "search" in parts:
        searched, notes = run_search(console)
        results = replace(results, search_rows=searched, notes=[*results.notes, *notes])
    if not parts or "audit" in parts:
        say = partial(console.print, style="dim")
        results = replace(results, audit_index=asyncio.run(measure_index(LINES, INDEX_ROUNDS, say)))
    print_report(results, console)
    write_json(results, output)


def run_hops(
    rounds: int, requests: int, wanted: tuple[str, ...], shapes: list[Shape], console: Console
) -> Results:
    """Proxies and functions; raises ProxyStartError, LoadFailedError."""
    notes = [NO_SQUID] if "squid" in wanted and Squid.find() is None else []
    with ExitStack() as stack:
        place = stack.enter_context(Stage())
        running = [stack.enter_context(proxy) for proxy in make_proxies(place, wanted)]
        rows = run_rounds(place, running, shapes, rounds, requests, console)
    return Results(rows, time_functions(), notes)


def run_pages(rounds: int, pages: int, console: Console) -> tuple[list[PageRow], list[str]]:
    """Whole pages, and what is missing; raises NotReadyError, LoadFailedError."""
    with Stage() as place:
        return measure_pages(place, rounds, pages, partial(console.print, style="dim"))


def run_search(console: Console) -> tuple[list[SearchRow], list[str]]:
    """Searches of the local index, and what is missing."""
    if not corpora_root().is_dir():
        return [], [NO_SEARCH]
    return [measure_search(partial(console.print, style="dim"))], []


def make_proxies(place: Place, wanted: tuple[str, ...]) -> list[Proxy]:
    """The wanted proxies that this machine has."""
    found: list[Proxy] = []
    if "fetchd" in wanted:
        found.append(Ours(place, 1))
    if "fetchd-budgets" in wanted:
        found.append(Ours(place, 1, budgets=True))
    if "mitmdump" in wanted:
        found.append(Mitmdump(place))
    if "squid" in wanted and Squid.find() is not None:
        found.append(Squid(place, HOST))
    if "fetchd-2" in wanted:
        found.append(Ours(place, 2))
    return found


def run_rounds(
    place: Place, proxies: list[Running], shapes: list[Shape], rounds: int, requests: int, console: Console
) -> list[Row]:
    """Each round: each shape, each proxy once.."""
    samples: dict[tuple[str, Shape], list[Sample]] = {}
    for number in range(rounds):
        console.print(f"round {number + 1} of {rounds}", style="dim")
        for shape in shapes:
            count = requests if shape is not Shape.NEW_TLS else max(1, requests // 5)
            for proxy in proxies:
                samples.setdefault((proxy.name, shape), []).append(measure(place, proxy, shape, count))
    return [summarize(name, shape, found) for (name, shape), found in samples.items()]


if __name__ == "__main__":
    main()
