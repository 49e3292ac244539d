"""`fetchd env`: the environment that points the usual clients at the running gateway.

eval "$(fetchd env)"                     in the shell that starts the agent
docker run --env-file <(fetchd env --format dotenv) …
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from typing import Final

import click

from fetchd.core.client_environment import client_environment
from fetchd.run_state import read_run_state
from fetchd.settings import find_state_dir
from proxy_addons.policy.config import ConfigError

from .config_option import BadInputError
from .up_text import render_address

NO_GATEWAY: Final = 3


@click.command()
@click.option(
    "--format",
    "form",
    type=click.Choice(["shell", "dotenv", "json"]),
    default="shell",
    show_default=True,
    help="As export lines, NAME=value lines, or one JSON object.",
)
@click.option(
    "--listener", metavar="PROFILE", help="The listener with this profile, where there are several."
)
@click.option(
    "--state-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="State directory; else $FETCHD_STATE, else $XDG_STATE_HOME/fetchd.",
)
@click.pass_context
def env(context: click.Context, form: str, listener: str | None, state_dir: Path | None) -> None:
    """Print what an agent's clients need in their environment: proxy, CA, and what stays local."""
    try:
        where = find_state_dir(state_dir, os.environ)
    except ConfigError as error:
        raise BadInputError(str(error)) from None
    state = read_run_state(where)
    if state is None:
        click.echo(f"nothing runs on {where}; start it with: fetchd up", err=True)
        context.exit(NO_GATEWAY)
    known = {profile: (host, port) for host, port, profile in reversed(state.listeners)}
    name = listener if listener is not None else state.listeners[0][2]
    if name not in known:
        raise BadInputError(f"no listener with profile {name}; there is {', '.join(sorted(known))}")
    variables = client_environment(f"http://{render_address(*known[name])}", state.ca_path)
    click.echo(_render(variables, form))


def _render(variables: Mapping[str, str], form: str) -> str:
    match form:
        case "json":
            return json.dumps(dict(variables), indent=2)
        case "dotenv":
            return "\n".join(f"{name}={value}" for name, value in variables.items())
        case _:
            return "\n".join(f"export {name}={quote(value)}" for name, value in variables.items())
