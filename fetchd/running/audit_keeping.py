"""Retention while an installation runs: the daemon's own chain, and chains that nobody writes any more.

The gateway's workers see to theirs by the same configuration.
"""

import asyncio
import logging
from pathlib import Path
from typing import Final

from proxy_addons.audit import AuditError, AuditKeys, AuditLog
from proxy_addons.audit.pruning import prune_chains
from proxy_addons.audit.retention import make_retention
from proxy_addons.policy.config import AuditConfig

HOUSEKEEPING_SECONDS: Final = 60.0

_log = logging.getLogger(__name__)


class AuditKeeper:
    """Keeps the log below `state_dir` within `audit`. log: the daemon's own; workers: how many the gateway has."""

    def __init__(self, state_dir: Path, log: AuditLog, workers: int, audit: AuditConfig) -> None:
        self._state_dir, self._log = state_dir, log
        # Theirs, also in the moment between a killed worker and its successor.
        self._leave = frozenset({log.series, *(f"gateway-{number}" for number in range(workers))})
        self.take(audit)

    def take(self, audit: AuditConfig) -> None:
        """What is kept from now on."""
        self._keep = make_retention(audit)
        self._log.retain(self._keep)

    async def run(self) -> None:
        """Look at the chains without a writer, each minute, until cancelled."""
        while True:
            if self._keep.sets_limits:
                await asyncio.to_thread(self._prune)
            await asyncio.sleep(HOUSEKEEPING_SECONDS)

    def _prune(self) -> None:
        try:
            keys = AuditKeys.load_or_create(self._state_dir / "keys")
            prune_chains(self._state_dir / "audit", keys, self._keep, leave=self._leave)
        except (AuditError, OSError) as error:
            _log.warning("old files of the audit log stay: %s", error)
