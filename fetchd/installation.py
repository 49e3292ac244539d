"""One installation: the gateway, the daemon's tools and the operator's listener, started and stopped together.

The composition root behind `fetchd up` and the demo.
"""

import asyncio
import logging
import os
import platform
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from socket import socket
from typing import Any

from fetchd.app import open_audit_log, open_tools
from fetchd.background import running
from fetchd.faces.audit_page.views import Views
from fetchd.faces.calls import Calls
from fetchd.faces.http import open_tools_app
from fetchd.faces.metrics_http import METRICS_PATH, MetricsPage
from fetchd.faces.operator import make_operator_app
from fetchd.metrics.collecting import Collecting
from fetchd.metrics.daemon import DaemonMeters
from fetchd.observing import Observed, observe
from fetchd.operator_site import make_access, open_pages
from fetchd.running.audit_keeping import AuditKeeper
from fetchd.running.client_files import write_client_files
from fetchd.running.gateway_process import GatewayProcess, choose_gateway, start_gateway
from fetchd.running.reloading import Change, Reloader, describe_changes
from fetchd.running.run_state import (
    CONTROL_FILE,
    RunState,
    load_or_create_secret,
    own_state_dir,
    remove_run_state,
    write_run_state,
)
from fetchd.running.serving import listen_on, serving
from fetchd.running.tools_tls import operator_tls, tools_tls
from fetchd.settings import LoadedConfig, load_again
from fetchd.store import PageStore
from fetchd.web_access.composition import open_asker
from proxy_addons.audit import AuditLog, AuditUnavailableError
from proxy_addons.policy.config import Config
from proxy_addons.policy.config_addresses import is_loopback
from proxy_addons.policy.config_values import DaemonConfig, OperatorConfig
from proxy_addons.policy.rulebook import CurrentRules, Rulebook

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Installation:
    """A running one. `gateway` is its process, `state` what `run.json` said at the start."""

    gateway: GatewayProcess
    state: RunState
    reloader: Reloader
    ca_created: bool
    ca_notes: tuple[str, ...]


@asynccontextmanager
async def installation(
    loaded: LoadedConfig,
    state_dir: Path,
    load: Callable[[], LoadedConfig] | None = None,
    *,
    watching: AbstractContextManager[None] | None = None,
) -> AsyncIterator[Installation]:
    """Start everything; stop everything, in reverse order, when the context ends.

    load: reads the configuration again for a reload; else the same file, and the agents of the state directory.
    watching: entered when the state directory is ours, left when nobody writes there any more.
    Raises StateInUseError, SecretError, AddressInUseError, GatewayStartError, AuditError, CertificateAuthorityError,
    OSError.
    """
    config = loaded.config
    async with AsyncExitStack() as stack:
        stack.enter_context(own_state_dir(state_dir))
        if watching is not None:
            stack.enter_context(watching)
        for_tools = stack.enter_context(closing(listen_on("tools", *config.daemon.endpoint)))
        for_operator = stack.enter_context(closing(listen_on("operator", *config.operator.endpoint)))
        tools, operator = for_tools.getsockname()[:2], for_operator.getsockname()[:2]

        secret = await asyncio.to_thread(load_or_create_secret, state_dir)
        control = await asyncio.to_thread(load_or_create_secret, state_dir, CONTROL_FILE)
        gateway = await start_gateway(config, loaded.source, state_dir, secret, own=(tools, operator))
        stack.push_async_callback(gateway.stop)
        await asyncio.to_thread(write_client_files, Path(str(gateway.ca["path"])))

        log = await stack.enter_async_context(open_audit_log(state_dir, "daemon"))
        keeper = AuditKeeper(state_dir, log, gateway.workers, config.audit)
        await stack.enter_async_context(running(keeper.run(), "audit-keeper"))

        state = _describe_run(loaded, gateway, tools, operator)
        rules = CurrentRules(Rulebook(config, [port for _, port, _ in gateway.listeners]))
        reloader = Reloader(
            loaded,
            load if load is not None else partial(load_again, loaded, state_dir),
            gateway,
            rules,
            partial(_note_reload, state, state_dir, keeper, log),
        )
        ground = _Ground(config, state_dir, state, gateway, log, rules, DaemonMeters())
        store, calls = await stack.enter_async_context(_serving_tools(ground, secret, for_tools))
        observed = observe(ground.meters, gateway, log, store, calls, state, state_dir)
        await stack.enter_async_context(
            _exporting(config, observed.collecting, f"{platform.node()}:{operator[1]}")
        )
        await stack.enter_async_context(
            _serving_operator(ground, control, reloader, observed, store, for_operator)
        )

        write_run_state(state_dir, state)
        stack.callback(remove_run_state, state_dir)
        yield Installation(gateway, state, reloader, bool(gateway.ca["created"]), tuple(gateway.ca["notes"]))


@dataclass(frozen=True, slots=True)
class _Ground:
    """What the daemon's listeners stand on. config: as it was at the start; `rules` has what is in force."""

    config: Config
    state_dir: Path
    state: RunState
    gateway: GatewayProcess
    log: AuditLog
    rules: CurrentRules
    meters: DaemonMeters


