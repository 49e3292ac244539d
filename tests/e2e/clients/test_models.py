"""Language models under the llm-only profile: the agent's key arrives, and answers stream event by event."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.e2e.clients.agent import Agent, read_refusal
from tests.e2e.clients.stage import DENIED, PROFILES, stand_in
from tests.e2e.clients.tools import require_node
from tests.kit import replies
from tests.kit.sync import Gate
from tests.kit.tools import require_tool

KEY = "sk-test-0123456789"
VENDORS = [stand_in(host) for host in PROFILES["llm-only"]["allow_hosts"]]
EVENTS = ("data: one", "data: two", "data: [DONE]")
HTTPX = f"""
import httpx, sys
headers = {{"authorization": "Bearer {KEY}"}}
with httpx.stream("POST", sys.argv[1], headers=headers, json={{"stream": True}}) as answer:
    for line in answer.iter_lines():
        print(line, flush=True)
"""


def curl(*options: str) -> tuple[str | Path, ...]:
    return (
        require_tool("curl"), "-sS", "-N", *options, "-H", f"Authorization: Bearer {KEY}",
        "-H", "Content-Type: application/json", "-d", '{"stream": true}',
    )  # fmt: skip


STREAMERS = {
    "curl over HTTP/1.1": lambda url: (*curl("--http1.1"), url),
    "curl over HTTP/2": lambda url: (*curl("--http2"), url),
    "httpx": lambda url: (sys.executable, "-c", HTTPX, url),
    "node": lambda url: (*require_node(), url, KEY),
}


@pytest.mark.parametrize("streamer", STREAMERS)
def test_an_event_arrives_before_the_next_one_is_sent(prompter: Agent, streamer: str) -> None:
    """The second event is sent only once the client has printed the first, and so on to the end."""
    gates = [Gate() for _ in EVENTS]
    chunks = [f"{event}\n\n".encode() for event in EVENTS]
    route = replies.trickle(chunks, gates, [("content-type", "text/event-stream")])
    prompter.stage.origin.route("/v1/messages", route)

    command: Sequence[str | Path] = STREAMERS[streamer](prompter.stage.url("/v1/messages", VENDORS[0]))
    with prompter.running(*command) as client:
        for gate, event in zip(gates, EVENTS, strict=True):
            gate.open()
            client.wait_line(event)

    assert client.process.returncode == 0
    (request,) = prompter.stage.requests
    assert request.values("authorization") == [f"Bearer {KEY}"]
    assert json.loads(request.body) == {"stream": True}


@pytest.mark.parametrize("host", VENDORS)
def test_the_key_reaches_each_vendor(prompter: Agent, host: str) -> None:
    done = prompter.run(*curl("-H", "x-api-key: sk-other"), prompter.stage.url("/v1/key", host))

    assert (done.returncode, done.stdout) == (0, "hello /v1/key\n")
    (request,) = prompter.stage.requests
    assert request.values("authorization") == [f"Bearer {KEY}"]
    assert request.values("x-api-key") == ["sk-other"]


def test_the_key_reaches_nobody_else(prompter: Agent) -> None:
    for host in (DENIED, stand_in("github.com"), f"evil.{VENDORS[0]}"):
        done = prompter.run(*curl("-i"), prompter.stage.url("/v1/key", host))
        assert read_refusal(done.stdout)["detail"] == f"host not allowed: {host}"
    assert prompter.stage.requests == []


def test_a_redirect_cannot_take_the_key_along(prompter: Agent) -> None:
    prompter.stage.origin.route("/v1/moved", replies.redirect(prompter.stage.url("/steal", DENIED), 307))
    url = prompter.stage.url("/v1/moved", VENDORS[0])

    done = prompter.run(*curl("-L", "--location-trusted"), url)

    refusal = read_refusal(done.stdout)
    assert refusal["rule"] == "host"
    assert refusal["detail"].endswith(f"refused: host not allowed: {DENIED}")
    assert len(prompter.stage.requests) == 1


def test_the_log_holds_no_key(prompter: Agent) -> None:
    prompter.run(*curl(), prompter.stage.url("/v1/logged", VENDORS[0]))

    assert prompter.rules("/v1/logged") == [None]
    for path in (prompter.up.state / "audit").iterdir():
        assert KEY not in path.read_text("utf-8")
