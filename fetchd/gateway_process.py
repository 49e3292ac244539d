"""The gateway as a process of ours: `python -m proxy_addons`, told what to do in one JSON line (law 2).

`start_gateway` starts one and waits until it accepts clients; `ensure_gateway` uses the running one or starts a
private one on free loopback ports for the life of one command (SPEC 1.10).
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from fetchd.errors import NoGatewayError
from fetchd.run_state import SecretError, load_or_create_secret, read_run_state, read_secret
from fetchd.settings import LoadedConfig
from proxy_addons.policy.config import Config, parse_config

START_SECONDS: Final = 90.0
"""A start takes one to two seconds a worker; far more means that something hangs."""
STOP_SECONDS: Final = 20.0


class GatewayStartError(Exception):
    """The gateway did not start; the text says why. `in_use` names a taken address."""

    def __init__(self, message: str, in_use: str | None = None) -> None:
        super().__init__(message)
        self.in_use = in_use


@dataclass(frozen=True, slots=True)
class Gateway:
    """A gateway to send hops to (`fetchd.app.GatewayHandle`)."""

    host: str
    port: int
    secret: str = field(repr=False)


class GatewayProcess:
    """A started gateway: what it said of itself, and how to end it."""

    def __init__(self, process: asyncio.subprocess.Process, ready: Mapping[str, Any]) -> None:
        self._process = process
        self.listeners = tuple((str(h), int(p), str(n)) for h, p, n in ready["listeners"])
        self.workers = int(ready["workers"])
        self.ca: Mapping[str, Any] = ready["ca"]
        self._events = asyncio.create_task(self._drop_events())

    async def _drop_events(self) -> None:
        """Read on, so that the gateway never waits for us; restarts are in its own log on stderr."""
        assert self._process.stdout is not None
        while await self._process.stdout.readline():
            pass

    async def wait(self) -> int:
        """Until the gateway has ended; its exit status."""
        return await self._process.wait()

    async def stop(self) -> None:
        """End it and wait for that; bounded."""
        await _end(self._process)
        self._events.cancel()


async def start_gateway(
    config: Config, source: str, state_dir: Path, secret: str, *, private: bool = False,
    own: tuple[tuple[str, int], ...] = (),
) -> GatewayProcess:  # fmt: skip
    """Start a gateway; raises GatewayStartError.

    own: addresses of the daemon that must never be dialled, beside those the configuration names.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "proxy_addons",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        start_new_session=True, env=_environment(),
    )  # fmt: skip
    told = {
        "config": config.document, "source": source, "state_dir": str(state_dir),
        "secret": secret, "private": private, "own": own,
    }  # fmt: skip
    try:
        first = await _tell(process, json.dumps(told).encode() + b"\n")
    except BaseException:  # cancelled: nothing we started stays behind
        await _end(process)
        raise
    if first.get("event") == "ready":
        return GatewayProcess(process, first)
    await _end(process)
    raise GatewayStartError(
        str(first.get("message", "the gateway did not start; its reason is above")), first.get("in_use")
    )


def _environment() -> dict[str, str]:
    """Ours; in a source tree that may not be installed, with the way to it.

    -P keeps the gateway from importing out of the working directory, where an agent may have left a `json.py`.
    """
    source = str(Path(__file__).parents[1])
    if sys.path[0] != source:
        return dict(os.environ)
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH"))))}


async def _tell(process: asyncio.subprocess.Process, line: bytes) -> Mapping[str, Any]:
    """Say what to do; the gateway's first word, empty when it has none for us in time."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        async with asyncio.timeout(START_SECONDS):
            process.stdin.write(line)
            await process.stdin.drain()
            first = json.loads(await process.stdout.readline())
    except (TimeoutError, ConnectionError, ValueError):
        return {}
    return first if isinstance(first, dict) else {}


async def _end(process: asyncio.subprocess.Process) -> None:
    """The end of its input ends a gateway; one that does not heed that is killed, and its workers end with it."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), STOP_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()


@asynccontextmanager
async def ensure_gateway(
    loaded: LoadedConfig, state_dir: Path, *, no_start: bool = False
) -> AsyncIterator[Gateway]:
    """The running gateway, or a private one for as long as the context lasts; raises NoGatewayError."""
    running = read_run_state(state_dir)
    if running is not None:
        host, port, _ = running.listeners[0]
        try:
            secret = read_secret(state_dir)
        except (SecretError, OSError) as error:
            raise NoGatewayError(f"the gateway's secret cannot be read: {error}") from error
        yield Gateway(host, port, secret)
        return
    if no_start:
        address = loaded.config.gateway.listeners[0].endpoint
        raise NoGatewayError(f"no gateway at {address}; start one with: fetchd up")
    try:
        secret = load_or_create_secret(state_dir)
        private = await start_gateway(on_free_ports(loaded), loaded.source, state_dir, secret, private=True)
    except (GatewayStartError, SecretError, OSError) as error:
        raise NoGatewayError(f"no private gateway could be started: {error}") from error
    try:
        host, port, _ = private.listeners[0]
        yield Gateway(host, port, secret)
    finally:
        await private.stop()


def on_free_ports(loaded: LoadedConfig) -> Config:
    """The same configuration with one worker and one listener on a free loopback port, nothing else listening."""
    document = loaded.config.document
    profile = loaded.config.gateway.default_profile
    gateway = {"listeners": [{"address": "127.0.0.1:0", "profile": profile}], "workers": 1}
    changed = {
        **document,
        "gateway": {**_table(document, "gateway"), **gateway},
        "daemon": {**_table(document, "daemon"), "listen": "127.0.0.1:0"},
        "operator": {**_table(document, "operator"), "listen": "127.0.0.1:0"},
    }
    return parse_config(changed, source=loaded.source)


def _table(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    table = document.get(name, {})
    return table if isinstance(table, Mapping) else {}
