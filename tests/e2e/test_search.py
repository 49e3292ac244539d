"""web_search of a running installation over a provider of its own: every face, hostile arguments, the key nowhere."""

from __future__ import annotations

import http.client
import json
import socket
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.stdio import stdio_client

from fetchd.core.envelope import CUT_OUT
from tests.e2e.stage import Reply, Stage, post_json
from tests.e2e.test_mcp import ERAS, parameters, text_of
from tests.kit import replies
from tests.kit.exchange import Ending, Exchange, Request
from tests.kit.installed import COMMAND_SECONDS, Up
from tests.kit.mark import Mark
from tests.kit.origin import Origin
from tests.kit.processes import poll_until, read_command
from tests.kit.sync import PATIENCE, Gate
from tests.kit.toml import write_toml

WEB_SEARCH = "/v1/tools/web_search"
CANARY = "canary-key-c9f31e07"
VARIABLE = "SEARCH_KEY_FOR_TESTS"
SHELLS_OWN = "what-the-shell-of-the-operator-holds"
ROW = {"title": "A", "url": "https://a.example/", "description": "a page"}


@dataclass
class Peer:
    """A search gateway as SPEC 4 has it, over TLS. It answers what the query names, or one row."""

    origin: Origin
    asked: Gate = field(default_factory=Gate)
    gate: Gate = field(default_factory=Gate)

    async def answer(self, exchange: Exchange) -> None:
        query = json.loads(exchange.request.body)["query"]
        match query:
            case "hang":
                self.asked.open()
                await self.gate.wait()
                await exchange.close()
            case "echo":
                # What a careless server does: it repeats the key it was given.
                said = exchange.request.values("authorization")[0].encode()
                await exchange.respond(401, [("content-type", "text/plain")], b"no such key: " + said)
            case "reset":
                exchange.abort()
            case "elsewhere":
                await exchange.respond(307, [("location", "https://other.example/v1/search")])
            case _:
                document = {"query": query, "results": [ROW]}
                await exchange.respond(
                    200, [("content-type", "application/json")], json.dumps(document).encode()
                )


@dataclass
class World:
    stage: Stage
    up: Up
    peer: Peer
    mark: Mark
    config: Path

    def search(self, **arguments: object) -> Reply:
        return post_json(self.up.tools, WEB_SEARCH, arguments)

    def cli(self, *arguments: str) -> Any:
        done = self.up.run(
            "search", *arguments, "--config", str(self.config), "--json", variables={VARIABLE: CANARY}
        )
        return json.loads(done.stdout)

    @property
    def requests(self) -> list[Request]:
        return self.mark.requests

    def reconfigure(self, **search: object) -> Any:
        """Other keys of [search], and what a reload said."""
        document = tomllib.loads(self.config.read_text())
        write_toml(self.config, {**document, "search": {**document["search"], **search}})
        return self.up.run("reload")


@pytest.fixture(scope="module")
def installed_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("search")
    with Stage(folder, ("test",)) as stage, Origin(tls=stage.pki.server_context("localhost")) as origin:
        peer = Peer(origin)
        origin.route("*", peer.answer)
        table = {"endpoint": f"https://localhost:{origin.port}", "key_env": VARIABLE}
        document = tomllib.loads(stage.config.read_text())
        config = write_toml(stage.config, {**document, "search": {"provider": "gateway", "gateway": table}})
        variables = {VARIABLE: CANARY, "ITS_OWN": SHELLS_OWN}
        with Up(folder, "--config", str(config), variables=variables) as up:
            yield World(stage, up, peer, Mark(origin), config)
            peer.gate.open()


@pytest.fixture
def world(installed_once: World) -> World:
    installed_once.mark = Mark.now(installed_once.peer.origin)
    installed_once.stage.forget()
    return installed_once


def rows_of(text: str) -> Any:
    found = CUT_OUT.fullmatch(text)
    assert found is not None
    return json.loads(found[1].replace("&lt;", "<"))


