"""Pages of an agent that is no more: another of its name neither finds them nor gets their bodies."""

import time
from pathlib import Path

from fetchd.errors import StoreUnavailableError
from fetchd.store.page_texts import PageTexts

from .indexes import DIRECTORY, Scope, discard_file


async def forget_agent(state_dir: Path, agent: str) -> int:
    """How many went. What it asked for until now is not taken in any more, either. Raises StoreError."""
    path = state_dir / "fetchd.db"
    if not path.exists():
        return 0
    texts = await PageTexts.open(path)
    try:
        dropped = await texts.forget(agent, time.time_ns())
    finally:
        await texts.close()
    index = state_dir / DIRECTORY / Scope(agent).file_name
    if index.exists():
        try:
            discard_file(index)
        except OSError as error:
            raise StoreUnavailableError(f"search index {index}: {error.strerror or error}") from error
    return dropped
