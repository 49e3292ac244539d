"""`fetchd audit verify | tail | prune`: is the audit log whole, and what does it say.

Nothing that stands in a log reaches the terminal as it is: every character but printable ASCII is shown as an
escape, and the text is never read as markup.
"""

import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from json import dumps
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from proxy_addons.audit import AuditKeyError, ChainReport, Head, load_public_key, parse_head, verify_directory
from proxy_addons.audit.files import parse_series
from proxy_addons.audit.keys import PUBLIC_FILE
from proxy_addons.audit.reader import (
    Follower,
    LogLine,
    merge_by_time,
    merge_chains,
)
from proxy_addons.audit.rows import LineFilter, Row, RowJoiner, join_backward

from .prune_cli import prune
from .safe_text import escape_text

POLL_SECONDS = 0.25
PATIENT_POLLS = 8
"""Polls after which an allowed hop is shown though it has not ended."""

BROKEN = 1  # exit codes of SPEC 1.10
FAILED = 2


def resolve_state_dir(given: Path | None, environ: Mapping[str, str]) -> Path:
    """The state directory (SPEC 1.10): as given, else below XDG_STATE_HOME, else below the home directory."""
    if given is not None:
        return given
    # The XDG base directory specification: a relative path there is to be ignored.
    home = environ.get("XDG_STATE_HOME", "")
    return (Path(home) if home.startswith("/") else Path.home() / ".local" / "state") / "fetchd"


class _AuditFailure(click.ClickException):
    """The command cannot do what it was asked."""

    exit_code = FAILED


def _parse_expected_heads(
    _context: click.Context, _option: click.Parameter, values: tuple[str, ...]
) -> dict[str, Head]:
    heads: dict[str, Head] = {}
    for value in values:
        series, mark, head = value.partition("=")
        if not mark:
            raise click.BadParameter(f"{value!r} is not SERIES=SEQ:HASH")
        if series in heads:
            raise click.BadParameter(f"it names {series} twice")
        try:
            heads[parse_series(series)] = parse_head(head)
        except ValueError as error:
            raise click.BadParameter(str(error)) from error
    return heads


_state_dir = click.option(
    "--state-dir",
    type=click.Path(path_type=Path),
    envvar="FETCHD_STATE",
    help="Where fetchd keeps its state.",
)


@click.group("audit")
def group() -> None:
    """Read the audit log and check that it is whole."""


