"""CPU time of a process and everything below it, from /proc/PID/stat (proc(5)): user and system, all threads."""

import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PARENT, _USER, _SYSTEM, _CHILD_USER, _CHILD_SYSTEM = 1, 11, 12, 13, 14
"""Places after the command name, which is in parentheses and may hold anything."""


def read_cpu_seconds(root: int) -> float:
    """Seconds spent so far by process `root` and its descendants, ended ones that were waited for included."""
    table = _read_table()
    total, queue = 0, [root]
    while queue:
        pid = queue.pop()
        fields = table.get(pid)
        if fields is not None:
            total += sum(int(fields[i]) for i in (_USER, _SYSTEM, _CHILD_USER, _CHILD_SYSTEM))
        queue += [child for child, row in table.items() if int(row[_PARENT]) == pid]
    return total / _TICKS


def _read_table() -> dict[int, list[str]]:
    table = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text("ascii", "replace")
            except OSError:  # it ended between the listing and the look
                continue
            table[int(entry.name)] = text.rpartition(")")[2].split()
    return table
