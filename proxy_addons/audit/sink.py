"""What the gateway and the daemon ask of an audit log."""

from typing import Protocol

from proxy_addons.audit.chain import Head
from proxy_addons.audit.record import Record


class AuditSink(Protocol):
    """One chain of audit lines, written by one process. `AuditLog` is the real one, `MemoryAuditLog` the
    scripted one."""

    @property
    def series(self) -> str:
        """The chain's name."""

    @property
    def available(self) -> bool:
        """Could the last line be written, and is what was written reaching the disk?"""

    def append(self, record: Record) -> int:
        """Writes one line and returns its number in the chain. Raises AuditUnavailableError: nothing was
        written."""

    def append_line(self, record: Record) -> Head:
        """As `append`, and also the line's hash: what a receipt names it by."""

    def query_digest(self, query: str) -> str | None:
        """The keyed digest that stands for `query` (without its ``?``); None for an empty one."""

    async def run(self) -> None:
        """Makes lines durable and signs checkpoints, until cancelled. Never raises for a full or failing
        disk."""

    def close(self) -> None:
        """Signs, makes durable, lets go of the chain. Raises AuditUnavailableError: the end may not be on
        disk."""
