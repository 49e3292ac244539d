"""The gateway as a process of ours: `python -m proxy_addons`, told what to do in JSON lines (law 2).

`start_gateway` starts one and waits until it accepts clients; `ensure_gateway` uses the running one or starts a
private one on free loopback ports for the life of one command (SPEC 1.10).
"""

import asyncio
import json
import os
import ssl
import sys
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import fetchd
from fetchd.child_environment import child_environment
from fetchd.core.caller import Caller
from fetchd.errors import NoGatewayError, StaleGatewayError
from fetchd.metrics.collecting import GatewayNumbers
from fetchd.settings import LoadedConfig
from proxy_addons.policy.agents import LOCAL_AGENT
from proxy_addons.policy.config import Config, parse_config
from proxy_addons.policy.config_document import render_document

from .run_state import RunState, SecretError, load_or_create_secret, read_run_state, read_secret

START_SECONDS: Final = 90.0
"""A start takes one to two seconds a worker; far more means that something hangs."""
STOP_SECONDS: Final = 20.0
RELOAD_SECONDS: Final = 60.0
"""A worker that does not take new rules in time is ended by its supervisor; far more means that something hangs."""


NUMBERS_SECONDS: Final = 3.0
"""The supervisor waits for its workers for one."""
LINE_BYTES: Final = 64 << 20
"""Of what the gateway says: its numbers are far below, ten thousand rows of each metric are not above."""
_ASK_NUMBERS: Final = b'{"report": true}\n'

_END: Final = "-----END CERTIFICATE-----"


class GatewayStartError(Exception):
    """The gateway did not start; the text says why. `in_use` names a taken address."""

    def __init__(self, message: str, in_use: str | None = None) -> None:
        super().__init__(message)
        self.in_use = in_use


class GatewayReloadError(Exception):
    """The gateway did not take a configuration and goes on with the one it has; the text says why."""


@dataclass(frozen=True, slots=True)
class Gateway:
    """A gateway to send hops to (`fetchd.app.GatewayHandle`). tls: for a listener that speaks nothing else."""

    host: str
    port: int
    secret: str = field(repr=False)
    tls: ssl.SSLContext | None = field(default=None, repr=False)


class GatewayProcess:
    """A started gateway: what it said of itself, and how to end it."""

    def __init__(self, process: asyncio.subprocess.Process, ready: Mapping[str, Any]) -> None:
        self._process = process
        self._input, self._output = _pipes(process)
        self.listeners = tuple((str(h), int(p), str(n)) for h, p, n in ready["listeners"])
        self.workers = int(ready["workers"])
        self.ca: Mapping[str, Any] = ready["ca"]
        self._turn = asyncio.Lock()
        self._asked: deque[asyncio.Future[Mapping[str, Any]]] = deque()
        self._numbers: asyncio.Future[Mapping[str, Any]] | None = None
        self._events = asyncio.create_task(self._read_events())

    async def reload(self, config: Config, source: str) -> None:
        """Have its rules replaced by those of `config`, all or none. Raises GatewayReloadError.

        source: what its errors call the configuration.
        """
        line = json.dumps({"config": render_document(config), "source": source}).encode() + b"\n"
        answer: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        try:
            async with self._turn:
                if self._events.done():
                    raise GatewayReloadError("the gateway has ended")
                # Answers come in the order of the questions, also that to one which was given up.
                self._asked.append(answer)
                self._input.write(line)
                await self._input.drain()
            async with asyncio.timeout(RELOAD_SECONDS):
                said = await answer
        except TimeoutError:
            raise GatewayReloadError(f"the gateway did not answer within {RELOAD_SECONDS:.0f} s") from None
        except ConnectionError:
            raise GatewayReloadError("the gateway has ended") from None
        if said.get("event") != "reloaded":
            raise GatewayReloadError(str(said.get("message", "the gateway has ended")))

    async def ask_numbers(self) -> GatewayNumbers | None:
        """Its metrics; those who ask at the same time share an answer. None when there is none in time."""
        if self._numbers is None or self._numbers.done():
            self._numbers = asyncio.get_running_loop().create_future()
            if self._events.done():
                self._numbers.set_result({})
            else:
                self._input.write(_ASK_NUMBERS)
        asked = self._numbers
        await asyncio.wait({asked}, timeout=NUMBERS_SECONDS)
        if not asked.done():
            if self._numbers is asked:
                self._numbers = None  # whoever asks next asks anew
            return None
        return _parse_numbers(asked.result())

    async def _read_events(self) -> None:
        """Read on, so that the gateway never waits for us; restarts are in its own log on stderr."""
        try:
            while line := await self._output.readline():
                said = _parse_event(line)
                if said.get("event") in ("reloaded", "refused") and self._asked:
                    answer = self._asked.popleft()
                    if not answer.done():
                        answer.set_result(said)
                elif said.get("event") == "report" and self._numbers is not None and not self._numbers.done():
                    self._numbers.set_result(said)
        finally:
            if self._numbers is not None and not self._numbers.done():
                self._numbers.set_result({})
            while self._asked:
                if not (answer := self._asked.popleft()).done():
                    answer.set_result({})

    async def wait(self) -> int:
        """Until the gateway has ended; its exit status."""
        return await self._process.wait()

    async def stop(self) -> None:
        """End it and wait for that; bounded."""
        await _end(self._process)
        self._events.cancel()


