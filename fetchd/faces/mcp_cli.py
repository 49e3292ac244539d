"""`fetchd mcp`: the tools on standard input and output, for an agent's host that starts its MCP servers itself.

Ends when the client closes its input, with status 0; 2 for a configuration that cannot be used, 3 without a gateway
(SPEC 1.10). Whatever is not a message goes to standard error.
"""

import asyncio
import logging
import signal
import sys
from pathlib import Path

import click

from fetchd.errors import NoGatewayError, StaleGatewayError, StoreError
from proxy_addons.audit import AuditError

from .calls import Calls
from .config_option import BadInputError, config_option, state_dir_option
from .fetch_cli import NO_GATEWAY, FetchSettings, agent_option, read_settings
from .mcp_server import make_server
from .mcp_stdio import claimed_stdio, serve_stdio
from .read_cli import open_reading


@click.command()
@click.option("--profile", "profile_name", metavar="NAME", help="Fetch under this profile.")
@agent_option
@click.option("--no-start", is_flag=True, help="Do not start a private gateway when none runs.")
@click.option("--verbose", "-v", is_flag=True, help="Say more on standard error.")
@state_dir_option
@config_option
@click.pass_context
def mcp(
    context: click.Context,
    profile_name: str | None,
    agent_name: str | None,
    no_start: bool,
    verbose: bool,
    state_dir: Path | None,
    config_path: Path | None,
) -> None:
    """Serve the tools over MCP on standard input and output.

    Uses the running gateway, or starts a private one for as long as the client stays.
    """
    start_logging(verbose=verbose)
    settings = read_settings(config_path, state_dir, agent_name, profile_name, no_start=no_start)
    try:
        with claimed_stdio() as (read_from, write_to):
            asyncio.run(_serve(settings, read_from, write_to))
    except NoGatewayError as error:
        click.echo(str(error), err=True)
        context.exit(NO_GATEWAY)
    except (StaleGatewayError, AuditError, StoreError) as error:
        raise BadInputError(str(error)) from None


def start_logging(*, verbose: bool) -> None:
    """Warnings to standard error; with `verbose` all that we say ourselves.

    Not what libraries say below a warning: an HTTP client's debug log holds query strings and the gateway's secret.
    """
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(name)s: %(message)s")
    if verbose:
        logging.getLogger("fetchd").setLevel(logging.DEBUG)


async def _serve(settings: FetchSettings, read_from: int, write_to: int) -> None:
    serving = asyncio.current_task()
    if serving is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, serving.cancel)
    try:
        async with open_reading(settings) as tools:
            ceiling = settings.loaded.config.read_max_bytes
            calls = Calls(
                tools.web_fetch, tools.page_reader, tools.web_search, ceiling=lambda: ceiling, share=1
            )  # nobody else is here
            await serve_stdio(make_server(calls, settings.caller), read_from, write_to)
    except asyncio.CancelledError:
        logging.getLogger(__name__).debug("stopped by a signal")
