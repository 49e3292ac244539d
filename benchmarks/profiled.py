"""Where a worker's time goes: `python -m benchmarks.profiled [absolute|tunnel|new_tls] [REQUESTS]`.

Runs the load against a gateway whose worker is under cProfile, and prints functions by their own time and by the
time below them, in microseconds a hop. The profiler itself doubles the cost; what it says is where to look.
"""

import asyncio
import cProfile
import os
import pstats
import sys

from benchmarks.load import Shape
from benchmarks.proxies import Ours
from benchmarks.rounds import measure
from benchmarks.stage import Stage

_DUMP = "BENCH_PROFILE"


def profile_worker() -> None:
    """The worker process: its ordinary main under the profiler."""
    from proxy_addons.gateway import main

    profiler = cProfile.Profile()
    try:
        profiler.runcall(main)
    finally:
        profiler.dump_stats(os.environ[_DUMP])


def run_gateway() -> int:
    """The supervisor process, with that worker."""
    from proxy_addons.line_input import LineInput
    from proxy_addons.supervisor import serve

    return asyncio.run(serve(LineInput(sys.stdin.fileno()), ("-m", "benchmarks.profiled", "worker")))


def print_profile(shape: Shape, requests: int, lines: int = 45) -> None:
    """Measure once and print."""
    with Stage() as place:
        dump = place.folder / "worker.prof"
        os.environ[_DUMP] = str(dump)
        with Ours(place, 1, ("-m", "benchmarks.profiled", "gateway")) as running:
            done = measure(place, running, shape, requests).done
        stats = pstats.Stats(str(dump))
    table = stats.get_stats_profile().func_profiles
    for key in ("tottime", "cumtime"):
        print(f"\n{shape}, by {key}: microseconds a hop, calls a hop")
        rows = sorted(table.items(), key=lambda item: getattr(item[1], key), reverse=True)
        for name, row in rows[:lines]:
            calls = int(row.ncalls.partition("/")[0]) / done
            where = f"{row.file_name.rpartition('site-packages/')[2]}:{row.line_number}"
            print(f"{getattr(row, key) / done * 1e6:9.1f} {calls:7.2f}  {name}  ({where})")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["worker"]:
            profile_worker()
        case ["gateway"]:
            sys.exit(run_gateway())
        case arguments:
            chosen = Shape[arguments[0].upper()] if arguments else Shape.ABSOLUTE
            print_profile(chosen, int(arguments[1]) if len(arguments) > 1 else 1500)
