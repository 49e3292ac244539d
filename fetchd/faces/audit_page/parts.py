"""What the pages stand on; the composition root hands it in."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from fetchd.audit_index.interface import AuditIndex
from fetchd.store import StoredRead
from proxy_addons.policy.config import Config

from .verifying import Verifier


@dataclass(frozen=True, slots=True)
class PageParts:
    """log: the directory of the audit log. find_read: the record of a page read by its fetch id. config: of now.
    index_problem: why the index is not being kept, None while it is."""

    index: AuditIndex
    log: Path
    verifier: Verifier
    find_read: Callable[[str], Awaitable[StoredRead | None]]
    config: Callable[[], Config | None]
    index_problem: Callable[[], str | None] = lambda: None
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
