"""`fetchd fetch`: pages, as web_fetch gives them to a model: enveloped text, or with --json the HTTP object, a line
each.

Several are fetched side by side and printed in the order they were asked for; none stops the others.

Exit status (SPEC 1.10), the worst of all pages: 0 done, a soft failure too unless --fail makes it 1; 2 bad arguments
or a hard failure; 3 no gateway.
"""

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console

from fetchd.app import ONE_SHOT_SERIES, open_audit_log, open_web_fetch
from fetchd.core.caller import Caller
from fetchd.core.tool_definitions import WEB_FETCH
from fetchd.errors import NoGatewayError, StaleGatewayError
from fetchd.fetch import FetchResult, WebFetch
from fetchd.search.local.composition import open_offering
from fetchd.settings import LoadedConfig
from proxy_addons.audit import AuditError

from .calls import ToolNotAllowedError, require_tool
from .config_option import (
    BadInputError,
    config_option,
    find_state_or_fail,
    load_or_fail,
    select_caller,
    state_dir_option,
)
from .fetch_display import FetchDisplay
from .fetch_many import iterate, run_in_order
from .fetch_printer import ResultPrinter
from .line_io import LineReader, read_stream

NO_GATEWAY: Final = 3

MAX_LINE_BYTES: Final = 65_536
"""Of standard input; no server takes a URL as long as that."""

_INTEGER = re.compile(r"-?[0-9]+")
_KEPT_DIGITS: Final = 40
"""Far over every limit; reading more costs time by their number."""


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """What a fetch of the command line stands on."""

    loaded: LoadedConfig
    state_dir: Path
    no_start: bool
    caller: Caller


OpenFetch = Callable[[FetchSettings], AbstractAsyncContextManager[WebFetch]]


@asynccontextmanager
async def open_fetch(settings: FetchSettings) -> AsyncIterator[WebFetch]:
    """The tool over the running gateway, or over a private one for this command's own life.

    Raises NoGatewayError, StaleGatewayError, AuditError.
    """
    from fetchd.running.gateway_process import ensure_gateway

    async with (
        ensure_gateway(
            settings.loaded, settings.state_dir, no_start=settings.no_start, caller=settings.caller
        ) as gateway,
        open_audit_log(settings.state_dir, *ONE_SHOT_SERIES) as log,
        open_offering(settings.state_dir, lambda: settings.loaded.config.search) as offer,
        open_web_fetch(gateway, log, offer) as web_fetch,
    ):
        yield web_fetch


agent_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--agent",
    "agent_name",
    metavar="NAME",
    help="Fetch as this agent: under its profile and on its budgets.",
)


@click.command()
@click.argument("urls", nargs=-1, required=True, metavar="URL...")
@click.option("--max-chars", metavar="N", help="Return at most N characters of each page (1 to 40000).")
@click.option("--raw", is_flag=True, help="Render the whole page instead of its main article.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print the object that the HTTP API returns, one a line."
)
@click.option("--fail", "fail_soft", is_flag=True, help="Exit with 1 on a soft failure, such as HTTP 404.")
@click.option(
    "--jobs",
    type=click.IntRange(1, 64),
    default=8,
    show_default=True,
    help="Pages to fetch at the same time.",
)
@click.option("--profile", "profile_name", metavar="NAME", help="Fetch under this profile.")
@agent_option
@click.option("--no-start", is_flag=True, help="Do not start a private gateway when none runs.")
@state_dir_option
@config_option
@click.pass_context
def fetch(
    context: click.Context,
    urls: tuple[str, ...],
    max_chars: str | None,
    raw: bool,
    as_json: bool,
    fail_soft: bool,
    jobs: int,
    profile_name: str | None,
    agent_name: str | None,
    no_start: bool,
    state_dir: Path | None,
    config_path: Path | None,
) -> None:
    """Fetch pages through the gateway and print their text in the untrusted envelope.

    With - in place of URL, standard input has a URL on each line.
    """
    if "-" in urls and len(urls) > 1:
        raise BadInputError("- reads the URLs from standard input; it stands alone")
    settings = read_settings(config_path, state_dir, agent_name, profile_name, no_start=no_start)
    options: dict[str, object] = {"max_chars": read_number(max_chars), "raw": raw}
    opener: OpenFetch = context.obj if context.obj is not None else open_fetch
    printer = ResultPrinter(as_json=as_json, fail_soft=fail_soft, many=urls != urls[:1] or urls == ("-",))
    try:
        require_tool(WEB_FETCH.name, settings.caller)
        asyncio.run(_run(opener, settings, urls, options, jobs, printer))
    except NoGatewayError as error:
        click.echo(str(error), err=True)
        context.exit(NO_GATEWAY)
    except (ToolNotAllowedError, StaleGatewayError, AuditError) as error:
        raise BadInputError(str(error)) from None
    context.exit(printer.status)


def read_settings(
    config_path: Path | None,
    state_dir: Path | None,
    agent: str | None,
    profile: str | None,
    *,
    no_start: bool,
) -> FetchSettings:
    """The options that `fetch` and `mcp` share; raises BadInputError."""
    where = find_state_or_fail(state_dir)
    loaded = load_or_fail(config_path, where)
    return FetchSettings(loaded, where, no_start, select_caller(loaded, agent, profile))


async def _run(
    opener: OpenFetch,
    settings: FetchSettings,
    urls: tuple[str, ...],
    options: dict[str, object],
    jobs: int,
    printer: ResultPrinter,
) -> None:
    from_stdin = urls == ("-",)
    with FetchDisplay(Console(stderr=True), None if from_stdin else len(urls)) as display:
        async with opener(settings) as web_fetch:

            async def call(url: str) -> FetchResult:
                return await web_fetch.call({"url": url, **options}, settings.caller, display.single)

            async def take(result: FetchResult) -> None:
                display.count(failed=result.failure is not None)
                with display.aside():
                    # A pager that is not read on blocks the write, and must not block the other fetches.
                    await asyncio.to_thread(printer.print, result)

            await run_in_order(read_urls() if from_stdin else iterate(list(urls)), call, take, jobs)


async def read_urls() -> AsyncIterator[str]:
    """The lines of standard input but for blank ones. One that cannot be a URL is "", and its call says so."""
    async for line in LineReader(read_stream(sys.stdin.buffer), MAX_LINE_BYTES):
        if line is None:
            yield ""
        elif line.strip():
            try:
                yield line.decode("utf-8")
            except UnicodeDecodeError:
                yield ""


def read_number(text: str | None) -> object:
    """The option as a JSON reader would give it; our own parser then says what is wrong with it."""
    if text is None or _INTEGER.fullmatch(text) is None:
        return text
    return int(text[:_KEPT_DIGITS])
