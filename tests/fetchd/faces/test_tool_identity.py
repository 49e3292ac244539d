"""Who calls the tools: tokens on every path, two agents side by side who never meet, sessions that have an owner."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpcore
import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from fetchd.faces.openapi import WEB_FETCH_PATH
from fetchd.transport.fake import ScriptedAnswer
from proxy_addons.audit import FetchRecord
from proxy_addons.policy.agents import digest_token
from proxy_addons.policy.config import parse_config
from proxy_addons.policy.rulebook import Rulebook
from proxy_addons.policy.verdicts import Rule, refuse
from tests.fetchd.faces.served import HANGS, TEXT, URL, Daemon, PlainClient, read_answer, serve
from tests.fetchd.faces.test_openapi import is_as_documented

TOKENS = {name: f"fetchd.{name}.{'0123456789abcdef' * 2}" for name in ("alice", "bob", "idle", "eve")}
OTHER = "https://b.example/"
AGENTS: dict[str, Any] = {
    "alice": {"profile": "alices", "token_sha256": digest_token(TOKENS["alice"])},
    "bob": {"profile": "bobs", "token_sha256": digest_token(TOKENS["bob"])},
    "idle": {"profile": "idle", "token_sha256": digest_token(TOKENS["idle"])},
}
CONFIG: dict[str, Any] = {
    "profiles": {
        "alices": {"allow_hosts": ["a.example"], "tools": ["web_fetch"]},
        "bobs": {"allow_hosts": ["b.example"]},
        "idle": {"tools": []},
    },
    "agents": AGENTS,
}
NEEDED = "this gateway serves known agents only; send a token: Basic NAME:TOKEN, or Bearer TOKEN"
UNKNOWN = "the token is not known here; it may have been revoked or replaced"


def bearer(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {TOKENS[name]}"}


def basic(name: str, token: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{name}:{token}".encode()).decode()}


async def fetch(daemon: Daemon, headers: dict[str, str], url: str = URL) -> httpcore.Response:
    return await daemon.request(json.dumps({"url": url}).encode(), WEB_FETCH_PATH, headers=headers)


def document(response: httpcore.Response) -> dict[str, Any]:
    return json.loads(response.content)


def callers(daemon: Daemon) -> list[tuple[str, str]]:
    """Agent and profile of each call that was made."""
    return [(line.agent, line.profile) for line in daemon.log.records if isinstance(line, FetchRecord)]


# -- HTTP


@pytest.mark.parametrize(
    ("headers", "agent"),
    [
        pytest.param(bearer("alice"), ("alice", "alices"), id="a bearer token"),
        pytest.param(basic("alice", TOKENS["alice"]), ("alice", "alices"), id="name and token"),
        pytest.param({"Authorization": f"bEARER  {TOKENS['alice']}"}, ("alice", "alices"), id="any case"),
        pytest.param({}, NEEDED, id="nothing"),
        pytest.param(bearer("eve"), UNKNOWN, id="a token that is nobody's"),
        pytest.param(basic("bob", TOKENS["alice"]), UNKNOWN, id="another's name beside a token"),
        pytest.param(basic("alice", ""), UNKNOWN, id="a name alone"),
        pytest.param({"Authorization": TOKENS["alice"]}, UNKNOWN, id="a token without scheme"),
        pytest.param({"Authorization": "Bearer"}, UNKNOWN, id="a scheme without token"),
        pytest.param({"Authorization": f"Digest {TOKENS['alice']}"}, UNKNOWN, id="another scheme"),
        pytest.param({"Authorization": f"Bearer {digest_token(TOKENS['alice'])}"}, UNKNOWN, id="the digest"),
        pytest.param({"Proxy-Authorization": f"Bearer {TOKENS['alice']}"}, NEEDED, id="a proxy's field"),
        pytest.param({"Fetchd-Agent": "alice", "Fetchd-Profile": "alices"}, NEEDED, id="a name claimed"),
        pytest.param({"Fetchd-Agent": "bob", **bearer("alice")}, ("alice", "alices"), id="and ignored"),
        pytest.param({"X-Forwarded-For": "10.0.0.7"}, NEEDED, id="an address claimed"),
    ],
)
async def test_who_calls(headers: dict[str, str], agent: object) -> None:
    sources = {"agents": {**AGENTS, "dora": {"sources": ["10.0.0.7"]}}}
    async with serve({URL: TEXT}, config=CONFIG | sources) as daemon:
        response = await fetch(daemon, headers)

    if isinstance(agent, tuple):
        assert (response.status, callers(daemon)) == (200, [agent])
        assert [one.identity.agent for one in daemon.transport.sent] == [agent[0]]
    else:
        assert (response.status, document(response)["detail"]) == (401, agent)
        assert document(response)["rule"] == "identity"
        assert dict(response.headers)[b"www-authenticate"] == b'Bearer realm="fetchd"'
        assert (callers(daemon), daemon.transport.sent) == ([], [])


@pytest.mark.parametrize("method", ["POST", "GET"])
async def test_one_agent_never_holds_every_place(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    """Neither by requests that it does not end nor by event streams, which no bound on calls counts."""
    monkeypatch.setattr("fetchd.running.client_places.count_places", lambda: 4)
    async with serve({OTHER: TEXT}, config=CONFIG) as daemon:
        session = (await PlainClient(daemon, "2025-11-25", bearer("alice")).open()).session
        stream = f"GET /mcp HTTP/1.1\r\nAccept: text/event-stream\r\nMcp-Session-Id: {session}\r\n"
        post = "POST /mcp HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 9\r\n"
        unended = f"{post}Expect: 100-continue\r\n"  # the server says so when it begins to read
        held = []
        for head in (stream if method == "GET" else unended, unended):
            reader, writer = await asyncio.open_connection("127.0.0.1", daemon.port)
            held.append(writer)
            writer.write(f"{head}Host: a\r\nAuthorization: Bearer {TOKENS['alice']}\r\n\r\n".encode())
            assert (await reader.readline()).split()[1] in (b"100", b"200")
        refused = await fetch(daemon, bearer("alice"))
        other = await fetch(daemon, bearer("bob"), OTHER)
        for writer in held:
            writer.close()
            await writer.wait_closed()

    assert (refused.status, other.status) == (503, 200)
    assert dict(refused.headers)[b"retry-after"] == b"5"
    assert document(refused)["detail"].startswith("too many requests of this agent at once")
    assert callers(daemon) == [("bob", "bobs")]


async def test_two_statements_are_none() -> None:
    async with serve({URL: TEXT}, config=CONFIG) as daemon, httpcore.AsyncConnectionPool() as pool:
        fields = [("Authorization", f"Bearer {TOKENS[name]}") for name in ("alice", "bob")]
        url = f"http://127.0.0.1:{daemon.port}{WEB_FETCH_PATH}"
        response = await pool.request("POST", url, headers=fields, content=b"{}")

    assert (response.status, document(response)["detail"]) == (401, UNKNOWN)


@pytest.mark.parametrize("source", ["127.0.0.1", "127.0.0.0/8"])
async def test_a_source_address_is_an_agents(source: str) -> None:
    config = CONFIG | {"agents": {**AGENTS, "dora": {"profile": "alices", "sources": [source]}}}
    async with serve({URL: TEXT}, config=config) as daemon:
        assert (await fetch(daemon, {})).status == 200
        assert (await fetch(daemon, bearer("alice"))).status == 200
        assert (await fetch(daemon, bearer("eve"))).status == 401

    assert callers(daemon) == [("dora", "alices"), ("alice", "alices")]


@pytest.mark.parametrize(
    ("config", "status"),
    [
        pytest.param({}, 200, id="nobody is known: the local user"),
        pytest.param({"daemon": {"anonymous": False}}, 401, id="nobody is known, and nobody else served"),
        pytest.param(CONFIG, 401, id="there are agents"),
        pytest.param(CONFIG | {"daemon": {"anonymous": True}}, 200, id="there are agents, and others"),
    ],
)
async def test_who_comes_without_a_name(config: dict[str, Any], status: int) -> None:
    async with serve({URL: TEXT}, config=config) as daemon:
        response = await fetch(daemon, {})

    assert response.status == status
    assert callers(daemon) == ([("local", "default")] if status == 200 else [])


@pytest.mark.parametrize("path", ["/", "/healthz", "/openapi.json", "/docs"])
async def test_what_says_nothing_of_anybody_is_open(path: str) -> None:
    async with serve({}, config=CONFIG) as daemon:
        assert (await daemon.request(b"", path, "GET")).status == 200
        assert (await daemon.request(b"", path, "GET", bearer("eve"))).status == 200


@pytest.mark.parametrize("path", ["/v1/tools/web_find", "/healthz/", "//healthz", "/mcp/", "/MCP", "/docs/x"])
async def test_everything_else_is_not(path: str) -> None:
    async with serve({}, config=CONFIG) as daemon:
        assert (await daemon.request(b"", path, "GET")).status == 401


async def test_it_is_refused_before_the_body_is_read() -> None:
    async with serve({}, config=CONFIG) as daemon:
        reader, writer = await asyncio.open_connection("127.0.0.1", daemon.port)
        writer.write(b"POST /v1/tools/web_fetch HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        writer.close()

    assert head.startswith(b"HTTP/1.1 401 ")


async def test_a_tool_that_the_profile_does_not_list() -> None:
    async with serve({URL: TEXT}, config=CONFIG) as daemon:
        response = await fetch(daemon, bearer("idle"))

    assert response.status == 403
    found = document(response)
    assert (found["detail"], found["rule"]) == ("tool web_fetch is not allowed by profile idle", None)
    assert (callers(daemon), daemon.transport.sent) == ([], [])
    assert is_as_documented(response, WEB_FETCH_PATH, "post")


@pytest.mark.parametrize("headers", [{}, bearer("eve")])
async def test_the_refusal_is_as_documented(headers: dict[str, str]) -> None:
    async with serve({}, config=CONFIG) as daemon:
        assert is_as_documented(await fetch(daemon, headers), WEB_FETCH_PATH, "post")


async def test_a_spent_budget_is_a_soft_failure_in_the_gateways_words() -> None:
    spent = "budget requests_per_minute spent; free again in 7 s"
    async with serve({URL: ScriptedAnswer(refusal=refuse(Rule.BUDGET, spent))}, config=CONFIG) as daemon:
        found = document(await fetch(daemon, bearer("alice")))

    assert (found["failure"], found["rule"]) == ("soft", "budget")
    assert spent in found["text"]


# -- what a browser sends


@pytest.mark.parametrize(
    ("host", "headers", "status"),
    [
        pytest.param("evil.example", {}, 421, id="another name and no token"),
        pytest.param("evil.example", bearer("alice"), 200, id="another name and a token"),
        pytest.param("evil.example", bearer("eve"), 401, id="another name and nobody's token"),
        pytest.param("fetchd.test", bearer("alice"), 200, id="a name of daemon.names"),
        pytest.param("fetchd.test", {}, 401, id="which is no token"),
    ],
)
async def test_another_host_passes_with_a_token_alone(
    host: str, headers: dict[str, str], status: int
) -> None:
    async with serve({URL: TEXT}, config=CONFIG) as daemon:
        assert (await fetch(daemon, {"Host": host, **headers})).status == status


async def test_where_no_token_is_needed_it_does_not() -> None:
    """A page that DNS led here can add any field to its requests; it must not get by as the local user."""
    async with serve({URL: TEXT}, config=CONFIG | {"daemon": {"anonymous": True}}) as daemon:
        assert (await fetch(daemon, {"Host": "evil.example", **bearer("alice")})).status == 421


async def test_a_page_of_another_origin_does_not_pass_with_one() -> None:
    async with serve({URL: TEXT}, config=CONFIG) as daemon:
        assert (await fetch(daemon, {"Origin": "https://evil.example", **bearer("alice")})).status == 403


# -- a reload


SLOW = "https://a.example/slow"
REDUCED = {name: table for name, table in AGENTS.items() if name != "alice"}
NOT_HERS: dict[str, dict[str, Any]] = {
    "revoked": REDUCED,
    "her token was replaced": {
        **AGENTS,
        "alice": {**AGENTS["alice"], "token_sha256": digest_token("another")},
    },
    "her token is another's": {**REDUCED, "eve": AGENTS["alice"]},
}
STILL_HERS: dict[str, dict[str, Any]] = {
    "nothing changed": AGENTS,
    "another was revoked": {name: table for name, table in AGENTS.items() if name != "bob"},
    "she has another profile": {**AGENTS, "alice": {**AGENTS["alice"], "profile": "bobs"}},
}


def take(daemon: Daemon, agents: dict[str, Any]) -> None:
    daemon.rules.replace(Rulebook(parse_config(CONFIG | {"agents": agents}, source="test")))


@pytest.mark.parametrize("why", NOT_HERS)
async def test_a_revoked_token_ends_with_what_is_under_way(why: str) -> None:
    """The call is dropped as when its client goes, and its client is told."""
    async with serve({URL: TEXT, SLOW: HANGS}, config=CONFIG) as daemon:
        under_way = asyncio.create_task(fetch(daemon, bearer("alice"), SLOW))
        await daemon.transport.hanging.wait()
        client = await PlainClient(daemon, "2025-11-25", bearer("alice")).open()
        take(daemon, NOT_HERS[why])
        answer = await under_way

        assert answer.status == 401 and "meanwhile" in document(answer)["detail"]
        assert [line.outcome for line in daemon.log.records if isinstance(line, FetchRecord)] == ["aborted"]
        assert (await fetch(daemon, bearer("alice"))).status == (
            200 if why == "her token is another's" else 401
        )
        assert (await client.post(client.message("tools/list", {}))).status in (401, 404)


@pytest.mark.parametrize("why", STILL_HERS)
async def test_who_is_still_the_same_agent_goes_on(why: str) -> None:
    async with serve({URL: TEXT, SLOW: HANGS}, config=CONFIG) as daemon:
        under_way = asyncio.create_task(fetch(daemon, bearer("alice"), SLOW))
        await daemon.transport.hanging.wait()
        take(daemon, STILL_HERS[why])

        assert (await fetch(daemon, bearer("idle"))).status == 403  # the loop has had its turns
        assert not under_way.done()
        under_way.cancel()
        await asyncio.gather(under_way, return_exceptions=True)


async def test_an_event_stream_ends_with_its_agent() -> None:
    async with serve({URL: TEXT}, config=CONFIG) as daemon:
        streams = {}
        for name in ("alice", "bob"):
            session = (await PlainClient(daemon, "2025-11-25", bearer(name)).open()).session
            streams[name] = reader, writer = await asyncio.open_connection("127.0.0.1", daemon.port)
            writer.write(
                f"GET /mcp HTTP/1.1\r\nHost: a\r\nAccept: text/event-stream\r\nMcp-Session-Id: {session}\r\n"
                f"Authorization: Bearer {TOKENS[name]}\r\n\r\n".encode()
            )
            assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
        take(daemon, REDUCED)

        rest = await streams["alice"][0].read()
        assert not rest.endswith(b"0\r\n\r\n")
        assert not streams["bob"][0].at_eof()
        for _, writer in streams.values():
            writer.close()
            await writer.wait_closed()


# -- MCP


@asynccontextmanager
async def client_of(daemon: Daemon, name: str, era: Any) -> AsyncIterator[Client]:
    """The SDK's own client, with a token."""
    async with (
        httpx2.AsyncClient(headers=bearer(name)) as http,
        Client(streamable_http_client(daemon.mcp_url, http_client=http), mode=era) as client,
    ):
        yield client