def test_no_process_that_it_starts_has_a_key(world: World) -> None:
    """Nor what else the operator's shell holds: gateway and workers, extraction, the index of the log."""
    kinds = (b"proxy_addons", b"forkserver", b"fetchd.audit_index.indexer")

    def is_there(kind: bytes) -> bool:
        return any(kind in read_command(pid) for pid in world.up.descendants)

    poll_until(lambda: all(map(is_there, kinds)), "a process of each kind")
    below = world.up.descendants
    assert len(below) >= 5  # the supervisor and a worker, the fork server and a worker, the indexer
    for pid in below:
        with suppress(OSError):  # it has ended meanwhile
            environ = Path(f"/proc/{pid}/environ").read_bytes()
            assert CANARY.encode() not in environ and SHELLS_OWN.encode() not in environ


async def test_each_face_asks_the_provider_and_nobody_else(world: World) -> None:
    over_http = world.search(query="one", count=2)
    assert (over_http.status, rows_of(over_http.document["text"])) == (
        200,
        {"query": "one", "results": [ROW]},
    )
    assert over_http.document["urls"] == [{"url": "https://a.example/", "admitted": True, "rule": None}]
    host, port = world.up.tools
    for era in ERAS:
        async with Client(f"http://{host}:{port}/mcp", mode=era) as client:
            result = await client.call_tool("web_search", {"query": era, "freshness": "pd"})
        assert json.loads(text_of(result))["results"] == [ROW]
    assert rows_of(world.cli("on the line")["text"])["results"] == [ROW]

    assert [json.loads(request.body) for request in world.requests] == [
        {"query": "one", "count": 2},
        *({"query": era, "freshness": "pd"} for era in ERAS),
        {"query": "on the line"},
    ]
    for request in world.requests:
        assert (request.method, request.target) == ("POST", "/v1/search")
        assert request.values("authorization") == [f"Bearer {CANARY}"]
    # The gateway has seen nothing of it, and no name was looked up.
    assert world.stage.dns.queries == [] and world.up.audit("decision") == []
    outcomes = [(line["provider"], line["outcome"], line["rows"]) for line in world.up.audit("search")]
    assert outcomes[:4] == [("gateway", "success", 1)] * 4


@pytest.mark.parametrize("era", ERAS)
async def test_the_official_client_over_stdio(world: World, era: Any) -> None:
    command = parameters(
        "--config",
        str(world.config),
        "--state-dir",
        str(world.up.state),
        "--no-start",
        folder=world.up.folder,
    )
    command.env = {**(command.env or {}), VARIABLE: CANARY}
    with tempfile.TemporaryFile("w+") as errors:
        async with Client(stdio_client(command, errlog=errors), mode=era) as client:
            found = await client.call_tool("web_search", {"query": "stdio", "safesearch": "off"})
            failed = await client.call_tool("web_search", {"query": "echo"})
            wrong = await client.call_tool("web_search", {"query": "stdio", "count": 21})
        errors.seek(0)
        assert CANARY not in errors.read()

    assert (found.is_error, json.loads(text_of(found))["results"]) == (False, [ROW])
    assert failed.is_error and text_of(failed).startswith("web_search: backend returned 401: ")
    assert CANARY not in text_of(failed)
    assert (wrong.is_error, text_of(wrong)) == (True, "web_search: count must be between 1 and 20")


