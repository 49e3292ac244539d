"""What the daemon counts of `ask`: its lines of the audit log, one for each completion and one for each run.

A vendor's own words are no label: whatever it called its failure, it refused.
"""

from typing import Final

from proxy_addons.audit import AskRecord
from proxy_addons.policy import metrics
from proxy_addons.policy.limits import ASK
from proxy_addons.policy.tallies import Tallies

ANSWERED: Final = "answered"
REFUSED: Final = "refused"
OWN_CODES: Final = frozenset({"unreachable", "bad_answer", "timed_out", "aborted"})
"""Failures as this daemon calls them (`fetchd.web_access.running`); all others are the vendor's words."""


class AskMeters:
    """Counters of runs. They begin at 0 with a provider's first."""

    def __init__(self, tallies: Tallies) -> None:
        self._calls: Final = tallies.counter(metrics.TOOL_CALLS)
        self._seconds: Final = tallies.histogram(metrics.TOOL_SECONDS)
        self._runs: Final = tallies.counter(metrics.ASK_RUNS)
        self._completions: Final = tallies.counter(metrics.ASK_COMPLETIONS)
        self._completion_seconds: Final = tallies.histogram(metrics.ASK_COMPLETION_SECONDS)
        self._tokens: Final = tallies.counter(metrics.ASK_TOKENS)
        self._requests: Final = tallies.counter(metrics.ASK_WEB_REQUESTS)
        self._tools: Final = tallies.counter(metrics.ASK_WEB_TOOLS)
        self._outside: Final = tallies.counter(metrics.ASK_OUTSIDE)

    def take(self, record: AskRecord) -> None:
        """A line was written."""
        if record.step == 0:
            self._calls.add((ASK, record.outcome))
            self._runs.add((record.provider, record.stop or ""))
            if record.ms is not None:
                self._seconds.observe((ASK,), record.ms / 1e3)
            return
        provider = record.provider
        self._completions.add((provider, _read_outcome(record.failure)))
        if record.ms is not None:
            self._completion_seconds.observe((provider,), record.ms / 1e3)
        for direction, tokens in (("in", record.input_tokens), ("out", record.output_tokens)):
            if tokens is not None:
                self._tokens.add((provider, direction), tokens)
        if record.server_tool_requests is not None:
            self._requests.add((provider,), record.server_tool_requests)
        for shown in record.tools:
            tool, _, code = shown.partition(":")
            self._tools.add((provider, tool, "failed" if code else "ran"))
        for what, count in (("row", record.dropped), ("citation", record.outside)):
            if count:
                self._outside.add((provider, what), count)


def _read_outcome(failure: str | None) -> str:
    if failure is None:
        return ANSWERED
    return failure if failure in OWN_CODES else REFUSED
