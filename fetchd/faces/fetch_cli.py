"""`fetchd fetch`: one page, as web_fetch gives it to a model: enveloped text, or with --json the HTTP object.

Exit status (SPEC 1.10): 0 done, a soft failure too unless --fail makes it 1; 2 bad arguments or a hard
failure; 3 no gateway.
"""

import asyncio
import json
import os
import re
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from fetchd.app import ONE_SHOT_SERIES, open_audit_log, open_web_fetch
from fetchd.core.caller import Caller
from fetchd.errors import NoGatewayError
from fetchd.fetch import FetchResult, WebFetch
from fetchd.settings import LoadedConfig, find_state_dir
from proxy_addons.audit import AuditError
from proxy_addons.policy.config import ConfigError

from .config_option import BadInputError, config_option, load_or_fail, select_profile
from .results import render_problem, render_result

LOCAL_AGENT: Final = "local"
"""The name of whoever uses this machine's command line, until agents have tokens."""

SOFT_FAILED, FAILED, NO_GATEWAY = 1, 2, 3

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_INTEGER = re.compile(r"-?[0-9]{1,4000}")


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """What a fetch of the command line stands on."""

    loaded: LoadedConfig
    state_dir: Path
    no_start: bool


OpenFetch = Callable[[FetchSettings], AbstractAsyncContextManager[WebFetch]]


@asynccontextmanager
async def open_fetch(settings: FetchSettings) -> AsyncIterator[WebFetch]:
    """The tool over the running gateway, or over a private one for this command's own life.

    Raises NoGatewayError, AuditError.
    """
    from fetchd.gateway_process import ensure_gateway

    async with (
        ensure_gateway(settings.loaded, settings.state_dir, no_start=settings.no_start) as gateway,
        open_audit_log(settings.state_dir, *ONE_SHOT_SERIES) as log,
        open_web_fetch(gateway, log) as web_fetch,
    ):
        yield web_fetch


@click.command()
@click.argument("url")
@click.option("--max-chars", metavar="N", help="Return at most N characters of text (1 to 40000).")
@click.option("--raw", is_flag=True, help="Render the whole page instead of its main article.")
@click.option("--json", "as_json", is_flag=True, help="Print the object that the HTTP API returns.")
@click.option("--fail", "fail_soft", is_flag=True, help="Exit with 1 on a soft failure, such as HTTP 404.")
@click.option("--profile", "profile_name", metavar="NAME", help="Fetch under this profile.")
@click.option("--no-start", is_flag=True, help="Do not start a private gateway when none runs.")
@click.option(
    "--state-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="State directory; else $FETCHD_STATE, else $XDG_STATE_HOME/fetchd.",
)
@config_option
@click.pass_context
def fetch(
    context: click.Context,
    url: str,
    max_chars: str | None,
    raw: bool,
    as_json: bool,
    fail_soft: bool,
    profile_name: str | None,
    no_start: bool,
    state_dir: Path | None,
    config_path: Path | None,
) -> None:
    """Fetch URL through the gateway and print its text in the untrusted envelope."""
    loaded = load_or_fail(config_path)
    caller = Caller(LOCAL_AGENT, select_profile(loaded, profile_name))
    try:
        settings = FetchSettings(loaded, find_state_dir(state_dir, os.environ), no_start)
    except ConfigError as error:
        raise BadInputError(str(error)) from None
    arguments: dict[str, object] = {"url": url, "max_chars": _read_number(max_chars), "raw": raw}
    opener: OpenFetch = context.obj if context.obj is not None else open_fetch
    try:
        result = asyncio.run(_run(opener, settings, arguments, caller))
    except NoGatewayError as error:
        click.echo(str(error), err=True)
        context.exit(NO_GATEWAY)
    except AuditError as error:
        raise BadInputError(str(error)) from None
    context.exit(_print_result(result, as_json=as_json, fail_soft=fail_soft))


async def _run(
    opener: OpenFetch, settings: FetchSettings, arguments: dict[str, object], caller: Caller
) -> FetchResult:
    watched = sys.stderr.isatty()
    if watched:
        click.echo("fetching ...", err=True, nl=False)
    try:
        async with opener(settings) as web_fetch:
            return await web_fetch.call(arguments, caller)
    finally:
        if watched:
            click.echo("\r\x1b[K", err=True, nl=False)


def _read_number(text: str | None) -> object:
    """The option as a JSON reader would give it; our own parser then says what is wrong with it."""
    if text is None or _INTEGER.fullmatch(text) is None:
        return text
    return int(text)


def _print_result(result: FetchResult, *, as_json: bool, fail_soft: bool) -> int:
    """Print, and return the exit status."""
    failure = result.failure
    hard = failure is not None and result.is_hard
    if as_json:
        document = (
            render_problem(failure, result.fetch_id)
            if failure is not None and hard
            else render_result(result)
        )
        click.echo(json.dumps(document, ensure_ascii=False).encode("utf-8"))
    elif hard:
        click.echo(f"Error: {_for_terminal(result.text)}", err=True)
    else:
        # A page may hold what moves a terminal's cursor or retitles it; into a pipe the text goes as it is.
        text = _for_terminal(result.text) if sys.stdout.isatty() else result.text
        click.echo(text.encode("utf-8"))
    if hard:
        return FAILED
    return SOFT_FAILED if failure is not None and fail_soft else 0


def _for_terminal(text: str) -> str:
    return _CONTROLS.sub(lambda found: f"\\x{ord(found[0]):02x}", text)
