"""A worker as its supervisor sees it once it accepts clients: a process, the rules and the numbers it told last."""

import asyncio
import json
import logging
from contextlib import suppress
from typing import Final

from proxy_addons.orders import REPORT
from proxy_addons.policy.config import Config
from proxy_addons.policy.config_document import render_document
from proxy_addons.policy.tallies import Report

RELOAD_SECONDS: Final = 10.0
"""For a worker to take new rules; one that does not is ended, and starts with them."""
REPORT_SECONDS: Final = 1.0
"""For a worker to tell its numbers; one that does not is not well, and those it told last stand for it."""
LINE_BYTES: Final = 16 << 20
"""Of an answer: ten thousand rows have a tenth of it."""

logger = logging.getLogger(__name__)


class RunningWorker:
    """A worker that accepts clients, and the configuration whose rules it has. `listen` has to run beside."""

    def __init__(self, process: asyncio.subprocess.Process, config: Config) -> None:
        self.process = process
        self.told: Report = {}
        """Its numbers, as it told them last."""
        self._config = config
        self._turn = asyncio.Lock()
        self._reloaded: asyncio.Future[None] | None = None
        self._reported: asyncio.Future[None] | None = None

    async def listen(self) -> None:
        """Read what it says, until it ends."""
        assert self.process.stdout is not None
        try:
            while line := await self.process.stdout.readline():
                self._hear(line)
        except ValueError:  # longer than LINE_BYTES
            logger.exception("process %d cannot be understood", self.process.pid)
        finally:
            for waiting in (self._reloaded, self._reported):
                if waiting is not None and not waiting.done():
                    waiting.cancel()

    def _hear(self, line: bytes) -> None:
        if line == b"reloaded\n":
            _answer(self._reloaded)
        elif line.startswith(f"{REPORT} ".encode()):
            with suppress(ValueError):
                self.told = json.loads(line[len(REPORT) + 1 :])
                _answer(self._reported)

    async def take(self, config: Config) -> None:
        """Put its rules in force there; a worker that does not take them in time is killed, to start with them."""
        async with self._turn:
            if config is self._config:
                return
            self._config = config
            if not await self._tell(config) and self.process.returncode is None:
                logger.error("process %d did not take the new rules; ended", self.process.pid)
                with suppress(ProcessLookupError):
                    self.process.kill()

    async def _tell(self, config: Config) -> bool:
        self._reloaded = asyncio.get_running_loop().create_future()
        return await self._ask(json.dumps(render_document(config)), self._reloaded, RELOAD_SECONDS)

    async def ask_report(self) -> bool:
        """Have it tell its numbers; whether it did in time."""
        if self._reported is None or self._reported.done():
            self._reported = asyncio.get_running_loop().create_future()
            return await self._ask(REPORT, self._reported, REPORT_SECONDS)
        done, _ = await asyncio.wait({self._reported}, timeout=REPORT_SECONDS)
        return bool(done) and not self._reported.cancelled()

    async def _ask(self, line: str, answer: "asyncio.Future[None]", seconds: float) -> bool:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(line.encode() + b"\n")
            async with asyncio.timeout(seconds):
                await self.process.stdin.drain()
                await asyncio.wait({answer})
        except (TimeoutError, ConnectionError):
            answer.cancel()
            return False
        return not answer.cancelled()


def _answer(waiting: "asyncio.Future[None] | None") -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(None)
