"""Is the log whole: `fetchd audit verify` in a process of its own, its answer kept for the page with its time."""

import asyncio
import json
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from fetchd.child_environment import child_environment

FRESH: Final = timedelta(hours=1)
"""An older answer is asked for again when somebody looks."""
RUN_SECONDS: Final = 3_600.0
MAX_ANSWER: Final = 16 << 20
NICE: Final = 10

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Verification:
    """What was found. chains: as `audit verify --json` says. problem: why nothing could be said, else ""."""

    when: datetime
    ok: bool
    chains: tuple[Mapping[str, Any], ...] = ()
    problem: str = ""


class Verifier:
    """run: gives the answer; it takes as long as the log is. Closed by `close`."""

    def __init__(
        self,
        run: Callable[[], Awaitable[Verification]],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._run: Final = run
        self._now: Final = now
        self._task: asyncio.Task[None] | None = None
        self.last: Verification | None = None

    @property
    def running(self) -> bool:
        """Whether it is being looked at just now."""
        return self._task is not None

    def start(self) -> None:
        """Looks, unless that is under way."""
        if self._task is None:
            self._task = asyncio.create_task(self._look(), name="audit verify")

    def refresh(self) -> None:
        """Looks where the last answer is old."""
        if self.last is None or self._now() - self.last.when > FRESH:
            self.start()

    async def wait(self) -> None:
        """Until nothing is under way."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def close(self) -> None:
        """Nothing goes on."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _look(self) -> None:
        try:
            self.last = await self._run()
        finally:
            self._task = None


async def verify_log(state_dir: Path, seconds: float = RUN_SECONDS) -> Verification:
    """The answer of the command, or why there is none."""
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", "fetchd.faces.audit_cli", "verify", "--json", "--state-dir", str(state_dir),
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            env=child_environment(PYTHONPATH=str(Path(__file__).parents[3])),
            limit=MAX_ANSWER,
        )  # fmt: skip
    except OSError as error:
        return _failed(f"it cannot be started: {error.strerror or error}")
    try:
        os.setpriority(os.PRIO_PROCESS, process.pid, NICE)
        async with asyncio.timeout(seconds):
            output, said = await process.communicate()
    except TimeoutError:
        return _failed(f"it took longer than {seconds:.0f} s; run: fetchd audit verify")
    except ProcessLookupError:
        return _failed("it ended at once")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return _read(process.returncode or 0, output, said)


def _read(status: int, output: bytes, said: bytes) -> Verification:
    try:
        document = json.loads(output[:MAX_ANSWER])
        return Verification(
            datetime.now(UTC), status == 0 and document["ok"] is True, tuple(document["chains"])
        )
    except (ValueError, KeyError, TypeError):
        return _failed(
            said.decode("utf-8", "replace").strip().rpartition("\n")[2] or f"it ended with {status}"
        )


def _failed(problem: str) -> Verification:
    return Verification(datetime.now(UTC), False, problem=problem)
