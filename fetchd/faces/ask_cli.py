"""`fetchd ask`: a completion by a vendor that searches and fetches for the model; its answer on standard output.

    fetchd ask "What is new in Rust?" --search --max-uses 3 --allow blog.rust-lang.org
    fetchd ask "Summarize https://docs.rs/tokio" --provider anthropic --fetch --json

Progress and sources go to standard error. Exit status (SPEC 1.10): 0 answered; 1 the answer is not whole (a budget is
spent, it was cut or refused); 2 bad arguments, a declaration that cannot be carried, or a failure.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console
from rich.status import Status
from rich.text import Text

from fetchd.app import ONE_SHOT_SERIES, open_audit_log
from fetchd.core.failures import FailureKind
from fetchd.web_access.asking import Asker, PreparedRun
from fetchd.web_access.composition import open_asker
from fetchd.web_access.errors import WebAccessError
from fetchd.web_access.requests import MAX_PROMPT, AskRequest, make_request
from fetchd.web_access.run_values import RunEvent, RunOutcome, RunStatus, StepBegan
from proxy_addons.audit import AuditError
from proxy_addons.policy.agents import LOCAL_AGENT
from proxy_addons.policy.limits import ASK
from proxy_addons.policy.vendors.dialects import Vendor

from .ask_results import describe_broken, describe_event, describe_usage, render_ask_problem, render_outcome
from .calls import ToolNotAllowedError, require_tool
from .config_option import BadInputError, config_option, state_dir_option
from .fetch_cli import FetchSettings, read_settings
from .fetch_printer import FAILED, for_terminal
from .safe_text import render_json
from .search_display import plain_line

INCOMPLETE: Final = 1

OpenAsker = Callable[[FetchSettings], AbstractAsyncContextManager[Asker]]


@asynccontextmanager
async def open_asking(settings: FetchSettings) -> AsyncIterator[Asker]:
    """The use case, for this command's own life. Raises AuditError."""
    async with (
        open_audit_log(settings.state_dir, *ONE_SHOT_SERIES) as log,
        open_asker(lambda: settings.loaded.config, log, settings.state_dir) as asker,
    ):
        yield asker


@click.command()
@click.argument("prompt", metavar="PROMPT|-")
@click.option(
    "--provider", type=click.Choice([one.value for one in Vendor]), help="Ask this vendor, and no other."
)
@click.option("--model", help="The vendor's name of a model; else that of [vendors.NAME].")
@click.option(
    "--search/--no-search",
    default=None,
    help="Let the vendor search the web. It is billed for each request, and the vendor dials, not this gateway.",
)
@click.option(
    "--fetch/--no-fetch",
    default=None,
    help="Let the vendor open pages. Not at openai, nor at openrouter-2025.",
)
@click.option(
    "--max-uses",
    type=int,
    metavar="N",
    help="Searches and fetches of one completion at the most. The vendor enforces it: anthropic for search and fetch"
    " each, openai for all tool calls together (not in chat), openrouter-2025 as a cap on results. A run that goes on"
    " has it anew.",
)
@click.option(
    "--allow",
    "allowed_domains",
    multiple=True,
    metavar="HOST",
    help="A host the vendor may reach, with its subdomains; may be repeated. Not at openai-chat and openrouter-2025.",
)
@click.option(
    "--block",
    "blocked_domains",
    multiple=True,
    metavar="HOST",
    help="A host the vendor may not reach; may be repeated. Not at openai, which takes allowed hosts alone, and not"
    " at openrouter-2025.",
)
@click.option(
    "--max-steps", type=int, metavar="N", help="Completions of this run at the most; else ask.max_steps."
)
@click.option(
    "--max-tokens",
    type=int,
    metavar="N",
    help="Tokens of this run at the most, sent and received; else ask.max_tokens.",
)
@click.option("--timeout", type=float, metavar="SECONDS", help="Time limit of this run; else ask.timeout.")
@click.option("--json", "as_json", is_flag=True, help="Print the object that the HTTP API returns.")
@click.option("--no-progress", is_flag=True, help="Say nothing on the way.")
@click.option("--profile", "profile_name", metavar="NAME", help="Hold it to the host rules of this profile.")
@click.option(
    "--agent", "agent_name", metavar="NAME", help="Ask as this agent: under its profile, within [web]."
)
@state_dir_option
@config_option
@click.pass_context
def ask(
    context: click.Context,
    /,
    as_json: bool,
    no_progress: bool,
    profile_name: str | None,
    agent_name: str | None,
    state_dir: Path | None,
    config_path: Path | None,
    **options: Any,
) -> None:
    """Ask a vendor's model, and let the vendor search the web and open pages for it.

    With - in place of PROMPT, standard input is the prompt, which then stands in no list of processes.
    What is declared here the vendor enforces, not this gateway: its answers are held to the lists again, rows outside
    are dropped and citations outside marked. A citation is the vendor's word; fetchd citations RUN --verify reads the
    pages.
    """
    if options["prompt"] == "-":
        options["prompt"] = _read_stdin()
    settings = read_settings(config_path, state_dir, agent_name, profile_name, no_start=True)
    opener: OpenAsker = context.obj if context.obj is not None else open_asking
    shown = AskDisplay(Console(stderr=True, markup=False, highlight=False, emoji=False), quiet=no_progress)
    try:
        outcome = asyncio.run(_run(opener, settings, _read(options), shown))
    except (WebAccessError, ToolNotAllowedError, AuditError) as error:
        if as_json and isinstance(error, WebAccessError):
            _print_json(render_ask_problem(FailureKind.INVALID_ARGUMENTS, str(error), None))
        raise BadInputError(for_terminal(str(error))) from None
    if as_json:
        _print_json(render_outcome(outcome)[1])
    elif outcome.text:
        text = for_terminal(outcome.text) if sys.stdout.isatty() else outcome.text
        click.echo(text.encode("utf-8", "replace"))
    shown.finish(outcome, as_json=as_json)
    if outcome.status is RunStatus.FAILED:
        context.exit(FAILED)
    context.exit(0 if outcome.status.complete else INCOMPLETE)


