"""`python -m tests.demo [URL]`: run the demo; exit status 0 only when everything went as expected."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tests.demo.running import CLI, Outcome, Running
from tests.demo.site import Site
from tests.demo.steps import Step, make_steps

TAIL_LINES = 40
SAID_WIDTH = 60


def main(url: str | None) -> int:
    """The demo's exit status."""
    console = Console(width=None if sys.stdout.isatty() else 140, highlight=False)
    with tempfile.TemporaryDirectory(prefix="fetchd-demo-") as name:
        folder = Path(name)
        with Site(folder) as site, Running(site.write_config(), folder / "state") as running:
            console.print("\n".join(map(escape, running.said)), "\n", soft_wrap=True)
            results = [_try(step) for step in make_steps(site, running)]
            console.print(_render(results))
            console.print("The same in the audit log:\n")
            tail = running.run("audit", "tail", "--lines", str(TAIL_LINES))
            console.print(escape(tail.stdout.expandtabs(2)), soft_wrap=True)
            verified = running.run("audit", "verify")
            console.print(escape(verified.stdout), soft_wrap=True)
        results.append(
            (_VERIFIED, Outcome("allowed" if verified.returncode == 0 else "refused", None, ""), 0.0)
        )
        if url is not None:
            results.append(_fetch_for_real(url, folder, console))
    good = sum(step.is_as_expected(outcome) for step, outcome, _ in results)
    console.print(f"audit chain: {'verified' if verified.returncode == 0 else 'BROKEN'}")
    console.print(f"demo: {good} of {len(results)} as expected")
    return 0 if good == len(results) else 1


Result = tuple[Step, Outcome, float]


def _nothing() -> Outcome:
    raise NotImplementedError  # these two steps are run by hand below


_VERIFIED = Step("the audit chain is whole", None, "", _nothing)


def _try(step: Step) -> Result:
    started = time.perf_counter()
    outcome = step.attempt()
    return step, outcome, (time.perf_counter() - started) * 1000


def _fetch_for_real(url: str, folder: Path, console: Console) -> Result:
    """One page of the world, under the default profile and with the system's resolver."""
    step = Step(f"fetch {url}", None, "", _nothing)
    started = time.perf_counter()
    done = subprocess.run(
        [*CLI, "fetch", url, "--max-chars", "600", "--fail", "--state-dir", str(folder / "real")],
        capture_output=True, text=True, check=False, cwd=folder,
    )  # fmt: skip
    console.print(escape(done.stdout or done.stderr), soft_wrap=True)
    outcome = Outcome("allowed" if done.returncode == 0 else "refused", None, done.stdout)
    result = (step, outcome, (time.perf_counter() - started) * 1000)
    console.print(_render([result]))
    return result


def _render(results: list[Result]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("what", "verdict", "rule"):
        table.add_column(column, min_width=max(map(len, _column(results, column)), default=0), no_wrap=True)
    table.add_column("ms", justify="right", min_width=4)
    table.add_column("what was said", no_wrap=True)
    for step, outcome, ms in results:
        colour = "green" if outcome.verdict == "allowed" else "yellow"
        mark = "" if step.is_as_expected(outcome) else " [red]UNEXPECTED[/red]"
        said = next((line for line in reversed(outcome.text.splitlines()) if line.strip()), "")
        table.add_row(
            escape(step.what) + mark,
            f"[{colour}]{escape(outcome.verdict)}[/{colour}]",
            escape(outcome.rule or ""),
            f"{ms:.0f}",
            escape(said if len(said) <= SAID_WIDTH else f"{said[:SAID_WIDTH]}…"),
        )
    return table


def _column(results: list[Result], name: str) -> list[str]:
    return [
        {"what": step.what, "verdict": out.verdict, "rule": out.rule or ""}[name] for step, out, _ in results
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else None))
