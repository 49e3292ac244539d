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


def fetch(up: Up, url: str, token: str | None = None) -> Outcome:
    """web_fetch through the HTTP API, as an agent calls it; with `token`, as the one it belongs to."""
    status, document = _call(up, "web_fetch", {"url": url}, token)
    if status != 200:
        return Outcome(REFUSED, document.get("rule"), str(document.get("detail")))
    verdict = ALLOWED if document["failure"] is None else REFUSED
    return Outcome(verdict, document["rule"], _inside(document["text"]))


def read(up: Up, url: str, allowlist: list[str]) -> Outcome:
    """page_read in the same way; what is said of a success is the digest and the receipt that vouches for it."""
    status, document = _call(up, "page_read", {"url": url, "allowlist": allowlist}, None)
    if status != 200:
        return Outcome(REFUSED, document.get("rule"), str(document.get("detail")))
    digest = document["provider_operation"]["data"]["result"]["content_digest"]
    verified = up.run("receipt", "verify", document["fetch_id"])
    return Outcome(ALLOWED if verified.returncode == 0 else "BROKEN", None, f"{digest}, receipt holds")


def add_agent(up: Up, name: str, profile: str) -> str:
    """The token of a new agent."""
    config = str(up.folder / "demo.toml")
    done = up.run("agent", "add", name, "--profile", profile, "--env", "json", "--config", config)
    return str(json.loads(done.stdout)["FETCHD_TOKEN"])


def _call(up: Up, tool: str, arguments: dict[str, Any], token: str | None) -> tuple[int, dict[str, Any]]:
    fields = {"Content-Type": "application/json"}
    if token is not None:
        fields["Authorization"] = f"Bearer {token}"
    connection = http.client.HTTPConnection(*up.tools, timeout=CALL_SECONDS)
    try:
        connection.request("POST", f"/v1/tools/{tool}", json.dumps(arguments), fields)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


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
