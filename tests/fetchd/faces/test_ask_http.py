"""`POST /v1/ask`: who may, how far, whole and as events, and what a client that goes away ends."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpcore
import pytest

from fetchd.core.envelope import CUT_OUT
from fetchd.web_access.errors import RefusalError
from fetchd.web_access.values import Citation, ServerToolCall, Stop
from proxy_addons.audit import AskRecord, CallOutcome
from proxy_addons.policy.config_ask import VendorConfig
from proxy_addons.policy.vendors.dialects import DIALECTS
from tests.fetchd.faces.served import Daemon, serve
from tests.fetchd.faces.test_openapi import is_as_documented
from tests.fetchd.web_access.kit import ScriptedVendor, completion
from tests.kit.sync import PATIENCE

PATH = "/v1/ask"
CITATION = Citation("https://docs.rs/1", None, "quoted")
SEARCHED = ServerToolCall.ok("anthropic", "web_search")
BROKE = ServerToolCall.failed("anthropic", "web_search", "unavailable")


@dataclass
class ScriptedLinks:
    """Leads to one scripted vendor, whoever is asked for."""

    vendor: ScriptedVendor

    def connect(self, vendor: VendorConfig, model: str | None = None) -> ScriptedVendor:
        assert model is None, "no caller chooses the model"
        self.vendor.name, self.vendor.dialect = vendor.name.value, DIALECTS[vendor.dialect]
        return self.vendor


def config(web: Mapping[str, object] | None = None, **profile: object) -> dict[str, Any]:
    """Callers without a name are under a profile that lists the tool."""
    tables: dict[str, Any] = {
        "daemon": {"profile": "p"},
        "profiles": {"p": {"tools": ["ask"], **profile}},
        "ask": {"max_steps": 3},
    }
    return tables if web is None else tables | {"web": web}


ON: dict[str, object] = {"search": True, "max_uses": 3, "allowed_domains": ["docs.rs", "crates.io"]}


async def ask(daemon: Daemon, body: object, **headers: str) -> tuple[httpcore.Response, Any]:
    response = await daemon.request(json.dumps(body).encode(), PATH, headers=headers)
    assert is_as_documented(response, PATH, "post")
    return response, json.loads(response.content) if b"json" in dict(response.headers)[
        b"content-type"
    ] else None


async def test_a_run_is_one_object() -> None:
    vendor = ScriptedVendor([completion("An <answer>.", Stop.END, SEARCHED, citations=(CITATION,))])
    async with serve({}, config=config(ON), links=ScriptedLinks(vendor)) as daemon:
        response, document = await ask(daemon, {"prompt": "What is new?"})
        assert response.status == 200
        cut = CUT_OUT.fullmatch(document["text"])
        assert cut is not None and cut[1] == "An &lt;answer>."
        assert (document["status"], document["trust"], document["steps"]) == ("done", "untrusted", 1)
        assert document["citations"] == [
            {
                "step": 1,
                "url": "https://docs.rs/1",
                "title": None,
                "cited_text": "quoted",
                "outside_declaration": False,
            }
        ]
        assert document["usage"] == {"input_tokens": 100, "output_tokens": 20, "server_tool_requests": 1}
        lines = [line for line in daemon.log.records if isinstance(line, AskRecord)]
        assert [(line.step, line.agent, line.outcome) for line in lines] == [
            (1, "local", CallOutcome.SUCCESS), (0, "local", CallOutcome.SUCCESS),
        ]  # fmt: skip
    web, conversation, _ = vendor.asked[0]
    assert (web.search, web.cap, web.allow) == (True, 3, ("docs.rs", "crates.io"))
    assert conversation.prompt == "What is new?"


def read_events(content: bytes) -> list[tuple[str, dict[str, Any]]]:
    events = []
    for block in content.decode().removesuffix("\n\n").split("\n\n"):
        name, data = block.split("\n")
        events.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return events


async def test_events_come_as_things_happen_and_the_object_comes_last() -> None:
    vendor = ScriptedVendor([completion("x", Stop.END, BROKE), completion("y", Stop.END, SEARCHED)])
    async with serve({}, config=config(ON), links=ScriptedLinks(vendor)) as daemon:
        response, _ = await ask(daemon, {"prompt": "x"}, Accept="text/event-stream")
    events = read_events(response.content)
    assert [name for name, _ in events] == [
        "step",
        "tool",
        "step_ended",
        "step",
        "tool",
        "step_ended",
        "result",
    ]
    assert events[0][1] == {"step": 1, "provider": "anthropic", "model": "model"}
    assert events[1][1] == {"provider": "anthropic", "tool": "web_search", "ok": False}
    assert events[4][1]["ok"] is True
    assert events[-1][1]["server_tool_calls"][0]["error"] == "unavailable"


async def test_a_tool_is_told_of_before_its_answer_is_there() -> None:
    hanging = asyncio.Event()

    class Slow(ScriptedVendor):
        async def complete(self, web, conversation, pending, on_told):
            on_told(SEARCHED)
            await hanging.wait()
            return completion()

    fields, seen = [("Accept", "text/event-stream")], b""
    async with (
        serve({}, config=config(ON), links=ScriptedLinks(Slow([]))) as daemon,
        httpcore.AsyncConnectionPool() as pool,
        pool.stream(
            "POST", f"http://127.0.0.1:{daemon.port}{PATH}", headers=fields, content=b'{"prompt":"x"}'
        ) as response,
    ):
        async for chunk in response.aiter_stream():
            seen += chunk
            if b"event: tool" in seen and not hanging.is_set():
                assert b"event: result" not in seen
                hanging.set()
    assert b"event: result" in seen


async def test_a_failure_is_a_problem_document_and_as_an_event_the_same() -> None:
    vendor = ScriptedVendor([RefusalError("answered with HTTP 401", "authentication_error", 401)])
    async with serve({}, config=config(), links=ScriptedLinks(vendor)) as daemon:
        response, document = await ask(daemon, {"prompt": "x"})
        streamed, _ = await ask(daemon, {"prompt": "x"}, Accept="text/event-stream")
    assert response.status == 502
    assert document["detail"] == 'ask: provider "anthropic" answered with HTTP 401'
    name, last = read_events(streamed.content)[-1]
    assert (name, last["detail"], last["kind"]) == ("failed", document["detail"], "Backend")


# ------------------------------------------------------------------------------------------------ who, how far


async def test_a_profile_has_the_tool_only_where_it_says_so() -> None:
    vendor = ScriptedVendor([completion()])
    async with serve({}, links=ScriptedLinks(vendor)) as daemon:
        response, document = await ask(daemon, {"prompt": "x"})
    assert (response.status, document["detail"]) == (403, "tool ask is not allowed by profile default")
    assert vendor.asked == []


async def test_where_nobody_can_be_asked_nobody_is() -> None:
    async with serve({}, config=config()) as daemon:
        response, _ = await ask(daemon, {"prompt": "x"})
    assert response.status == 403


BAD = [
    # what it says, request, detail
    ("no object", [], "ask: send a JSON object"),
    ("no prompt", {}, "ask: prompt must not be empty"),
    ("a blank prompt", {"prompt": " "}, "ask: prompt must not be empty"),
    ("a prompt of another type", {"prompt": 7}, "ask: prompt must not be empty"),
    ("a long prompt", {"prompt": "x" * 200_001}, "at most 200000 characters"),
    ("a misspelt key", {"prompt": "x", "serach": True}, "did you mean search?"),
    ("a model", {"prompt": "x", "model": "big"}, "the operator chooses it"),
    ("a key", {"prompt": "x", "api_key": "sk"}, "no such key"),
    ("a switch that is none", {"prompt": "x", "search": 1}, "search must be true or false"),
    ("a number that is none", {"prompt": "x", "max_uses": 1.0}, "max_uses must be a whole number"),
    ("a list that is none", {"prompt": "x", "allowed_domains": "docs.rs"}, "must be a list of host names"),
    ("a vendor there is not", {"prompt": "x", "provider": "x"}, "provider must be one of"),
    ("another vendor than the operator's", {"prompt": "x", "provider": "openai"}, "is not among those"),
    ("fetch, where [web] has none", {"prompt": "x", "fetch": True}, "web fetch is not among what this run may do"),
    ("a host outside [web]", {"prompt": "x", "allowed_domains": ["evil.test"]}, "have no host in common"),
    ("a host that is none", {"prompt": "x", "blocked_domains": ["https://x"]}, "is not a bare host name"),
]  # fmt: skip


@pytest.mark.parametrize(("what", "body", "detail"), BAD, ids=[row[0] for row in BAD])
async def test_what_is_wrong_or_too_much_is_refused_and_nothing_is_sent(
    what: str, body: object, detail: str
) -> None:
    vendor = ScriptedVendor([completion()])
    async with serve({}, config=config(ON), links=ScriptedLinks(vendor)) as daemon:
        response, document = await ask(daemon, body)
    assert (response.status, document["kind"]) == (400, "InvalidArguments")
    assert detail in document["detail"]
    assert vendor.asked == []


async def test_bytes_that_are_no_json_are_refused() -> None:
    async with serve({}, config=config(), links=ScriptedLinks(ScriptedVendor([]))) as daemon:
        for body in (b"", b"{", b"\xff", b"[" * 100_000):
            response = await daemon.request(body, PATH)
            assert response.status == 400
            assert is_as_documented(response, PATH, "post")


async def test_a_caller_asks_for_less_and_gets_that() -> None:
    vendor = ScriptedVendor([completion()])
    body = {"prompt": "x", "max_uses": 9, "allowed_domains": ["docs.rs"], "max_steps": 99, "timeout": 5}
    async with serve({}, config=config(ON), links=ScriptedLinks(vendor)) as daemon:
        await ask(daemon, body)
        await ask(daemon, {"prompt": "x", "search": False})
    first, then = vendor.asked
    assert (first[0].cap, first[0].allow) == (3, ("docs.rs",))
    assert (then[0].search, then[0].allow) == (False, ())


async def test_a_budget_of_the_operator_is_the_most_that_a_caller_may_spend() -> None:
    paused = completion("x", Stop.PAUSE)
    async with serve({}, config=config(ON), links=ScriptedLinks(ScriptedVendor([paused]))) as daemon:
        _, document = await ask(daemon, {"prompt": "x", "max_steps": 99})
    assert (document["status"], document["spent"], document["steps"]) == ("spent", "steps", 3)


async def test_the_host_rules_of_the_caller_s_profile_hold() -> None:
    vendor = ScriptedVendor([completion("x", Stop.END, citations=(CITATION, Citation("https://a.docs.rs/")))])
    tables = config({"search": True}, allow_hosts=["docs.rs"], deny_hosts=["evil.test"])
    async with serve({}, config=tables, links=ScriptedLinks(vendor)) as daemon:
        _, document = await ask(daemon, {"prompt": "x"})
    assert vendor.asked[0][0].allow == ("docs.rs",)
    # The vendor's docs.rs has subdomains, the profile's has none.
    assert [one["outside_declaration"] for one in document["citations"]] == [False, True]


# ------------------------------------------------------------------------------------------ clients that go away


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
async def test_a_client_that_goes_away_ends_its_run(accept: str) -> None:
    hanging = asyncio.Event()
    vendor = ScriptedVendor([], hangs=hanging)
    async with serve({}, config=config(ON), links=ScriptedLinks(vendor)) as daemon:
        body = b'{"prompt":"x"}'
        head = f"POST {PATH} HTTP/1.1\r\nHost: fetchd.test\r\nAccept: {accept}\r\nContent-Length: {len(body)}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", daemon.port)) as client:
            client.sendall(head.encode() + body)
            await asyncio.wait_for(hanging.wait(), PATIENCE)
            assert daemon.log.records == []
        lines: list[AskRecord] = []
        while len(lines) < 2:
            await asyncio.wait_for(daemon.log.written.wait(), PATIENCE)
            daemon.log.written.clear()
            lines = [line for line in daemon.log.records if isinstance(line, AskRecord)]
    assert [(line.step, line.outcome) for line in lines] == [
        (1, CallOutcome.ABORTED), (0, CallOutcome.ABORTED),
    ]  # fmt: skip


async def test_too_many_runs_are_turned_away() -> None:
    hanging = asyncio.Event()
    vendor = ScriptedVendor([], hangs=hanging)
    limits: dict[str, Any] = {"max_calls": 1, "max_waiting": 0, "share": 1}
    async with serve({}, config=config(), links=ScriptedLinks(vendor), **limits) as daemon:
        first = asyncio.create_task(daemon.request(b'{"prompt":"x"}', PATH))
        await asyncio.wait_for(hanging.wait(), PATIENCE)
        response, document = await ask(daemon, {"prompt": "x"})
        assert (response.status, dict(response.headers)[b"retry-after"]) == (503, b"5")
        streamed, _ = await ask(daemon, {"prompt": "x"}, Accept="text/event-stream")
        name, last = read_events(streamed.content)[-1]
        assert (name, last["status"], last["detail"]) == ("failed", 503, document["detail"])
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
