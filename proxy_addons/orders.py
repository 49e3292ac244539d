"""What a worker is told while it runs, line by line, and how it answers its supervisor.

    {"gateway": ...}       a whole configuration, whose rules replace those in force     → reloaded
    report                 tell the numbers                                              → report {"metrics": ...}

A worker that cannot take a configuration says nothing and ends. Answers are written by a thread: a supervisor that
does not read must not hold up the hops.
"""

import asyncio
import json
import logging
import threading
from collections.abc import Callable
from typing import Final, Protocol

from proxy_addons.policy.config import Config, parse_config
from proxy_addons.policy.rulebook import Rulebook
from proxy_addons.policy.tallies import Report

REPORT: Final = "report"

logger = logging.getLogger(__name__)


class Ordered(Protocol):
    """Who obeys."""

    def prepare_rules(self, config: Config) -> Rulebook:
        """The rules of a configuration with the same listeners. Takes time."""

    def replace_rules(self, rulebook: Rulebook) -> None:
        """Put them in force."""

    def stop(self) -> None:
        """End."""


class Orders:
    """Takes configurations one after the other, each read off the event loop and put in force at once."""

    def __init__(self, gateway: Ordered, report: Callable[[], Report]) -> None:
        self._gateway, self._report = gateway, report
        self._turn = asyncio.Lock()
        self._voice = threading.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    def take(self, line: str) -> None:
        """One line of standard input."""
        work = self._tell() if line.strip() == REPORT else self._reload(line)
        task = asyncio.create_task(work, name="order")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _reload(self, line: str) -> None:
        async with self._turn:
            try:
                rulebook = await asyncio.to_thread(self._read, line)
                self._gateway.replace_rules(rulebook)
            except Exception:  # law 5: rules that were ordered and cannot be had leave none to go on with
                logger.exception("a configuration could not be taken; stopping")
                self._gateway.stop()
                return
            await asyncio.to_thread(self._say, "reloaded")

    async def _tell(self) -> None:
        try:
            line = f"{REPORT} {json.dumps(self._report())}"
        except Exception:  # numbers must not end what they count
            logger.exception("the numbers could not be told")
            return
        await asyncio.to_thread(self._say, line)

    def _read(self, line: str) -> Rulebook:
        return self._gateway.prepare_rules(parse_config(json.loads(line), source="the supervisor"))

    def _say(self, line: str) -> None:
        with self._voice:
            print(line, flush=True)  # noqa: T201 (the protocol with the supervisor)