@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
class TestMcp:
    async def test_two_agents_at_once_are_judged_each_by_its_own_profile(self, era: Any) -> None:
        async with (
            serve({URL: TEXT, OTHER: TEXT}, config=CONFIG) as daemon,
            client_of(daemon, "alice", era) as alice,
            client_of(daemon, "bob", era) as bob,
        ):
            calls = [(one, url) for url in (URL, OTHER) for one in (alice, bob)] * 5
            results = await asyncio.gather(*(one.call_tool("web_fetch", {"url": url}) for one, url in calls))

        allowed = [one is (alice if url == URL else bob) for one, url in calls]
        assert [not result.is_error for result in results] == allowed
        assert {(one.identity.agent, one.target.href) for one in daemon.transport.sent} == {
            ("alice", URL), ("bob", OTHER),
        }  # fmt: skip

    async def test_an_agent_sees_its_tools(self, era: Any) -> None:
        async with (
            serve({URL: TEXT}, config=CONFIG) as daemon,
            client_of(daemon, "alice", era) as alice,
            client_of(daemon, "idle", era) as idle,
        ):
            assert [tool.name for tool in (await alice.list_tools()).tools] == ["web_fetch"]
            assert (await idle.list_tools()).tools == []
            with pytest.raises(MCPError) as caught:
                await idle.call_tool("web_fetch", {"url": URL})

        assert (caught.value.error.code, caught.value.error.message) == (-32602, "Unknown tool: web_fetch")
        assert daemon.transport.sent == []


