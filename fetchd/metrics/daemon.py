"""What the daemon counts: calls of the tools, searches, work on pages.

Fetches, reads and what was asked of a provider are counted as they are written to the audit log, so that log and
metrics cannot tell different stories.
"""

import platform
import time
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from fetchd.core.tool_definitions import WEB_SEARCH
from proxy_addons.audit import AskRecord, CallOutcome, FetchRecord, Record, SearchRecord
from proxy_addons.policy import metrics
from proxy_addons.policy.tallies import Report, Tallies

from .asking import AskMeters


class DaemonMeters:
    """The daemon's counters."""

    def __init__(self) -> None:
        self.tallies: Final = Tallies()
        self._calls: Final = self.tallies.counter(metrics.TOOL_CALLS)
        self._seconds: Final = self.tallies.histogram(metrics.TOOL_SECONDS)
        self._bytes: Final = self.tallies.counter(metrics.TOOL_BYTES)
        self._extractions: Final = self.tallies.counter(metrics.EXTRACTIONS)
        self._extraction_seconds: Final = self.tallies.histogram(metrics.EXTRACTION_SECONDS)
        self._searches: Final = self.tallies.counter(metrics.SEARCHES)
        self._search_seconds: Final = self.tallies.histogram(metrics.SEARCH_SECONDS)
        self._asks: Final = AskMeters(self.tallies)
        started = time.time()
        self.tallies.watch(metrics.STARTED_AT, lambda: started)
        self.tallies.watch(metrics.BUILD_INFO, lambda: 1, (_read_version(), platform.python_version()))

    def take(self, record: Record) -> None:
        """A line of the audit log was written."""
        if isinstance(record, FetchRecord):
            self._calls.add((record.tool, record.outcome))
            if record.ms is not None:
                self._seconds.observe((record.tool,), record.ms / 1e3)
            if record.bytes:
                self._bytes.add((record.tool,), record.bytes)
            if record.extraction is not None:
                self._extractions.add((record.extraction,))
        elif isinstance(record, SearchRecord) and record.provider is not None:
            self._searches.add((record.provider, record.outcome))
            if record.ms is not None:
                self._search_seconds.observe((record.provider,), record.ms / 1e3)
        elif isinstance(record, AskRecord):
            self._asks.take(record)

    def searched(self, outcome: CallOutcome, seconds: float) -> None:
        """A call of web_search has ended."""
        self._calls.add((WEB_SEARCH.name, outcome))
        self._seconds.observe((WEB_SEARCH.name,), seconds)

    def extracted(self, outcome: str, seconds: float) -> None:
        """Work on a page has ended: done, late, or failed."""
        self._extraction_seconds.observe((outcome,), seconds)

    def watch_authority(self, expires: str) -> None:
        """When the authority expires, as ISO 8601."""
        moment = datetime.fromisoformat(expires).timestamp()
        self.tallies.watch(metrics.CA_NOT_AFTER, lambda: moment)

    def report(self) -> Report:
        """Everything."""
        return self.tallies.report()


def _read_version() -> str:
    try:
        return version("fetchd")
    except PackageNotFoundError:  # a source tree that is not installed
        return "unknown"