def _print_json(document: dict[str, object]) -> None:
    click.echo(render_json(document, terminal=sys.stdout.isatty()))


def _read_stdin() -> str:
    data = sys.stdin.buffer.read(4 * MAX_PROMPT + 1)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise BadInputError("ask: standard input is not UTF-8") from None


def _read(options: dict[str, Any]) -> AskRequest:
    lists = {name: options.pop(name) or None for name in ("allowed_domains", "blocked_domains")}
    return make_request({name: one for name, one in {**options, **lists}.items() if one is not None})


async def _run(
    opener: OpenAsker, settings: FetchSettings, request: AskRequest, shown: "AskDisplay"
) -> RunOutcome:
    operator = settings.caller.agent == LOCAL_AGENT
    if not operator:
        require_tool(ASK, settings.caller)
    async with opener(settings) as asker:
        prepared: PreparedRun = asker.prepare(request, settings.caller, operator=operator)
        with shown:
            return await asker.run(prepared, shown.show)


class AskDisplay:
    """A line for each thing that happens; on a terminal also what is going on now."""

    def __init__(self, console: Console, *, quiet: bool) -> None:
        self._console: Final = console
        self._quiet: Final = quiet
        self._status: Status | None = None

    def __enter__(self) -> None:
        if self._console.is_terminal and not self._quiet:
            self._status = self._console.status("")
            self._status.start()

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()

    def show(self, event: RunEvent) -> None:
        """One event."""
        if self._quiet:
            return
        line = for_terminal(describe_event(event))
        if self._status is not None and isinstance(event, StepBegan):
            self._status.update(Text(line))
        self._console.print(Text(line), soft_wrap=True)

    def finish(self, outcome: RunOutcome, *, as_json: bool) -> None:
        """The sources, and how it ended. Failures are said however quiet it is."""
        if outcome.error is not None:
            self._line(f"Error: {outcome.error}")
        elif not as_json:
            for line in describe_broken(outcome):
                self._line(f"Warning: {line}")
        if self._quiet:
            return
        citations = [one for step in outcome.steps for one in step.citations]
        if citations and not as_json:
            self._line("Sources, as the provider says:")
            for url in dict.fromkeys(one.url for one in citations):
                outside = any(one.outside_declaration for one in citations if one.url == url)
                self._line(f"  {plain_line(url)}{'  (outside what was declared)' if outside else ''}")
        if dropped := sum(step.dropped_rows for step in outcome.steps):
            results = "1 result" if dropped == 1 else f"{dropped} results"
            self._line(f"left out, as outside what was declared: {results}")
        spent = f" ({outcome.spent})" if outcome.spent is not None else ""
        self._line(f"run {outcome.run_id}: {outcome.status.value}{spent}, {describe_usage(outcome.usage)}")

    def _line(self, text: str) -> None:
        self._console.print(Text(for_terminal(text)), soft_wrap=True)
