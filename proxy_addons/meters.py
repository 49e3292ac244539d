"""What a worker counts of its hops, connections and look-ups, and how it tells (`policy.metrics` has the rows).

Counting happens where the audit lines of a hop are written, so that log and metrics cannot tell different stories.
"""

import os
import time
from pathlib import Path
from typing import Final

from proxy_addons.audit.health import AuditHealth, report_health
from proxy_addons.audit.hop_record import PhaseTimes
from proxy_addons.policy import metrics
from proxy_addons.policy.tallies import Report, Tallies
from proxy_addons.policy.verdicts import Outcome, Rule, Verdict

_PHASES: Final = (("dns",), ("connect",), ("tls",), ("first_byte",), ("total",))
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


class Meters:
    """The counters of a worker. Each method is called once for what it counts."""

    def __init__(self) -> None:
        self.tallies = tallies = Tallies()
        self._hops = tallies.counter(metrics.HOPS)
        self._reported = tallies.counter(metrics.HOPS_REPORTED)
        self._seconds = tallies.histogram(metrics.HOP_SECONDS)
        self._request_bytes = tallies.counter(metrics.REQUEST_BYTES)
        self._wire_bytes = tallies.counter(metrics.ANSWER_WIRE_BYTES)
        self._decoded_bytes = tallies.counter(metrics.ANSWER_DECODED_BYTES)
        self._origins = tallies.counter(metrics.ORIGIN_CONNECTIONS)
        self._lookups = tallies.counter(metrics.DNS_LOOKUPS)
        self._budget_refusals = tallies.counter(metrics.BUDGET_REFUSALS)
        self._budget_bytes = tallies.counter(metrics.BUDGET_BYTES)
        self._turned_away = tallies.counter(metrics.CLIENTS_TURNED_AWAY)

    def hop_ended(self, profile: str, refusal: Verdict | None, times: PhaseTimes) -> None:
        """A hop is over: refused before or while it was under way, or let through to its end."""
        if refusal is None:
            self._hops.add((Outcome.ALLOWED, "", profile))
        else:
            self._hops.add((Outcome.REFUSED, refusal.rule or "", profile))
            if refusal.rule is Rule.BUDGET:
                self._budget_refusals.add((refusal.subject, profile))
        observe = self._seconds.observe
        dns, connect, tls, first_byte, total = _PHASES
        if times.dns is not None:
            observe(dns, times.dns / 1e3)
        if times.connect is not None:
            observe(connect, times.connect / 1e3)
        if times.tls is not None:
            observe(tls, times.tls / 1e3)
        if times.first_byte is not None:
            observe(first_byte, times.first_byte / 1e3)
        if times.total is not None:
            observe(total, times.total / 1e3)

    def hop_lost(self, profile: str) -> None:
        """A hop was refused since its line could not be written."""
        self._hops.add((Outcome.REFUSED, Rule.AUDIT_UNAVAILABLE, profile))

    def bytes_passed(self, profile: str, request: int, wire: int, decoded: int) -> None:
        """The bodies of a hop."""
        label = (profile,)
        if request:
            self._request_bytes.add(label, request)
        if wire:
            self._wire_bytes.add(label, wire)
        if decoded:
            self._decoded_bytes.add(label, decoded)

    def reported(self, rule: Rule, profile: str) -> None:
        """A rule that is only monitored would have refused."""
        self._reported.add((rule, profile))

    def looked_up(self, verdict: Verdict) -> None:
        """A name was looked up and its answer judged."""
        self._lookups.add((verdict.rule or Outcome.ALLOWED,))

    def origin_connected(self) -> None:
        """An upstream connection is there."""
        self._origins.add(("connected",))

    def origin_failed(self) -> None:
        """None could be made."""
        self._origins.add(("failed",))

    def budget_spent(self, profile: str, size: int) -> None:
        """Bytes of `bytes_per_day`."""
        self._budget_bytes.add((profile,), size)

    def turned_away(self, reason: str) -> None:
        """A client found no place."""
        self._turned_away.add((reason,))

    def watch_process(self, worker: str) -> None:
        """CPU and memory of this process."""
        self.tallies.watch(metrics.WORKER_CPU, time.process_time, (worker,))
        self.tallies.watch(metrics.WORKER_MEMORY, _read_resident, (worker,))

    def report(self, health: AuditHealth | None = None, chain: str = "") -> Report:
        """Everything. health: of the audit chain that this process writes."""
        report = self.tallies.report()
        return report if health is None else report | report_health(health, chain)


def _read_resident() -> float:
    """Bytes of memory that this process holds now; 0 where the system does not say (proc(5))."""
    try:
        return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return 0
