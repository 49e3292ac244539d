"""Pages read, on their way into the store of texts: off the path of a read, through a queue that drops when full.

A read offers its page and goes on: nothing here waits, fails, or holds more than `MAX_TEXT` of text for it. What
costs time (the page's head, the text of a page that was read for something else) is done by one task, page by page.
"""

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol

from fetchd.core.charset import decode_text
from fetchd.errors import StoreError
from fetchd.extract.slices import SliceError, SlicePlan
from fetchd.offered_pages import MAX_HEAD, MAX_TEXT, FetchedPage, KeptPage, OfferedPage
from fetchd.store.page_texts import PageTexts
from fetchd.store.text_values import ReadText
from proxy_addons.policy.content_types import ContentClass

from .heads import PageHead, scan_head

QUEUED_PAGES: Final = 256
QUEUED_CHARS: Final = 32 << 20
BATCH: Final = 16
"""Pages that go into one transaction, if so many wait."""
MAX_SLICED_BYTES: Final = 8 << 20
"""Of a body whose text nobody asked for; a larger one is not taken apart for the index alone."""
FOLLOW_SECONDS: Final = 0.3
"""Without a page, after which indexes take in those that came: reads under way have the processor first."""
FOLLOW_PAGES: Final = 128
"""That have come, after which they do so all the same; a search takes in the rest."""
QUEUED_USES: Final = 1_000
REPORT_SECONDS: Final = 60.0
"""How often at most the log says that pages were dropped."""

_log = logging.getLogger(__name__)


class Slicer(Protocol):
    """What `fetchd.page_read.Slicer` is."""

    async def slice(self, path: Path, size: int, plan: SlicePlan) -> object: ...


