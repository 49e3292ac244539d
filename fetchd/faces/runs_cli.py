"""`fetchd runs`, `fetchd citations RUN`, `fetchd usage RUN`: what was asked, cited and charged, after the fact.

Tables on a terminal, JSON otherwise. A citation is the provider's claim and labelled so; --verify reads each cited
page through the gateway and says whether the quoted text stands there now.

Exit status (SPEC 1.10): 0 done; 1 with --verify, a quote was not found or a page not read; 2 no such run; 3 no
gateway.
"""

import asyncio
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fetchd.app import DaemonTools
from fetchd.core.tool_definitions import PAGE_READ
from fetchd.errors import NoGatewayError, StaleGatewayError, StoreError
from fetchd.store.runs import RunRecords, RunTotals, StoredCitation, StoredRun
from fetchd.web_access.run_values import ProviderCall
from proxy_addons.audit import AuditError

from .ask_results import CLAIM, render_citation, render_provider_call, render_tool_call, render_usage
from .calls import ToolNotAllowedError, require_tool
from .citation_check import CheckedCitation, Finding, check_citations
from .config_option import BadInputError, config_option
from .fetch_cli import NO_GATEWAY, FetchSettings, read_settings
from .read_cli import open_reading
from .safe_text import render_json
from .search_display import plain_line
from .store_option import find_state, run, state_option
from .stored_runs import existing_runs

NOT_FOUND: Final = 1
MAX_SHOWN: Final = 300
"""Characters of a quote on a terminal."""
UNKNOWN: Final = "-"
"""Where there is little room, for what was not reported."""
_LEGEND: Final = f"in, out: tokens; web: requests, billed one by one; {UNKNOWN}: not reported"
_INDENT: Final = 6

OpenTools = Callable[[FetchSettings], AbstractAsyncContextManager[DaemonTools]]


@click.command()
@click.option("--agent", help="Only this agent's.")
@click.option("--lines", "-n", type=click.IntRange(1, 100_000), default=20, show_default=True,
              help="How many of the last ones.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a run.")
@state_option
def runs(agent: str | None, lines: int, as_json: bool, state_dir: Path | None) -> None:
    """List the last runs, the newest first."""
    found = run(_list(find_state(state_dir), agent, lines))
    if _wants_json(as_json):
        for stored, totals in found:
            _print_json(render_run_row(stored, totals))
        return
    rows = [
        (
            stored.id,
            f"{stored.began_at[:10]} {stored.began_at[11:19]}Z",
            stored.agent,
            f"{stored.provider} {stored.model}",
            _describe_status(stored),
            totals.usage.input_tokens,
            totals.usage.output_tokens,
            totals.usage.server_tool_requests,
        )
        for stored, totals in found
    ]
    head = ("run", "began", "agent", "asked", "status", "in", "out", "web")
    _print_table(head, rows, note=_LEGEND, unknown=UNKNOWN)


