"""The numbers of all workers of a gateway, added up, those that are gone included.

A worker that is killed tells nothing any more: what it told last is kept, so that no counter goes back, and its
gauges go. It is asked every few seconds, whoever wants to know or not; what it counted since is lost with it.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from proxy_addons.policy import metrics
from proxy_addons.policy.tallies import Report, keep_counted, merge_reports
from proxy_addons.running_worker import RunningWorker

REPORT_ORDER: Final = '{"report": true}'
ASK_SECONDS: Final = 5.0


class Numbers:
    """running: the workers there are, by index; it changes. configured: as many as there should be."""

    def __init__(self, running: Mapping[int, RunningWorker], configured: int) -> None:
        self._running, self._configured = running, configured
        self._kept: Report = {}
        self.restarts = 0

    def keep(self, worker: RunningWorker) -> None:
        """It has ended."""
        self._kept = merge_reports([self._kept, keep_counted(worker.told)])

    async def ask(self) -> dict[str, Any]:
        """The sum now: `metrics`, how many workers are `alive`, and how many are `configured`."""
        asked = dict(self._running)
        answers = await asyncio.gather(*(worker.ask_report() for worker in asked.values()))
        alive = dict(zip(asked, answers, strict=True))
        reports = [self._kept]
        for index, worker in self._running.items():  # one may have ended meanwhile, and is among the kept
            reports.append(worker.told if alive.get(index) else keep_counted(worker.told))
        count = sum(answers)
        own: Report = {
            metrics.WORKERS_ALIVE.name: [[[], count]],
            metrics.WORKERS_CONFIGURED.name: [[[], self._configured]],
            metrics.WORKER_RESTARTS.name: [[[], self.restarts]],
        }
        merged = merge_reports([*reports, own])
        return {"metrics": merged, "alive": count, "configured": self._configured}

    async def ask_again_and_again(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(ASK_SECONDS)
            await asyncio.gather(*(worker.ask_report() for worker in list(self._running.values())))
