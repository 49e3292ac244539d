"""The indexes of an installation: which there are, how they follow the store, and how a damaged one is replaced.

One file a scope below `<state>/index`: agents share no statistics, so neither ranking nor time tells one of them what
another has read. Before a search an index takes in what is new; when that is much, it goes on in the background and
the search answers from what is there.
"""

import asyncio
import fcntl
import logging
import os
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fetchd.errors import DatabaseDamagedError, DatabaseReplacedError, StoreError, StoreUnavailableError
from fetchd.store.page_texts import PageTexts
from fetchd.store.text_values import TextChanges, TextPage

from .index_file import IndexFile
from .interface import Ask, IndexState, PageIndex

DIRECTORY: Final = "index"
SHARED: Final = "shared"
MAX_OPEN: Final = 32
"""Index files open at once; the least recently used is closed."""
WAIT_SECONDS: Final = 0.5
"""How long a search waits for its index to take in what is new."""
FOLLOW_SECONDS: Final = 30.0
"""How often indexes are looked at that nobody asks: pages may have been dropped by another process."""
_REPORT_EVERY: Final = 1_000

type OpenIndex = Callable[[Path], Awaitable[PageIndex]]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose pages: an agent's, or (None) everybody's."""

    agent: str | None

    @property
    def file_name(self) -> str:
        """Names of agents are letters, digits, _ and -, so they need no escaping; one never equals `shared.db`."""
        return f"agent-{self.agent}.db" if self.agent is not None else f"{SHARED}.db"

    @property
    def name(self) -> str:
        """For people."""
        return self.agent if self.agent is not None else "(shared)"

    @classmethod
    def of_file(cls, name: str) -> "Scope | None":
        """What a file in the directory is of; None for another file."""
        if name == f"{SHARED}.db":
            return cls(None)
        if name.startswith("agent-") and name.endswith(".db"):
            return cls(name.removeprefix("agent-").removesuffix(".db"))
        return None


class PageIndexes:
    """The indexes over one store, which is not closed with them. share: whether there is one for all agents now.
    open_index: the index in a file, made if need be."""

    def __init__(
        self,
        texts: PageTexts,
        state_dir: Path,
        *,
        share: Callable[[], bool] = lambda: False,
        open_index: OpenIndex = IndexFile.open,
    ) -> None:
        self._texts: Final = texts
        self._directory: Final = state_dir / DIRECTORY
        self._share: Final = share
        self._open_index: Final = open_index
        self._open: Final[OrderedDict[Scope, _Follower]] = OrderedDict()

    def scope_of(self, agent: str) -> Scope:
        """Where an agent's pages are looked for."""
        return Scope(None if self._share() else agent)

    async def search(self, agent: str, ask: Ask) -> list[TextPage]:
        """Pages for an agent, best first, as the store has them now. Raises StoreError."""
        scope = self.scope_of(agent)
        follower = self._follower(scope)
        await follower.catch_up(WAIT_SECONDS)
        numbers = await follower.search(ask)
        pages = (
            {page.number: page for page in await self._texts.find(numbers, scope.agent)} if numbers else {}
        )
        return [pages[number] for number in numbers if number in pages]

    async def follow(self, agent: str) -> None:
        """Brings the index of an agent up to date. Raises StoreError."""
        await self._follower(self.scope_of(agent)).catch_up()

    async def catch_up(self, scope: Scope) -> None:
        """Has an index take in all there is. Raises StoreError."""
        await self._follower(scope).catch_up()

    def path_of(self, scope: Scope) -> Path:
        """Its file, there or not."""
        return self._directory / scope.file_name

    async def state(self, scope: Scope) -> IndexState:
        """How far an index is. Raises StoreError."""
        return await self._follower(scope).state()

    async def rebuild(self, scope: Scope) -> IndexState:
        """Makes an index anew. Raises StoreError."""
        follower = self._follower(scope)
        await follower.replace()
        await follower.catch_up()
        return await follower.state()

    def scopes(self) -> list[Scope]:
        """Those that have a file. Blocks."""
        with suppress(FileNotFoundError):
            names = sorted(path.name for path in self._directory.iterdir())
            return [scope for name in names if (scope := Scope.of_file(name)) is not None]
        return []

    async def run(self) -> None:
        """Keeps every index up to date, until cancelled, whoever changes the store. Never raises for a store that
        fails: the next turn tries again."""
        while True:
            for scope in await asyncio.to_thread(self.scopes):
                try:
                    await self._follower(scope).catch_up()
                except StoreError as error:
                    _log.error("search index %s does not follow: %s", scope.file_name, error)
            await asyncio.sleep(FOLLOW_SECONDS)

    async def close(self) -> None:
        while self._open:
            _, follower = self._open.popitem()
            await follower.close()

    def _follower(self, scope: Scope) -> "_Follower":
        follower = self._open.get(scope)
        if follower is None:
            follower = self._open[scope] = _Follower(
                self._texts, scope, self.path_of(scope), self._open_index
            )
        self._open.move_to_end(scope)
        idle = (one for one in self._open if not self._open[one].busy)
        if len(self._open) > MAX_OPEN and (oldest := next(idle, scope)) != scope:
            closing = asyncio.ensure_future(self._open.pop(oldest).close())
            closing.add_done_callback(_note_end)
        return follower