async def _list(state_dir: Path, agent: str | None, count: int) -> list[tuple[StoredRun, RunTotals]]:
    async with existing_runs(state_dir) as records:
        found = await records.list_runs(limit=count, agent=agent)
        return [(one, await records.totals(one.id)) for one in found]


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option(
    "--verify", is_flag=True, help="Read each cited page through the gateway and look for the quote."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a citation.")
@click.option("--agent", "agent_name", metavar="NAME", help="With --verify: read as this agent.")
@click.option("--no-start", is_flag=True, help="Do not start a private gateway when none runs.")
@state_option
@config_option
@click.pass_context
def citations(
    context: click.Context,
    run_id: str,
    verify: bool,
    as_json: bool,
    agent_name: str | None,
    no_start: bool,
    state_dir: Path | None,
    config_path: Path | None,
) -> None:
    """List the citations of RUN: what the provider said it drew on, which nobody has checked.

    With --verify each cited page is read now, with a receipt: found, not found, could not read, nothing quoted.
    Words are compared, in one piece; spacing, punctuation and typography are not. Found does not say that the
    answer follows.
    """
    _, found = run(_load_citations(find_state(state_dir), run_id))
    checked: Sequence[CheckedCitation | None] = [None] * len(found)
    if verify and found:
        settings = read_settings(config_path, state_dir, agent_name, None, no_start=no_start)
        opener: OpenTools = context.obj if context.obj is not None else open_reading
        try:
            require_tool(PAGE_READ.name, settings.caller)
            checked = asyncio.run(_check(opener, settings, found))
        except NoGatewayError as error:
            click.echo(str(error), err=True)
            context.exit(NO_GATEWAY)
        except (ToolNotAllowedError, StaleGatewayError, AuditError, StoreError) as error:
            raise BadInputError(str(error)) from None
    rows = list(zip(found, checked, strict=True))
    if _wants_json(as_json):
        for stored, check in rows:
            _print_json(render_citation_row(run_id, stored, check))
    else:
        _print_citations(rows)
    bad = {Finding.NOT_FOUND, Finding.UNREADABLE}
    context.exit(NOT_FOUND if any(one is not None and one.finding in bad for one in checked) else 0)


async def _check(
    opener: OpenTools, settings: FetchSettings, found: Sequence[StoredCitation]
) -> list[CheckedCitation]:
    """With what is being read now on a terminal: pages may be many, and slow."""
    console = Console(stderr=True, markup=False, highlight=False, emoji=False)
    ceiling = settings.loaded.config.read_max_bytes
    async with opener(settings) as tools:
        if not console.is_terminal:
            return await check_citations(found, tools, settings.caller, ceiling)
        with console.status("") as status:

            def show(number: int, url: str) -> None:
                status.update(
                    Text(f"{number} of {len(found)}: {plain_line(url)}", no_wrap=True, overflow="ellipsis")
                )

            return await check_citations(found, tools, settings.caller, ceiling, show)


async def _load_citations(state_dir: Path, run_id: str) -> tuple[StoredRun, list[StoredCitation]]:
    async with existing_runs(state_dir) as records:
        return await _find(records, run_id), await records.citations(run_id)


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@state_option
def usage(run_id: str, as_json: bool, state_dir: Path | None) -> None:
    """Say what RUN was charged for: each completion, and each use of a web tool by the vendor.

    Web requests are billed one by one, beside tokens; no price is derived. What a vendor does not report is not 0.
    """
    stored, totals, calls, tools = run(_load_usage(find_state(state_dir), run_id))
    if _wants_json(as_json):
        document = render_run_row(stored, totals) | {
            "provider_calls": [render_provider_call(one) for one in calls],
            "server_tool_calls": [render_tool_call(one) for one in tools],
        }
        _print_json(document)
        return
    _print_calls(calls, totals)
    if tools:
        head = ("step", "provider", "web tool", "result")
        rows = [(one.step, one.call.provider, one.call.tool, one.call.error or "ran") for one in tools]
        _print_table(head, rows)


async def _load_usage(
    state_dir: Path, run_id: str
) -> tuple[StoredRun, RunTotals, list[ProviderCall], list[Any]]:
    async with existing_runs(state_dir) as records:
        return (
            await _find(records, run_id),
            await records.totals(run_id),
            await records.provider_calls(run_id),
            await records.server_tool_calls(run_id),
        )


async def _find(records: RunRecords, run_id: str) -> StoredRun:
    stored = await records.find_run(run_id)
    if stored is None:
        raise BadInputError(f"no run {ascii(run_id[:100])[1:-1]}; see: fetchd runs")
    return stored


# ----------------------------------------------------------------------------------------------------- showing


def render_run_row(stored: StoredRun, totals: RunTotals) -> dict[str, object]:
    """A run and its sums."""
    return {
        "run_id": stored.id,
        "agent": stored.agent,
        "parent": stored.parent,
        "began_at": stored.began_at,
        "ended_at": stored.ended_at,
        "status": stored.status,
        "spent": stored.spent,
        "provider": stored.provider,
        "model": stored.model,
        "declared": json.loads(stored.declaration),
        "prompt_sha256": stored.prompt_sha256,
        "steps": totals.steps,
        "completions": totals.calls,
        "usage": render_usage(totals.usage),
    }


def render_citation_row(
    run_id: str, stored: StoredCitation, check: CheckedCitation | None
) -> dict[str, object]:
    """A citation, and what came of it where it was checked."""
    row: dict[str, object] = {"run_id": run_id, **render_citation(stored), "claim": CLAIM}
    if check is not None:
        row |= {
            "finding": check.finding.value,
            "receipt": check.receipt,
            "content_digest": check.digest,
            "why": check.why,
        }
    return row


def _print_citations(rows: Iterable[tuple[StoredCitation, CheckedCitation | None]]) -> None:
    """One after the other, each line whole: an address that is folded into a column can be neither opened nor
    copied."""
    console = _console()
    for stored, check in rows:
        one = stored.citation
        console.print(
            Text.assemble((f"{stored.step:<{_INDENT}}", "dim"), (plain_line(one.url), "cyan")), soft_wrap=True
        )
        lines = [
            Text(plain_line(one.title), "bold")
            if one.title is not None
            else Text("title not reported", "dim")
        ]
        if one.cited_text is None:
            lines.append(Text("quote not reported", "dim"))
        else:
            lines.append(Text(f"“{plain_line(one.cited_text[:MAX_SHOWN])}”"))
        if one.outside_declaration:
            lines.append(Text("outside what was declared", "yellow"))
        if check is not None:
            style = "green" if check.finding is Finding.FOUND else "yellow"
            lines.append(Text(f"on the page now: {plain_line(_describe_finding(check))}", style))
        for line in lines:
            console.print(Text(" " * _INDENT).append_text(line), soft_wrap=True)
    console.print(Text(f"Citations: {CLAIM}.", style="dim"))


def _describe_finding(check: CheckedCitation) -> str:
    about = (check.receipt and f"receipt {check.receipt}") or check.why
    return f"{check.finding.value}{f' ({about})' if about else ''}"


def _print_calls(calls: Iterable[ProviderCall], totals: RunTotals) -> None:
    head = ("step", "provider", "model", "ended", "tokens in", "tokens out", "web requests", "ms")
    rows: list[tuple[object, ...]] = [
        (
            one.step,
            one.provider,
            one.model,
            one.stop_reason or f"failed: {one.code}",
            one.usage.input_tokens,
            one.usage.output_tokens,
            one.usage.server_tool_requests,
            f"{one.ms:,.0f}",
        )
        for one in calls
    ]
    sums = totals.usage
    rows.append(("", "", "", "all", sums.input_tokens, sums.output_tokens, sums.server_tool_requests, ""))
    _print_table(head, rows)


def _describe_status(stored: StoredRun) -> str:
    if stored.status is None:
        return "under way, or broken off"
    return stored.status if stored.spent is None else f"{stored.status}: {stored.spent}"


def _console() -> Console:
    return Console(markup=False, highlight=False, emoji=False)


def _print_table(
    head: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    note: str = "",
    unknown: str = "not reported",
) -> None:
    """Cells came from outside: one line each, nothing that moves a cursor. The first column is never folded: it is
    what a user copies. unknown: stands for None."""
    console = _console()
    table = Table(box=None, pad_edge=False, header_style="bold")
    for place, name in enumerate(head):
        table.add_column(name, overflow="fold", no_wrap=place == 0)
    for row in rows:
        table.add_row(*(_cell(one, unknown) for one in row))
    console.print(table)
    if note:
        console.print(Text(note, style="dim"))


def _cell(value: object, unknown: str) -> Text:
    if value is None:
        return Text(unknown, style="dim")
    return Text(f"{value:,}" if isinstance(value, int) else plain_line(str(value)))


def _wants_json(as_json: bool) -> bool:
    return as_json or not sys.stdout.isatty()


def _print_json(document: dict[str, object]) -> None:
    click.echo(render_json(document, terminal=sys.stdout.isatty()))
