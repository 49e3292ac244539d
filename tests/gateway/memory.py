"""Memory of a worker process, from /proc (Linux): resident now, and its highest value since a reset."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

MIB = 1 << 20


def worker_of(supervisor: int) -> int:
    """The only child of a gateway process."""
    (child,) = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
    return int(child)


def reset_peak(pid: int) -> int:
    """Start the peak afresh; bytes resident now."""
    with suppress(
        OSError
    ):  # without the right to reset, the peak of the whole life stands: the test is stricter
        Path(f"/proc/{pid}/clear_refs").write_text("5")
    return _read(pid, "VmRSS")


def resident(pid: int) -> int:
    """Bytes resident now."""
    return _read(pid, "VmRSS")


def peak(pid: int) -> int:
    """The highest resident size since `reset_peak`, in bytes."""
    return _read(pid, "VmHWM")


def _read(pid: int, name: str) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(rf"^{name}:\s+(\d+) kB", status, re.MULTILINE)
    assert found is not None, status
    return int(found[1]) << 10
