"""Every metric of the product, a row each: the gateway counts by these rows, the daemon serves them, docs list them.

Laws of this file
- A label has few values that are known beforehand: rules, phases, outcomes, tools, profiles and providers of the
  configuration, workers. Never a host, an address, an agent, a URL or anybody's text.
- Names follow the conventions of Prometheus: base units, `_total` for what only grows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class Kind(StrEnum):
    """How values of several processes are added up, and what becomes of those of a dead one."""

    COUNTER = "counter"
    """Only grows; what a dead worker had counted stays."""
    GAUGE = "gauge"
    """Goes with its process."""
    HISTOGRAM = "histogram"
    """As a counter."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One row. buckets: upper bounds of a histogram, without the infinite one."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


PHASE_BUCKETS: Final = (
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    20.0,
    60.0,
)
"""A hop kept alive takes a few milliseconds, and its limits are 5 and 20 s as a rule."""
CALL_BUCKETS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 60.0, 120.0)


def _counter(name: str, text: str, *labels: str) -> Metric:
    return Metric(name, Kind.COUNTER, text, labels)


def _gauge(name: str, text: str, *labels: str) -> Metric:
    return Metric(name, Kind.GAUGE, text, labels)


def _histogram(name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Metric:
    return Metric(name, Kind.HISTOGRAM, text, labels, buckets)


# ------------------------------------------------------------------------------------------------ the gateway

HOPS = _counter(
    "fetchd_hops_total",
    "Hops that ended, by verdict, the rule that refused them (empty when none did) and profile.",
    "verdict", "rule", "profile",
)  # fmt: skip
HOPS_REPORTED = _counter(
    "fetchd_hops_reported_total",
    "Hops that a profile in monitor mode let through, by the rule that would have refused them.",
    "rule", "profile",
)  # fmt: skip
HOPS_OPEN = _gauge("fetchd_hops_open", "Hops that were let through and have not ended.")
HOP_SECONDS = _histogram(
    "fetchd_hop_seconds",
    "Time of hops by phase: dns, connect, tls, first_byte (since the request), total.",
    PHASE_BUCKETS, "phase",
)  # fmt: skip
REQUEST_BYTES = _counter(
    "fetchd_request_bytes_total", "Bytes of request bodies that were passed on.", "profile"
)
ANSWER_WIRE_BYTES = _counter(
    "fetchd_answer_wire_bytes_total", "Bytes of answers' bodies as they were on the wire.", "profile"
)
ANSWER_DECODED_BYTES = _counter(
    "fetchd_answer_decoded_bytes_total", "Bytes of answers' bodies, content codings undone.", "profile"
)
CLIENTS_OPEN = _gauge("fetchd_client_connections_open", "Connections of clients to the gateway.")
CLIENT_PLACES = _gauge("fetchd_client_places", "Connections of clients that the workers have places for.")
CLIENTS_ACCEPTED = _counter(
    "fetchd_client_connections_accepted_total", "Connections of clients that were accepted."
)
CLIENTS_TURNED_AWAY = _counter(
    "fetchd_client_connections_turned_away_total",
    "Connections of clients that were closed at once: one holder had its share, or all places were busy.",
    "reason",
)
ORIGIN_CONNECTIONS = _counter(
    "fetchd_origin_connections_total", "Connections to origins: connected, or failed.", "outcome"
)
DNS_LOOKUPS = _counter(
    "fetchd_dns_lookups_total",
    "Look-ups of host names: allowed, or the rule that its answer was refused by.",
    "outcome",
)
BUDGET_REFUSALS = _counter(
    "fetchd_budget_refusals_total",
    "Hops refused, or cut, since a budget of their agent was spent.",
    "budget", "profile",
)  # fmt: skip
BUDGET_BYTES = _counter(
    "fetchd_budget_bytes_total", "Bytes counted against bytes_per_day of all agents of a profile.", "profile"
)
DECODER_WINDOWS = _gauge("fetchd_decoder_windows_held", "Decoder windows (br, zstd) that are in use.")
DECODER_WAITING = _gauge("fetchd_decoder_waiting", "Answers that wait for a decoder window.")
WORKER_CPU = _counter(
    "fetchd_worker_cpu_seconds_total", "CPU time of the gateway's workers, user and system.", "worker"
)
WORKER_MEMORY = _gauge("fetchd_worker_resident_bytes", "Resident memory of the gateway's workers.", "worker")
WORKERS_CONFIGURED = _gauge("fetchd_workers_configured", "Workers that the gateway should have.")
WORKERS_ALIVE = _gauge(
    "fetchd_workers_alive", "Workers that answered when they were asked for their numbers."
)
WORKER_RESTARTS = _counter("fetchd_worker_restarts_total", "Workers that ended and were started again.")

# ---------------------------------------------------------------------------------- whoever writes audit lines

AUDIT_LINES = _counter(
    "fetchd_audit_lines_total", "Lines written to the audit log, checkpoints included.", "chain"
)
AUDIT_BYTES = _counter("fetchd_audit_bytes_total", "Bytes written to the audit log.", "chain")
AUDIT_FAILURES = _counter(
    "fetchd_audit_failures_total", "Writes and fsyncs of the audit log that the system refused.", "chain"
)
AUDIT_AVAILABLE = _gauge(
    "fetchd_audit_available", "Whether the audit log can be written: 1, or 0 while hops are refused.", "chain"
)
AUDIT_UNSYNCED_LINES = _gauge(
    "fetchd_audit_unsynced_lines", "Lines of the audit log that are not known to be on disk.", "chain"
)
AUDIT_UNSYNCED_SECONDS = _gauge(
    "fetchd_audit_unsynced_seconds", "How long the oldest of them has waited; 0 when there is none.", "chain"
)
AUDIT_SYNCED_AT = _gauge(
    "fetchd_audit_last_sync_timestamp_seconds", "When an fsync of the audit log worked last.", "chain"
)

# ------------------------------------------------------------------------------------------------- the daemon

TOOL_CALLS = _counter(
    "fetchd_tool_calls_total", "Calls of the tools, by tool and outcome.", "tool", "outcome"
)
TOOL_SECONDS = _histogram("fetchd_tool_seconds", "Time of calls of the tools.", CALL_BUCKETS, "tool")
TOOL_BYTES = _counter("fetchd_tool_bytes_total", "Bytes of bodies that calls read, decoded.", "tool")
CALLS_AT_WORK = _gauge("fetchd_calls_at_work", "Calls of the tools that are at work.")
CALLS_WAITING = _gauge("fetchd_calls_waiting", "Calls of the tools that wait for their turn.")
CALLS_TURNED_AWAY = _counter(
    "fetchd_calls_turned_away_total", "Calls of the tools for which there was no room."
)
EXTRACTIONS = _counter(
    "fetchd_extractions_total", "Pages that web_fetch returned, by how their text was made.", "method"
)
EXTRACTION_SECONDS = _histogram(
    "fetchd_extraction_seconds",
    "Time of work on pages in its processes: done, late (killed at its limit), or failed.",
    CALL_BUCKETS, "outcome",
)  # fmt: skip
SEARCHES = _counter(
    "fetchd_searches_total", "Searches asked of a provider, by its outcome.", "provider", "outcome"
)
SEARCH_SECONDS = _histogram(
    "fetchd_search_seconds", "Time of searches by provider.", CALL_BUCKETS, "provider"
)
ASK_RUNS = _counter(
    "fetchd_ask_runs_total", "Runs of ask that ended, by the provider asked last and their status.",
    "provider", "status",
)  # fmt: skip
ASK_COMPLETIONS = _counter(
    "fetchd_ask_completions_total",
    "Completions asked of a provider: answered, refused (it said so), unreachable, bad_answer, timed_out, aborted.",
    "provider", "outcome",
)  # fmt: skip
ASK_COMPLETION_SECONDS = _histogram(
    "fetchd_ask_completion_seconds", "Time of completions by provider.", CALL_BUCKETS, "provider"
)
ASK_TOKENS = _counter(
    "fetchd_ask_tokens_total", "Tokens that a provider reported: in, and out.", "provider", "direction"
)
ASK_WEB_REQUESTS = _counter(
    "fetchd_ask_web_requests_total",
    "Web requests that a provider reported, which it bills one by one; not all report them.",
    "provider",
)
ASK_WEB_TOOLS = _counter(
    "fetchd_ask_web_tool_calls_total",
    "Uses of web tools by a provider inside its completions: ran, or failed.",
    "provider", "tool", "outcome",
)  # fmt: skip
ASK_OUTSIDE = _counter(
    "fetchd_ask_outside_total",
    "What a provider returned from outside the declared hosts: rows (dropped) and citations (marked).",
    "provider", "what",
)  # fmt: skip
GATEWAY_ANSWERED = _gauge(
    "fetchd_gateway_answered", "Whether the gateway gave its numbers for this answer: 1, or 0."
)
STATE_FREE = _gauge(
    "fetchd_state_free_bytes",
    "Free bytes of the file system that holds the state directory, the log among it.",
)
CA_NOT_AFTER = _gauge(
    "fetchd_ca_not_after_timestamp_seconds", "When the authority that clients trust expires."
)
STARTED_AT = _gauge("fetchd_start_timestamp_seconds", "When this installation was started.")
BUILD_INFO = _gauge("fetchd_build_info", "What runs; always 1.", "version", "python")

METRICS: Mapping[str, Metric] = MappingProxyType(
    {one.name: one for one in (*globals().values(),) if isinstance(one, Metric)}
)
"""All of them by name, in this order."""
