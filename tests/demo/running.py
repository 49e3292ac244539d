"""`fetchd up` as a process, and the clients of its two faces: the tools' HTTP API, and a raw proxy client."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tests.kit.client import NoResponseError, RawConnection, Response, open_connection

CLI = (sys.executable, "-m", "fetchd.faces.cli")
STOP_SECONDS = 30
CALL_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one try: `allowed` or `refused`, by which rule, and what was said or read."""

    verdict: str
    rule: str | None
    text: str


class Running:
    """One `fetchd up`; ends with its context."""

    def __init__(self, config: Path, state: Path) -> None:
        self._config, self.state = config, state

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [*CLI, "up", "--config", str(self._config), "--state-dir", str(self.state)],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._process.stdout is not None
        self.said: list[str] = []
        for line in self._process.stdout:
            self.said.append(line.rstrip())
            if line == "ready\n":
                break
        else:
            raise RuntimeError("fetchd up ended before it was ready; its reason is above")
        status = json.loads(self.run("status", "--json").stdout)
        self._gateway: tuple[str, int] = tuple(status["listeners"][0][:2])
        self._tools: tuple[str, int] = tuple(status["tools"])
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A `fetchd` command on the same state directory."""
        return subprocess.run(
            [*CLI, *arguments, "--state-dir", str(self.state)], capture_output=True, text=True, check=False
        )

    def fetch(self, url: str) -> Outcome:
        """web_fetch through the HTTP API, as an agent calls it."""
        connection = http.client.HTTPConnection(*self._tools, timeout=CALL_SECONDS)
        try:
            body = json.dumps({"url": url})
            connection.request("POST", "/v1/tools/web_fetch", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            document: dict[str, Any] = json.loads(answer.read())
        finally:
            connection.close()
        if answer.status != 200:
            return Outcome("refused", document.get("rule"), str(document.get("detail")))
        if document["failure"] is not None:
            return Outcome("refused", document["rule"], _inside(document["text"]))
        return Outcome("allowed", None, _inside(document["text"]))

    def tunnel(self, authority: str) -> RawConnection:
        """A CONNECT through the gateway, as an agent's own client makes it."""
        connection = open_connection(*self._gateway)
        answer = connection.connect(authority)
        if answer.status != 200:
            raise NoResponseError(answer.body, answer.body)  # type: ignore[arg-type]
        return connection

    @property
    def ca_path(self) -> Path:
        return self.state / "ca.pem"


def outcome_of(answer: Response) -> Outcome:
    """What an answer that came through the gateway says of the verdict."""
    verdict = answer.header("Fetchd-Verdict") or "none"
    text = str(answer.json()["detail"]) if verdict == "refused" else answer.body.decode("utf-8", "replace")
    return Outcome(verdict, answer.header("Fetchd-Rule"), text)


def _inside(text: str) -> str:
    """The text within the untrusted envelope."""
    return "\n".join(text.split("\n")[1:-1])
