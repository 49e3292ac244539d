"""`fetchd up | status | stop`: the installation as an operator runs it (SPEC 1.10).

`up` stays in the foreground, says what listens where and how to point an agent at it, then `ready`. It ends cleanly
on SIGTERM or Ctrl-C, which is what `stop` sends.
"""

import asyncio
import json
import os
import signal
import socket
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import click

from fetchd.gateway_process import GatewayStartError
from fetchd.installation import Installation, installation
from fetchd.run_state import RunState, read_run_state
from fetchd.serving import AddressInUseError
from fetchd.settings import LoadedConfig, find_state_dir
from proxy_addons.audit import AuditError
from proxy_addons.policy.config import ConfigError, parse_config
from proxy_addons.policy.limits import DEFAULT_PROFILE, MIB, Profile

from .config_cli import render_columns
from .config_option import BadInputError, config_option, load_or_fail

STOP_SECONDS: Final = 30.0
NOT_RUNNING: Final = 3
_POLL_SECONDS: Final = 0.05

_state_option = click.option(
    "--state-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="State directory; else $FETCHD_STATE, else $XDG_STATE_HOME/fetchd.",
)


@click.command()
@click.option("--gateway", metavar="ADDRESS", help="Where agents' clients connect, such as 127.0.0.1:3128.")
@click.option("--tools", metavar="ADDRESS", help="Where the tools are served, such as 127.0.0.1:3129.")
@click.option("--operator", metavar="ADDRESS", help="Where the operator looks, such as 127.0.0.1:3130.")
@click.option("--workers", type=click.IntRange(1, 64), help="Gateway processes; else one for each core.")
@_state_option
@config_option
def up(
    gateway: str | None,
    tools: str | None,
    operator: str | None,
    workers: int | None,
    state_dir: Path | None,
    config_path: Path | None,
) -> None:
    """Start the gateway and the daemon, and serve until stopped."""
    loaded = _override(load_or_fail(config_path), gateway, tools, operator, workers)
    where = _find_state(state_dir)
    running = read_run_state(where)
    if running is not None:
        raise BadInputError(f"already running on {where} (process {running.pid}); stop it with: fetchd stop")
    try:
        asyncio.run(_serve(loaded, where))
    except AddressInUseError as error:
        flag = "--tools" if error.port == loaded.config.daemon.port else "--operator"
        raise BadInputError(_in_use(error.host, error.port, str(error), flag)) from None
    except GatewayStartError as error:
        if error.in_use is not None:
            raise BadInputError(f"{error}; choose another port with --gateway 127.0.0.1:PORT") from None
        raise BadInputError(str(error)) from None
    except (AuditError, OSError, ValueError) as error:
        raise BadInputError(f"state directory {where}: {error}") from None


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@_state_option
def status(as_json: bool, state_dir: Path | None) -> None:
    """Say what runs, where it listens, and whether it answers. Exits with 3 when nothing runs."""
    where = _find_state(state_dir)
    state = read_run_state(where)
    if state is None:
        if as_json:
            click.echo(json.dumps({"running": False, "state_dir": str(where)}))
        else:
            click.echo(f"not running on {where}; start it with: fetchd up")
        raise SystemExit(NOT_RUNNING)
    answers = {_address(h, p): _accepts(h, p) for h, p in _listening(state)}
    if as_json:
        document: Mapping[str, Any] = {
            "running": True, "state_dir": str(where), **asdict(state), "accepting": answers,
        }  # fmt: skip
        click.echo(json.dumps(document))
    else:
        click.echo(_render_state(state, where, answers))
    if not all(answers.values()):
        raise SystemExit(1)


@click.command()
@_state_option
def stop(state_dir: Path | None) -> None:
    """Stop what `fetchd up` started, and wait until it has ended."""
    where = _find_state(state_dir)
    state = read_run_state(where)
    if state is None:
        click.echo(f"not running on {where}")
        return
    try:
        os.kill(state.pid, signal.SIGTERM)
    except ProcessLookupError:
        click.echo("stopped")
        return
    except PermissionError:
        raise BadInputError(f"process {state.pid} belongs to another user") from None
    until = time.monotonic() + STOP_SECONDS
    while read_run_state(where) is not None:
        if time.monotonic() > until:
            raise BadInputError(f"process {state.pid} did not end within {STOP_SECONDS:.0f} s")
        time.sleep(_POLL_SECONDS)
    click.echo("stopped")


async def _serve(loaded: LoadedConfig, state_dir: Path) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    async with installation(loaded, state_dir) as running:
        click.echo(render_start(running, loaded, state_dir))
        click.echo("ready")
        ended = asyncio.ensure_future(running.gateway.wait())
        stop_asked = asyncio.ensure_future(stopping.wait())
        await asyncio.wait({ended, stop_asked}, return_when=asyncio.FIRST_COMPLETED)
        stop_asked.cancel()
        if not stopping.is_set():
            raise GatewayStartError(f"the gateway ended with status {ended.result()}; its reason is above")
        click.echo("stopping")


