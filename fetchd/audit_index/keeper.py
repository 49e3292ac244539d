"""Keeps the process that makes the index: starts it again when it ends, more and more slowly."""

import asyncio
import json
import logging
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from fetchd.child_environment import child_environment

INDEX_FILE: Final = "audit-index.db"
FIRST_WAIT: Final = 1.0
LONGEST_WAIT: Final = 60.0
END_SECONDS: Final = 10.0
MAX_SAID: Final = 2_000

_log = logging.getLogger(__name__)


class IndexKeeper:
    """problem: what it said when it ended last, None while all is well."""

    def __init__(self, log: Path, index: Path) -> None:
        self._words: Final = json.dumps({"log": str(log), "index": str(index)})
        self._process: asyncio.subprocess.Process | None = None
        self.problem: str | None = None

    async def keep(self) -> None:
        """For ever. Cancelled: the process is told to end, and has ended."""
        wait = FIRST_WAIT
        while True:
            began = asyncio.get_running_loop().time()
            self.problem = await self._run()
            _log.error("the index of the audit log is not being kept: %s", self.problem)
            if asyncio.get_running_loop().time() - began > LONGEST_WAIT:
                wait = FIRST_WAIT
            await asyncio.sleep(wait)
            wait = min(wait * 2, LONGEST_WAIT)

    async def _run(self) -> str:
        """One life of the process; what it said in the end."""
        try:
            process = await asyncio.create_subprocess_exec(
                # -P: nothing is imported out of the working directory, where an agent may have left a `json.py`.
                sys.executable, "-P", "-m", "fetchd.audit_index.indexer",
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
                env=_environment(),
            )  # fmt: skip
        except OSError as error:
            return f"it cannot be started: {error.strerror or error}"
        self._process = process
        try:
            assert process.stdin is not None and process.stderr is not None  # noqa: S101 (pipes, as asked for)
            process.stdin.write(self._words.encode() + b"\n")
            self.problem = None
            said = await _read_end(process.stderr)
            await process.wait()
            return said or f"it ended with status {process.returncode}"
        finally:
            await self._end(process)

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        """Its input ends, and so does it; killed if it takes too long."""
        self._process = None
        if process.stdin is not None:
            process.stdin.close()
        try:
            async with asyncio.timeout(END_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


async def _read_end(stream: asyncio.StreamReader) -> str:
    """The last line that was said."""
    last = b""
    while piece := await stream.read(4_096):
        last = (last + piece)[-MAX_SAID:]
    text = last.decode("utf-8", "replace").strip().rpartition("\n")[2]
    return "".join(one if one.isprintable() else "?" for one in text)


def _environment() -> dict[str, str]:
    """A child's, and where this package is found, which -P would else hide from a checkout."""
    root = str(Path(__file__).parents[2])
    known = os.environ.get("PYTHONPATH", "")
    return child_environment(PYTHONPATH=f"{root}{os.pathsep}{known}" if known else root)


@asynccontextmanager
async def keeping_index(state_dir: Path) -> AsyncIterator[IndexKeeper]:
    """The index of a state directory is kept until the context ends."""
    keeper = IndexKeeper(state_dir / "audit", state_dir / INDEX_FILE)
    task = asyncio.create_task(keeper.keep(), name="audit index")
    try:
        yield keeper
    finally:
        task.cancel()
        await asyncio.wait([task])
