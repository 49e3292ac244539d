"""A gateway with a fault on command: `python -m tests.gateway.boom SOCKET` in place of `python -m proxy_addons`.

Two addons, one before and one after all others in the chain, tell the test of each hook over a Unix socket and wait
for its word: pass, raise, or raise after waiting. So the test knows which hooks ran, in order, and no test has to
guess when. The worker also obeys two faults of its surroundings, told in the same way (`Fault`).

The test's side is `HookDirector`; the worker's side is everything below it.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import sys
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO, Any, Self

from tests.kit.sync import PATIENCE, Watch


class Place(StrEnum):
    FIRST = "first"
    LAST = "last"


class Manner(StrEnum):
    """What a hook of the faulty addon does."""

    PASS = "pass"
    RAISE = "raise"
    RAISE_LATER = "raise-later"
    """It waits first: the failure comes out of a task."""


class Fault(StrEnum):
    """What goes wrong around the worker while the hook runs."""

    NONE = "none"
    DISK_FULL = "disk-full"
    """From now on no file of the worker may grow (RLIMIT_FSIZE)."""
    DISK_FREE = "disk-free"
    DIALER_BROKEN = "dialer-broken"
    """From now on the dialer raises what it never should."""
    DIALER_WHOLE = "dialer-whole"
    LEDGER_GONE = "ledger-gone"
    """The file of the redirect ledger is moved away."""
    LEDGER_BACK = "ledger-back"


CHANGES = {"connected": 1, "disconnected": -1}
"""What the end of a hook's name says of the number of open connections."""


@dataclass(frozen=True, slots=True)
class Order:
    """Fail `hook` at `place`, in `manner`."""

    hook: str
    place: Place
    manner: Manner


class HookDirector:
    """Hears of every hook of the worker and says what it shall do."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "hooks.sock"
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(self.path))
        self._listening.listen()
        self._watch = Watch()
        self._order: Order | None = None
        self._fault = Fault.NONE
        self._seen: list[str] = []
        self._fired = 0
        self._open = {"client": 0, "server": 0}

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.close()

    def arm(self, order: Order | None) -> None:
        """From now on obey this order; the record of hooks begins anew, once all earlier connections are over."""
        self._watch.wait_sync(self._is_quiet, "the end of earlier connections", PATIENCE)
        with self._watch:
            self._order, self._seen, self._fired = order, [], 0

    def cause(self, fault: Fault) -> None:
        """Have the worker's next hook change its surroundings."""
        with self._watch:
            self._fault = fault

    @property
    def seen(self) -> list[str]:
        """Hooks that reached the end of the chain or fired since `arm`, in order."""
        with self._watch:
            return list(self._seen)

    @property
    def fired(self) -> int:
        with self._watch:
            return self._fired

    def wait_over(self) -> None:
        """Wait until all connections since `arm` are over, and the failure that was ordered is in the audit."""

        def over() -> bool:
            told = self._seen.count("audit:internal") >= self._fired >= (self._order is not None)
            return self._is_quiet() and "client_connected" in self._seen and told

        self._watch.wait_sync(over, "the end of every connection", PATIENCE)

    def _is_quiet(self) -> bool:
        return not any(self._open.values())

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rw", encoding="ascii") as lines:
            for line in lines:
                place, hook = line.split()
                lines.write(f"{self._decide(Place(place), hook)}\n")
                lines.flush()

    def _decide(self, place: Place, hook: str) -> str:
        with self._watch:
            order, fault = self._order, self._fault
            self._fault = Fault.NONE
            manner = Manner.PASS
            if order is not None and (order.hook, order.place) == (hook, place):
                manner = order.manner
                self._fired += 1
            if place is Place.FIRST:
                self._seen.append(hook)
                side, _, change = hook.partition("_")
                if side in self._open:
                    self._open[side] += CHANGES.get(change, 0)
            return f"{manner} {fault}"


# --- the worker's side ---------------------------------------------------------------------------------------------


