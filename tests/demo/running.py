"""The clients of a `fetchd up`: the tools' HTTP API, a raw proxy client, and the command line."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass
from typing import Any

from tests.kit.client import RawConnection, Response, open_connection
from tests.kit.installed import Up, run_fetchd

CALL_SECONDS = 60
ALLOWED, REFUSED = "allowed", "refused"


class TunnelError(OSError):
    """A CONNECT that should have been accepted was not."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one try: a verdict, the rule of a refusal, and what was read or said."""

    verdict: str
    rule: str | None
    text: str


def fetch(up: Up, url: str) -> Outcome:
    """web_fetch through the HTTP API, as an agent calls it."""
    connection = http.client.HTTPConnection(*up.tools, timeout=CALL_SECONDS)
    try:
        body = json.dumps({"url": url})
        connection.request("POST", "/v1/tools/web_fetch", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        document: dict[str, Any] = json.loads(answer.read())
    finally:
        connection.close()
    if answer.status != 200:
        return Outcome(REFUSED, document.get("rule"), str(document.get("detail")))
    verdict = ALLOWED if document["failure"] is None else REFUSED
    return Outcome(verdict, document["rule"], _inside(document["text"]))


def fetch_for_real(up: Up, url: str) -> Outcome:
    """A page of the world: default profile, system resolver, a gateway of the command's own."""
    state = ("--state-dir", str(up.folder / "real"))
    done = run_fetchd("fetch", url, "--max-chars", "600", "--fail", *state, folder=up.folder)
    text = done.stdout or done.stderr
    return Outcome(ALLOWED if done.returncode == 0 else "failed", None, text)


def verify(up: Up) -> Outcome:
    """The audit log, checked as an operator checks it."""
    done = up.run("audit", "verify")
    return Outcome("verified" if done.returncode == 0 else "BROKEN", None, done.stdout)


def open_tunnel(up: Up, authority: str) -> RawConnection:
    """A CONNECT through the gateway, as an agent's own client makes it. Raises TunnelError."""
    connection = open_connection(*up.gateway)
    answer = connection.connect(authority)
    if answer.status != 200:
        connection.close()
        raise TunnelError(f"CONNECT {authority} was answered {answer.status} {answer.reason}")
    return connection


def read_outcome(answer: Response) -> Outcome:
    """What an answer that came through the gateway says of the verdict."""
    verdict = answer.header("Fetchd-Verdict") or "none"
    text = str(answer.json()["detail"]) if verdict == REFUSED else answer.body.decode("utf-8", "replace")
    return Outcome(verdict, answer.header("Fetchd-Rule"), text)


def _inside(text: str) -> str:
    """The text within the untrusted envelope."""
    return "\n".join(text.split("\n")[1:-1])
