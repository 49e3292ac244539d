"""N workers on one port, restarted when dead; one ledger and one CA for all.

Told everything in one JSON line on standard input, like a worker; answers on standard output in JSON lines:

    {"event": "ready", "listeners": [["127.0.0.1", 3128, "default"]], "ca": {...}, "workers": 2}
    {"event": "failed", "message": "...", "in_use": "127.0.0.1:3128"}
    {"event": "restarted", "worker": 1}

Each further line of standard input is {"config": ..., "source": ...}: its rules replace those in force, all of them
or none, and what cannot change while a gateway runs must be the same.

    {"event": "reloaded"}
    {"event": "refused", "message": "..."}

The line {"report": true} asks for the numbers of all workers, added up (`policy.tallies`):

    {"event": "report", "metrics": {...}, "alive": 2, "configured": 2, "nameservers": 1}

Ends, and its workers with it, on SIGTERM, SIGINT or the end of standard input.
"""

import asyncio
import fcntl
import json
import logging
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from proxy_addons.gateway_spec import GatewaySpec, SupervisorError, parse_gateway_spec
from proxy_addons.line_input import LineInput
from proxy_addons.policy.config import Config, ConfigError, parse_config
from proxy_addons.policy.config_checks import find_fixed
from proxy_addons.preparing import prepare, state_error
from proxy_addons.resolve.nameservers import find_nameservers
from proxy_addons.running_worker import LINE_BYTES, RunningWorker
from proxy_addons.worker_numbers import REPORT_ORDER, Numbers
from proxy_addons.worker_spec import WorkerSpec

logger = logging.getLogger(__name__)

WORKER = ("-P", "-m", "proxy_addons.worker")
"""What the interpreter is told to run as a worker. -P: the working directory is no place to import from."""
READY_SECONDS = 60.0
"""For the workers of one start to accept clients; a start takes about 1.5 s of CPU each."""
STOP_SECONDS = 10.0
LOCK_SECONDS = STOP_SECONDS + 2.0
ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": str(8 << 20), "MALLOC_TRIM_THRESHOLD_": str(8 << 20)}
"""For glibc, unless the environment says otherwise: memory of up to 8 MiB stays with a worker when it is free. Given
back and taken again, the pages of a body of 1 MiB that is looked into cost as much as looking.
"""
RESTART_DELAY = 0.1
MAX_RESTART_DELAY = 5.0


