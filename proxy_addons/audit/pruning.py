"""Retention of chains that no running writer sees to: of commands that ran once, of workers no longer there.

What a running writer has is left to it: it holds the lock of its chain, and prunes by its own configuration.
"""

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from proxy_addons.audit.errors import AuditUnavailableError
from proxy_addons.audit.keys import AuditKeys
from proxy_addons.audit.moments import NANOSECONDS, render_time
from proxy_addons.audit.retention import (
    DAY_SECONDS,
    LogFile,
    Retention,
    holds_records,
    load_log_files,
    plan_pruning,
)
from proxy_addons.audit.writer import AuditLog


@dataclass(frozen=True, slots=True)
class Pruned:
    """What became of one chain. `why`: the reason why its planned files stayed, "" when they went."""

    series: str
    files: tuple[LogFile, ...]
    why: str = ""


def plan_chains(directory: Path, keep: Retention, now: int | None = None) -> dict[str, tuple[LogFile, ...]]:
    """By chain, the files that are kept no longer. Raises OSError."""
    planned: dict[str, list[LogFile]] = {}
    for file in plan_pruning(load_log_files(directory), keep, time.time_ns() if now is None else now):
        planned.setdefault(file.series, []).append(file)
    return {series: tuple(planned[series]) for series in sorted(planned)}


def prune_chains(
    directory: Path,
    keys: AuditKeys,
    keep: Retention,
    *,
    leave: Collection[str] = (),
    clock: Callable[[], int] = time.time_ns,
) -> list[Pruned]:
    """Prune every chain that nobody writes, but those named `leave`. Blocks. Raises OSError."""
    planned = plan_chains(directory, keep, clock())
    ended = _find_ended(directory, keep, clock())
    return [
        _prune_chain(directory, series, keys, keep, planned.get(series, ()), clock)
        for series in sorted({*planned, *ended} - set(leave))
    ]


def _prune_chain(
    directory: Path,
    series: str,
    keys: AuditKeys,
    keep: Retention,
    planned: tuple[LogFile, ...],
    clock: Callable[[], int],
) -> Pruned:
    try:
        log = AuditLog.open(directory, series, keys, clock=clock)
    except AuditUnavailableError as error:
        return Pruned(series, planned, str(error))
    try:
        log.retain(keep)
        removed = log.keep_house()
    finally:
        log.close()
    if len(removed) < len(planned):
        return Pruned(series, planned, "the end of a file that would go is not what the next one follows")
    return Pruned(series, removed)


def _find_ended(directory: Path, keep: Retention, now: int) -> set[str]:
    """Chains whose last file is too old, and says of somebody: it goes once another follows it."""
    if keep.keep_days is None:
        return set()
    oldest = render_time(max(0, now - keep.keep_days * DAY_SECONDS * NANOSECONDS))
    return {
        file.series
        for file in load_log_files(directory)
        if file.last and file.newest and file.newest < oldest and holds_records(file.path)
    }
