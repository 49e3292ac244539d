"""What is asked of an index of pages."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from fetchd.store.text_values import Marks, TextChanges

from .query import Query


@dataclass(frozen=True, slots=True)
class Ask:
    """A search of an index. limit: pages at most. since: nanoseconds since 1970, of a page's own date or else of its
    reading. language: primary subtag; pages that declare another are left out. keeps_host: None keeps all."""

    query: Query
    limit: int
    since: int | None = None
    language: str | None = None
    keeps_host: Callable[[str], bool] | None = None


@dataclass(frozen=True, slots=True)
class IndexState:
    """How far an index has followed the store, and what it holds. epoch: "" when it is new."""

    epoch: str
    marks: Marks
    pages: int


class PageIndex(Protocol):
    """The pages of one scope. All of it may raise StoreUnavailableError; DatabaseDamagedError and
    DatabaseReplacedError when it has to be made anew."""

    async def state(self) -> IndexState: ...

    async def apply(self, before: Marks, changes: TextChanges) -> bool:
        """Takes in what follows `before`, all or nothing; False: another process has moved the marks."""
        ...

    async def search(self, ask: Ask) -> Sequence[int]:
        """Numbers of pages, best first: those with every word, then those with some. One page a document. Raises
        TimeoutError for what takes too long."""
        ...

    async def close(self) -> None: ...
