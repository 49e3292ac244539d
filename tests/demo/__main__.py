"""`python -m tests.demo [URL]`: run the demo; exit status 0 only when everything went as expected."""

from __future__ import annotations

import http.client
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tests.demo.running import ALLOWED, Outcome, fetch_for_real, verify
from tests.demo.site import Site
from tests.demo.steps import Step, make_steps
from tests.kit.client import NoResponseError
from tests.kit.installed import NotReadyError, Up

TAIL_LINES = 40
SAID_WIDTH = 60
Result = tuple[Step, Outcome, float]
"""A step, what came of it, and milliseconds."""


def main(url: str | None, profile: Mapping[str, Any]) -> int:
    """The demo's exit status. profile: changes of the profile that the demo runs under."""
    console = Console(width=None if sys.stdout.isatty() else 140, highlight=False)
    with tempfile.TemporaryDirectory(prefix="fetchd-demo-") as name, Site(Path(name)) as site:
        try:
            with Up(Path(name), "--config", str(site.write_config(profile))) as up:
                results = _run(site, up, url, console)
        except NotReadyError as error:
            console.print(escape(str(error)), soft_wrap=True)
            return 1
        for line in up.errors:
            console.print(escape(line), soft_wrap=True)
    good = sum(step.is_as_expected(outcome) for step, outcome, _ in results)
    console.print(f"demo: {good} of {len(results)} as expected")
    return 0 if good == len(results) else 1


def _run(site: Site, up: Up, url: str | None, console: Console) -> list[Result]:
    console.print("\n".join(map(escape, up.said)), "\n", soft_wrap=True)
    steps = make_steps(site, up)
    if url is not None:
        steps.append(Step(f"fetch {url}", ALLOWED, None, "", lambda: fetch_for_real(up, url)))
    results = [_try(step) for step in steps]
    console.print(_render(results))
    if url is not None:
        console.print(escape(f"\n{results[-1][1].text}"), soft_wrap=True)
    console.print("\nThe same in the audit log:\n")
    tail = up.run("audit", "tail", "--lines", str(TAIL_LINES))
    console.print(escape(tail.stdout.expandtabs(2)), soft_wrap=True)
    last = _try(Step("the audit chain is whole", "verified", None, "", lambda: verify(up)))
    console.print(escape(last[1].text), soft_wrap=True)
    console.print(f"audit chain: {last[1].verdict}")
    return [*results, last]


def _try(step: Step) -> Result:
    started = time.perf_counter()
    try:
        outcome = step.attempt()
    except (OSError, NoResponseError, http.client.HTTPException, ValueError) as error:
        outcome = Outcome("failed", None, f"{type(error).__name__}: {error}")
    return step, outcome, (time.perf_counter() - started) * 1000


def _render(results: list[Result]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    widths = [max(len(row[column]) for row in map(_cells, results)) for column in range(3)]
    for column, width in zip(("what", "verdict", "rule"), widths, strict=True):
        table.add_column(column, min_width=width, no_wrap=True)
    table.add_column("ms", justify="right", min_width=4)
    table.add_column("what was said", no_wrap=True)
    for result in results:
        step, outcome, ms = result
        what, verdict, rule = map(escape, _cells(result))
        colour = "green" if outcome.verdict == ALLOWED else "yellow"
        mark = "" if step.is_as_expected(outcome) else " [red]UNEXPECTED[/red]"
        said = next((line for line in reversed(outcome.text.splitlines()) if line.strip()), "")
        table.add_row(
            f"{what}{mark}",
            f"[{colour}]{verdict}[/{colour}]",
            rule,
            f"{ms:.0f}",
            escape(said if len(said) <= SAID_WIDTH else f"{said[:SAID_WIDTH]}…"),
        )
    return table


def _cells(result: Result) -> tuple[str, str, str]:
    step, outcome, _ = result
    return step.what, outcome.verdict, outcome.rule or ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else None, {}))