class PageFeeder:
    """Takes pages; `run` enters them. wanted: whether pages are indexed now. follow: brings an agent's index up to
    date; None leaves that to searches."""

    def __init__(
        self,
        texts: PageTexts,
        slicer: Slicer | None = None,
        *,
        wanted: Callable[[], bool] = lambda: True,
        follow: Callable[[str], Awaitable[None]] | None = None,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._texts: Final = texts
        self._slicer: Final = slicer
        self._wanted: Final = wanted
        self._follow: Final = follow
        self._clock: Final = clock
        self._queue: Final[deque[tuple[OfferedPage, int]]] = deque()
        self._held = 0
        self._uses: Final[deque[int]] = deque(maxlen=QUEUED_USES)
        self._unfollowed: Final[Counter[str]] = Counter()
        self._news: Final = asyncio.Event()
        self._idle: Final = asyncio.Event()
        self._idle.set()
        self.dropped = 0
        """Pages that found the queue full, or could not be entered."""
        self._reported = 0
        self._reported_at = float("-inf")

    def offer(self, page: OfferedPage) -> bool:
        """Takes a page that was read, if there is room."""
        if not self._wanted():
            return False
        if len(self._queue) >= QUEUED_PAGES or self._held + page.held > QUEUED_CHARS:
            self._drop(1, "the queue is full")
            return False
        self._queue.append((page, self._clock()))
        self._held += page.held
        self._wake()
        return True

    def note_use(self, numbers: Sequence[int]) -> None:
        """Pages that were shown stay longer than others."""
        self._uses.extend(numbers)
        if numbers:
            self._wake()

    async def run(self) -> None:
        """Enters pages until cancelled. Never raises for a store that fails: those pages are dropped."""
        while True:
            try:
                async with asyncio.timeout(FOLLOW_SECONDS if self._unfollowed else None):
                    await self._news.wait()
            except TimeoutError:
                await self._follow_up()
                continue
            self._news.clear()
            while self._queue or self._uses:
                await self._enter_some()
                if sum(self._unfollowed.values()) >= FOLLOW_PAGES:
                    await self._follow_up()
            self._idle.set()

    async def drain(self, seconds: float) -> None:
        """Waits until all that was offered is entered, or so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._idle.wait()

    def _wake(self) -> None:
        self._idle.clear()
        self._news.set()

    async def _enter_some(self) -> None:
        batch = [self._queue.popleft() for _ in range(min(BATCH, len(self._queue)))]
        uses = [self._uses.popleft() for _ in range(len(self._uses))]
        reads: list[ReadText] = []
        try:
            for page, read_at in batch:
                read = await self._try_read(page, read_at)
                if read is not None:
                    reads.append(read)
            await self._texts.add(reads)
            if uses:
                await self._texts.use(uses, self._clock())
            if self._follow is not None:
                self._unfollowed.update(page.agent for page, _ in batch)
        except StoreError as error:
            self._drop(len(batch), str(error))
        except Exception:  # noqa: BLE001 - no page may end the feeding of others
            _log.exception("search index: pages could not be entered")
            self._drop(len(batch), "a fault of ours")
        finally:
            self._held -= sum(page.held for page, _ in batch)

    async def _follow_up(self) -> None:
        """Has the indexes of agents that have read something take it in."""
        agents = list(self._unfollowed)
        self._unfollowed.clear()
        for agent in agents:
            try:
                if self._follow is not None:
                    await self._follow(agent)
            except StoreError as error:
                _log.error("search index of %s does not follow: %s", agent, error)

    async def _try_read(self, page: OfferedPage, read_at: int) -> ReadText | None:
        """None for a page that is not entered, or that we cannot read: others of its batch may be other agents'."""
        try:
            return await self._read(page, read_at)
        except StoreError:
            raise
        except Exception:  # noqa: BLE001 - no page may keep out others
            _log.exception("search index: a page could not be read")
            self._drop(1, "a fault of ours")
            return None

    async def _read(self, page: OfferedPage, read_at: int) -> ReadText | None:
        if isinstance(page, FetchedPage):
            head = await asyncio.to_thread(_scan, page.html, read_at)
            return _make_read(page, page.text, head, read_at, None)
        if page.text is None and await self._texts.renew(page.agent, page.url, page.blob, read_at):
            return None
        text = page.text if page.text is not None else await self._slice(page)
        if text is None:
            return None
        head = await asyncio.to_thread(_scan_file, page, read_at)
        return _make_read(page, text, head, read_at, page.blob)

    async def _slice(self, page: KeptPage) -> str | None:
        if self._slicer is None or page.plan is None or page.size > MAX_SLICED_BYTES:
            return None
        try:
            found = await self._slicer.slice(page.path, page.size, page.plan)
        except (SliceError, OSError):  # dropped meanwhile, or no text can be made of it
            return None
        return found[:MAX_TEXT] if isinstance(found, str) else None

    def _drop(self, count: int, why: str) -> None:
        self.dropped += count
        now = time.monotonic()
        if now - self._reported_at >= REPORT_SECONDS:
            _log.warning(
                "search index: %s pages read were not indexed: %s", self.dropped - self._reported, why
            )
            self._reported, self._reported_at = self.dropped, now


def _make_read(page: OfferedPage, text: str, head: PageHead, read_at: int, blob: str | None) -> ReadText:
    dated = int(head.dated.timestamp()) * 1_000_000_000 if head.dated is not None else None
    return ReadText(
        agent=page.agent, url=page.url, asked_at=page.asked_at, read_at=read_at, title=head.title, text=text,
        language=head.language, dated_at=dated, blob=blob,
    )  # fmt: skip


def _scan(html: str, read_at: int) -> PageHead:
    return scan_head(html, datetime.fromtimestamp(read_at / 1e9, UTC)) if html else PageHead()


def _scan_file(page: KeptPage, read_at: int) -> PageHead:
    if page.plan is None or page.plan.content_class is not ContentClass.HTML:
        return PageHead()
    try:
        with page.path.open("rb") as file:
            start = file.read(MAX_HEAD)
    except OSError:  # evicted meanwhile; so its text will not be entered either
        return PageHead()
    return _scan(decode_text(start, page.plan.encoding, cut=True), read_at)
