"""A worker as its supervisor sees it once it accepts clients: a process, and the rules it was told last."""

import asyncio
import json
import logging
from contextlib import suppress
from typing import Final

from proxy_addons.policy.config import Config

RELOAD_SECONDS: Final = 10.0
"""For a worker to take new rules; one that does not is ended, and starts with them."""

logger = logging.getLogger(__name__)


class RunningWorker:
    """A worker that accepts clients, and the configuration whose rules it has."""

    def __init__(self, process: asyncio.subprocess.Process, config: Config) -> None:
        self.process = process
        self._config = config
        self._turn = asyncio.Lock()

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
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            async with asyncio.timeout(RELOAD_SECONDS):
                self.process.stdin.write(json.dumps(config.document).encode() + b"\n")
                await self.process.stdin.drain()
                return await self.process.stdout.readline() == b"reloaded\n"
        except (TimeoutError, ConnectionError):
            return False
