"""`fetchd search`: a search, as web_search makes it: a list on a terminal, the object of the HTTP API otherwise.

    fetchd search "rust async runtime" --count 5 --freshness py
    fetchd search tokio runtime --include-domain docs.rs --agent bot --json

No gateway is needed: search leaves by its own channel. Nor are the pages that were read, where `local` is not asked.

Exit status (SPEC 1.10): 0 answered; with --fail 1 when nothing was found; 2 bad arguments or a failure.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path

import click
from rich.console import Console

from fetchd.app import ONE_SHOT_SERIES, open_audit_log
from fetchd.core.progress import Phase
from fetchd.core.tool_definitions import WEB_SEARCH
from fetchd.errors import StoreError
from fetchd.search.composition import open_web_search
from fetchd.search.interface import Freshness, SafeSearch
from fetchd.search.local.composition import open_local_index
from fetchd.search.searching import SearchResult, WebSearch
from proxy_addons.audit import AuditError
from proxy_addons.policy.config_search import SearchConfig, SearchProviderName

from .calls import ToolNotAllowedError, require_tool
from .config_option import BadInputError, config_option, state_dir_option
from .fetch_cli import FetchSettings, agent_option, read_number, read_settings
from .fetch_display import FetchDisplay
from .fetch_printer import FAILED
from .safe_text import render_json
from .search_display import explain_nothing, plain_line, print_list
from .search_results import render_search, render_search_problem

NOTHING_FOUND = 1

OpenSearch = Callable[[FetchSettings], AbstractAsyncContextManager[WebSearch]]


@asynccontextmanager
async def open_searching(settings: FetchSettings) -> AsyncIterator[WebSearch]:
    """The tool, for this command's own life. Raises AuditError, StoreError."""

    def config() -> SearchConfig:
        return settings.loaded.config.search

    async with AsyncExitStack() as stack:
        log = await stack.enter_async_context(open_audit_log(settings.state_dir, *ONE_SHOT_SERIES))
        local = None
        if SearchProviderName.LOCAL in config().chain:
            local = (await stack.enter_async_context(open_local_index(settings.state_dir, config))).provider
        yield await stack.enter_async_context(
            open_web_search(
                config,
                log,
                local,
                extra_ca=settings.loaded.config.tls.extra_ca,
                asking=lambda: settings.loaded.config.asking,
            )
        )


@click.command()
@click.argument("words", metavar="QUERY...", nargs=-1, required=True)
@click.option("--count", metavar="N", help="Return at most N results (1 to 20).")
@click.option(
    "--freshness",
    type=click.Choice([one.value for one in Freshness]),
    help="Only results from the past day, week, month or year.",
)
@click.option("--country", metavar="CODE", help="The country to target, such as us.")
@click.option("--search-lang", metavar="CODE", help="The language, such as en.")
@click.option("--safesearch", type=click.Choice([one.value for one in SafeSearch]), help="SafeSearch level.")
@click.option(
    "--include-domain",
    "include_domains",
    metavar="HOST",
    multiple=True,
    help="Keep only results from this host; may be repeated.",
)
@click.option(
    "--exclude-domain",
    "exclude_domains",
    metavar="HOST",
    multiple=True,
    help="Drop results from this host; may be repeated.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the object that the HTTP API returns.")
@click.option("--fail", "fail_empty", is_flag=True, help="Exit with 1 when nothing was found.")
@agent_option
@state_dir_option
@config_option
@click.pass_context
def search(
    context: click.Context,
    words: tuple[str, ...],
    count: str | None,
    freshness: str | None,
    country: str | None,
    search_lang: str | None,
    safesearch: str | None,
    include_domains: tuple[str, ...],
    exclude_domains: tuple[str, ...],
    as_json: bool,
    fail_empty: bool,
    agent_name: str | None,
    state_dir: Path | None,
    config_path: Path | None,
) -> None:
    """Search the web by the provider of the configuration.

    Several words are one query, a space between them; as one argument it is sent exactly as written.

    On a terminal the results are a list, elsewhere one JSON object. They were written by strangers.
    """
    settings = read_settings(config_path, state_dir, agent_name, None, no_start=True)
    arguments: dict[str, object] = {
        "query": " ".join(words),
        "count": read_number(count),
        "freshness": freshness,
        "country": country,
        "search_lang": search_lang,
        "safesearch": safesearch,
        "include_domains": list(include_domains),
        "exclude_domains": list(exclude_domains),
    }
    opener: OpenSearch = context.obj if context.obj is not None else open_searching
    try:
        require_tool(WEB_SEARCH.name, settings.caller)
        result = asyncio.run(_run(opener, settings, arguments))
    except (ToolNotAllowedError, AuditError, StoreError) as error:
        raise BadInputError(str(error)) from None
    _print(result, settings, as_json=as_json)
    if result.failure is not None:
        context.exit(FAILED)
    context.exit(NOTHING_FOUND if fail_empty and not result.rows else 0)


async def _run(opener: OpenSearch, settings: FetchSettings, arguments: dict[str, object]) -> SearchResult:
    async with opener(settings) as web_search:
        with FetchDisplay(Console(stderr=True), 1, Phase.SEARCHING) as display:
            return await web_search.call(arguments, settings.caller, display.single)


def _print(result: SearchResult, settings: FetchSettings, *, as_json: bool) -> None:
    terminal = _is_terminal()
    if as_json or not terminal:
        document = (
            render_search(result, settings.caller)
            if result.failure is None
            else render_search_problem(result)
        )
        click.echo(render_json(document, terminal=terminal))
        if sys.stderr.isatty() and (note := explain_nothing(result)):
            click.echo(note, err=True)
    elif result.failure is not None:
        click.echo(f"Error: {plain_line(result.text)}", err=True)
    else:
        console = Console(markup=False, highlight=False, emoji=False)
        print_list(console, result, settings.caller.profile)


def _is_terminal() -> bool:
    return sys.stdout.isatty()
