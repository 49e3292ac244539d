"""Turns of every system over the same pages, interleaved, and what they came to."""

import statistics
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from benchmarks.pages.site import choose_pages
from benchmarks.pages.systems import Daemon, InProcess, McpServerFetch, System
from benchmarks.rounds import Sample
from benchmarks.stage import ADDRESS, Place, ServerProcess

NO_PEER = "mcp-server-fetch: not measured; make bench-peers installs it"
NO_PAGES = "pages: not measured, the corpora are missing; set FETCHD_CORPORA"
WARM_PAGES = 8
"""Fetched before anything is timed: imports, connections, leaves and caches are not part of a page's cost."""


@dataclass(frozen=True, slots=True)
class PageRow:
    """Medians over the turns of one system: pages a second by the clock, CPU milliseconds a page."""

    system: str
    turns: int
    pages: int
    rate: float
    rate_least: float
    rate_most: float
    cpu_ms: float


def measure_pages(
    place: Place, rounds: int, pages: int, say: Callable[[str], None]
) -> tuple[list[PageRow], list[str]]:
    """Rows, and notes of what is missing. Raises LoadFailedError, NotReadyError."""
    try:
        paths = list(choose_pages(pages))
    except FileNotFoundError:
        return [], [NO_PAGES]
    notes = [NO_PEER] if McpServerFetch.find() is None else []
    with ExitStack() as stack:
        arguments = (ADDRESS, str(place.certificate), str(pages))
        site = stack.enter_context(ServerProcess("benchmarks.pages.site", *arguments))
        made: list[System] = [Daemon(place, site.port), InProcess(place)]
        if not notes:
            made.append(McpServerFetch(place))
        systems = [stack.enter_context(system) for system in made]
        samples: dict[str, list[Sample]] = {}
        for system in systems:
            system.turn(_urls(system, site.port, paths[:WARM_PAGES]))
        for number in range(rounds):
            say(f"pages, round {number + 1} of {rounds}")
            for system in systems:
                if number and isinstance(system, McpServerFetch):
                    continue  # a second and more a page: one turn takes a minute and decides nothing narrowly
                # Ours does several pages at once, so that a turn ends raggedly: a longer one hides that.
                repeats = 3 if isinstance(system, Daemon) else 1
                sample = system.turn(_urls(system, site.port, paths * repeats))
                samples.setdefault(system.name, []).append(sample)
    return [summarize_pages(name, found) for name, found in samples.items()], notes


def summarize_pages(name: str, samples: Sequence[Sample]) -> PageRow:
    """Medians over the turns."""
    rates = [sample.rate for sample in samples]
    return PageRow(
        name, len(samples), sum(sample.done for sample in samples),
        statistics.median(rates), min(rates), max(rates),
        statistics.median(sample.cpu_ms for sample in samples),
    )  # fmt: skip


def _urls(system: System, port: int, paths: Sequence[str]) -> list[str]:
    return [f"https://{system.host}:{port}{path}" for path in paths]
