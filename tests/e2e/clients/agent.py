"""An agent's side: a home, the environment that `fetchd env` prints, and programs run in it."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from tests.e2e.clients.stage import ClientStage
from tests.kit.installed import COMMAND_SECONDS, Up
from tests.kit.sync import Watch

Done = subprocess.CompletedProcess[str]


@dataclass(slots=True)
class Running:
    """A client under way; `lines` are those of its output so far."""

    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)
    watch: Watch = field(default_factory=Watch)
    silent: bool = False

    def wait_line(self, line: str) -> None:
        """Wait until it has printed `line`; fails when it ends without."""
        self.watch.wait_sync(lambda: line in self.lines or self.silent, line, COMMAND_SECONDS)
        assert line in self.lines

    def read(self, stream: IO[str]) -> None:
        """Note every line of `stream`, to its end."""
        with stream:
            for line in stream:
                with self.watch:
                    self.lines.append(line.rstrip("\n"))
        with self.watch:
            self.silent = True


@dataclass(frozen=True, slots=True)
class Agent:
    """One that lives in `home` and whose clients know nothing but `settings`."""

    stage: ClientStage
    up: Up
    profile: str
    home: Path
    settings: Mapping[str, str]
    """What `fetchd env` printed for the listener of `profile`."""

    def run(self, *command: str | Path, **more: str) -> Done:
        """Run a client to its end; `more` are variables of its environment beside those printed."""
        return subprocess.run(
            [str(part) for part in command],
            cwd=self.home, env=self._environment(more), stdin=subprocess.DEVNULL, capture_output=True, text=True,
            check=False, timeout=COMMAND_SECONDS,
        )  # fmt: skip

    @contextmanager
    def running(self, *command: str | Path) -> Iterator[Running]:
        """A client under way; it has ended, or is ended, when the context does."""
        process = subprocess.Popen(
            [str(part) for part in command],
            cwd=self.home, env=self._environment({}), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        running = Running(process)
        assert process.stdout is not None
        reader = threading.Thread(target=running.read, args=(process.stdout,), daemon=True)
        reader.start()
        try:
            yield running
            process.wait(COMMAND_SECONDS)
        finally:
            process.kill()
            process.wait()
            reader.join(COMMAND_SECONDS)

    def rules(self, path: str) -> list[str | None]:
        """The rule of each decision under this profile about URLs that end with `path`; None: allowed."""
        lines = self.up.audit("decision", profile=self.profile)
        return [line["rule"] for line in lines if str(line["url"]).endswith(path)]

    def _environment(self, more: Mapping[str, str]) -> dict[str, str]:
        """All that a client gets: no setting of this machine or of its user."""
        return {"PATH": os.environ["PATH"], "HOME": str(self.home), **self.settings, **more}


def agent_name(profile: str) -> str:
    """That of the agent under a profile."""
    return f"{profile}-bot"


def add_agent(up: Up, profile: str) -> dict[str, str]:
    """What `fetchd agent add` prints: the one place where these tests learn how to reach the gateway."""
    config = str(up.folder / "fetchd.toml")
    done = up.run(
        "agent", "add", agent_name(profile), "--profile", profile, "--env", "json", "--config", config
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def print_environment(up: Up, profile: str) -> dict[str, str]:
    """What `fetchd env` prints for a listener."""
    done = up.run("env", "--format", "json", "--listener", profile)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def read_refusal(text: str) -> dict[str, Any]:
    """The problem document within what a client printed."""
    return json.JSONDecoder().raw_decode(text, text.index('{"type": "urn:fetchd:rule:'))[0]
