"""What an agent's clients need, for one agent: the proxy with its name and token, the CA, the tools and their token.

HTTPS_PROXY=http://bot:fetchd.bot.…@127.0.0.1:3128      FETCHD_TOOLS_URL, FETCHD_TOKEN for the tools
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Final
from urllib.parse import quote as percent_encode

from fetchd.core.client_environment import client_environment
from fetchd.running.gateway_process import reachable_host
from fetchd.running.run_state import RunState
from proxy_addons.policy.config import Config

from .up_text import render_address

TOKEN_VARIABLE: Final = "FETCHD_TOKEN"  # noqa: S105 (a variable's name)
TOOLS_VARIABLE: Final = "FETCHD_TOOLS_URL"
PLACEHOLDER: Final = "TOKEN"
_CURL: Final = (
    f'  curl -H "Authorization: Bearer ${TOKEN_VARIABLE}" ${TOOLS_VARIABLE}/v1/tools/web_fetch'
    """ -d '{"url": "https://example.com/"}'"""
)


@dataclass(frozen=True, slots=True)
class Listener:
    """A listener as clients see it. owner: the agent whose own it is, else empty."""

    host: str
    port: int
    profile: str
    owner: str
    tls: bool

    @property
    def address(self) -> str:
        """Where clients of this machine reach it."""
        return render_address(reachable_host(self.host), self.port)

    def url(self, agent: str = "", token: str = "") -> str:
        """The proxy's URL, with name and token in front where there is an agent to name."""
        name = f"{_encode(agent)}:{_encode(token)}@" if agent else ""
        return f"{'https' if self.tls else 'http'}://{name}{self.address}"


@dataclass(frozen=True, slots=True)
class Doors:
    """Where an agent's clients go. gateway: None where its port is not known before it runs.

    elsewhere: the host by which clients of another machine reach this one.
    """

    gateway: Listener | None
    tools: str | None
    ca_path: str
    elsewhere: str = ""


def list_listeners(state: RunState) -> tuple[Listener, ...]:
    """The gateway's listeners that run."""
    count = len(state.listeners)
    owners, tls = state.owners or ("",) * count, state.tls or (False,) * count
    return tuple(
        Listener(host, port, profile, owner, secure)
        for (host, port, profile), owner, secure in zip(state.listeners, owners, tls, strict=True)
    )


def choose_listener(listeners: tuple[Listener, ...], agent: str) -> Listener:
    """An agent's own listener, else the first that is nobody's, else the first."""
    own = [one for one in listeners if agent and one.owner == agent]
    common = [one for one in listeners if not one.owner]
    return (own or common or list(listeners))[0]


def find_doors(running: RunState | None, config: Config, state_dir: Path, agent: str) -> Doors:
    """Where an agent's clients go, or will when it is started as configured."""
    if running is not None:
        gateway = choose_listener(list_listeners(running), agent)
        return Doors(gateway, tools_url(running), running.ca_path)
    listeners = tuple(
        Listener(one.host, one.port, one.profile, one.agent, one.tls) for one in config.gateway.listeners
    )
    chosen, door = choose_listener(listeners, agent), config.daemon.listener
    scheme = "https" if door.tls else "http"
    tools = f"{scheme}://{render_address(reachable_host(door.host), door.port)}" if door.port else None
    return Doors(chosen if chosen.port else None, tools, str(state_dir / "ca.pem"))


def tools_url(state: RunState, elsewhere: str = "") -> str:
    """Where clients of this machine, or elsewhere, reach the tools."""
    host, port = state.tools
    return f"{'https' if state.tools_tls else 'http'}://{render_address(elsewhere or reachable_host(host), port)}"


def make_variables(doors: Doors, agent: str, token: str) -> dict[str, str]:
    """Every variable of a client's environment; without an agent no token."""
    variables: dict[str, str] = {}
    if doors.gateway is not None:
        variables |= client_environment(doors.gateway.url(agent, token), doors.ca_path, doors.elsewhere)
    if doors.tools is not None:
        variables[TOOLS_VARIABLE] = doors.tools
    if agent:
        variables[TOKEN_VARIABLE] = token
    return variables


def render_variables(doors: Doors, agent: str, token: str, form: str) -> str:
    """As shell lines, dotenv lines or JSON."""
    return render_form(make_variables(doors, agent, token), form)


def render_form(variables: Mapping[str, str], form: str) -> str:
    """Variables as `shell`, `dotenv` or `json`."""
    match form:
        case "json":
            return json.dumps(dict(variables), indent=2)
        case "dotenv":
            return "\n".join(f"{name}={value}" for name, value in variables.items())
        case _:
            return "\n".join(f"export {name}={quote(value)}" for name, value in variables.items())


def describe_client(doors: Doors, agent: str, token: str) -> str:
    """For people: the lines that most clients need, and how the tools are called."""
    lines = []
    if doors.gateway is not None:
        proxy, ca = quote(doors.gateway.url(agent, token)), quote(doors.ca_path)
        lines += [
            "its clients (all of it for every client: FETCHD_TOKEN=… fetchd env):",
            f"  export HTTPS_PROXY={proxy} HTTP_PROXY={proxy} http_proxy={proxy}",
            f"  export SSL_CERT_FILE={ca} CURL_CA_BUNDLE={ca} REQUESTS_CA_BUNDLE={ca} NODE_EXTRA_CA_CERTS={ca}",
        ]
    if doors.tools is not None:
        lines += [
            "its tools:",
            f"  export {TOOLS_VARIABLE}={doors.tools} {TOKEN_VARIABLE}={token}",
            _CURL,
        ]
    return "\n".join(lines) or "its clients, once it runs: FETCHD_TOKEN=… fetchd env"


def _encode(text: str) -> str:
    return percent_encode(text, safe="")
