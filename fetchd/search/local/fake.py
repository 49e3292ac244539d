"""The index in memory, which fails when told to. Ships for the tests of whoever searches pages."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from fetchd.errors import DatabaseDamagedError, StoreUnavailableError
from fetchd.search.domains import find_host
from fetchd.store.text_values import Marks, TextChanges, TextPage

from .interface import Ask, IndexState
from .query import Query
from .segmenting import SEPARATOR, segment_text

_WORD: Final = re.compile(r"\w+")


@dataclass(slots=True)
class MemoryIndex:
    """`PageIndex` of exact words, without stems. failures: raised one by one by what is called next."""

    pages: dict[int, TextPage] = field(default_factory=dict)
    kept: IndexState = field(default_factory=lambda: IndexState("", Marks(), 0))
    failures: list[StoreUnavailableError] = field(default_factory=list)
    closed: bool = False

    async def state(self) -> IndexState:
        self._try()
        return replace(self.kept, pages=len(self.pages))

    async def apply(self, before: Marks, changes: TextChanges) -> bool:
        self._try()
        if self.kept.marks != before or self.kept.epoch not in ("", changes.epoch):
            return False
        for page in changes.added:
            self.pages[page.number] = page
        for number in changes.removed:
            self.pages.pop(number, None)
        self.kept = IndexState(changes.epoch, changes.marks, len(self.pages))
        return True

    async def search(self, ask: Ask) -> Sequence[int]:
        self._try()
        best: dict[str, tuple[tuple[bool, int], int]] = {}
        for number in sorted(self.pages):
            page = self.pages[number]
            score = _score(page, ask.query)
            if score[1] and _is_wanted(page, ask):
                best[page.content.digest] = (score, number)  # of pages with one document the newest
        ordered = sorted(best.values(), key=lambda found: (found[0], found[1]), reverse=True)
        return [number for _, number in ordered[: ask.limit]]

    async def close(self) -> None:
        self.closed = True

    def _try(self) -> None:
        if self.closed:
            raise StoreUnavailableError("index in memory: closed")
        if self.failures:
            raise self.failures.pop(0)


DAMAGED: Final = DatabaseDamagedError("index in memory: scripted damage")


def _score(page: TextPage, query: Query) -> tuple[bool, int]:
    """(has everything, how many terms); nothing without every phrase."""
    words = _words(f"{page.content.title} {page.content.unpack()}")
    found = [term for term in query.terms if (wanted := _words(term)).strip() and wanted in words]
    if any(phrase not in found for phrase in query.phrases):
        return False, 0
    return len(found) == len(query.terms), len(found)


def _words(text: str) -> str:
    """The words, with a space before and after each."""
    return f" {' '.join(_WORD.findall(segment_text(text).casefold().replace(SEPARATOR, ' ')))} "


def _is_wanted(page: TextPage, ask: Ask) -> bool:
    dated = page.dated_at if page.dated_at is not None else page.read_at
    return (
        (ask.since is None or dated >= ask.since)
        and (ask.language is None or page.language in (None, ask.language))
        and (ask.keeps_host is None or ask.keeps_host(find_host(page.url) or ""))
    )
