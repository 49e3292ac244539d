"""The tools listener as the daemon serves it, on loopback, over a scripted transport."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import httpcore

from fetchd.extract.pool import ProcessExtractor
from fetchd.faces.calls import Calls
from fetchd.faces.http import make_app
from fetchd.faces.mcp_http import MAX_AGENT_SESSIONS, open_mcp
from fetchd.fetch import WebFetch
from fetchd.running.serving import serving
from fetchd.search.interface import SearchProvider
from fetchd.search.searching import WebSearch
from fetchd.transport.fake import FakeTransport, ScriptedAnswer
from fetchd.web_access.asking import Asker, Links
from proxy_addons.audit import CallOutcome, FetchRecord, MemoryAuditLog, Record
from proxy_addons.policy.config import parse_config
from proxy_addons.policy.rulebook import CurrentRules, Rulebook
from tests.kit.ports import bound_socket
from tests.kit.sync import PATIENCE

URL = "https://a.example/p?q=1"
TEXT = ScriptedAnswer(200, [(b"Content-Type", b"text/plain")], ["é <b>".encode()])
HANGS = ScriptedAnswer(200, [(b"Content-Type", b"text/plain")], [b"x"], hangs="head")
HANGS_IN_BODY = ScriptedAnswer(200, [(b"Content-Type", b"text/plain")], [b"12345"], hangs="body")

ACCEPT = "application/json, text/event-stream"


class WatchedLog(MemoryAuditLog):
    """Tells when a line was written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = asyncio.Event()

    def append(self, record: Record) -> int:
        seq = super().append(record)
        self.written.set()
        return seq


@dataclass
class Daemon:
    """A daemon over a scripted transport."""

    port: int
    transport: FakeTransport
    log: WatchedLog
    rules: CurrentRules
    providers: Mapping[str, SearchProvider]

    @property
    def mcp_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    async def request(
        self, body: bytes, path: str, method: str = "POST", headers: Mapping[str, str] | None = None
    ) -> httpcore.Response:
        async with httpcore.AsyncConnectionPool() as pool:
            url = f"http://127.0.0.1:{self.port}{path}"
            return await pool.request(method, url, headers=list((headers or {}).items()), content=body)

    async def expect_dropped_call(self) -> None:
        """Until the one call of this daemon was aborted; its connection is closed then."""
        await asyncio.wait_for(self.log.written.wait(), PATIENCE)
        (line,) = self.log.records
        assert isinstance(line, FetchRecord)
        assert line.outcome is CallOutcome.ABORTED
        assert self.transport.open_answers == 0


class PlainClient:
    """An MCP client of a few lines: JSON-RPC over HTTP, in the handshake era or in that of 2026-07-28."""

    MODERN = "2026-07-28"

    def __init__(self, daemon: Daemon, version: str, extra: Mapping[str, str] = MappingProxyType({})) -> None:
        """extra: fields of every request, such as a token."""
        self.daemon, self.version, self.extra = daemon, version, extra
        self.session: str | None = None

    async def open(self) -> PlainClient:
        """The handshake, in the era that has one."""
        if self.version != self.MODERN:
            hello = {
                "protocolVersion": self.version,
                "capabilities": {},
                "clientInfo": {"name": "plain", "version": "1"},
            }
            response = await self.post(self.message("initialize", hello))
            assert response.status == 200, response.content
            assert read_answer(response)["result"]["protocolVersion"] == self.version
            self.session = dict(response.headers)[b"mcp-session-id"].decode()
            done = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            assert (await self.post(json.dumps(done).encode())).status == 202
        return self

    def fields(self, method: str = "tools/call", name: str = "web_fetch") -> dict[str, str]:
        fields = {"Accept": ACCEPT, "Content-Type": "application/json", **self.extra}
        if self.version == self.MODERN:
            fields |= {"MCP-Protocol-Version": self.version, "Mcp-Method": method}
            fields |= {"Mcp-Name": name} if method == "tools/call" else {}
        elif self.session is not None:
            fields |= {"MCP-Protocol-Version": self.version, "Mcp-Session-Id": self.session}
        return fields

    def message(self, method: str, params: dict[str, Any]) -> bytes:
        return json.dumps(
            {"jsonrpc": "2.0", "id": 7, "method": method, "params": self.stamp(params)}
        ).encode()

    def stamp(self, params: dict[str, Any]) -> dict[str, Any]:
        if self.version != self.MODERN:
            return params
        meta = {
            "io.modelcontextprotocol/protocolVersion": self.version,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        return {**params, "_meta": {**meta, **params.get("_meta", {})}}

    def raw_call(self, arguments: str, name: str = "web_fetch") -> bytes:
        """A call whose arguments are this JSON text, character by character."""
        whole = self.message("tools/call", {"name": name, "arguments": "@"})
        return whole.replace(b'"@"', arguments.encode())

    async def post(self, body: bytes, **extra: str) -> httpcore.Response:
        return await self.daemon.request(body, "/mcp", headers=self.fields() | extra)


def read_answer(response: httpcore.Response) -> dict[str, Any]:
    """The last JSON-RPC message of an answer, whether it is a document or an event stream."""
    text = response.content.decode()
    if dict(response.headers)[b"content-type"].startswith(b"text/event-stream"):
        text = [line for line in text.splitlines() if line.startswith("data:")][-1].removeprefix("data:")
    found = json.loads(text)
    assert isinstance(found, dict)
    return found


@asynccontextmanager
async def serve(
    answers: Mapping[str, ScriptedAnswer],
    *,
    progress_seconds: float = 60.0,
    config: Mapping[str, object] = MappingProxyType({}),
    providers: Mapping[str, SearchProvider] = MappingProxyType({}),
    max_agent_sessions: int = MAX_AGENT_SESSIONS,
    links: Links | None = None,
    **limits: Any,
) -> AsyncIterator[Daemon]:
    """config: tells callers apart. providers: of web_search. links: to the vendors of ask. limits: of Calls.

    The last one out closes the door: clients there are dropped.
    """
    rules = CurrentRules(Rulebook(parse_config(config, source="test")))
    log, transport = WatchedLog(), FakeTransport(answers)
    with ProcessExtractor(1) as extractor, contextlib.closing(bound_socket("127.0.0.1")) as listening:
        listening.listen()
        search = WebSearch(providers, lambda: rules.now.config.search, log)
        calls = Calls(WebFetch(transport, extractor, log), None, search, **limits)
        asker = Asker(lambda: rules.now.config, links, log) if links is not None else None
        async with (
            open_mcp(calls, progress_seconds=progress_seconds, max_agent_sessions=max_agent_sessions) as mcp,
            serving(make_app(calls, rules, ["fetchd.test"], mcp, asker=asker), listening),
        ):
            yield Daemon(listening.getsockname()[1], transport, log, rules, providers)