class Broken(Exception):
    """What the faulty addon raises. Its text must reach nobody but the log."""


class FaultyAddon:
    """Every hook of a flow, at one place of the chain."""

    def __init__(self, place: Place, hooks: frozenset[str], director: IO[str], around: Surroundings) -> None:
        self.name = f"faulty-{place}"
        self._place, self._director, self._around = place, director, around
        for hook in hooks:
            setattr(self, hook, self._make(hook))

    def _make(self, hook: str) -> Callable[[Any], Awaitable[None] | None]:
        def run(data: Any) -> Awaitable[None] | None:
            self._director.write(f"{self._place} {hook}\n")
            self._director.flush()
            manner, fault = self._director.readline().split()
            self._around.suffer(Fault(fault))
            match Manner(manner):
                case Manner.RAISE:
                    raise Broken(f"broken on purpose in {hook}")
                case Manner.RAISE_LATER:
                    return _raise_later(hook)
            return None

        return run


async def _raise_later(hook: str) -> None:
    with contextlib.suppress(asyncio.CancelledError):  # a task that is being ended breaks all the same
        await asyncio.sleep(0)
    raise Broken(f"broken on purpose in {hook}, later")


class ToldSink:
    """The audit log; tells the test of each written event, as if it were a hook."""

    def __init__(self, sink: Any, director: IO[str]) -> None:
        self._sink, self._director = sink, director

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sink, name)

    def append(self, record: Any) -> Any:
        position = self._sink.append(record)
        if hasattr(record, "event"):
            self._director.write(f"{Place.FIRST} audit:{record.event}\n")
            self._director.flush()
            self._director.readline()
        return position


class Surroundings:
    """What the worker stands on, and how it breaks."""

    def __init__(self, dialer: type[Any], ledger: Path) -> None:
        self._dialer, self._connect, self._ledger = dialer, dialer.connect, ledger

    def suffer(self, fault: Fault) -> None:
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        match fault:
            case Fault.DISK_FULL:
                resource.setrlimit(resource.RLIMIT_FSIZE, (1, hard))
            case Fault.DISK_FREE:
                resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
            case Fault.DIALER_BROKEN:
                self._dialer.connect = _broken_connect
            case Fault.DIALER_WHOLE:
                self._dialer.connect = self._connect
            case Fault.LEDGER_GONE:
                self._ledger.rename(self._ledger.with_suffix(".away"))
            case Fault.LEDGER_BACK:
                self._ledger.with_suffix(".away").rename(self._ledger)


async def _broken_connect(self: object, *_: object) -> None:
    raise ValueError("broken on purpose in the dialer")


def _work(director: str) -> None:
    from mitmproxy import hooks

    from proxy_addons import dial, gateway
    from proxy_addons.engine.fail_closed import LIFECYCLE
    from proxy_addons.worker_spec import WorkerSpec

    class FaultyGateway(gateway.Gateway):
        def __init__(self, spec: WorkerSpec, sink: Any) -> None:
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(director)
            lines = connection.makefile("rw", encoding="ascii")
            super().__init__(spec, ToldSink(sink, lines))
            around = Surroundings(dial.Dialer, spec.ledger)
            asked = frozenset(hooks.all_hooks) - LIFECYCLE
            first, last = (FaultyAddon(place, asked, lines, around) for place in Place)
            self.master.addons.chain.insert(0, first)
            self.master.addons.add(last)

    gateway.Gateway = FaultyGateway  # type: ignore[misc]
    gateway.main()


def main() -> None:
    """As supervisor: `SOCKET`. As the worker it starts: `--worker SOCKET`."""
    if sys.argv[1] == "--worker":
        _work(sys.argv[2])
        return
    from proxy_addons import supervisor
    from proxy_addons.line_input import LineInput

    command = ("-m", "tests.gateway.boom", "--worker", sys.argv[1])
    sys.exit(asyncio.run(supervisor.serve(LineInput(sys.stdin.fileno()), command)))


if __name__ == "__main__":
    main()