@pytest.mark.parametrize("version", ["2024-11-05", "2025-11-25", "2026-07-28"])
async def test_without_a_token_there_is_no_mcp(version: str) -> None:
    async with serve({URL: TEXT}, config=CONFIG) as daemon:
        client = PlainClient(daemon, version)
        response = await client.post(client.message("tools/list", {}))

    assert (response.status, document(response)["rule"]) == (401, "identity")


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
@pytest.mark.parametrize("thief", ["bob", ""])
async def test_a_session_is_its_owners(method: str, thief: str) -> None:
    """To anyone else, also one who needs no token, it does not exist; and it is not harmed."""
    config = CONFIG | {"daemon": {"anonymous": True}}
    async with serve({URL: TEXT}, config=config) as daemon:
        alice = await PlainClient(daemon, "2025-11-25", bearer("alice")).open()
        body = alice.raw_call(json.dumps({"url": URL})) if method == "POST" else b""
        stolen = alice.fields() | {"Authorization": ""} | (bearer(thief) if thief else {})
        if not thief:
            del stolen["Authorization"]
        response = await daemon.request(body, "/mcp", method, stolen)
        missing = await daemon.request(body, "/mcp", method, {**stolen, "Mcp-Session-Id": "0" * 32})

        assert (response.status, response.content) == (missing.status, missing.content)
        assert response.status == 404
        assert read_answer(await alice.post(alice.message("tools/list", {})))["result"]["tools"]
    assert daemon.transport.sent == []


