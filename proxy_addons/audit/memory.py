"""The scripted audit sink: keeps records in memory and fails when told to. Ships for the tests of whoever
writes lines."""

import asyncio

from proxy_addons.audit.chain import START, Head, seal_line
from proxy_addons.audit.errors import AuditUnavailableError
from proxy_addons.audit.keys import AuditKeys
from proxy_addons.audit.record import Record

_TIME = "1970-01-01T00:00:00.000000Z"


class MemoryAuditLog:
    """An `AuditSink` whose lines are `records`. `fail_next(n)` makes the next n lines unwritable."""

    def __init__(self, series: str = "memory", keys: AuditKeys | None = None) -> None:
        self.records: list[Record] = []
        self._series = series
        self._keys = keys or AuditKeys.generate()
        self._failures = 0
        self._available = True
        self._closed = False
        self._head = START

    @property
    def series(self) -> str:
        return self._series

    @property
    def available(self) -> bool:
        return self._available and not self._closed

    def fail_next(self, count: int) -> None:
        """The next `count` lines raise AuditUnavailableError."""
        self._failures = count

    def append(self, record: Record) -> int:
        return self.append_line(record).seq

    def append_line(self, record: Record) -> Head:
        if self._closed:
            raise AuditUnavailableError(f"audit log {self._series} is closed")
        if self._failures:
            self._failures -= 1
            self._available = False
            raise AuditUnavailableError(f"audit log {self._series} cannot be written: scripted failure")
        self._available = True
        self.records.append(record)
        _, self._head = seal_line(self._series, self._head, _TIME, record)
        return self._head

    def query_digest(self, query: str) -> str | None:
        return self._keys.query_digest(query)

    async def run(self) -> None:
        await asyncio.Event().wait()

    def close(self) -> None:
        self._closed = True
