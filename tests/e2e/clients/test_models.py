"""Language models under the llm-only profile: the agent's key arrives, and answers stream event by event."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import brotli
import pytest

from proxy_addons.addons.decoder_slots import GATEWAY_WINDOWS
from tests.e2e.clients.agent import Agent, read_refusal
from tests.e2e.clients.stage import DENIED, PROFILES, stand_in
from tests.e2e.clients.tools import require_node
from tests.kit import replies
from tests.kit.exchange import Exchange
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


MANY = GATEWAY_WINDOWS + 2
AT_ONCE = """
import asyncio, httpx, sys
async def main():
    client, begun, waiting = httpx.AsyncClient(), asyncio.Event(), set(range(int(sys.argv[2])))
    async def ask(number):
        headers = {"accept-encoding": "br, gzip"}
        async with client.stream("POST", sys.argv[1], headers=headers, json={}) as answer:
            async for _ in answer.aiter_lines():
                waiting.discard(number)
                if not waiting and not begun.is_set():
                    begun.set()
                    print("all begun", flush=True)
    await asyncio.gather(*map(ask, tuple(waiting)))
asyncio.run(main())
"""


def test_many_answers_stream_at_once(prompter: Agent) -> None:
    """A br answer takes one of few decoders for as long as it lasts; those that may last are asked for without."""
    gate = Gate()

    async def route(exchange: Exchange) -> None:
        accepts_br = any("br" in value for value in exchange.request.values("accept-encoding"))
        encoder = brotli.Compressor()
        coding = [("content-encoding", "br")] if accepts_br else []
        await replies.start_chunked(exchange, [("content-type", "text/event-stream"), *coding])
        event = b"data: one\n\n"
        await replies.send_chunk(exchange, encoder.process(event) + encoder.flush() if accepts_br else event)
        await gate.wait()
        if accepts_br:
            await replies.send_chunk(exchange, encoder.finish())
        await replies.end_chunked(exchange)

    prompter.stage.origin.route("/v1/many", route)
    url = prompter.stage.url("/v1/many", VENDORS[0])
    with prompter.running(sys.executable, "-c", AT_ONCE, url, str(MANY)) as client:
        client.wait_line("all begun")
        gate.open()

    assert client.process.returncode == 0
    assert {value for r in prompter.stage.requests for value in r.values("accept-encoding")} == {"gzip"}


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
