"""Who is told of a run: the store and the audit log, behind one interface that never fails a run.

Failing a run that the vendor answered because a row could not be written would trade a real answer for a bookkeeping
entry: it is logged instead.
"""

import logging
from collections.abc import Sequence
from typing import Protocol

from fetchd.errors import FetchdError
from proxy_addons.audit import AuditUnavailableError

from .run_values import RunOutcome, RunSpec, StepResult

_log = logging.getLogger(__name__)


class RunLog(Protocol):
    """Takes what happens. Raises nothing that a run would have to look at."""

    async def begin(self, spec: RunSpec, provider: str, model: str) -> None:
        """A run starts; provider and model are those asked first."""
        ...

    async def add_step(self, spec: RunSpec, step: StepResult) -> None:
        """A step has ended, all of its calls in it."""
        ...

    async def end(self, outcome: RunOutcome) -> None:
        """The run has ended."""
        ...


class RunSink(Protocol):
    """The same, of one place, which may raise FetchdError and AuditUnavailableError."""

    async def begin(self, spec: RunSpec, provider: str, model: str) -> None: ...
    async def add_step(self, spec: RunSpec, step: StepResult) -> None: ...
    async def end(self, outcome: RunOutcome) -> None: ...


class CarefulLog:
    """A RunLog over several places. What one cannot take is logged, and the others have it all the same."""

    def __init__(self, sinks: Sequence[RunSink] = ()) -> None:
        self._sinks = sinks

    async def begin(self, spec: RunSpec, provider: str, model: str) -> None:
        """See RunLog."""
        for sink in self._sinks:
            try:
                await sink.begin(spec, provider, model)
            except (FetchdError, AuditUnavailableError) as error:
                _log.error("run %s: its beginning was not recorded: %s", spec.run_id, error)

    async def add_step(self, spec: RunSpec, step: StepResult) -> None:
        """See RunLog."""
        for sink in self._sinks:
            try:
                await sink.add_step(spec, step)
            except (FetchdError, AuditUnavailableError) as error:
                _log.error("run %s: step %d was not recorded: %s", spec.run_id, step.step, error)

    async def end(self, outcome: RunOutcome) -> None:
        """See RunLog."""
        for sink in self._sinks:
            try:
                await sink.end(outcome)
            except (FetchdError, AuditUnavailableError) as error:
                _log.error("run %s: its end was not recorded: %s", outcome.run_id, error)
