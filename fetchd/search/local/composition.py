"""The local index of an installation, put together: texts, indexes, feeder, provider."""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fetchd.background import running
from fetchd.errors import StoreError
from fetchd.offered_pages import FetchedPage
from fetchd.store.page_texts import PageTexts, TextLimits
from proxy_addons.policy.config_search import SearchConfig

from .feeding import PageFeeder, Slicer
from .index_file import require_fts5
from .indexes import PageIndexes
from .provider import LocalProvider

DRAIN_SECONDS: Final = 5.0
"""For the pages that were offered last, when everything stops."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LocalIndex:
    """provider: answers web_search. feeder: takes pages that were read."""

    provider: LocalProvider
    feeder: PageFeeder
    indexes: PageIndexes
    texts: PageTexts


@asynccontextmanager
async def open_local_index(
    state_dir: Path,
    config: Callable[[], SearchConfig],
    *,
    slicer: Slicer | None = None,
    serve: bool = False,
    limits: TextLimits | None = None,
) -> AsyncIterator[LocalIndex]:
    """The index below a state directory, made if need be. Raises StoreError.

    config: asked whenever it counts, for what a reload changes. slicer: makes the texts of pages that were read for
    something else. serve: indexes follow in the background; else each takes in what is new when it is searched.
    """
    if config().index:
        require_fts5()
    async with AsyncExitStack() as stack:
        texts = await PageTexts.open(state_dir / "fetchd.db", limits)
        stack.push_async_callback(texts.close)
        indexes = PageIndexes(texts, state_dir, share=lambda: config().share)
        stack.push_async_callback(indexes.close)
        feeder = PageFeeder(
            texts, slicer, wanted=lambda: config().index, follow=indexes.follow if serve else None
        )
        await stack.enter_async_context(running(feeder.run()))
        stack.push_async_callback(feeder.drain, DRAIN_SECONDS)
        if serve:
            await stack.enter_async_context(running(indexes.run()))
        yield LocalIndex(LocalProvider(indexes, config, feeder.note_use), feeder, indexes, texts)


@asynccontextmanager
async def open_offering(
    state_dir: Path, config: Callable[[], SearchConfig]
) -> AsyncIterator[Callable[[FetchedPage], object]]:
    """Where a command that fetches once offers its pages. That they cannot be kept is no reason not to fetch."""
    async with AsyncExitStack() as stack:
        try:
            index = await stack.enter_async_context(open_local_index(state_dir, config))
        except StoreError as error:
            _log.warning("pages fetched now will not be found by web_search: %s", error)
            yield lambda _page: None
        else:
            yield index.feeder.offer
