"""page_read through a real gateway, into a real store: packets, failures by code, allowlists, receipts (SPEC 5)."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fetchd.core.caller import Caller
from fetchd.core.read_failures import ReadCode
from fetchd.extract.pool import ProcessExtractor
from fetchd.extract.slicer import FileSlicer
from fetchd.offered_pages import KeptPage
from fetchd.page_read import PageReader, ReadOutcome
from fetchd.store import PageStore, open_page_store
from fetchd.transport.proxied import ProxiedTransport
from proxy_addons.audit import AuditKeys, AuditLog
from proxy_addons.policy.config import parse_config
from proxy_addons.policy.limits import Profile
from tests.kit import replies
from tests.kit.bodies import Coding
from tests.kit.exchange import Exchange
from tests.kit.gateway import SECRET, World

HTML = (
    "<title>T</title><h1>Heading</h1>" + "<p>A paragraph of the page that is long enough to count.</p>" * 20
)
CEILING = 200_000
CANARY = "c4nary"


def digest(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    config = {
        "daemon": {"listen": "127.0.0.1:0", "profile": "test"},
        "page_read": {"max_bytes": CEILING},
        "agents": {"alice": {"profile": "alices"}},
        "gateway": {"listeners": [{"address": "127.0.0.1:0", "profile": "test", "anonymous": True}]},
    }
    profiles = {"alices": {"allow_hosts": ["a.example"]}}
    with World(tmp_path_factory.mktemp("read"), config=config, profiles=profiles) as world:
        yield world


@dataclass
class Bench:
    """One daemon's half over the module's gateway."""

    world: World
    reader: PageReader
    store: PageStore
    log: AuditLog
    state: Path
    profiles: Mapping[str, Profile]
    offered: list[KeptPage]

    async def read(self, url: str, agent: str = "local", **inputs: Any) -> ReadOutcome:
        profile = self.profiles["alices" if agent == "alice" else "test"]
        text = json.dumps({"url": url, **inputs})
        return await self.reader.call(text, Caller(agent, profile), CEILING)

    async def result(self, url: str, agent: str = "local", **inputs: Any) -> dict[str, Any]:
        outcome = await self.read(url, agent, **inputs)
        assert outcome.packet is not None, outcome.failure
        data: Any = outcome.packet["provider_operation"]
        assert (data["data"]["provider"], data["data"]["operation"]) == ("web", "page.read")
        result: dict[str, Any] = data["data"]["result"]
        return result

    async def fails(self, code: ReadCode, url: str, agent: str = "local", **inputs: Any) -> str:
        outcome = await self.read(url, agent, **inputs)
        assert outcome.failure is not None
        assert (outcome.failure.code, outcome.packet, outcome.receipt) == (code, None, None)
        return outcome.failure.text.removeprefix("page_read: ")


@pytest.fixture(scope="module")
def slicer() -> Iterator[FileSlicer]:
    with ProcessExtractor(1) as small, FileSlicer(small) as slicer:
        yield slicer


@pytest.fixture
async def bench(world: World, slicer: FileSlicer, tmp_path: Path) -> AsyncIterator[Bench]:
    host, port, _ = world.gateway.listeners[0]
    log = AuditLog.open(tmp_path / "audit", "daemon", AuditKeys.load_or_create(tmp_path / "keys"))
    profiles = parse_config(world.config(), source="test").profiles
    async with ProxiedTransport(host, port, SECRET) as transport, open_page_store(tmp_path) as store:
        offered: list[KeptPage] = []
        reader = PageReader(transport, slicer, store, log, offer=offered.append)
        yield Bench(world, reader, store, log, tmp_path, profiles, offered)
    log.close()


# -- packets


async def test_the_packet_is_as_described(bench: Bench) -> None:
    """The worked example: text, two hosts allowed, no redirects, 184,302 bytes, the digest over all of them."""
    page = HTML + "<!-- " + "x" * (184_302 - len(HTML) - 8) + "-->"
    body = page.encode()
    assert len(body) == 184_302
    bench.world.origin.route("/rfc", replies.page(page))
    result = await bench.result(bench.world.url("/rfc?x=1"), allowlist=["www.a.example", "a.example"])
    assert list(result) == [
        "final_url",
        "status",
        "content_digest",
        "extract_mode",
        "extracted",
        "provenance",
    ]
    assert result["final_url"] == bench.world.url("/rfc?x=1")
    assert (result["status"], result["content_digest"], result["extract_mode"]) == (200, digest(body), "text")
    assert result["extracted"].startswith("# Heading\n\nA paragraph")
    assert list(result["provenance"]) == ["fetched_at", "redirects", "bytes"]
    assert (result["provenance"]["redirects"], result["provenance"]["bytes"]) == ([], len(body))
    assert result["provenance"]["fetched_at"].endswith("Z")


async def test_metadata_links_and_json(bench: Bench) -> None:
    page = (
        '<html lang=en><title>T</title><base href="/b/"><a href="c">See</a><a href="mailto:x@y.example">M</a>'
    )
    bench.world.origin.route("/page", replies.page(page))
    bench.world.origin.route("/data", replies.json({"a": [1, None]}))
    url = bench.world.url("/page")
    metadata = (await bench.result(url, extract="metadata"))["extracted"]
    assert (metadata["title"], metadata["language"], metadata["content_type"]) == ("T", "en", "text/html")
    assert (metadata["description"], metadata["canonical"]) == (None, None)
    link = bench.world.url("/b/c")
    assert (await bench.result(url, extract="links"))["extracted"] == [link]
    assert (await bench.result(url, extract="links", link_text=True))["extracted"] == [
        {"url": link, "text": "See"}
    ]
    data = bench.world.url("/data")
    assert (await bench.result(data, extract="json"))["extracted"] == {"a": [1, None]}
    assert (await bench.result(data, extract="links"))["extracted"] == []
    assert (await bench.result(data))["extracted"] == '{"a": [1, null]}'


async def test_http_is_read_too(bench: Bench) -> None:
    bench.world.plain.route("/plain", replies.text("plain"))
    assert (await bench.result(bench.world.plain_url("/plain")))["extracted"] == "plain"


# -- failures by code

REFUSED = {
    "a port": ("https://a.example:1/", "port not allowed: 1"),
    "an address": ("https://10.0.0.7/", "ip literal host not allowed: 10.0.0.7"),
    "credentials": ("https://u:p@a.example/", "url must not contain userinfo"),
    "a scheme": ("ftp://a.example/", "scheme not allowed: ftp"),
    "no URL": ("a.example", "invalid url"),
    "a denied host": ("https://denied.example/", "host not allowed: denied.example"),
}


@pytest.mark.parametrize("sentence", REFUSED)
async def test_a_url_that_section_1_refuses(bench: Bench, sentence: str) -> None:
    url, message = REFUSED[sentence]
    bench.world.dns.forget_queries()
    assert await bench.fails(ReadCode.URL_REFUSED, url) == message
    assert bench.world.dns.queries == []


async def test_a_name_without_an_allowed_address(bench: Bench) -> None:
    bench.world.dns.host_addresses("inside.example.net", "10.0.0.7")
    text = await bench.fails(ReadCode.URL_REFUSED, "https://inside.example.net/")
    assert text == "host inside.example.net has no allowed address"


BAD_INPUTS: dict[str, tuple[dict[str, Any], ReadCode, str]] = {
    "no url": ({"url": None}, ReadCode.MISSING_INPUT, "missing input url"),
    "an empty url": ({"url": ""}, ReadCode.MISSING_INPUT, "missing input url"),
    "a url that is a number": ({"url": 1}, ReadCode.INVALID_INPUT, "url: write a URL as a string"),
    "headers": (
        {"headers": {"Cookie": "x"}}, ReadCode.INVALID_INPUT,
        "headers: no such input; there are url, allowlist, extract, link_text, known_digest",
    ),
    "an allowlist as text": (
        {"allowlist": "docs.rs"}, ReadCode.INVALID_INPUT,
        'allowlist: write a list of host patterns, such as ["docs.rs", "*.docs.rs"]',
    ),
    "a pattern not in its form": (
        {"allowlist": ["a.example", "Docs.RS"]}, ReadCode.INVALID_INPUT,
        'allowlist[1]: host pattern "Docs.RS": write docs.rs',
    ),
    "half a surrogate pair as a name": (
        {"\ud800": 1}, ReadCode.INVALID_INPUT,
        "\\ud800: no such input; there are url, allowlist, extract, link_text, known_digest",
    ),
    "a name that would move a cursor": (
        {"\x1b[2J\n": 1}, ReadCode.INVALID_INPUT,
        "\\x1b[2J\\n: no such input; there are url, allowlist, extract, link_text, known_digest",
    ),
    "half a surrogate pair in a pattern": (
        {"allowlist": ["\udfff"]}, ReadCode.INVALID_INPUT,
        ('allowlist[0]: host pattern "\\udfff" is not *, a host name or *.name with optional :port; write'
        " docs.rs or *.docs.rs:443"),
    ),
    "101 patterns": (
        {"allowlist": ["a.example"] * 101}, ReadCode.INVALID_INPUT, "allowlist: write at most 100 patterns",
    ),
    "another slice": (
        {"extract": "html"}, ReadCode.INVALID_INPUT, "extract: write one of text, metadata, links, json",
    ),
    "link_text as text": ({"link_text": "yes"}, ReadCode.INVALID_INPUT, "link_text: write true or false"),
    "a digest of another kind": (
        {"known_digest": "md5:00"}, ReadCode.INVALID_INPUT,
        "known_digest: write sha256: and 64 small hex digits",
    ),
}  # fmt: skip


@pytest.mark.parametrize("sentence", BAD_INPUTS)
async def test_inputs_that_cannot_be_used(bench: Bench, sentence: str) -> None:
    inputs, code, message = BAD_INPUTS[sentence]
    bench.world.dns.forget_queries()
    outcome = await bench.reader.call(
        json.dumps({"url": bench.world.url("/"), **inputs}), Caller("local", bench.profiles["test"]), CEILING
    )
    assert outcome.failure is not None
    assert (outcome.failure.code, outcome.failure.text) == (code, f"page_read: {message}")
    assert bench.world.dns.queries == []


@pytest.mark.parametrize(
    ("inputs", "logged"),
    [
        pytest.param(
            {f"Authorization: Bearer {CANARY}": 1},
            "page_read: no such input; there are url, allowlist, extract, link_text, known_digest",
            id="a field in place of a name",
        ),
        pytest.param(
            {"allowlist": [f"a.example/?token={CANARY}"]},
            "page_read: allowlist[0]: not a host pattern as it is written",
            id="a URL in place of a pattern",
        ),
    ],
)
async def test_the_log_does_not_repeat_what_was_not_read(
    bench: Bench, inputs: dict[str, Any], logged: str
) -> None:
    outcome = await bench.read(bench.world.url("/"), **inputs)
    assert outcome.failure is not None
    assert CANARY in outcome.failure.text  # the caller is told
    bench.log.flush()
    lines = "".join(path.read_text() for path in bench.state.rglob("*.jsonl"))
    assert CANARY not in lines
    (line,) = [json.loads(one) for one in lines.splitlines() if outcome.fetch_id in one]
    assert line["detail"] == logged


@pytest.mark.parametrize("text", ["", "null", "[]", '"x"', "{", "\x00", '{"url": NaN}', "[" * 5000])
async def test_inputs_that_are_no_object_miss_the_url(bench: Bench, text: str) -> None:
    outcome = await bench.reader.call(text, Caller("local", bench.profiles["test"]), CEILING)
    assert outcome.failure is not None
    assert outcome.failure.code in (ReadCode.MISSING_INPUT, ReadCode.INVALID_INPUT)


async def test_what_is_no_whole_page(bench: Bench) -> None:
    """No 2xx, or a part that nobody asked for."""
    for status in (404, 500, 304, 300, 206):
        bench.world.origin.route("/status", replies.answer(status, b""))
        text = await bench.fails(ReadCode.HTTP_STATUS, bench.world.url("/status?secret"))
        assert text == f"{bench.world.url('/status')} answered HTTP {status}"


async def test_the_ceiling_is_exact_however_the_length_is_told(bench: Bench) -> None:
    async def chunked(exchange: Exchange) -> None:
        await replies.start_chunked(exchange, [("content-type", "text/plain")])
        size = int(exchange.request.path.rpartition("/")[2])
        await replies.send_chunk(exchange, b"x" * size)
        await replies.end_chunked(exchange)

    for size, fits in ((CEILING, True), (CEILING + 1, False)):
        body = b"x" * size
        bench.world.origin.route("/declared", replies.answer(200, body, "text/plain"))
        bench.world.origin.route("/packed", replies.encoded(body, Coding.GZIP, content_type="text/plain"))
        bench.world.origin.route(f"/chunked/{size}", chunked)
        for path in ("/declared", "/packed", f"/chunked/{size}"):
            if fits:
                result = await bench.result(bench.world.url(path))
                assert (result["content_digest"], result["provenance"]["bytes"]) == (digest(body), size)
            else:
                text = await bench.fails(ReadCode.RESPONSE_TOO_LARGE, bench.world.url(path))
                assert f"larger than {CEILING} bytes" in text
                assert "RUNX_WEB_READ_MAX_BYTES" in text
    assert (await bench.store.usage()).blobs == 1


async def test_what_cannot_be_extracted_is_kept_and_named(bench: Bench) -> None:
    rows = {
        "application/pdf": ("text", b"%PDF", "application/pdf cannot be returned as text"),
        "text/plain; charset=utf-7": ("text", b"x", "unknown charset utf-7"),
        "application/json": ("json", b"{", "the body is not one JSON document in UTF-8"),
    }
    for kind, (mode, body, message) in rows.items():
        bench.world.origin.route("/odd", replies.answer(200, body, kind))
        text = await bench.fails(ReadCode.EXTRACT_FAILED, bench.world.url("/odd"), extract=mode)
        assert message in text
        assert digest(body) in text
        assert bytes(await bench.store.read_blob(digest(body), 100)) == body


async def test_transport_faults_are_repeated_within_reason(bench: Bench) -> None:
    """Two that break off, then one that does not: the read succeeds, and says how often it was tried."""
    tries = 0

    async def flaky(exchange: Exchange) -> None:
        nonlocal tries
        tries += 1
        if tries % 3:
            await exchange.start(200, [("content-type", "text/plain"), ("content-length", "10")])
            await exchange.data(b"half")
            exchange.abort()
        else:
            await exchange.respond(200, [("content-type", "text/plain")], b"whole")

    bench.world.origin.route("/flaky", flaky)
    result = await bench.result(bench.world.url("/flaky"))
    assert (result["extracted"], result["provenance"]["retries"]) == ("whole", 2)

    async def broken(exchange: Exchange) -> None:
        await exchange.start(200, [("content-type", "text/plain"), ("content-length", "10")])
        exchange.abort()

    bench.world.origin.route("/broken", broken)
    text = await bench.fails(ReadCode.TRANSPORT, bench.world.url("/broken"))
    assert text.endswith("after 2 more tries")


async def test_a_body_that_does_not_decode_is_not_read(bench: Bench) -> None:
    packed = gzip.compress(b"x" * 1000)[:-9]
    bench.world.origin.route(
        "/cut", replies.answer(200, packed, "text/plain", [("content-encoding", "gzip")])
    )
    text = await bench.fails(ReadCode.TRANSPORT, bench.world.url("/cut"))
    assert "its body" in text or "broke off" in text
    assert (await bench.store.usage()).blobs == 0


async def test_a_name_that_dns_has_not(bench: Bench) -> None:
    text = await bench.fails(ReadCode.TRANSPORT, "https://nowhere.example.net/")
    assert "dns resolution failed for nowhere.example.net" in text


# -- allowlists


@pytest.fixture
def chain(world: World) -> list[str]:
    """a → b → c, by redirects."""
    world.origin.route("/1", replies.redirect(world.url("/2", "b.example")))
    world.origin.route("/2", replies.redirect(world.url("/3?q=1#f", "c.example")))
    world.origin.route("/3", replies.text("end"))
    return ["a.example", "b.example", "c.example"]


async def test_an_allowlist_of_exactly_the_hosts_passes(bench: Bench, chain: list[str]) -> None:
    result = await bench.result(bench.world.url("/1"), allowlist=chain)
    assert result["final_url"] == bench.world.url("/3?q=1", "c.example")
    assert result["provenance"]["redirects"] == [
        {"from": bench.world.url("/1"), "to": bench.world.url("/2", "b.example"), "status": 302},
        {
            "from": bench.world.url("/2", "b.example"),
            "to": bench.world.url("/3?q=1", "c.example"),
            "status": 302,
        },
    ]


@pytest.mark.parametrize("missing", [0, 1, 2])
async def test_one_that_is_missing_stops_at_that_hop(bench: Bench, chain: list[str], missing: int) -> None:
    allowlist = [host for index, host in enumerate(chain) if index != missing]
    bench.world.origin.forget()
    outcome = await bench.read(bench.world.url("/1"), allowlist=allowlist)
    assert outcome.failure is not None
    assert outcome.failure.code is ReadCode.POLICY_DENIED
    assert outcome.failure.facts == {"host": chain[missing], "allowlist": allowlist, "hop": missing}
    assert len(bench.world.origin.requests) == missing
    assert (await bench.store.usage()).blobs == 0


async def test_an_empty_allowlist_allows_nothing(bench: Bench) -> None:
    text = await bench.fails(ReadCode.POLICY_DENIED, bench.world.url("/"), allowlist=[])
    assert text == "host a.example is not on the allowlist (nothing)"


async def test_the_gateway_holds_the_allowlist_whatever_the_daemon_thinks(
    bench: Bench, chain: list[str]
) -> None:
    """The hop that is refused is refused there: its decision line says so, under the narrowed profile."""
    await bench.read(bench.world.url("/1"), allowlist=chain[:1])
    lines = bench.world.gateway.decisions(agent="local", profile="page_read")
    assert [line["verdict"] for line in lines][-1:] == ["allowed"]
    closes = bench.world.gateway.lines("close", fetch_id=lines[-1]["fetch_id"])
    assert [(line["verdict"], line["rule"]) for line in closes] == [("refused", "host")]


# -- whose read it is


async def test_an_agent_s_own_hosts_hold_whatever_its_allowlist(bench: Bench) -> None:
    bench.world.origin.route("/mine", replies.text("a"))
    assert (await bench.result(bench.world.url("/mine"), "alice"))["extracted"] == "a"
    url = bench.world.url("/mine", "b.example")
    for allowlist in (None, ["*"], ["b.example"]):
        assert await bench.fails(ReadCode.URL_REFUSED, url, "alice", allowlist=allowlist) == (
            "host not allowed: b.example"
        )
    bench.world.origin.route("/out", replies.redirect(url))
    text = await bench.fails(ReadCode.URL_REFUSED, bench.world.url("/out"), "alice")
    assert text.endswith("refused: host not allowed: b.example")


# -- conditional reads


async def test_an_unchanged_page_costs_no_body(bench: Bench) -> None:
    sent: list[list[str]] = []

    async def tagged(exchange: Exchange) -> None:
        tags = exchange.request.values("if-none-match")
        sent.append(tags)
        if tags == ['"v1"']:
            await exchange.respond(304, [("etag", '"v1"')], b"")
        else:
            await exchange.respond(200, [("content-type", "text/plain"), ("etag", '"v1"')], b"page")

    bench.world.origin.route("/tagged", tagged)
    url = bench.world.url("/tagged?x")
    first = await bench.result(url)
    again = await bench.read(url, known_digest=first["content_digest"])
    assert again.packet is not None
    result: Any = again.packet["provider_operation"]
    result = result["data"]["result"]
    assert (result["status"], result["unchanged"], result["extracted"]) == (304, True, None)
    assert (result["content_digest"], result["provenance"]["bytes"]) == (digest(b"page"), 4)
    assert again.receipt is not None
    assert sent == [[], ['"v1"']]
    await bench.result(url)  # without a known digest nothing is asked for on condition
    await bench.result(bench.world.url("/tagged?y"), known_digest=first["content_digest"])  # another URL
    await bench.result(url, "alice", known_digest=first["content_digest"])  # another agent's read
    assert sent[2:] == [[], [], []]


@pytest.mark.parametrize(
    "named", [[("etag", '"v2"')], [("last-modified", "Tue, 01 Jan 2030 00:00:00 GMT")], []]
)
async def test_a_304_that_names_another_version_does_not_bind_it_to_the_body(
    bench: Bench, named: list[tuple[str, str]]
) -> None:
    """Else the page of that version would be taken, and signed for, as the one that was kept."""
    asked = []

    async def confused(exchange: Exchange) -> None:
        conditions = ("if-none-match", "if-modified-since")
        asked.append([value for name in conditions for value in exchange.request.values(name)])
        if asked[-1]:
            await exchange.respond(304, named, b"")
        else:
            await exchange.respond(200, [("content-type", "text/plain"), ("etag", '"v1"')], b"one")

    bench.world.origin.route("/confused", confused)
    url = bench.world.url("/confused")
    for _ in range(3):
        await bench.result(url, known_digest=digest(b"one"))
    assert asked == [[], ['"v1"'], ['"v1"']]


async def test_the_same_page_without_validators_is_unchanged_all_the_same(bench: Bench) -> None:
    bench.world.origin.route("/same", replies.text("same"))
    result = await bench.result(bench.world.url("/same"), known_digest=digest(b"same"))
    assert (result["status"], result["unchanged"], result["extracted"]) == (200, True, None)
    other = await bench.result(bench.world.url("/same"), known_digest=digest(b"other"))
    assert "unchanged" not in other
    assert other["extracted"] == "same"


# -- receipts and lines


async def test_the_receipt_says_what_was_read_and_no_more(bench: Bench, chain: list[str]) -> None:
    secret = f"{CANARY}-query"
    bench.world.origin.route("/1", replies.redirect(bench.world.url(f"/2?{secret}", "b.example")))
    fields = [("set-cookie", f"{CANARY}-cookie"), ("etag", f'"{CANARY}-etag"')]
    bench.world.origin.route("/3", replies.answer(200, CANARY.encode() + b"-body", "text/plain", fields))
    outcome = await bench.read(bench.world.url(f"/1?{secret}"))
    assert outcome.receipt is not None
    receipt = json.loads(outcome.receipt.text)
    assert receipt["final_url"] == bench.world.url("/3", "c.example")
    assert (receipt["status"], receipt["content_digest"]) == (200, digest(CANARY.encode() + b"-body"))
    assert receipt["policy"].startswith("page_read@")
    assert [hop["status"] for hop in receipt["redirects"]] == [302, 302]
    decisions = bench.world.gateway.decisions(fetch_id=outcome.fetch_id)
    hops = [hop["audit"]["seq"] for hop in receipt["redirects"]]
    assert hops == [line["seq"] for line in decisions[:2]]
    bench.log.flush()
    kept = b"".join(p.read_bytes() for p in bench.state.rglob("*") if p.is_file() and "blobs" not in p.parts)
    kept += b"".join(p.read_bytes() for p in (bench.world.gateway.state / "audit").glob("*"))
    assert CANARY.encode() not in kept


async def test_every_call_leaves_one_line(bench: Bench) -> None:
    bench.world.origin.route("/line", replies.text("x"))
    good = await bench.read(bench.world.url("/line?q"))
    bad = await bench.read("https://10.0.0.7/")
    bench.log.flush()
    lines = [
        json.loads(line)
        for path in (bench.state / "audit").glob("*.jsonl")
        for line in path.read_text().splitlines()
    ]
    fetches = {line["fetch_id"]: line for line in lines if line["kind"] == "fetch"}
    assert set(fetches) == {good.fetch_id, bad.fetch_id}
    assert fetches[good.fetch_id]["content_digest"] == digest(b"x")
    assert (fetches[bad.fetch_id]["failure"], fetches[bad.fetch_id]["rule"]) == ("url_refused", "ip-literal")


# -- what the search index is offered


@pytest.mark.parametrize("mode", ["text", "metadata", "links"])
async def test_a_page_is_offered_once_its_receipt_is_sealed(bench: Bench, mode: str) -> None:
    bench.world.origin.route("/offered", replies.page(HTML))
    url = bench.world.url("/offered?q=1")
    await bench.result(url, "alice", extract=mode)

    (page,) = bench.offered
    assert (page.agent, page.url, page.blob, page.size) == ("alice", url, digest(HTML.encode()), len(HTML))
    assert page.path.read_bytes() == HTML.encode()
    assert page.plan is not None and page.plan.mode.value == "text"
    assert (page.text or "").startswith("# Heading") == (mode == "text")

    await bench.result(url, "alice", extract=mode, known_digest=digest(HTML.encode()))
    assert [page.text for page in bench.offered[1:]] == [None], "unchanged: nothing was extracted"


async def test_what_was_not_read_is_not_offered(bench: Bench) -> None:
    bench.world.origin.route("/broken-json", replies.text("no json"))
    bench.world.origin.route("/missing", replies.answer(404, b"gone"))
    bench.world.origin.route("/pixel", replies.answer(200, b"PNG", "image/png"))
    await bench.read(bench.world.url("/broken-json"), extract="json")
    await bench.read(bench.world.url("/missing"))
    await bench.read("https://10.0.0.7/")
    await bench.read(bench.world.url("/x", "b.example"), "alice")
    assert bench.offered == []

    await bench.result(bench.world.url("/pixel"), extract="metadata")
    assert [page.plan for page in bench.offered] == [None], "it has no text"


async def test_a_call_that_is_dropped_leaves_nothing_behind(bench: Bench) -> None:
    begun, gone = threading.Event(), threading.Event()

    async def hanging(exchange: Exchange) -> None:
        await exchange.start(200, [("content-type", "text/plain"), ("content-length", "100000")])
        await exchange.data(b"x" * 50_000)
        begun.set()
        await exchange.connection.wait_closed()
        gone.set()

    bench.world.origin.route("/hanging", hanging)
    call = asyncio.create_task(bench.read(bench.world.url("/hanging")))
    assert await asyncio.to_thread(begun.wait, 20)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await asyncio.to_thread(gone.wait, 20)
    assert (await bench.store.usage()).blobs == 0
    assert not [path for path in (bench.state / "blobs").rglob("*") if path.is_file() and path.stat().st_size]