class _Follower:
    """One index and its way after the store. Any number of tasks may use it."""

    def __init__(self, texts: PageTexts, scope: Scope, path: Path, open_index: OpenIndex) -> None:
        self._texts: Final = texts
        self._open_index: Final = open_index
        self._scope: Final = scope
        self._path: Final = path
        self._index: PageIndex | None = None
        self._lock: Final = asyncio.Lock()
        self._following: asyncio.Task[None] | None = None
        self._users = 0

    @property
    def busy(self) -> bool:
        return self._users > 0 or (self._following is not None and not self._following.done())

    async def catch_up(self, seconds: float | None = None) -> None:
        """Waits until all is taken in that was there when called, or so long (then it goes on by itself)."""
        self._users += 1
        try:
            running = self._following
            if running is not None and not running.done():
                # It may have looked before what the caller wants to see was there.
                done, _ = await asyncio.wait([running], timeout=seconds)
                if not done:
                    return
            task = self._following
            if task is None or task.done():
                task = self._following = asyncio.create_task(self._follow())
                task.add_done_callback(_note_end)
            done, _ = await asyncio.wait([task], timeout=seconds)
            for one in done:
                one.result()
        finally:
            self._users -= 1

    async def search(self, ask: Ask) -> Sequence[int]:
        self._users += 1
        try:
            index = await self._opened()
            try:
                return await index.search(ask)
            except StoreUnavailableError as error:
                if not await self._renew(index, error):
                    raise
            await self.catch_up(WAIT_SECONDS)
            return await (await self._opened()).search(ask)
        finally:
            self._users -= 1

    async def state(self) -> IndexState:
        index = await self._opened()
        try:
            return await index.state()
        except StoreUnavailableError as error:
            if not await self._renew(index, error):
                raise
        return await (await self._opened()).state()

    async def replace(self) -> None:
        """An empty index in place of what is there."""
        async with self._lock:
            await self._discard()

    async def close(self) -> None:
        if self._following is not None and not self._following.done():
            self._following.cancel()
            await asyncio.wait([self._following])
        async with self._lock:
            await self._close()

    async def _follow(self) -> None:
        index = await self._opened()
        try:
            await self._take_in(index)
            return
        except StoreUnavailableError as error:
            if not await self._renew(index, error):
                raise
        await self._take_in(await self._opened())

    async def _take_in(self, index: PageIndex) -> None:
        state = await index.state()
        taken = 0
        while True:
            changes = await self._changes(state)
            if changes.stale:
                raise DatabaseDamagedError(f"search index {self._path.name}: not of this store")
            if changes.marks == state.marks and not changes.added and not changes.removed:
                return
            if not await index.apply(state.marks, changes):
                state = await index.state()  # another process was at it
                continue
            before, taken = taken, taken + len(changes.added)
            if taken // _REPORT_EVERY > before // _REPORT_EVERY:
                _log.info("search index %s: %s pages taken in", self._path.name, taken)
            if not changes.more:
                return
            state = IndexState(changes.epoch, changes.marks, state.pages + len(changes.added))

    async def _changes(self, state: IndexState) -> TextChanges:
        try:
            return await self._texts.changes(self._scope.agent, state.marks, state.epoch or None)
        except StoreUnavailableError as error:  # of the store, however bad: no fault of the index
            raise StoreUnavailableError(str(error)) from error

    async def _renew(self, index: PageIndex, error: StoreUnavailableError) -> bool:
        """After a failure of `index`: whether there is another now. One replaced is opened again, one damaged is
        made anew."""
        async with self._lock:
            if self._index is not index:
                return True
            if isinstance(error, DatabaseDamagedError):
                _log.error("search index %s is made anew from the store: %s", self._path.name, error)
                await self._discard()
                return True
            if isinstance(error, DatabaseReplacedError):
                await self._close()
                return True
            return False

    async def _opened(self) -> PageIndex:
        async with self._lock:
            if self._index is None:
                try:
                    self._index = await self._open_locked()
                except DatabaseDamagedError as error:
                    _log.error("search index %s is made anew from the store: %s", self._path.name, error)
                    await self._discard()
                    self._index = await self._open_locked()
            return self._index

    async def _open_locked(self) -> PageIndex:
        """While no other process replaces it."""
        taking = asyncio.create_task(asyncio.to_thread(_take_lock, self._path))
        try:
            descriptor = await asyncio.shield(taking)
        except OSError as error:
            raise _unavailable(self._path, error) from error
        except asyncio.CancelledError:
            # The thread goes on waiting, and has the lock some day: kept, nobody would open an index again.
            taking.add_done_callback(_give_back)
            raise
        try:
            return await self._open_index(self._path)
        finally:
            os.close(descriptor)

    async def _discard(self) -> None:
        """Under the lock."""
        await self._close()
        try:
            await asyncio.to_thread(discard_file, self._path)
        except OSError as error:
            raise _unavailable(self._path, error) from error

    async def _close(self) -> None:
        if self._index is not None:
            index, self._index = self._index, None
            await index.close()


def discard_file(path: Path) -> None:
    """Takes an index away, if it is there: what has it open finds out. Blocks. Raises OSError."""
    with _hold(path):
        for suffix in ("", "-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)


@contextmanager
def _hold(path: Path) -> Iterator[None]:
    descriptor = _take_lock(path)
    try:
        yield
    finally:
        os.close(descriptor)


def _take_lock(path: Path) -> int:
    """One lock for all index files: they are opened and replaced rarely."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path.with_name("lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


def _give_back(taking: "asyncio.Task[int]") -> None:
    if not taking.cancelled() and taking.exception() is None:
        os.close(taking.result())


def _unavailable(path: Path, error: OSError) -> StoreUnavailableError:
    return StoreUnavailableError(f"search index {path}: {error.strerror or error}")


def _note_end(task: "asyncio.Future[None]") -> None:
    """So that a failure nobody waited for is not reported as lost."""
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("search index: %s", error)