class Supervisor:
    """The workers of one gateway."""

    def __init__(self, spec: GatewaySpec, worker: Sequence[str] = WORKER) -> None:
        self._spec, self._worker = spec, worker
        self._stack = ExitStack()
        self._stopping = asyncio.Event()
        self._workers: set[asyncio.Task[None]] = set()
        self._specs: list[WorkerSpec] = []
        self._running: dict[int, RunningWorker] = {}
        self._numbers = Numbers(self._running, 0)
        self._reloading = asyncio.Lock()
        self._lock_files: tuple[int, ...] = ()

    async def run(self) -> None:
        """Start, say so, and keep the workers alive until stopped. Raises SupervisorError."""
        with self._stack:
            if not self._spec.private:
                await self._lock(self._spec.state_dir)
            authority, specs = prepare(self._spec, self._stack)
            self._specs = specs
            self._numbers = Numbers(self._running, len(specs))
            asking = asyncio.create_task(self._numbers.ask_again_and_again(), name="numbers")
            self._stack.callback(asking.cancel)
            ready = [asyncio.get_running_loop().create_future() for _ in specs]
            for index in range(len(specs)):
                task = asyncio.create_task(self._keep(index, ready[index]), name=f"worker {index}")
                self._workers.add(task)
            try:
                await self._await_ready(ready)
                if self._stopping.is_set():
                    return
                say(
                    event="ready",
                    listeners=[list(listener) for listener in specs[0].listeners],
                    workers=len(specs),
                    ca={
                        "path": str(authority.certificate_path),
                        "expires": authority.expires.isoformat(),
                        "created": authority.created,
                        "sha256": authority.fingerprint_sha256,
                        "notes": list(authority.notes),
                    },
                )
                await self._stopping.wait()
            finally:
                self._stopping.set()
                await asyncio.gather(*self._workers, return_exceptions=True)

    def stop(self) -> None:
        """End the gateway."""
        self._stopping.set()

    async def reload(self, text: str) -> None:
        """Take the rules of another configuration, and say how that went."""
        async with self._reloading:
            if not self._specs:
                say(event="refused", message="the gateway has not started yet")
                return
            try:
                config = await asyncio.to_thread(_parse_reload, text)
            except (ConfigError, ValueError, KeyError, TypeError) as error:
                say(event="refused", message=str(error))
                return
            fixed = find_fixed(self._specs[0].config, config)
            if fixed is not None:
                say(event="refused", message=f"{fixed} cannot change while the gateway runs")
                return
            self._specs = [replace(spec, config=config) for spec in self._specs]
            await asyncio.gather(*(worker.take(config) for worker in list(self._running.values())))
            say(event="reloaded")

    async def tell_report(self) -> None:
        """Say the numbers of all workers."""
        if not self._specs:
            say(event="report", metrics={}, alive=0, configured=0, nameservers=0)
            return
        report = await self._numbers.ask()
        nameservers = len(find_nameservers(self._specs[0].config.dns.nameservers))
        say(event="report", nameservers=nameservers, **report)

    # --- the lock ------------------------------------------------------------------------------------------------

    async def _lock(self, state_dir: Path) -> None:
        """One gateway a state directory: two would fight over audit chains.

        Its workers share the lock, so it is free only when all of them are gone. A gateway whose parent was killed,
        and workers whose supervisor was, stop by themselves: they are given the time for that.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + LOCK_SECONDS
        holder = self._stack.enter_context(_open_lock_file(state_dir))
        while not self._stopping.is_set():
            try:
                fcntl.flock(holder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if loop.time() > until:
                    raise SupervisorError(
                        f"another gateway runs on {state_dir}; stop it, or use another --state-dir"
                    ) from None
                await asyncio.sleep(0.05)
            else:
                self._lock_files = (holder.fileno(),)
                return
        raise SupervisorError("stopped before it had started")

    # --- workers -------------------------------------------------------------------------------------------------

    async def _await_ready(self, ready: list["asyncio.Future[None]"]) -> None:
        """Until every worker accepts clients, or the gateway is to stop. Raises SupervisorError."""
        stopping: asyncio.Future[Any] = asyncio.ensure_future(self._stopping.wait())
        starting: asyncio.Future[Any] = asyncio.gather(*ready)
        try:
            async with asyncio.timeout(READY_SECONDS):
                await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
                if starting.done():
                    starting.result()
        except TimeoutError:
            raise SupervisorError(f"the workers were not ready within {READY_SECONDS:.0f} s") from None
        finally:
            for waiting in (stopping, starting):
                waiting.cancel()
            await asyncio.wait({stopping, starting})
            if not starting.cancelled():
                starting.exception()  # looked at: no complaint of asyncio about one that nobody asked for

    async def _keep(self, index: int, ready: "asyncio.Future[None]") -> None:
        """One worker, again and again until the gateway stops."""
        delay = RESTART_DELAY
        while not self._stopping.is_set():
            spec = self._specs[index]
            process = await asyncio.create_subprocess_exec(
                sys.executable, *self._worker,
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=LINE_BYTES,
                start_new_session=True, pass_fds=self._lock_files, env=ALLOCATOR | os.environ,
            )  # fmt: skip
            if await self._watch_start(process, spec):
                delay = RESTART_DELAY
                if not ready.done():
                    ready.set_result(None)
                else:
                    say(event="restarted", worker=index)
                    self._numbers.restarts += 1
                await self._attend(index, RunningWorker(process, spec.config))
            else:
                await process.wait()
                if not ready.done():
                    ready.set_exception(
                        SupervisorError(f"worker {index} could not start; its reason is above")
                    )
                    return
            if self._stopping.is_set():
                return
            logger.error("worker %d ended with status %s; starting it again", index, process.returncode)
            await asyncio.sleep(delay)
            delay = min(delay * 2, MAX_RESTART_DELAY)

    async def _attend(self, index: int, worker: RunningWorker) -> None:
        """Have a started worker take part in reloads until it ends."""
        self._running[index] = worker
        listening = asyncio.create_task(worker.listen(), name=f"worker {index} speaks")
        try:
            await worker.take(
                self._specs[index].config
            )  # it may have been started with rules that are no more
            await self._until_end(worker.process)
        finally:
            await asyncio.wait({listening}, timeout=STOP_SECONDS)  # to the end of what it said
            listening.cancel()
            del self._running[index]
            self._numbers.keep(worker)

    @staticmethod
    async def _watch_start(process: asyncio.subprocess.Process, spec: WorkerSpec) -> bool:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(spec.render().encode() + b"\n")
        try:
            await process.stdin.drain()
        except ConnectionError:
            return False
        return await process.stdout.readline() == b"ready\n"

    async def _until_end(self, process: asyncio.subprocess.Process) -> None:
        """Wait for the worker to die, or, when we stop, make it."""
        ended = asyncio.create_task(process.wait())
        stopping = asyncio.create_task(self._stopping.wait())
        await asyncio.wait({ended, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not ended.done():
            assert process.stdin is not None
            process.stdin.close()  # a worker stops when its input ends
            done, _ = await asyncio.wait({ended}, timeout=STOP_SECONDS)
            if not done:
                process.kill()
        await ended


def _open_lock_file(state_dir: Path) -> TextIO:
    try:
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        return (state_dir / "gateway.lock").open("a")
    except OSError as error:
        raise state_error(state_dir, error) from error


def _parse_reload(text: str) -> Config:
    told: Mapping[str, Any] = json.loads(text)
    return parse_config(told["config"], source=str(told.get("source", "configuration")))


def say(**what: object) -> None:
    """One JSON line to whoever started us."""
    print(json.dumps(what), flush=True)  # noqa: T201 (the protocol with our parent)


async def serve(told: LineInput, worker: Sequence[str] = WORKER) -> int:
    """Run a gateway as told; the exit code. Tests put a faulty `worker` in place of the real one."""
    try:
        supervisor = Supervisor(parse_gateway_spec(told.read_first()), worker)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, supervisor.stop)
        reloads: set[asyncio.Task[None]] = set()

        def take(line: str) -> None:
            work = supervisor.tell_report() if line.strip() == REPORT_ORDER else supervisor.reload(line)
            task = asyncio.create_task(work, name="order")
            reloads.add(task)
            task.add_done_callback(reloads.discard)

        told.watch(loop, take, supervisor.stop)
        await supervisor.run()
    except SupervisorError as error:
        say(event="failed", message=str(error), in_use=error.in_use)
        return 1
    return 0