async def test_a_session_of_nobody_is_not_an_agents() -> None:
    config = CONFIG | {"daemon": {"anonymous": True}}
    async with serve({URL: TEXT}, config=config) as daemon:
        nobody = await PlainClient(daemon, "2025-11-25").open()
        stolen = nobody.fields() | bearer("alice")
        response = await daemon.request(nobody.message("tools/list", {}), "/mcp", headers=stolen)

    assert response.status == 404


async def test_a_session_outlives_the_token_it_was_opened_with() -> None:
    async with serve({URL: TEXT}, config=CONFIG) as daemon:
        client = await PlainClient(daemon, "2025-11-25", bearer("alice")).open()
        rotated = {**AGENTS, "alice": {**AGENTS["alice"], "token_sha256": digest_token(TOKENS["eve"])}}
        daemon.rules.now = Rulebook(parse_config(CONFIG | {"agents": rotated}, source="test"))

        assert (await client.post(client.message("tools/list", {}))).status == 401
        client.extra = bearer("eve")
        assert read_answer(await client.post(client.message("tools/list", {})))["result"]["tools"]


async def test_in_a_session_the_profile_of_now_judges() -> None:
    async with serve({URL: TEXT}, config=CONFIG) as daemon:
        client = await PlainClient(daemon, "2025-11-25", bearer("alice")).open()
        config = parse_config(CONFIG, source="test")
        moved = {**config.agents, "alice": replace(config.agents["alice"], profile="idle")}
        daemon.rules.now = Rulebook(replace(config, agents=moved))

        listed = read_answer(await client.post(client.message("tools/list", {})))

    assert listed["result"]["tools"] == []


async def test_an_agent_has_its_share_of_sessions_and_no_more() -> None:
    async with serve({}, config=CONFIG, max_agent_sessions=2) as daemon:
        first = await PlainClient(daemon, "2025-11-25", bearer("alice")).open()
        await PlainClient(daemon, "2025-06-18", bearer("alice")).open()
        with pytest.raises(AssertionError, match="too many open sessions of this agent"):
            await PlainClient(daemon, "2025-11-25", bearer("alice")).open()
        await PlainClient(daemon, "2025-11-25", bearer("bob")).open()
        # Those that are open work, and the other era needs none.
        assert (await first.post(first.message("tools/list", {}))).status == 200
        modern = PlainClient(daemon, PlainClient.MODERN, bearer("alice"))
        answer = await daemon.request(
            modern.message("tools/list", {}), "/mcp", headers=modern.fields("tools/list")
        )
        assert answer.status == 200
        # One that was ended makes room.
        assert (await daemon.request(b"", "/mcp", "DELETE", first.fields())).status == 200
        await PlainClient(daemon, "2025-11-25", bearer("alice")).open()
