"""`fetchd up | status | stop`: the installation as an operator runs it (SPEC 1.10).

`up` stays in the foreground, says what listens where and how to point an agent at it, then `ready`. It ends cleanly
on SIGTERM or Ctrl-C, which is what `stop` sends.
"""

import asyncio
import json
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import click

from fetchd.gateway_process import GatewayStartError
from fetchd.run_state import RunState, SecretError, StateInUseError, find_owner, read_run_state
from fetchd.serving import AddressInUseError, accepts
from fetchd.settings import LoadedConfig, find_state_dir
from proxy_addons.audit import AuditError
from proxy_addons.policy.config import ConfigError, parse_config

from .config_option import BadInputError, check_authority_or_fail, config_option, load_or_fail
from .up_text import render_address, render_start, render_status

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
    check_authority_or_fail(loaded)
    where = _find_state(state_dir)
    try:
        asyncio.run(_until_stopped(loaded, where))
    except StateInUseError as error:
        raise BadInputError(f"already running on {where} ({error}); stop it with: fetchd stop") from None
    except AddressInUseError as error:
        raise BadInputError(_taken(error.host, error.port, error.reason, error.what)) from None
    except GatewayStartError as error:
        raise BadInputError(_with_way_out(error, loaded)) from None
    except SecretError as error:
        raise BadInputError(str(error)) from None
    except (AuditError, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise BadInputError(f"state directory {where}: {reason}") from None


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@_state_option
def status(as_json: bool, state_dir: Path | None) -> None:
    """Say what runs, where it listens, and whether it answers. Exits with 3 when nothing runs, 1 when a part of it
    does not answer."""
    where = _find_state(state_dir)
    state = read_run_state(where)
    if state is None:
        owner = find_owner(where)
        if as_json:
            click.echo(json.dumps({"running": False, "state_dir": str(where), "pid": owner}))
        elif owner is not None:
            click.echo(f"starting or stopping on {where} (process {owner})")
        else:
            click.echo(f"not running on {where}; start it with: fetchd up")
        raise SystemExit(NOT_RUNNING)
    accepting = {render_address(h, p): accepts(h, p) for h, p in _listening(state)}
    if as_json:
        document: Mapping[str, Any] = {
            "running": True, "state_dir": str(where), **asdict(state), "accepting": accepting,
        }  # fmt: skip
        click.echo(json.dumps(document))
    else:
        click.echo(render_status(state, where, accepting))
    if not all(accepting.values()):
        raise SystemExit(1)


@click.command()
@_state_option
def stop(state_dir: Path | None) -> None:
    """Stop what `fetchd up` started, and wait until it has ended."""
    where = _find_state(state_dir)
    owner = find_owner(where)
    if owner is None:
        click.echo(f"not running on {where}")
        return
    try:
        os.kill(owner, signal.SIGTERM)
    except ProcessLookupError:
        pass  # it has just ended
    except PermissionError:
        raise BadInputError(f"process {owner} belongs to another user") from None
    until = time.monotonic() + STOP_SECONDS
    while find_owner(where) == owner:
        if time.monotonic() > until:
            raise BadInputError(f"process {owner} did not end within {STOP_SECONDS:.0f} s")
        time.sleep(_POLL_SECONDS)
    click.echo("stopped")


async def _until_stopped(loaded: LoadedConfig, state_dir: Path) -> None:
    """Serve until SIGTERM or SIGINT, which also break off a start; further ones change nothing."""
    serving = asyncio.create_task(_serve(loaded, state_dir))
    stopping = asyncio.Event()

    def stop_once() -> None:
        if not stopping.is_set():
            stopping.set()
            serving.cancel()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop_once)
    try:
        await serving
    except asyncio.CancelledError:
        if not stopping.is_set():
            raise
        click.echo("stopped")


async def _serve(loaded: LoadedConfig, state_dir: Path) -> None:
    """Returns by cancellation only. Raises GatewayStartError when the gateway ends by itself."""
    from fetchd.installation import installation  # all of the daemon, which status and stop do without

    async with installation(loaded, state_dir) as running:
        profile = loaded.config.profiles[running.state.listeners[0][2]]
        click.echo(
            render_start(
                running.state, state_dir, profile, ca_created=running.ca_created, notes=running.ca_notes
            )
        )
        click.echo("ready")
        ended = await running.gateway.wait()
        how = f"was killed by signal {-ended}" if ended < 0 else f"ended with status {ended}"
        raise GatewayStartError(f"the gateway {how}; everything is stopped. Start again with: fetchd up")


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


def _with_way_out(error: GatewayStartError, loaded: LoadedConfig) -> str:
    if error.in_use is None:
        return str(error)
    first, *others = loaded.config.gateway.listeners
    if any(str(one.endpoint) == error.in_use for one in others):
        return f"{error}; choose another port in gateway.listeners of {loaded.source}"
    return f"{error}; choose another port with --gateway {first.host}:PORT"


def _taken(host: str, port: int, reason: str, what: str) -> str:
    shown = render_address(host, 0).removesuffix("0")
    return f"address {render_address(host, port)}: {reason}; choose another port with --{what} {shown}PORT"


def _find_state(option: Path | None) -> Path:
    try:
        return find_state_dir(option, os.environ)
    except ConfigError as error:
        raise BadInputError(str(error)) from None


def _listening(state: RunState) -> list[tuple[str, int]]:
    return [*((h, p) for h, p, _ in state.listeners), state.tools, state.operator]
