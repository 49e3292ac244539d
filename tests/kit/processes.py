"""Processes that a test did not start itself: the children of what it started, and their end (Linux)."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from tests.kit.sync import PATIENCE


def find_descendants(pid: int) -> list[int]:
    """Children of `pid`, their children, and so on; parents first."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):  # it has ended meanwhile
                parents[int(entry.name)] = int(
                    entry.joinpath("stat").read_text().rpartition(")")[2].split()[1]
                )
    found = [pid]
    for parent in found:
        found += [child for child, its_parent in parents.items() if its_parent == parent]
    return found[1:]


def find_in(folder: Path) -> list[int]:
    """Processes whose working directory is `folder`, orphans too."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                if entry.joinpath("cwd").readlink() == folder:
                    found.append(int(entry.name))
    return found


def read_command(pid: int) -> bytes:
    """Its command line, words separated by NUL; empty when it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def poll_until(predicate: Callable[[], bool], what: str, timeout: float = PATIENCE) -> None:
    """Look again and again: what other processes do to the file system tells nobody."""
    until = time.monotonic() + timeout
    while not predicate():
        if time.monotonic() > until:
            raise TimeoutError(f"never happened: {what}")
        time.sleep(0.01)


def wait_ended(pids: Iterable[int], timeout: float = PATIENCE) -> None:
    """Wait until every one of them has ended; raises TimeoutError."""
    for pid in pids:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            if not poll.poll(timeout * 1000):
                raise TimeoutError(f"process {pid} did not end")
        finally:
            os.close(descriptor)