def render_start(running: Installation, loaded: LoadedConfig, state_dir: Path) -> str:
    """What `up` prints before `ready`."""
    state = running.state
    host, port, profile_name = state.listeners[0]
    proxy = f"http://{_address(host, port)}"
    ca_line = f"{state.ca_path}, expires {state.ca_expires[:10]}{' (made now)' if running.ca_created else ''}"
    rows = [
        *(("gateway", f"http://{_address(h, p)}", f"profile {n}") for h, p, n in state.listeners),
        ("tools", f"http://{_address(*state.tools)}", "POST /v1/tools/web_fetch"),
        ("operator", f"http://{_address(*state.operator)}", "/healthz /readyz"),
        ("workers", str(state.workers), ""),
        ("config", state.config, ""),
        ("state", str(state_dir), "audit/ keys/ ca.pem"),
        ("CA", ca_line, ""),
        *(("note", note, "") for note in running.ca_notes),
    ]
    parts = [
        render_columns(rows),
        "point an agent at it:",
        f"  export HTTPS_PROXY={proxy} HTTP_PROXY={proxy} NO_PROXY=localhost,127.0.0.1,::1",
        f"  export SSL_CERT_FILE={state.ca_path} CURL_CA_BUNDLE={state.ca_path}",
        f"  export REQUESTS_CA_BUNDLE={state.ca_path} NODE_EXTRA_CA_CERTS={state.ca_path}",
        describe_profile(loaded.config.profiles[profile_name]),
    ]
    return "\n".join(parts)


def describe_profile(profile: Profile) -> str:
    """One line on what the profile of the first listener lets through."""
    logins = "logins to named hosts" if profile.credential_hosts else "no logins"
    line = (
        f"{profile.name} profile: {', '.join(sorted(profile.schemes, reverse=True))}, "
        f"{'/'.join(sorted(profile.methods))}, {logins}, "
        f"{_size(profile.byte_cap)} and {profile.total_timeout:g} s an answer"
    )
    if profile.methods <= DEFAULT_PROFILE.methods:
        line += "; for git, pip, npm use another profile"
    return line


def _size(number: int) -> str:
    return f"{number // MIB} MiB" if number % MIB == 0 else f"{number} bytes"


def _render_state(state: RunState, where: Path, answers: Mapping[str, bool]) -> str:
    def shown(host: str, port: int) -> tuple[str, str]:
        address = _address(host, port)
        return f"http://{address}", "accepting" if answers[address] else "NOT ACCEPTING"

    rows = [
        ("process", str(state.pid), f"since {state.started}", ""),
        *(("gateway", *shown(h, p), f"profile {n}") for h, p, n in state.listeners),
        ("tools", *shown(*state.tools), ""),
        ("operator", *shown(*state.operator), ""),
        ("workers", str(state.workers), "", ""),
        ("config", state.config, "", ""),
        ("state", str(where), "", ""),
        ("CA", state.ca_path, f"expires {state.ca_expires[:10]}", ""),
    ]
    return render_columns(rows)


def _override(
    loaded: LoadedConfig, gateway: str | None, tools: str | None, operator: str | None, workers: int | None
) -> LoadedConfig:
    """The configuration with what the command line says in place of the file; raises BadInputError."""
    document: dict[str, Any] = dict(loaded.config.document)
    if gateway is not None:
        first, *others = loaded.config.gateway.listeners
        changed = [{"address": gateway, "profile": first.profile}]
        changed += [{"address": str(one.endpoint), "profile": one.profile} for one in others]
        document["gateway"] = {**document["gateway"], "listeners": changed}
    if workers is not None:
        document["gateway"] = {**document["gateway"], "workers": workers}
    if tools is not None:
        document["daemon"] = {**document["daemon"], "listen": tools}
    if operator is not None:
        document["operator"] = {**document["operator"], "listen": operator}
    try:
        return LoadedConfig(parse_config(document, source="command line"), loaded.source, loaded.path)
    except ConfigError as error:
        raise BadInputError(str(error)) from None


def _find_state(option: Path | None) -> Path:
    try:
        return find_state_dir(option, os.environ)
    except ConfigError as error:
        raise BadInputError(str(error)) from None


def _listening(state: RunState) -> list[tuple[str, int]]:
    return [*((h, p) for h, p, _ in state.listeners), state.tools, state.operator]


def _accepts(host: str, port: int) -> bool:
    """Whether somebody accepts a connection there; loopback, so it takes no time."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(2.0)
        return probe.connect_ex((host, port)) == 0


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _in_use(host: str, port: int, reason: str, flag: str) -> str:
    return f"address {_address(host, port)}: {reason.lower()}; choose another port with {flag} 127.0.0.1:PORT"
