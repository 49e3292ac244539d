"""`fetchd env`: the environment that points the usual clients at the running gateway.

eval "$(fetchd env)"                     in the shell that starts the agent
docker run --env-file <(fetchd env --format dotenv) …
fetchd env --host 172.31.231.2 --ca /ca/ca.pem    for clients on another machine, or in a container

With agents, the proxy's URL carries name and token: the token is that of FETCHD_TOKEN, never an argument, which any
user of the machine could see; without it TOKEN stands in its place.
"""

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Final

import click

from fetchd.running.run_state import RunState, read_run_state

from .agent_environment import (
    PLACEHOLDER,
    TOKEN_VARIABLE,
    Doors,
    Listener,
    choose_listener,
    list_listeners,
    render_variables,
    tools_url,
)
from .config_option import BadInputError, find_state_or_fail, state_dir_option, suggest
from .up_text import render_address

NO_GATEWAY: Final = 3
_HOST: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|[0-9A-Fa-f]*(?::[0-9A-Fa-f.]*){2,7}")
_TOKEN: Final = re.compile(r"fetchd\.([a-z][a-z0-9_-]{0,31})\.[A-Za-z0-9_-]+")


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
    "--agent", metavar="NAME", help=f"Whose clients; else that of ${TOKEN_VARIABLE}, which holds its token."
)
@click.option(
    "--listener",
    metavar="ADDRESS|PROFILE",
    help="The listener at this address, or with this profile, where there are several.",
)
@click.option(
    "--host",
    metavar="NAME|ADDRESS",
    help="How clients elsewhere reach this machine; else as they do from here.",
)
@click.option(
    "--ca", "ca_path", metavar="FILE", help="Where clients elsewhere have ca.pem; else its path here."
)
@state_dir_option
@click.pass_context
def env(
    context: click.Context,
    form: str,
    agent: str | None,
    listener: str | None,
    host: str | None,
    ca_path: str | None,
    state_dir: Path | None,
) -> None:
    """Print what an agent's clients need in their environment: proxy, CA, tools, and what stays local."""
    where = find_state_or_fail(state_dir)
    state = read_run_state(where)
    if state is None:
        click.echo(f"nothing runs on {where}; start it with: fetchd up", err=True)
        context.exit(NO_GATEWAY)
    name, token = _find_agent(state, agent)
    listeners = list_listeners(state)
    chosen = choose_listener(listeners, name) if listener is None else _find_listener(listeners, listener)
    if chosen.owner and chosen.owner == name and token == PLACEHOLDER:
        name = ""  # whoever comes in there is the agent, token or not
    elsewhere = _check_host(host) if host is not None else ""
    if elsewhere:
        chosen = replace(chosen, host=elsewhere)
    doors = Doors(chosen, tools_url(state, elsewhere), ca_path or state.ca_path, elsewhere)
    click.echo(render_variables(doors, name, token, form))


def _check_host(host: str) -> str:
    if _HOST.fullmatch(host) is None:
        shown = ascii(host)[1:-1]
        raise BadInputError(f"{shown} is no host; write a name, or an address without port and brackets")
    return host


def _find_agent(state: RunState, option: str | None) -> tuple[str, str]:
    """Name and token to print; both empty where there is nobody to name."""
    token = os.environ.get(TOKEN_VARIABLE, "")
    found = _TOKEN.fullmatch(token)
    if token and found is None and option is None:
        raise BadInputError(f"{TOKEN_VARIABLE} holds no token of fetchd agent; name its agent with --agent")
    name = option if option is not None else found[1] if found is not None else ""
    if name and name not in state.agents:
        raise BadInputError(
            f"the running gateway has no agent {ascii(name)[1:-1]}; {suggest(name, state.agents)}"
        )
    if found is not None and found[1] != name:
        raise BadInputError(f"{TOKEN_VARIABLE} holds the token of {found[1]}, not of {name}")
    return name, token or (PLACEHOLDER if name else "")


def _find_listener(listeners: tuple[Listener, ...], wanted: str) -> Listener:
    """By address, as configured or as clients reach it, else the first with that profile."""
    for one in listeners:
        if wanted in (render_address(one.host, one.port), one.address):
            return one
    for one in listeners:
        if wanted == one.profile:
            return one
    known = sorted({one.profile for one in listeners})
    raise BadInputError(f"no listener with profile {wanted}; there is {', '.join(known)}")
