"""Interleaved rounds: every proxy gets its turn in each, so that a busy minute of the machine meets all of them."""

import json
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.cpu import read_cpu_seconds
from benchmarks.load import Job, Shape
from benchmarks.proxies import Running
from benchmarks.stage import HOST, Place, end

MAX_SECONDS = 60.0
"""Of one turn."""
CONNECTIONS: Mapping[Shape, int] = {Shape.ABSOLUTE: 16, Shape.TUNNEL: 16, Shape.NEW_TLS: 4}
"""Under way at once; also enough for the system to spread them over two workers."""


class LoadFailedError(Exception):
    """A turn did not get the answers it asked for."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One turn: requests answered, wall seconds, CPU seconds of the proxy's processes."""

    done: int
    seconds: float
    cpu_seconds: float

    @property
    def rate(self) -> float:
        """Requests a second."""
        return self.done / self.seconds

    @property
    def cpu_ms(self) -> float:
        """CPU milliseconds a hop."""
        return self.cpu_seconds / self.done * 1e3


@dataclass(frozen=True, slots=True)
class Row:
    """What the turns of one proxy in one shape came to: medians, and the spread of the CPU figure."""

    proxy: str
    shape: Shape
    turns: int
    requests: int
    rate: float
    cpu_ms: float
    cpu_ms_least: float
    cpu_ms_most: float

    @property
    def per_cpu_second(self) -> float:
        """Hops that one CPU second pays for: what one core can do."""
        return 1e3 / self.cpu_ms


def measure(place: Place, proxy: Running, shape: Shape, requests: int) -> Sample:
    """One turn; raises LoadFailedError."""
    job = Job(
        shape,
        proxy.address,
        HOST,
        place.origin_port,
        str(proxy.ca),
        CONNECTIONS[shape],
        requests,
        MAX_SECONDS,
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.load"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(job.render() + "\n")
        process.stdin.flush()
        warm = json.loads(process.stdout.readline() or "{}")
        if not warm.get("warm"):
            raise LoadFailedError(f"{proxy.name}, {shape}: {warm.get('failure', 'the load process ended')}")
        before = read_cpu_seconds(proxy.pid)
        process.stdin.write("go\n")
        process.stdin.flush()
        said = json.loads(process.stdout.readline() or '{"done": 0, "failure": "the load process ended"}')
        after = read_cpu_seconds(proxy.pid)
    finally:
        end(process)
    if said["failure"] is not None or not said["done"]:
        raise LoadFailedError(f"{proxy.name}, {shape}: {said['failure']}")
    return Sample(said["done"], said["seconds"], after - before)


def summarize(proxy: str, shape: Shape, samples: Sequence[Sample]) -> Row:
    """Medians over the turns."""
    costs = [sample.cpu_ms for sample in samples]
    return Row(
        proxy, shape, len(samples), sum(sample.done for sample in samples),
        statistics.median(sample.rate for sample in samples),
        statistics.median(costs), min(costs), max(costs),
    )  # fmt: skip