HOSTILE = [
    "a&count=1&query=b",
    "a#f",
    "a?b=c",
    "a\r\nAuthorization: Bearer mine\r\n\r\nGET /x HTTP/1.1\r\nHost: other.example",
    "a\x00b",
    '","count":1,"x":"',
    "%0d%0aX: y",
    "https://other.example/",
    "@other.example/",
    "\\\\other.example\\x",
    "é世😀\u202e\u2028＆＃",
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_no_argument_is_more_than_a_value(world: World, text: str) -> None:
    domains = [f"d{n}&x=y#z?a@b:{n}" for n in range(18)] + ["xn--a", "é.example"]
    arguments = {"query": text, "country": text, "search_lang": text, "exclude_domains": domains}
    reply = world.search(**arguments)

    assert reply.status == 200 and rows_of(reply.document["text"])["query"] == text
    (request,) = world.requests
    assert json.loads(request.body) == arguments
    assert {name.lower() for name, _ in request.headers} <= {
        "host", "authorization", "content-type", "content-length", "accept", "accept-encoding", "user-agent",
        "connection", "via",
    }  # fmt: skip
    assert request.values("authorization") == [f"Bearer {CANARY}"] and world.stage.dns.queries == []


@pytest.mark.parametrize(
    ("query", "kind", "detail"),
    [
        ("reset", "Transport", "web_search: request failed"),
        ("elsewhere", "Transport", "web_search: request failed"),
        ("echo", "Backend", "web_search: backend returned 401: no such key: Bearer "),
    ],
)
def test_a_failure_is_told_on_every_face_and_never_shows_the_key(
    world: World, query: str, kind: str, detail: str
) -> None:
    reply = world.search(query=query)
    printed = world.cli(query)

    assert (reply.status, reply.document["kind"], printed["kind"]) == (502, kind, kind)
    assert str(reply.document["detail"]).startswith(detail) and printed["detail"] == reply.document["detail"]
    assert CANARY not in json.dumps([reply.document, printed])


async def test_a_client_that_goes_away_closes_the_provider_s_connection(world: World) -> None:
    body = b'{"query":"hang"}'
    with socket.create_connection(world.up.tools) as client:
        head = f"POST {WEB_SEARCH} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        client.sendall(head.encode() + body)
        world.peer.asked.wait_sync(COMMAND_SECONDS)
    connection = next(
        one for one in world.peer.origin.connections if any(b'"hang"' in r.body for r in one.requests)
    )

    # The gate is shut: only the call's end can have closed it.
    assert await connection.wait_closed(PATIENCE) in (Ending.PEER_FIN, Ending.PEER_RESET)


def test_a_reload_turns_to_another_provider_and_refuses_another_endpoint(world: World) -> None:
    refused = world.reconfigure(gateway={"endpoint": "https://localhost:1", "key_env": VARIABLE})
    assert refused.returncode != 0 and "search.gateway: cannot change while it runs" in refused.stderr
    endpoint = f"https://localhost:{world.peer.origin.port}"
    done = world.reconfigure(provider="local", gateway={"endpoint": endpoint, "key_env": VARIABLE})
    assert done.returncode == 0 and "search.provider" in done.stdout
    try:
        reply = world.search(query="zebras")
        assert (reply.status, reply.document.get("provider"), world.requests) == (200, "local", [])
    finally:
        assert world.reconfigure(provider="gateway").returncode == 0
    assert world.search(query="back").document["provider"] == "gateway"


def test_a_page_that_was_read_is_found(world: World) -> None:
    text = "<title>Otters</title>" + "<p>Otters hold hands while asleep.</p>" * 9
    world.stage.origin.route("/otters", replies.page(text))
    read = post_json(world.up.tools, "/v1/tools/web_fetch", {"url": world.stage.url("/otters")})
    assert read.status == 200

    def find() -> list[str]:
        rows = rows_of(world.search(query="otters asleep").document["text"])["results"]
        return [row["url"] for row in rows]

    assert world.reconfigure(provider="local").returncode == 0
    try:
        poll_until(lambda: find() == [world.stage.url("/otters")], "the page is found", PATIENCE)
        refused = world.search(query="otters", country="us")
    finally:
        assert world.reconfigure(provider="gateway").returncode == 0
    assert str(refused.document["detail"]).startswith('web_search: provider "local" cannot honour country; ')


def test_the_key_is_nowhere(world: World) -> None:
    """After all of the above: not in the state directory, not in what was said, not on a command line."""
    assert world.search(query="echo").status == 502
    key = CANARY.encode()
    for path in world.up.state.rglob("*"):
        if path.is_file() and not path.is_symlink():
            assert key not in path.read_bytes(), path
    assert CANARY not in "\n".join([*world.up.said, *world.up.errors])
    for pid in [world.up.process.pid, *world.up.descendants]:
        assert key not in read_command(pid)
    connection = http.client.HTTPConnection(*world.up.tools, timeout=COMMAND_SECONDS)
    for page in ("/", "/openapi.json", "/docs"):
        connection.request("GET", page)
        assert key not in connection.getresponse().read()
    connection.close()
    # And no query either, though each was searched for.
    text = "".join(json.dumps(line) for line in world.up.audit("search"))
    assert not any(query in text for query in ("on the line", "zebras", "otters asleep"))
