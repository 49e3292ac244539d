"""The redirect ledger: which request continues which redirect chain (SPEC 1.4).

The gateway sees the hops of a chain as unrelated requests. When it lets a redirect through it *remembers*
``(agent, target) → hop``; when that agent then asks for that target it *takes* the entry and knows that the
request is hop 1, 2, ... of a chain. No entry means hop 0, the start of a chain.

What every ledger holds to:

1. An entry lives 30 s: it counts while its age is below 30 s, at exactly 30 s it is gone.
2. An entry is consumed by one request, also when several workers ask at once.
3. The same (agent, target) noted several times is several entries, and ``take`` gives the highest hop first:
   two requests of one agent under way together must not turn a long chain into a short one.
4. At most 10,000 entries; the oldest makes room. Entries are digests, so each has a fixed size and no URL,
   with whatever secret its query carries, is kept in memory or on disk.
5. A ledger that cannot answer raises `LedgerError`, never 0 for "I do not know"; the caller then refuses.

The calls are short and synchronous; they are made on the event loop.
"""

import hashlib
import sqlite3
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from proxy_addons.shared_file import BUSY_SECONDS, SharedFile, make_afresh

LIFETIME_NS = 30 * 1_000_000_000
"""How long a redirect may wait for its next request (SPEC 1.4); a client follows one within milliseconds."""

MAX_ENTRIES = 10_000
"""Bound of the whole ledger, all agents together (SPEC 1.4)."""

Clock = Callable[[], int]
"""Nanoseconds of a clock that never goes back and that all workers of one machine read alike."""


class LedgerError(Exception):
    """The ledger cannot tell a request's place in its chain; the request has to be refused."""


class ChainLedger(Protocol):
    """Keeps the hop number of requests to come. One per gateway, shared by all its workers."""

    def remember(self, agent: str, target: str, hop: int) -> None:
        """Note that the next request of `agent` for `target` is number `hop` of its chain.

        `target` is the serialized absolute URL; a fragment is ignored. `hop` is 1 for the first redirect.
        Raises ValueError for a hop below 1, `LedgerError` when the entry cannot be kept.
        """

    def take(self, agent: str, target: str) -> int:
        """Consume one entry for this request and return its hop; 0 when there is none.

        Raises `LedgerError` when that cannot be told.
        """

    def close(self) -> None:
        """Let go of what the ledger holds. Any later call but this one raises `LedgerError`."""


class MemoryLedger:
    """A ledger for tests; what is asked of both is in one test."""

    def __init__(
        self,
        *,
        clock: Clock = time.monotonic_ns,
        lifetime_ns: int = LIFETIME_NS,
        max_entries: int = MAX_ENTRIES,
    ) -> None:
        self._clock = clock
        self._lifetime_ns = lifetime_ns
        self._max_entries = max_entries
        self._closed = False
        self._next_id = 0
        # Oldest first. All entries live equally long, so this is the order of expiry too.
        self._entries: OrderedDict[int, _Entry] = OrderedDict()
        # key → hop → ids, oldest first. The highest hop is found without a walk over all of a key's entries.
        self._ids: dict[bytes, dict[int, deque[int]]] = {}

    def remember(self, agent: str, target: str, hop: int) -> None:
        _check_hop(hop)
        now = self._open_now()
        if len(self._entries) >= self._max_entries:
            self._remove(next(iter(self._entries)))
        entry = _Entry(_digest_key(agent, target), hop, now + self._lifetime_ns)
        self._entries[self._next_id] = entry
        self._ids.setdefault(entry.key, {}).setdefault(hop, deque()).append(self._next_id)
        self._next_id += 1

    def take(self, agent: str, target: str) -> int:
        self._open_now()
        hops = self._ids.get(_digest_key(agent, target))
        if hops is None:
            return 0
        hop = max(hops)
        self._remove(hops[hop][0])
        return hop

    def close(self) -> None:
        self._closed = True
        self._entries.clear()
        self._ids.clear()

    def _open_now(self) -> int:
        """The time now, with all that has expired by then dropped."""
        if self._closed:
            raise LedgerError("the redirect ledger is closed")
        now = self._clock()
        while self._entries:
            oldest = next(iter(self._entries))
            if self._entries[oldest].expires_ns > now:
                break
            self._remove(oldest)
        return now

    def _remove(self, entry_id: int) -> None:
        """Drop an entry, which must be the oldest of its key and hop: that is how `_ids` is kept in step."""
        entry = self._entries.pop(entry_id)
        hops = self._ids[entry.key]
        hops[entry.hop].popleft()
        if not hops[entry.hop]:
            del hops[entry.hop]
        if not hops:
            del self._ids[entry.key]


