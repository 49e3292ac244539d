"""`fetchd up | status | stop`: the installation as an operator runs it (SPEC 1.10).

`up` stays in the foreground, says what listens where and how to point an agent at it, then `ready`. It ends cleanly
on SIGTERM, which is what `stop` sends, on Ctrl-C, and when its terminal is closed. Without one, SIGHUP is a reload.
"""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from certs.errors import CertificateAuthorityError
from fetchd.overrides import Overrides
from fetchd.running.audit_output import audit_output
from fetchd.running.client_places import raise_descriptor_limit
from fetchd.running.gateway_process import GatewayStartError, reachable_host
from fetchd.running.reloading import Reloader, ReloadError
from fetchd.running.run_state import RunState, SecretError, StateInUseError, find_owner, read_run_state
from fetchd.running.service_manager import READY, STOPPING, tell_service_manager
from fetchd.running.serving import AddressInUseError, accepts
from fetchd.settings import LoadedConfig, load_again
from proxy_addons.audit import AuditError
from proxy_addons.policy.config import ConfigError

from .config_option import (
    BadInputError,
    check_files_or_fail,
    config_option,
    find_state_or_fail,
    load_or_fail,
    state_dir_option,
)
from .readiness import ask_readiness
from .up_text import render_address, render_changes, render_start, render_status

STOP_SECONDS: Final = 30.0
NOT_RUNNING: Final = 3
_POLL_SECONDS: Final = 0.05


@click.command()
@click.option("--gateway", metavar="ADDRESS", help="Where agents' clients connect, such as 127.0.0.1:3128.")
@click.option("--tools", metavar="ADDRESS", help="Where the tools are served, such as 127.0.0.1:3129.")
@click.option("--operator", metavar="ADDRESS", help="Where the operator looks, such as 127.0.0.1:3130.")
@click.option("--workers", type=click.IntRange(1, 64), help="Gateway processes; else one for each core.")
@state_dir_option
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
    where = find_state_or_fail(state_dir)
    overrides = Overrides(gateway, tools, operator, workers)
    loaded = _start_config(config_path, where, overrides)
    check_files_or_fail(loaded)
    raise_descriptor_limit()
    try:
        asyncio.run(_until_stopped(loaded, where, overrides))
    except StateInUseError as error:
        raise BadInputError(f"already running on {where} ({error}); stop it with: fetchd stop") from None
    except AddressInUseError as error:
        raise BadInputError(_taken(error.host, error.port, error.reason, error.what)) from None
    except GatewayStartError as error:
        raise BadInputError(_with_way_out(error, loaded)) from None
    except (SecretError, CertificateAuthorityError) as error:
        raise BadInputError(str(error)) from None
    except (AuditError, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise BadInputError(f"state directory {where}: {reason}") from None


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--ready", is_flag=True, help="Ask one thing only, as health checks do: is it ready to serve?")
@state_dir_option
def status(as_json: bool, ready: bool, state_dir: Path | None) -> None:
    """Say what runs, where it listens, and whether it answers. Exits with 3 when nothing runs, 1 when a part of it
    does not answer or, with --ready, it is not ready."""
    where = find_state_or_fail(state_dir)
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
    if ready:
        is_ready, said = ask_readiness(state)
        click.echo(json.dumps({"ready": is_ready}) if as_json else said)
        raise SystemExit(0 if is_ready else 1)
    accepting = {render_address(h, p): accepts(reachable_host(h), p) for h, p in _listening(state)}
    if as_json:
        document: Mapping[str, Any] = {
            "running": True, "state_dir": str(where), **state.document, "accepting": accepting,
        }  # fmt: skip
        click.echo(json.dumps(document))
    else:
        click.echo(render_status(state, where, accepting))
    if not all(accepting.values()):
        raise SystemExit(1)


@click.command()
@state_dir_option
def stop(state_dir: Path | None) -> None:
    """Stop what `fetchd up` started, and wait until it has ended."""
    where = find_state_or_fail(state_dir)
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


async def _until_stopped(loaded: LoadedConfig, state_dir: Path, overrides: Overrides) -> None:
    """Serve until SIGTERM or SIGINT, which also break off a start; further ones change nothing."""
    hangup = asyncio.Event()
    serving = asyncio.create_task(_serve(loaded, state_dir, overrides, hangup))
    stopping = asyncio.Event()

    def stop_once() -> None:
        if not stopping.is_set():
            stopping.set()
            tell_service_manager(STOPPING)
            serving.cancel()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop_once)
    terminal = sys.stdin.isatty()

    def take_hangup() -> None:
        # The same signal says that the terminal is gone, and then nobody wants us to stay.
        if terminal and not sys.stdin.isatty():
            stop_once()
        else:
            hangup.set()

    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup
        loop.add_signal_handler(signal.SIGHUP, take_hangup)
    try:
        await serving
    except asyncio.CancelledError:
        if not stopping.is_set():
            raise
        click.echo("stopped", err=loaded.config.audit.stdout)


async def _serve(loaded: LoadedConfig, state_dir: Path, overrides: Overrides, hangup: asyncio.Event) -> None:
    """Returns by cancellation only. Raises GatewayStartError when the gateway ends by itself."""
    from fetchd.installation import installation  # all of the daemon, which status and stop do without

    def load() -> LoadedConfig:
        return overrides.apply(load_again(loaded, state_dir))

    config = loaded.config
    printing = audit_output(state_dir / "audit") if config.audit.stdout else None
    say = partial(click.echo, err=config.audit.stdout)  # then nothing but the log is on standard output
    async with installation(loaded, state_dir, load, watching=printing) as running:
        say(
            render_start(
                running.state,
                state_dir,
                config.profiles[running.state.listeners[0][2]],
                ca_created=running.ca_created,
                notes=running.ca_notes,
                needs_token=not config.admits_anonymous(config.gateway.listeners[0]),
                search=config.search.chain,
            )
        )
        say("ready")
        tell_service_manager(READY, f"STATUS=serving {', '.join(_addresses(running.state))}")
        reloading = asyncio.create_task(_reload_on_hangup(running.reloader, hangup))
        try:
            ended = await running.gateway.wait()
        finally:
            reloading.cancel()
            await asyncio.wait([reloading])
        how = f"was killed by signal {-ended}" if ended < 0 else f"ended with status {ended}"
        raise GatewayStartError(f"the gateway {how}; everything is stopped. Start again with: fetchd up")


async def _reload_on_hangup(reloader: Reloader, hangup: asyncio.Event) -> None:
    """One reload for each SIGHUP, or for several that came meanwhile; its outcome on standard error."""
    while True:
        await hangup.wait()
        hangup.clear()
        try:
            said = render_changes([change.document for change in await reloader.reload()])
        except ReloadError as error:
            said = f"not reloaded: {error}"
        click.echo(said, err=True)


def _start_config(config_path: Path | None, state_dir: Path, overrides: Overrides) -> LoadedConfig:
    loaded = load_or_fail(config_path, state_dir)
    if loaded.path is not None:
        # A reload reads the same file, wherever this process stands then.
        loaded = replace(loaded, path=loaded.path.absolute())
    try:
        return overrides.apply(loaded)
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


def _addresses(state: RunState) -> list[str]:
    return [render_address(host, port) for host, port in _listening(state)]


def _listening(state: RunState) -> list[tuple[str, int]]:
    return [*((h, p) for h, p, _ in state.listeners), state.tools, state.operator]
