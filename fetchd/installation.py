"""One installation: the gateway, the daemon's tools and the operator's listener, started and stopped together.

The composition root behind `fetchd up` and the demo.
"""

import asyncio
import logging
import os
import platform
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from fetchd.app import open_audit_log, open_tools
from fetchd.audit_keeping import AuditKeeper
from fetchd.client_files import write_client_files
from fetchd.faces.calls import Calls
from fetchd.faces.http import open_tools_app
from fetchd.faces.metrics_http import METRICS_PATH, MetricsPage
from fetchd.faces.operator import make_operator_app
from fetchd.gateway_process import GatewayProcess, choose_gateway, start_gateway
from fetchd.metrics.collecting import Collecting
from fetchd.metrics.daemon import DaemonMeters
from fetchd.observing import observe
from fetchd.operator_site import make_access, open_pages
from fetchd.reloading import Reloader
from fetchd.run_state import (
    CONTROL_FILE,
    RunState,
    load_or_create_secret,
    own_state_dir,
    remove_run_state,
    write_run_state,
)
from fetchd.serving import listen_on, serving
from fetchd.settings import LoadedConfig, load_again
from fetchd.tools_tls import operator_tls, tools_tls
from fetchd.web_access.composition import open_asker
from proxy_addons.policy.config import Config
from proxy_addons.policy.config_addresses import is_loopback
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
        tools_socket = listen_on("tools", *config.daemon.endpoint)
        stack.callback(tools_socket.close)
        operator_socket = listen_on("operator", *config.operator.endpoint)
        stack.callback(operator_socket.close)
        tools, operator = tools_socket.getsockname()[:2], operator_socket.getsockname()[:2]

        secret = await asyncio.to_thread(load_or_create_secret, state_dir)
        control = await asyncio.to_thread(load_or_create_secret, state_dir, CONTROL_FILE)
        gateway = await start_gateway(config, loaded.source, state_dir, secret, own=(tools, operator))
        stack.push_async_callback(gateway.stop)
        await asyncio.to_thread(write_client_files, Path(str(gateway.ca["path"])))

        log = await stack.enter_async_context(open_audit_log(state_dir, "daemon"))
        keeper = AuditKeeper(state_dir, log, gateway.workers, config.audit)
        stack.push_async_callback(_end, asyncio.create_task(keeper.run(), name="audit-keeper"))

        state = RunState(
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
        rules = CurrentRules(Rulebook(config, [port for _, port, _ in gateway.listeners]))
        reloader = Reloader(
            loaded,
            load if load is not None else partial(load_again, loaded, state_dir),
            gateway,
            rules,
            partial(_note_reload, state, state_dir, keeper),
        )

        hops = choose_gateway(
            state.listeners, state.tls, secret, state.ca_path, config.tls.listener_certificate
        )
        meters = DaemonMeters()
        parts = await stack.enter_async_context(
            open_tools(
                hops,
                log,
                state_dir,
                config.store_max_bytes,
                lambda: rules.now.config.search,
                extra_ca=config.tls.extra_ca,
                asking=lambda: rules.now.config.asking,
                meters=meters,
            )
        )
        asker = await stack.enter_async_context(open_asker(lambda: rules.now.config, log, state_dir))
        names = [_shown(config.daemon.endpoint.host), *config.daemon.names]
        tools_app = await stack.enter_async_context(
            open_tools_app(
                parts.web_fetch,
                rules,
                names,
                page_reader=parts.page_reader,
                web_search=parts.web_search,
                store=parts.store,
                asker=asker,
            )
        )
        context = await stack.enter_async_context(tools_tls(config, state_dir))
        await stack.enter_async_context(serving(tools_app, tools_socket, context))
        calls: Calls = tools_app.state.calls
        observed = observe(
            meters, gateway, log, parts.store, calls, gateway.listeners, tools, state.ca_expires, state_dir
        )
        await stack.enter_async_context(
            _exporting(config, observed.collecting, f"{platform.node()}:{operator[1]}")
        )
        access = make_access(rules, state_dir, operator[1])
        pages = await stack.enter_async_context(open_pages(access, control, rules, state_dir, parts.store))
        operator_app = make_operator_app(
            observed.health.check,
            [_shown(config.operator.endpoint.host), *config.operator.names],
            reload=reloader.reload,
            control_secret=control,
            access=access,
            pages=[
                *pages,
                MetricsPage(
                    observed.collecting,
                    access,
                    lambda: rules.now.config.operator.metrics_token_sha256,
                    exposed=not is_loopback(config.operator.endpoint.host),
                ).route(),
            ],
            open_paths=frozenset({METRICS_PATH}),
        )
        context = await stack.enter_async_context(operator_tls(config, state_dir))
        await stack.enter_async_context(serving(operator_app, operator_socket, context))

        write_run_state(state_dir, state)
        stack.callback(remove_run_state, state_dir)
        yield Installation(gateway, state, reloader, bool(gateway.ca["created"]), tuple(gateway.ca["notes"]))


@asynccontextmanager
async def _exporting(config: Config, collecting: Collecting, instance: str) -> AsyncIterator[None]:
    """See `metrics.otlp.exporting`, whose packages are optional."""
    if config.metrics.otlp_endpoint is None:
        yield
        return
    from fetchd.metrics.otlp import exporting

    async with exporting(config.metrics, collecting, config.tls.extra_ca, instance):
        yield


async def _end(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.wait([task])


def _note_reload(state: RunState, state_dir: Path, keeper: AuditKeeper, loaded: LoadedConfig) -> None:
    """Have run.json say what is in force. The rules are in force without it, too."""
    keeper.take(loaded.config.audit)
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


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host
