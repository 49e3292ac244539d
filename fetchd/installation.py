"""One installation: the gateway, the daemon's tools and the operator's listener, started and stopped together.

The composition root behind `fetchd up` and the demo.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from fetchd.app import open_audit_log, open_web_fetch
from fetchd.client_files import write_client_files
from fetchd.core.caller import Caller
from fetchd.faces.http import open_tools_app
from fetchd.faces.operator import make_operator_app
from fetchd.gateway_process import Gateway, GatewayProcess, start_gateway
from fetchd.run_state import (
    RunState,
    load_or_create_secret,
    own_state_dir,
    remove_run_state,
    write_run_state,
)
from fetchd.serving import accepts, listen_on, serving
from fetchd.settings import LoadedConfig

LOCAL_AGENT = "local"
"""Whoever reaches the tools listener, until agents have tokens."""


@dataclass(frozen=True, slots=True)
class Installation:
    """A running one. `gateway` is its process, `state` what `run.json` says."""

    gateway: GatewayProcess
    state: RunState
    ca_created: bool
    ca_notes: tuple[str, ...]


@asynccontextmanager
async def installation(loaded: LoadedConfig, state_dir: Path) -> AsyncIterator[Installation]:
    """Start everything; stop everything, in reverse order, when the context ends.

    Raises StateInUseError, SecretError, AddressInUseError, GatewayStartError, AuditError, OSError.
    """
    config = loaded.config
    async with AsyncExitStack() as stack:
        stack.enter_context(own_state_dir(state_dir))
        tools_socket = listen_on("tools", *config.daemon.endpoint)
        stack.callback(tools_socket.close)
        operator_socket = listen_on("operator", config.operator.host, config.operator.port)
        stack.callback(operator_socket.close)
        tools, operator = tools_socket.getsockname()[:2], operator_socket.getsockname()[:2]

        secret = await asyncio.to_thread(load_or_create_secret, state_dir)
        gateway = await start_gateway(config, loaded.source, state_dir, secret, own=(tools, operator))
        stack.push_async_callback(gateway.stop)
        await asyncio.to_thread(write_client_files, Path(str(gateway.ca["path"])))

        log = await stack.enter_async_context(open_audit_log(state_dir, "daemon"))
        host, port, _ = gateway.listeners[0]
        web_fetch = await stack.enter_async_context(open_web_fetch(Gateway(host, port, secret), log))
        caller = Caller(LOCAL_AGENT, config.profiles[config.daemon.profile])
        tools_app = await stack.enter_async_context(
            open_tools_app(web_fetch, caller, [_shown(config.daemon.endpoint.host)])
        )
        await stack.enter_async_context(serving(tools_app, tools_socket))
        is_ready = partial(asyncio.to_thread, _all_accept, gateway.listeners)
        operator_app = make_operator_app(is_ready, [_shown(config.operator.host)])
        await stack.enter_async_context(serving(operator_app, operator_socket))

        state = RunState(
            pid=os.getpid(),
            started=datetime.now(UTC).isoformat(timespec="seconds"),
            config=loaded.source,
            listeners=gateway.listeners,
            tools=tools,
            operator=operator,
            workers=gateway.workers,
            ca_path=str(gateway.ca["path"]),
            ca_expires=str(gateway.ca["expires"]),
        )
        write_run_state(state_dir, state)
        stack.callback(remove_run_state, state_dir)
        yield Installation(gateway, state, bool(gateway.ca["created"]), tuple(gateway.ca["notes"]))


def _all_accept(listeners: Iterable[tuple[str, int, str]]) -> bool:
    return all(accepts(host, port) for host, port, _ in listeners)


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host