def _parse_numbers(said: Mapping[str, Any]) -> GatewayNumbers | None:
    try:
        return GatewayNumbers(
            dict(said["metrics"]), int(said["alive"]), int(said["configured"]), int(said["nameservers"])
        )
    except (KeyError, TypeError, ValueError):
        return None


def _parse_event(line: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


async def start_gateway(
    config: Config, source: str, state_dir: Path, secret: str, *, private: bool = False,
    own: tuple[tuple[str, int], ...] = (),
) -> GatewayProcess:  # fmt: skip
    """Start a gateway; raises GatewayStartError.

    own: addresses of the daemon that must never be dialled, beside those the configuration names.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "proxy_addons",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=LINE_BYTES,
        start_new_session=True, env=_environment(),
    )  # fmt: skip
    told = {
        "config": render_document(config), "source": source, "state_dir": str(state_dir),
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
    """A child's; in a source tree that may not be installed, with the way to it.

    -P keeps the gateway from importing out of the working directory, where an agent may have left a `json.py`.
    """
    ours = child_environment()
    source = str(Path(fetchd.__file__).parents[1])
    if sys.path[0] != source:
        return ours
    return {**ours, "PYTHONPATH": os.pathsep.join(filter(None, (source, ours.get("PYTHONPATH"))))}


async def _tell(process: asyncio.subprocess.Process, line: bytes) -> Mapping[str, Any]:
    """Say what to do; the gateway's first word, empty when it has none for us in time."""
    its_input, its_output = _pipes(process)
    try:
        async with asyncio.timeout(START_SECONDS):
            its_input.write(line)
            await its_input.drain()
            return _parse_event(await its_output.readline())
    except (TimeoutError, ConnectionError, ValueError):
        return {}


def _pipes(process: asyncio.subprocess.Process) -> tuple[asyncio.StreamWriter, asyncio.StreamReader]:
    """Its standard input and output."""
    assert process.stdin is not None and process.stdout is not None  # noqa: S101 (pipes, as asked for)
    return process.stdin, process.stdout


async def _end(process: asyncio.subprocess.Process) -> None:
    """The end of its input ends a gateway; one that does not heed that is killed, and its workers end with it."""
    its_input, _ = _pipes(process)
    its_input.close()
    try:
        await asyncio.wait_for(process.wait(), STOP_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()


@asynccontextmanager
async def ensure_gateway(
    loaded: LoadedConfig, state_dir: Path, *, no_start: bool = False, caller: Caller | None = None
) -> AsyncIterator[Gateway]:
    """The running gateway, or a private one for as long as the context lasts.

    caller: whom the gateway must know. Raises NoGatewayError, StaleGatewayError.
    """
    running = read_run_state(state_dir)
    if running is not None:
        if caller is not None:
            _require_known(caller, running)
        try:
            secret = read_secret(state_dir)
            gateway = choose_gateway(
                running.listeners,
                running.tls,
                secret,
                running.ca_path,
                loaded.config.tls.listener_certificate,
            )
        except (SecretError, OSError) as error:
            raise NoGatewayError(f"the gateway's secret cannot be read: {error}") from error
        yield gateway
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


def _require_known(caller: Caller, running: RunState) -> None:
    """What the gateway does not know it refuses, and nobody could tell from that what is amiss."""
    if caller.agent != LOCAL_AGENT and caller.agent not in running.agents:
        raise StaleGatewayError(f"the running gateway has no agent {caller.agent}; first: fetchd reload")
    if caller.profile.name not in running.profiles:
        raise StaleGatewayError(
            f"the running gateway has no profile {caller.profile.name}; first: fetchd reload"
        )


def choose_gateway(
    listeners: Sequence[tuple[str, int, str]],
    tls: Sequence[bool],
    secret: str,
    ca_path: str,
    certificate: str | None,
) -> Gateway:
    """Where the daemon sends its hops: the first listener that takes them plainly, else the first over TLS.

    Its secret says who it is, whatever the listener's own profile or agent. tls: for each listener, none if empty.
    certificate: the one that the operator had listeners show, if any. Raises OSError.
    """
    rows = list(zip(listeners, tls or [False] * len(listeners), strict=True))
    (host, port, _), only_tls = next((row for row in rows if not row[1]), rows[0])
    context = make_client_context(ca_path, certificate) if only_tls else None
    return Gateway(reachable_host(host), port, secret, context)


def reachable_host(host: str) -> str:
    """An address of this machine that leads to a listener at `host`, which may stand for all of them."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 (compared, not bound)


def make_client_context(ca_path: str, certificate: str | None) -> ssl.SSLContext:
    """Trusts our own CA, or exactly the certificate that was configured: its names are those that clients use."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    if certificate is None:
        context.load_verify_locations(cafile=ca_path)
        return context
    leaf, mark, _ = Path(certificate).read_text("latin-1").partition(_END)
    context.load_verify_locations(cadata=leaf[leaf.index("-----BEGIN CERT") :] + mark + "\n")
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def on_free_ports(loaded: LoadedConfig) -> Config:
    """The same configuration with one worker and one listener on a free loopback port, nothing else listening."""
    document = render_document(loaded.config)
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
