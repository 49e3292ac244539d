"""The records of runs as commands look at them: looking makes none, and needs no place to write."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from fetchd.store.runs import RunRecords

from .config_option import BadInputError

DATABASE = "fetchd.db"
_LOG = "-wal"


@asynccontextmanager
async def existing_runs(state_dir: Path) -> AsyncIterator[RunRecords]:
    """The records of an installation that has some. Raises BadInputError, StoreError, OSError.

    Where the directory cannot be written, a backup or a disk that became read-only, a copy is read: SQLite wants a
    place for its shared memory beside the file, and an older file is brought up to date.
    """
    with ExitStack() as stack:
        path = await asyncio.to_thread(_find, state_dir, stack)
        records = await RunRecords.open(path)
        try:
            yield records
        finally:
            await records.close()


def _find(state_dir: Path, stack: ExitStack) -> Path:
    path = state_dir / DATABASE
    if not path.exists():
        raise BadInputError(f"nothing recorded in {state_dir}; give the state directory with --state-dir")
    if os.access(state_dir, os.W_OK) and os.access(path, os.W_OK):
        return path
    folder = Path(stack.enter_context(TemporaryDirectory(prefix="fetchd-runs-")))
    for name in (DATABASE, DATABASE + _LOG):
        if (state_dir / name).exists():
            shutil.copyfile(state_dir / name, folder / name)
    return folder / DATABASE
