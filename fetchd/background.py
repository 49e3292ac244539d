"""Work that goes on beside something else, and ends with it."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def running(work: Coroutine[Any, Any, None], name: str | None = None) -> AsyncIterator[None]:
    """Run `work` for as long as the context lasts; then it is cancelled, and waited for."""
    task = asyncio.create_task(work, name=name)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
