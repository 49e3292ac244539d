"""Runs fetchd's command under what a systemd unit leaves a service, as far as a process can do that to itself.

    python -m tests.deployment.unit_sandbox UNIT up --state-dir …

NoNewPrivileges, MemoryDenyWriteExecute, RestrictAddressFamilies and SystemCallFilter, read from the unit and put in
place by the same means as systemd's: prctl and seccomp. The groups of calls are those that systemd-analyze lists.
"""

from __future__ import annotations

import ctypes
import errno
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pyseccomp

PR_SET_NO_NEW_PRIVS, PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN = 38, 65, 1
FAMILIES = {"AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10, "AF_NETLINK": 16}


def settings(unit: Path, name: str) -> list[str]:
    """The values of a setting, in order."""
    return re.findall(rf"^{name}=(.*)$", unit.read_text("utf-8"), re.MULTILINE)


def calls_of(group: str) -> set[str]:
    """The system calls of @group, groups within it opened."""
    said = subprocess.run(
        ["systemd-analyze", "--no-pager", "syscall-filter", group], capture_output=True, text=True, check=True
    ).stdout
    found: set[str] = set()
    for word in (line.split("#")[0].strip() for line in said.splitlines()[1:]):
        found |= calls_of(word) if word.startswith("@") else {word} if word else set()
    return found


def allowed_calls(unit: Path) -> set[str]:
    """What SystemCallFilter= leaves: lines that allow, less those that begin with ~."""
    allowed: set[str] = set()
    for value in settings(unit, "SystemCallFilter"):
        calls = {
            call
            for word in value.removeprefix("~").split()
            for call in (calls_of(word) if word.startswith("@") else {word})
        }
        allowed = allowed - calls if value.startswith("~") else allowed | calls
    # As systemd does: a service that may not even end or be started is no service (systemd.exec(5)).
    return allowed | {"execve", "exit", "exit_group", "rt_sigreturn", "sigreturn", "restart_syscall"}


def confine(unit: Path) -> None:
    """For this process and all that it starts, for good."""
    libc = ctypes.CDLL(None, use_errno=True)
    if settings(unit, "MemoryDenyWriteExecute") == ["yes"]:
        # Kernels before 6.3 do not know it.
        libc.prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0)
    if settings(unit, "NoNewPrivileges") == ["yes"]:
        libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    refuse = pyseccomp.SyscallFilter(pyseccomp.ERRNO(errno.EPERM))
    for call in sorted(allowed_calls(unit)):
        if call != "socket":
            try:
                refuse.add_rule(pyseccomp.ALLOW, call)
            except OSError:
                pass  # of another architecture
    (families,) = settings(unit, "RestrictAddressFamilies")
    for family in families.split():
        refuse.add_rule(pyseccomp.ALLOW, "socket", pyseccomp.Arg(0, pyseccomp.EQ, FAMILIES[family]))
    refuse.load()


if __name__ == "__main__":
    confine(Path(sys.argv.pop(1)))
    runpy.run_module("fetchd.faces.cli", run_name="__main__")
