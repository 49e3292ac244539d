"""Slices of kept pages, made in worker processes: small pages beside web_fetch's, large ones one at a time.

A page up to 8 MiB gets what web_fetch gives one; a larger one a worker of its own, 1 GiB and 60 s. The worker reads
the body from its file, so that it never passes through the daemon's memory.
"""

from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from .pool import ProcessExtractor
from .slices import SliceError, SlicePlan, slice_as_json, slice_file, slice_plainly

SMALL_BYTES: Final = 8 << 20
LARGE_SECONDS: Final = 60.0
LARGE_MEMORY: Final = 1 << 30
LARGE_WAIT: Final = 100.0
"""For the one worker and its work: within the 120 s of a read."""


class FileSlicer:
    """Slices files. Use as a context manager; `small` is shared and not closed."""

    def __init__(self, small: ProcessExtractor) -> None:
        self._small: Final = small
        self._large: Final = ProcessExtractor(
            1, seconds=LARGE_SECONDS, memory=LARGE_MEMORY, pages=8, wait=LARGE_WAIT
        )

    async def slice(self, path: Path, size: int, plan: SlicePlan) -> object:
        """The slice of a body of `size` bytes: a str, object or array; of a large body its JsonText.

        Raises SliceError.
        """
        if size <= SMALL_BYTES:
            found = await self._small.run(partial(slice_file, path, plan))
        else:
            found = await self._large.run(partial(slice_as_json, path, plan))
        if found is None:
            pool = self._small if size <= SMALL_BYTES else self._large
            found = await pool.run(partial(slice_plainly, path, plan))
        if found is None:
            raise SliceError("the page is too large, or too intricate, to be taken apart")
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._large.close()
