"""Programs that die in the midst of their work, between any two system calls.

`run_orders` forks a child for each line of standard input, a JSON object with `kill_at`. The child kills itself
(SIGKILL) when code of a package is entered, or calls something, for the `kill_at`-th time, in whichever thread. Then
the line "end" and the child's status are printed.
"""

import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any


def run_orders(work: Callable[[dict[str, Any]], None], *packages: ModuleType) -> None:
    """`work` does what a line says until it is killed within `packages`."""
    watched = tuple(str(Path(str(package.__file__)).parent) for package in packages)
    for line in sys.stdin:
        order: dict[str, Any] = json.loads(line)
        child = os.fork()
        if child == 0:
            try:
                _kill_after(order["kill_at"], watched)
                work(order)
            except BaseException:  # noqa: BLE001 - a fault is no crash
                traceback.print_exc()
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        print("end", status, flush=True)


def _kill_after(count: int, watched: tuple[str, ...]) -> None:
    left = [count]

    def watch(frame: Any, event: str, _argument: object) -> None:
        if event in ("call", "c_call") and frame.f_code.co_filename.startswith(watched):
            left[0] -= 1
            if left[0] <= 0:
                os.kill(os.getpid(), signal.SIGKILL)

    threading.setprofile(watch)
    sys.setprofile(watch)
