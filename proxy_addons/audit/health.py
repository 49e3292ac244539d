"""How a writer of the log fares: what it has written since it began, and what is not known to be on disk yet."""

from dataclasses import dataclass

from proxy_addons.policy import metrics
from proxy_addons.policy.tallies import Report


@dataclass(frozen=True, slots=True)
class AuditHealth:
    """lines, bytes, failures: since this process opened the chain. unsynced_seconds: how long the oldest line waits.

    synced_at: seconds since 1970 of the last fsync that worked; 0 before the first.
    """

    available: bool
    lines: int
    bytes: int
    failures: int
    unsynced_lines: int
    unsynced_seconds: float
    synced_at: float


class HealthCounter:
    """The numbers behind `AuditHealth`; its owner holds the chain's lock around each call."""

    __slots__ = (
        "_bytes",
        "_failures",
        "_lines",
        "_oldest",
        "_synced_at",
        "_syncing",
        "_syncing_lines",
        "_unsynced",
    )

    def __init__(self) -> None:
        self._lines = self._bytes = self._failures = 0
        self._unsynced = self._syncing_lines = 0
        self._oldest: float | None = None
        self._syncing: float | None = None
        self._synced_at = 0.0

    def wrote(self, size: int, now: float) -> None:
        """A line of so many bytes is in the file."""
        self._lines += 1
        self._bytes += size
        self._unsynced += 1
        if self._oldest is None:
            self._oldest = now

    def failed(self) -> None:
        """The system refused a write or an fsync."""
        self._failures += 1

    def begin_sync(self) -> None:
        """What is written so far is on its way to the disk."""
        self._syncing, self._syncing_lines = self._oldest, self._unsynced
        self._oldest = None

    def end_sync(self, synced_at: float | None) -> None:
        """It is there, since `synced_at`; None: that failed, and it still waits."""
        if synced_at is None:
            self._oldest = self._syncing if self._syncing is not None else self._oldest
        else:
            self._unsynced -= self._syncing_lines
            self._synced_at = synced_at
        self._syncing, self._syncing_lines = None, 0

    def read(self, now: float, *, available: bool) -> AuditHealth:
        """The numbers now."""
        waiting = [one for one in (self._oldest, self._syncing) if one is not None]
        age = max(0.0, now - min(waiting)) if waiting else 0.0
        return AuditHealth(
            available, self._lines, self._bytes, self._failures, self._unsynced, age, self._synced_at
        )


def report_health(health: AuditHealth, chain: str) -> Report:
    """A writer's numbers as rows."""
    values = {
        metrics.AUDIT_AVAILABLE: int(health.available),
        metrics.AUDIT_LINES: health.lines,
        metrics.AUDIT_BYTES: health.bytes,
        metrics.AUDIT_FAILURES: health.failures,
        metrics.AUDIT_UNSYNCED_LINES: health.unsynced_lines,
        metrics.AUDIT_UNSYNCED_SECONDS: health.unsynced_seconds,
        metrics.AUDIT_SYNCED_AT: health.synced_at,
    }
    return {metric.name: [[[chain], value]] for metric, value in values.items()}
