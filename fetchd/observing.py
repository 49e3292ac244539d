"""The composition of what the operator watches: numbers of all parts, and whether they are well."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from proxy_addons.audit import AuditLog
from proxy_addons.policy import metrics
from proxy_addons.policy.config_addresses import Endpoint

from .faces.calls import Calls
from .metrics.collecting import Collecting, NumberedGateway
from .metrics.daemon import DaemonMeters
from .running.gateway_process import reachable_host
from .running.health import Health
from .running.run_state import RunState
from .running.serving import accepts
from .store import PageStore


@dataclass(frozen=True, slots=True)
class Observed:
    """What stands behind /metrics and /readyz."""

    collecting: Collecting
    health: Health


def observe(
    meters: DaemonMeters,
    gateway: NumberedGateway,
    log: AuditLog,
    store: PageStore,
    calls: Calls,
    state: RunState,
    state_dir: Path,
) -> Observed:
    """Have the daemon's parts counted. log: the daemon's."""
    log.observe(meters.take)
    meters.watch_authority(state.ca_expires)
    calls.on_search = meters.searched
    watch, turns = meters.tallies.watch, calls.turns
    watch(metrics.STATE_FREE, partial(_read_free, state_dir))
    watch(metrics.CALLS_AT_WORK, lambda: turns.at_work)
    watch(metrics.CALLS_WAITING, lambda: turns.waiting)
    watch(metrics.CALLS_TURNED_AWAY, lambda: turns.turned_away)
    collecting = Collecting(gateway, meters.report, lambda: log.health, log.series)
    listening: dict[str, Callable[[], bool]] = {
        f"gateway {Endpoint(host, port)}": partial(accepts, reachable_host(host), port)
        for host, port, _ in state.listeners
    }
    host, port = state.tools
    listening[f"tools {Endpoint(host, port)}"] = partial(accepts, reachable_host(host), port)
    return Observed(collecting, Health(collecting, listening, store.records.usage))


def _read_free(directory: Path) -> float:
    """Bytes that an unprivileged process may still write there; 0 where that cannot be told."""
    try:
        found = os.statvfs(directory)
    except OSError:
        return 0
    return found.f_bavail * found.f_frsize
