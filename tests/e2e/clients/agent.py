"""An agent's side: a home, the environment that `fetchd env` prints, and programs run in it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.clients.stage import ClientStage
from tests.kit.installed import COMMAND_SECONDS, Up

Done = subprocess.CompletedProcess[str]


@dataclass(frozen=True, slots=True)
class Agent:
    """One that lives in `home` and whose clients know nothing but `environment`."""

    stage: ClientStage
    up: Up
    profile: str
    home: Path
    settings: Mapping[str, str]
    """What `fetchd env` printed for the listener of `profile`."""

    @property
    def environment(self) -> dict[str, str]:
        """All that a client gets: no setting of this machine or of its user."""
        return {"PATH": os.environ["PATH"], "HOME": str(self.home), **self.settings}

    @property
    def proxy(self) -> str:
        """The gateway, for programs that take it as an argument."""
        return self.settings["HTTPS_PROXY"]

    @property
    def authority(self) -> Path:
        """The gateway's CA file."""
        return Path(self.settings["SSL_CERT_FILE"])

    def run(self, *command: str | Path, stdin: str = "", **more: str) -> Done:
        """Run a client to its end; `more` are variables of its environment beside those printed."""
        return subprocess.run(
            [str(part) for part in command],
            cwd=self.home, env={**self.environment, **more}, input=stdin, capture_output=True, text=True,
            check=False, timeout=COMMAND_SECONDS,
        )  # fmt: skip

    def decisions(self, verdict: str, path: str) -> list[dict[str, Any]]:
        """Decision lines under this profile with that verdict about URLs that end so."""
        lines = self.up.audit("decision", profile=self.profile, verdict=verdict)
        return [line for line in lines if str(line["url"]).endswith(path)]


def print_environment(up: Up, profile: str) -> dict[str, str]:
    """What `fetchd env` prints: the one place where these tests learn how to reach the gateway."""
    done = up.run("env", "--format", "json", "--listener", profile)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
