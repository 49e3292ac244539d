"""fetchd as an operator has it: commands as processes, and one `fetchd up`.

    with Up(folder, "--config", str(path)) as up:
        assert up.said[-1] == "ready"
        done = up.run("fetch", "https://a.example/")

Every command runs in `folder`, so that no configuration of the repository is found.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, Self

from tests.kit.corpora import REPOSITORY
from tests.kit.processes import find_descendants, read_command, wait_ended
from tests.kit.sync import Watch

CLI = (sys.executable, "-m", "fetchd.faces.cli")
COMMAND_SECONDS = 120.0
"""An upper bound for a broken test on a busy machine."""
FREE_PORTS = ("--gateway", "127.0.0.1:0", "--tools", "127.0.0.1:0", "--operator", "127.0.0.1:0")
ONE_WORKER = ("--workers", "1")


def limited_cli(descriptors: int) -> tuple[str, ...]:
    """The command as a shell would start it under `ulimit -n`."""
    limit = f"resource.setrlimit(resource.RLIMIT_NOFILE, ({descriptors}, {descriptors}))"
    code = f"import resource, runpy; {limit}; runpy.run_module('fetchd.faces.cli', run_name='__main__')"
    return (sys.executable, "-c", code)


def environment() -> dict[str, str]:
    """That of this process, and where the source is: it may not be installed."""
    return {**os.environ, "PYTHONPATH": str(REPOSITORY)}


def run_fetchd(
    *arguments: str, folder: Path, variables: Mapping[str, str] = MappingProxyType({})
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end. variables: beside those of this process."""
    return subprocess.run(
        [*CLI, *arguments],
        cwd=folder, env={**environment(), **variables}, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        check=False, timeout=COMMAND_SECONDS,
    )  # fmt: skip


class NotReadyError(Exception):
    """`fetchd up` ended, or was ended by us, before it was ready; the text is all that it said."""


class Up:
    """One `fetchd up` on `folder`/state; ends with its context. descriptors: started under this `ulimit -n`.

    cli: another way to start the command. variables: beside those of this process.
    """

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        descriptors: int | None = None,
        cli: Sequence[str] = CLI,
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.folder, self.state = folder, folder / "state"
        self._arguments: Sequence[str] = arguments
        self._cli = cli if descriptors is None else limited_cli(descriptors)
        self._variables = variables
        self._watch = Watch()
        self.said: list[str] = []
        self.errors: list[str] = []
        self._silent = False
        self._started = False

    @contextmanager
    def starting(self) -> Iterator[Self]:
        """Start it and do not wait; in the end it has ended."""
        self.start()
        try:
            yield self
        finally:
            self.__exit__()

    def start(self) -> Self:
        """Start it, and do not wait."""
        self._started = True
        self.process = subprocess.Popen(
            [*self._cli, "up", "--state-dir", str(self.state), *self._arguments],
            cwd=self.folder, env={**environment(), **self._variables}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        streams = ((self.process.stdout, self.said), (self.process.stderr, self.errors))
        self._readers = [threading.Thread(target=self._read, args=one, daemon=True) for one in streams]
        for reader in self._readers:
            reader.start()
        return self

    def __enter__(self) -> Self:
        if not self._started:
            self.start()
        try:
            self._watch.wait_sync(lambda: "ready" in self.said or self._silent, "ready", COMMAND_SECONDS)
        except TimeoutError:
            self.process.kill()
        if "ready" not in self.said:
            raise NotReadyError("\n".join([f"fetchd up ended with {self.wait()}", *self.said, *self.errors]))
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        self.wait()

    def wait(self) -> int:
        """Wait for its end; its exit status. All that it said has been read then."""
        try:
            status = self.process.wait(COMMAND_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        for reader in self._readers:
            reader.join(COMMAND_SECONDS)
        return status

    def wait_errors(self, number: int) -> None:
        """Until it has said so many lines on standard error."""
        self._watch.wait_sync(lambda: len(self.errors) >= number, f"{number} lines", COMMAND_SECONDS)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and wait for the end of it and of every process below it; its exit status."""
        below = self.descendants
        self.process.send_signal(number)
        status = self.wait()
        wait_ended(below)
        return status

    def run(
        self, *arguments: str, variables: Mapping[str, str] = MappingProxyType({})
    ) -> subprocess.CompletedProcess[str]:
        """A command on the same state directory."""
        return run_fetchd(*arguments, "--state-dir", str(self.state), folder=self.folder, variables=variables)

    @property
    def run_state(self) -> dict[str, Any]:
        """What run.json says."""
        return json.loads((self.state / "run.json").read_text("utf-8"))

    @property
    def gateway(self) -> tuple[str, int]:
        host, port, _ = self.run_state["listeners"][0]
        return host, port

    @property
    def tools(self) -> tuple[str, int]:
        host, port = self.run_state["tools"]
        return host, port

    @property
    def operator(self) -> tuple[str, int]:
        host, port = self.run_state["operator"]
        return host, port

    @property
    def ca_path(self) -> Path:
        return self.state / "ca.pem"

    @property
    def descendants(self) -> list[int]:
        """Every process below it."""
        return find_descendants(self.process.pid)

    @property
    def gateway_processes(self) -> list[int]:
        """The supervisor and its workers, in this order."""
        return [pid for pid in self.descendants if b"\0proxy_addons" in read_command(pid)]

    def audit(self, kind: str, **wanted: object) -> list[dict[str, Any]]:
        """Audit lines of a kind whose members have these values, by time."""
        lines = []
        for path in sorted((self.state / "audit").glob("*.jsonl")):
            lines += [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.endswith("}")]
        lines.sort(key=lambda line: str(line["time"]))
        return [
            line for line in lines
            if line["kind"] == kind and all(line.get(key) == value for key, value in wanted.items())
        ]  # fmt: skip

    def _read(self, stream: IO[str], lines: list[str]) -> None:
        with stream:
            for line in stream:
                with self._watch:
                    lines.append(line.rstrip("\n"))
        with self._watch:
            self._silent = True
