"""Machines of a test's own on this one: network namespaces, and the wires between them. Needs root (Linux).

with Namespace("machine") as machine, Namespace("internet") as internet:
    connect(machine, "192.0.2.1/24", internet, "192.0.2.2/24")
    with internet.inside():
        server = Origin("192.0.2.2")          # its sockets are there, also after the block
    machine.run("ip", "route")
"""

from __future__ import annotations

import itertools
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import pytest

from tests.kit.tools import require_tool

_NUMBERS = itertools.count()


class Namespace:
    """One machine; gone with its context, with whatever runs in it left without a network."""

    def __init__(self, kind: str) -> None:
        self.name = f"{kind[:4]}{os.getpid()}x{next(_NUMBERS)}"

    def __enter__(self) -> Self:
        run_here("ip", "netns", "add", self.name)
        self.run("ip", "link", "set", "lo", "up")
        return self

    def __exit__(self, *_: object) -> None:
        run_here("ip", "netns", "delete", self.name)

    def command(self, *command: str) -> tuple[str, ...]:
        """`command`, to be run there."""
        # Not `ip netns exec`, which hides what is mounted from then on: namespaces that the command makes, say.
        return ("nsenter", f"--net=/run/netns/{self.name}", "--", *command)

    def run(self, *command: str) -> str:
        """Run to its end, which has to be a good one; its output."""
        return run_here(*self.command(*command))

    @contextmanager
    def inside(self) -> Iterator[None]:
        """This thread, and those that it starts, open their sockets there."""
        with Path("/proc/thread-self/ns/net").open() as home, Path("/run/netns", self.name).open() as there:
            os.setns(there.fileno(), os.CLONE_NEWNET)
            try:
                yield
            finally:
                os.setns(home.fileno(), os.CLONE_NEWNET)


def connect(one: Namespace, address: str, other: Namespace, peer: str) -> None:
    """A wire with an address at each end."""
    left, right = f"w{next(_NUMBERS)}", f"w{next(_NUMBERS)}"
    one.run("ip", "link", "add", left, "type", "veth", "peer", "name", right, "netns", other.name)
    for machine, wire, end in ((one, left, address), (other, right, peer)):
        machine.run("ip", "address", "add", end, "dev", wire)
        machine.run("ip", "link", "set", wire, "up")


def run_here(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
    return done.stdout


def require_namespaces() -> None:
    """Skip where this process may not make network namespaces or packet filters.

    A missing program is as `require_tool` says.
    """
    for program in ("ip", "nft", "nsenter", "setpriv"):
        require_tool(program)
    name = f"probe{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"network namespaces are refused here: {made.stderr.strip()}", allow_module_level=True)
    table = ["ip", "netns", "exec", name, "nft", "add", "table", "inet", "probe"]
    filters = subprocess.run(table, capture_output=True, text=True, check=False)
    run_here("ip", "netns", "delete", name)
    if filters.returncode:
        pytest.skip(f"packet filters are refused here: {filters.stderr.strip()}", allow_module_level=True)
