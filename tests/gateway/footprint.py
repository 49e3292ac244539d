"""What all processes of a gateway hold together, as the kernel counts it (Linux, `memory`).

Measured is the resident set. The peak is the sum of what each process held at its worst (VmHWM): each is taken at
its own worst moment and shared pages count for every one, so the rise is never shown smaller than it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.gateway.memory import MIB, peak, reset_peak, resident
from tests.kit.gateway import GatewayProcess


@dataclass(frozen=True, slots=True)
class Baseline:
    """The processes of a gateway and what they held when it was at rest, in bytes."""

    processes: tuple[int, ...]
    held: int

    def rise(self) -> int:
        """How many bytes more than at rest were held at the worst since `measure_baseline`."""
        return sum(map(peak, self.processes)) - self.held

    def rise_now(self) -> int:
        """How many bytes more than at rest are held at this moment."""
        return sum(map(resident, self.processes)) - self.held


def processes_of(gateway: GatewayProcess) -> tuple[int, ...]:
    """The supervisor and its workers."""
    supervisor = gateway.process.pid
    children = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
    return (supervisor, *(int(child) for child in children))


def measure_baseline(gateway: GatewayProcess) -> Baseline:
    """What is held now; from now on peaks are counted afresh."""
    processes = processes_of(gateway)
    return Baseline(processes, sum(map(reset_peak, processes)))


def scratch_file(gateway: GatewayProcess, name: str) -> Path:
    """A file that the workers of a gateway share."""
    worker = processes_of(gateway)[1]
    opened = [one.readlink() for one in Path(f"/proc/{worker}/fd").iterdir() if one.exists()]
    return next(one for one in opened if one.name == name and one.parent.name.startswith("fetchd-"))


__all__ = ["MIB", "Baseline", "measure_baseline", "processes_of", "scratch_file"]