@group.command()
@_state_dir
@click.option(
    "--expect-head", "expected", metavar="SERIES=SEQ:HASH", multiple=True, callback=_parse_expected_heads,
    help="A line that must be in a chain, as printed by an earlier verify; finds lines cut off since.",
)  # fmt: skip
@click.option(
    "--public-key", type=click.Path(path_type=Path), multiple=True,
    help="Public key, PEM, to trust instead of the one in the state directory; may be repeated.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def verify(
    state_dir: Path | None,
    expected: dict[str, Head],
    public_key: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Check every line of every chain. Exit 0: whole; 1: broken, and where; 2: could not look."""
    state = resolve_state_dir(state_dir, os.environ)
    directory = find_log(state)
    try:
        keys = [load_public_key(path) for path in public_key or (state / "keys" / PUBLIC_FILE,)]
        report = verify_directory(directory, keys, expected)
    except AuditKeyError as error:
        raise _failure(f"{error}; name a copy with --public-key") from error
    except OSError as error:
        raise _failure(f"cannot read {error.filename or directory}: {error.strerror}") from error
    if not report.chains:
        raise _failure(f"no audit log in {directory}")
    if as_json:
        click.echo(dumps(report.render()))
    else:
        for chain in report.chains:
            _print_chain(chain)
    sys.exit(0 if report.ok else BROKEN)


@group.command()
@_state_dir
@click.option("--follow", "-f", is_flag=True, help="Go on with new lines as they are written.")
@click.option("--refused", is_flag=True, help="Only what was refused or failed.")
@click.option("--agent", help="Only this agent.")
@click.option("--lines", "-n", type=click.IntRange(0, 1_000_000), default=20, show_default=True,
              help="How many of the last rows to begin with.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the lines as they stand in the log.")
def tail(
    state_dir: Path | None, follow: bool, refused: bool, agent: str | None, lines: int, as_json: bool
) -> None:
    """Show the end of all chains together, by time: one row a hop, a fetch or an event."""
    directory = find_log(resolve_state_dir(state_dir, os.environ))
    wanted = LineFilter(agent, refused)
    show = _JsonView(wanted) if as_json else _TableView(wanted)
    try:
        follower = Follower(directory)
        show.show_last(follower, lines)
        if follow:
            follow_log(follower, show.show_new, lambda: time.sleep(POLL_SECONDS))
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise _failure(f"cannot read {error.filename or directory}: {error.strerror}") from error
    except KeyboardInterrupt:
        pass  # how a person ends --follow


def follow_log(follower: Follower, show: Callable[[list[LogLine]], None], wait: Callable[[], None]) -> None:
    """Shows new lines for ever, waiting between looks."""
    while True:
        show(follower.poll())
        sys.stdout.flush()
        wait()


class _JsonView:
    def __init__(self, wanted: LineFilter) -> None:
        self._wanted = wanted

    def show_last(self, follower: Follower, count: int) -> None:
        chains = []
        for lines in follower.read_backward():
            wanted = filter(self._wanted.wants_line, lines)
            chains.append(list(islice(wanted, count))[::-1])
        self._print(list(merge_chains(chains))[-count:] if count else [])

    def show_new(self, lines: list[LogLine]) -> None:
        self._print(filter(self._wanted.wants_line, lines))

    def _print(self, lines: Iterable[LogLine]) -> None:
        for line in lines:
            click.echo(escape_text(line.raw.decode("latin-1")))


class _TableView:
    def __init__(self, wanted: LineFilter) -> None:
        self._wanted = wanted
        self._joiner = RowJoiner()
        self._idle = 0
        self._console = Console(markup=False, highlight=False, emoji=False, soft_wrap=False)

    def show_last(self, follower: Follower, count: int) -> None:
        chains = []
        for lines in follower.read_backward():
            wanted = filter(self._wanted.wants_row, join_backward(lines, self._joiner))
            chains.append(list(islice(wanted, count))[::-1])
        merged = merge_by_time(chains, lambda row: (row.time, row.chain))
        self._print(list(merged)[-count:] if count else [], header=True)

    def show_new(self, lines: list[LogLine]) -> None:
        rows = [row for line in lines for row in self._joiner.accept(line)]
        self._idle = 0 if lines else self._idle + 1
        if self._idle == PATIENT_POLLS:
            rows += self._joiner.flush()
        self._print([row for row in rows if self._wanted.wants_row(row)], header=False)

    def _print(self, rows: list[Row], *, header: bool) -> None:
        if self._console.is_terminal:
            if rows or header:
                self._console.print(_render_table(rows, header=header))
        else:
            for row in rows:
                click.echo("\t".join(text for text, _ in _render_cells(row)))


_COLUMNS = (
    # name, width (None: what is left), on the right
    ("time (UTC)", 23, False),
    ("agent", 12, False),
    ("method", 9, False),
    ("url", None, False),
    ("verdict", 7, False),
    ("rule", 20, False),
    ("status", 6, True),
    ("bytes", 10, True),
    ("ms", 8, True),
)


def _render_table(rows: Iterable[Row], *, header: bool) -> Table:
    table = Table(box=None, expand=True, show_header=header, padding=(0, 1, 0, 0))
    for name, width, right in _COLUMNS:
        table.add_column(
            name, width=width, ratio=None if width else 1, min_width=width or 20, no_wrap=True,
            overflow="ellipsis", justify="right" if right else "left",
        )  # fmt: skip
    for row in rows:
        table.add_row(*(Text(text, style=style) for text, style in _render_cells(row)))
    return table


def _render_cells(row: Row) -> list[tuple[str, str]]:
    """(text, style) by column; the text is printable ASCII."""
    dim = "dim" if row.kind == "event" else ""
    verdict = "open" if row.open else row.verdict
    cells = (
        (row.time.removesuffix("Z").replace("T", " ")[:23], "dim"),
        (row.agent, dim),
        (row.method, dim),
        (row.target, dim),
        (verdict, _VERDICT_STYLES.get(verdict, "")),
        (row.rule, "red" if row.refused else "yellow"),
        (row.status, ""),
        ("" if row.bytes is None else f"{row.bytes:,}", ""),
        ("" if row.ms is None else f"{row.ms:,.1f}", ""),
    )
    return [(escape_text(text), style) for text, style in cells]


_VERDICT_STYLES = {
    "allowed": "green",
    "success": "green",
    "open": "cyan",
    "refused": "bold red",
    "soft": "red",
    "hard": "bold red",
    "aborted": "yellow",
}


def _print_chain(chain: ChainReport) -> None:
    state = "whole" if chain.ok else "BROKEN"
    span = f"{chain.first_time} to {chain.last_time}" if chain.lines else "no lines"
    click.echo(f"{chain.chain}: {state}, {chain.lines:,} lines in {chain.files} files, {span}")
    if chain.head is not None:
        behind = f" ({chain.unsigned} lines behind the last checkpoint)" if chain.unsigned else ""
        click.echo(f"  head {chain.head}{behind}")
    if chain.pruned:
        click.echo(f"  {chain.pruned:,} lines before were removed by retention, as the chain says, signed")
    for note in chain.notes:
        click.echo(escape_text(f"  {note}"))
    for finding in chain.findings:
        click.echo(escape_text(f"  {finding}"))
    if chain.finding_count > len(chain.findings):
        click.echo(f"  and {chain.finding_count - len(chain.findings)} more")


def find_log(state: Path) -> Path:
    """The log directory in a state directory; a ClickException of status 2 says that there is none."""
    directory = state / "audit"
    if not directory.is_dir():
        raise _failure(f"no audit log at {directory}; give the state directory with --state-dir")
    return directory


def _failure(message: str) -> click.ClickException:
    return _AuditFailure(escape_text(message))


group.add_command(prune)

if __name__ == "__main__":
    group(prog_name="fetchd audit")