@dataclass(frozen=True, slots=True)
class _Entry:
    key: bytes
    hop: int
    expires_ns: int


_SCHEMA_VERSION = 1
_SCHEMA = """
CREATE TABLE entry (
    id INTEGER PRIMARY KEY,      -- the largest plus one: oldest first
    key BLOB NOT NULL,           -- SHA-256 of agent NUL target
    hop INTEGER NOT NULL,
    expires_ns INTEGER NOT NULL  -- monotonic clock of this machine
);
CREATE INDEX entry_by_key ON entry (key, hop DESC, id, expires_ns);
CREATE INDEX entry_by_expiry ON entry (expires_ns);
"""
_FIND = "SELECT 1 FROM entry WHERE key = ? AND expires_ns > ? LIMIT 1"
_TAKE = (
    "DELETE FROM entry WHERE id = (SELECT id FROM entry WHERE key = ? AND expires_ns > ?"
    " ORDER BY hop DESC, id LIMIT 1) RETURNING hop"
)
_ADD = "INSERT INTO entry (key, hop, expires_ns) VALUES (?, ?, ?)"
_DROP_EXPIRED = "DELETE FROM entry WHERE expires_ns <= ?"
_DROP_OVERFLOW = "DELETE FROM entry WHERE id <= (SELECT id FROM entry ORDER BY id DESC LIMIT 1 OFFSET ?)"


class SqliteLedger:
    """A ledger in one file, for all worker processes of one gateway on one machine.

    The parent calls `create_ledger_file` before it starts workers; each worker opens the file for itself
    (`shared_file`).
    """

    def __init__(
        self,
        path: Path,
        *,
        clock: Clock = time.monotonic_ns,
        lifetime_ns: int = LIFETIME_NS,
        max_entries: int = MAX_ENTRIES,
        busy_seconds: float = BUSY_SECONDS,
    ) -> None:
        self._clock = clock
        self._lifetime_ns = lifetime_ns
        self._max_entries = max_entries

        def broken(reason: object) -> LedgerError:
            return LedgerError(
                f"redirect ledger {path} cannot be used ({reason}); restart the gateway to remake it"
            )

        self._file = SharedFile(path, _SCHEMA_VERSION, broken, busy_seconds=busy_seconds)

    def remember(self, agent: str, target: str, hop: int) -> None:
        _check_hop(hop)
        key = _digest_key(agent, target)
        self._file.change(lambda db: self._add(db, key, hop))

    def _add(self, db: sqlite3.Connection, key: bytes, hop: int) -> None:
        now = self._clock()  # read inside the write lock: ids and times of all workers then grow together
        db.execute(_DROP_EXPIRED, (now,))
        db.execute(_ADD, (key, hop, now + self._lifetime_ns))
        db.execute(_DROP_OVERFLOW, (self._max_entries,))

    def take(self, agent: str, target: str) -> int:
        found = (_digest_key(agent, target), self._clock())
        # Nearly every request starts a chain: look first, without the write lock.
        if self._file.run(lambda db: db.execute(_FIND, found).fetchone()) is None:
            return 0
        # One statement is one transaction. Of two workers that found the entry, the second gets none.
        taken: list[tuple[int]] = self._file.run(lambda db: db.execute(_TAKE, found).fetchall())
        return taken[0][0] if taken else 0

    def close(self) -> None:
        self._file.close()


def create_ledger_file(path: Path) -> None:
    """Make an empty ledger file at `path`, readable by its owner only, in place of any former one.

    For the parent, before any worker runs. Workers that still have the former file open refuse from then on.
    Raises `LedgerError`.
    """
    try:
        make_afresh(path, _SCHEMA, _SCHEMA_VERSION)
    except (sqlite3.Error, OSError) as error:
        raise LedgerError(
            f"redirect ledger {path} cannot be made ({error}); see that its directory exists and is writable"
        ) from error


def _digest_key(agent: str, target: str) -> bytes:
    # A serialized URL holds no NUL, so the last NUL always separates the two.
    without_fragment = target.partition("#")[0]
    return hashlib.sha256(f"{agent}\0{without_fragment}".encode("utf-8", "surrogatepass")).digest()


def _check_hop(hop: int) -> None:
    if hop < 1:
        raise ValueError(f"hop must be 1 or more, not {hop}: hop 0 starts a chain and is never noted")