@asynccontextmanager
async def _serving_tools(
    ground: _Ground, secret: str, listening: socket
) -> AsyncIterator[tuple[PageStore, Calls]]:
    """The tools, for agents. secret: the daemon's towards the gateway."""
    config, state, rules, state_dir = ground.config, ground.state, ground.rules, ground.state_dir
    hops = choose_gateway(state.listeners, state.tls, secret, state.ca_path, config.tls.listener_certificate)
    async with AsyncExitStack() as stack:
        tools = await stack.enter_async_context(
            open_tools(
                hops,
                ground.log,
                state_dir,
                config.store_max_bytes,
                lambda: rules.now.config.search,
                extra_ca=config.tls.extra_ca,
                asking=lambda: rules.now.config.asking,
                meters=ground.meters,
            )
        )
        asker = await stack.enter_async_context(open_asker(lambda: rules.now.config, ground.log, state_dir))
        calls = Calls(
            tools.web_fetch,
            tools.page_reader,
            tools.web_search,
            ceiling=lambda: rules.now.config.read_max_bytes,
        )
        app = await stack.enter_async_context(
            open_tools_app(calls, rules, _names(config.daemon), tools.store, asker)
        )
        context = await stack.enter_async_context(tools_tls(config, state_dir))
        await stack.enter_async_context(serving(app, listening, context))
        yield tools.store, calls


@asynccontextmanager
async def _serving_operator(
    ground: _Ground, control: str, reloader: Reloader, observed: Observed, store: PageStore, listening: socket
) -> AsyncIterator[None]:
    """The operator's pages, metrics and health checks. control: the secret of this machine's commands."""
    config, rules, state_dir = ground.config, ground.rules, ground.state_dir
    access = make_access(rules, state_dir, listening.getsockname()[1])
    metrics = MetricsPage(
        observed.collecting,
        access,
        lambda: rules.now.config.operator.metrics_token_sha256,
        exposed=not is_loopback(config.operator.endpoint.host),
    )
    async with AsyncExitStack() as stack:
        pages = await stack.enter_async_context(open_pages(access, control, rules, state_dir, store))
        app = make_operator_app(
            observed.health.check,
            _names(config.operator),
            reload=reloader.reload,
            control_secret=control,
            access=access,
            pages=[*pages, metrics.route()],
            open_paths=frozenset({METRICS_PATH}),
            show_error=Views().show_error,
        )
        context = await stack.enter_async_context(operator_tls(config, state_dir))
        await stack.enter_async_context(serving(app, listening, context))
        yield


@asynccontextmanager
async def _exporting(config: Config, collecting: Collecting, instance: str) -> AsyncIterator[None]:
    """See `metrics.otlp.exporting`, whose packages are optional."""
    if config.metrics.otlp_endpoint is None:
        yield
        return
    from fetchd.metrics.otlp import exporting

    async with exporting(config.metrics, collecting, config.tls.extra_ca, instance):
        yield


def _describe_run(
    loaded: LoadedConfig, gateway: GatewayProcess, tools: tuple[str, int], operator: tuple[str, int]
) -> RunState:
    config = loaded.config
    return RunState(
        pid=os.getpid(),
        started=_now(),
        config=loaded.source,
        listeners=gateway.listeners,
        tools=tools,
        operator=operator,
        workers=gateway.workers,
        ca_path=str(gateway.ca["path"]),
        ca_expires=str(gateway.ca["expires"]),
        config_path=str(loaded.path.absolute()) if loaded.path is not None else None,
        tools_tls=config.daemon.listener.tls,
        operator_tls=config.operator.tls,
        listener_certificate=config.tls.listener_certificate,
        **_describe_rules(config),
    )


def _note_reload(
    state: RunState,
    state_dir: Path,
    keeper: AuditKeeper,
    log: AuditLog,
    loaded: LoadedConfig,
    changes: tuple[Change, ...],
) -> None:
    """Have the log and run.json say what is in force. The rules are in force without them, too."""
    keeper.take(loaded.config.audit)
    if changes:
        try:
            log.append(describe_changes(changes))
        except AuditUnavailableError as error:
            _log.error("the rules were replaced, but the audit log could not say so: %s", error)
    listeners = tuple(
        (host, port, one.profile)
        for (host, port, _), one in zip(state.listeners, loaded.config.gateway.listeners, strict=True)
    )
    now = replace(state, listeners=listeners, reloaded=_now(), **_describe_rules(loaded.config))
    try:
        write_run_state(state_dir, now)
    except OSError as error:
        _log.error("the rules were replaced, but run.json could not be written: %s", error)


def _describe_rules(config: Config) -> dict[str, Any]:
    listeners = config.gateway.listeners
    return {
        "tls": tuple(one.tls for one in listeners),
        "owners": tuple(one.agent for one in listeners),
        "profiles": {name: one.version for name, one in config.profiles.items()},
        "agents": {name: one.profile for name, one in config.agents.items()},
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _names(served: DaemonConfig | OperatorConfig) -> list[str]:
    """By which clients may call a listener: the address it was given, and names of the configuration."""
    host = served.endpoint.host
    return [f"[{host}]" if ":" in host else host, *served.names]
