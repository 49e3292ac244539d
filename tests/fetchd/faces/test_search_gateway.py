"""POST /v1/search, and two installations in a row: one keeps the provider's key, the other an agent's token.

The second is our own `gateway` provider, over TLS, asking our own endpoint.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from fetchd.core.caller import Caller
from fetchd.core.envelope import CUT_OUT
from fetchd.core.failures import FailureKind
from fetchd.extract.pool import ProcessExtractor
from fetchd.faces.calls import Calls
from fetchd.faces.http import make_app
from fetchd.fetch import WebFetch
from fetchd.running.serving import serving
from fetchd.search.composition import open_web_search
from fetchd.search.fake import ScriptedProvider
from fetchd.search.interface import SearchAnswer, SearchFailure, SearchProvider, SearchRow
from fetchd.search.searching import SearchResult, WebSearch
from fetchd.search.way import CIRCLE
from fetchd.transport.fake import FakeTransport
from proxy_addons.audit import CallOutcome, MemoryAuditLog, SearchRecord
from proxy_addons.policy.agents import digest_token
from proxy_addons.policy.config import parse_config
from proxy_addons.policy.limits import DEFAULT_PROFILE
from proxy_addons.policy.rulebook import CurrentRules, Rulebook
from tests.fetchd.faces.search_rows import FOUND, SearchCase, each_case
from tests.fetchd.faces.served import serve
from tests.fetchd.faces.test_openapi import is_as_documented
from tests.fetchd.search.providers.peers import KEY, brave, tavily
from tests.fetchd.search.providers.peers import serve as serve_peer
from tests.kit.listener import CountingListener
from tests.kit.origin import Origin
from tests.kit.pki import Pki
from tests.kit.ports import bound_socket
from tests.kit.sync import PATIENCE

PATH = "/v1/search"
STATUSES = {"InvalidArguments": 400, "Transport": 502, "Backend": 502, "Other": 500}
TOKENS = {name: f"fetchd.{name}.{'0123456789abcdef' * 2}" for name in ("searcher", "reader", "nobody")}
KEEPER: dict[str, Any] = {
    "agents": {
        "searcher": {"profile": "searchers", "token_sha256": digest_token(TOKENS["searcher"])},
        "reader": {"profile": "readers", "token_sha256": digest_token(TOKENS["reader"])},
    },
    "profiles": {"searchers": {"tools": ["web_search"]}, "readers": {"tools": ["web_fetch"]}},
}
CALLER = Caller("bot", DEFAULT_PROFILE)


# ------------------------------------------------------------------------------------------ the endpoint alone


@each_case
async def test_each_failure_is_a_status_and_one_line(case: SearchCase) -> None:
    async with serve({}, providers={"local": case.make_provider()}) as daemon:
        response = await daemon.request(case.arguments.encode(), PATH)

    assert response.status == STATUSES[case.kind]
    assert dict(response.headers)[b"content-type"] == b"text/plain; charset=utf-8"
    assert f"web_search: {response.content.decode()}" == case.message
    assert is_as_documented(response, PATH, "post")


async def test_what_is_found_is_plain_JSON() -> None:
    async with serve({}, providers={"local": ScriptedProvider([FOUND])}) as daemon:
        response = await daemon.request('{"query":"ü","count":null}'.encode(), PATH)

    assert response.status == 200 and is_as_documented(response, PATH, "post")
    assert response.content.decode() == (
        '{"query":"ü","results":[{"title":"Rust é <b>","url":"https://www.rust-lang.org/",'
        '"description":"A language","age":"2 days ago","site_name":"www.rust-lang.org","extra_snippets":["Fast."]},'
        '{"title":"","url":"http://10.0.0.1/admin","description":""}],"trust":"untrusted"}'
    )


@pytest.mark.parametrize(("credits", "shown"), [(2.0, {"credits": 2.0}), (0.0, {"credits": 0.0}), (None, {})])
async def test_credits_only_where_they_are_reported(credits: float | None, shown: dict[str, float]) -> None:  # noqa: A002
    async with serve({}, providers={"local": ScriptedProvider([SearchAnswer((), 0, credits)])}) as daemon:
        response = await daemon.request(b'{"query":"x"}', PATH)

    assert json.loads(response.content) == {"query": "x", "results": [], **shown, "trust": "untrusted"}
    assert is_as_documented(response, PATH, "post")


@pytest.mark.parametrize(("method", "status"), [("GET", 405), ("PUT", 405)])
async def test_other_methods(method: str, status: int) -> None:
    async with serve({}) as daemon:
        assert (await daemon.request(b"", PATH, method)).status == status


async def test_a_browser_page_of_another_site_cannot_search() -> None:
    provider = ScriptedProvider([FOUND])
    async with serve({}, providers={"local": provider}) as daemon:
        response = await daemon.request(b'{"query":"x"}', PATH, headers={"Origin": "https://evil.example"})

    assert response.status == 403 and not provider.asked


# ---------------------------------------------------------------------------------- two installations over TLS


@asynccontextmanager
async def keep(
    pki: Pki,
    search: Mapping[str, object],
    environ: Mapping[str, str],
    *local: SearchProvider,
    listening: socket.socket | None = None,
) -> AsyncIterator[tuple[int, MemoryAuditLog]]:
    """The installation that keeps the key: its port and its log."""
    rules = CurrentRules(Rulebook(parse_config(KEEPER | {"search": search}, source="test")))
    log = MemoryAuditLog()
    listening = listening or bound_socket("127.0.0.1")
    with ProcessExtractor(1) as extractor, contextlib.closing(listening):
        listening.listen()
        async with open_web_search(
            lambda: rules.now.config.search,
            log,
            local[0] if local else None,
            extra_ca=[str(pki.ca_path)],
            environ=environ,
        ) as found:
            calls = Calls(WebFetch(FakeTransport({}), extractor, log), None, found)
            async with serving(make_app(calls, rules), listening, pki.server_context("localhost")):
                yield listening.getsockname()[1], log


@asynccontextmanager
async def behind(pki: Pki, port: int, token: str, log: MemoryAuditLog) -> AsyncIterator[WebSearch]:
    """The one that asks it."""
    document = {
        "search": {
            "provider": "gateway",
            "gateway": {"endpoint": f"https://localhost:{port}", "key_env": "SEARCH_TOKEN"},
        }
    }
    config = parse_config(document, source="test").search
    environ = {"SEARCH_TOKEN": token}
    async with open_web_search(
        lambda: config, log, extra_ca=[str(pki.ca_path)], environ=environ
    ) as web_search:
        yield web_search


async def search(
    pki: Pki, port: int, arguments: Mapping[str, object], log: MemoryAuditLog, agent: str = "searcher"
) -> SearchResult:
    async with behind(pki, port, TOKENS[agent], log) as web_search:
        return await web_search.call(arguments, CALLER)


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    return Pki(tmp_path)


def inside(result: SearchResult) -> dict[str, Any]:
    found = CUT_OUT.fullmatch(result.text)
    assert found is not None, result.text
    document: dict[str, Any] = json.loads(found[1].replace("&lt;", "<"))
    return document


def line(log: MemoryAuditLog) -> SearchRecord:
    (record,) = log.records
    assert isinstance(record, SearchRecord)
    return record


async def test_a_search_passes_through_both_and_each_writes_its_line(
    pki: Pki, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    outer = MemoryAuditLog()
    with Origin(tls=pki.server_context("localhost")) as origin:
        origin.route("*", serve_peer(tavily))
        tables = {
            "provider": "tavily",
            "tavily": {"endpoint": f"https://localhost:{origin.port}", "key_env": "TAVILY_KEY"},
        }
        async with keep(pki, tables, {"TAVILY_KEY": KEY}) as (port, inner):
            arguments = {
                "query": "rust",
                "count": 2,
                "country": "us",
                "exclude_domains": ["doc.rust-lang.org"],
            }
            result = await search(pki, port, arguments, outer)

    assert [row["url"] for row in inside(result)["results"]] == [
        "https://www.rust-lang.org/",
        "https://rust.facepunch.com/",
    ]
    assert (line(inner).agent, line(inner).provider, line(inner).credits) == ("searcher", "tavily", 1)
    assert (line(outer).agent, line(outer).provider, line(outer).credits) == ("bot", "gateway", 1)
    for secret in (KEY, TOKENS["searcher"]):
        assert secret not in caplog.text + result.text + str(inner.records) + str(outer.records)
    assert "rust" not in str(line(inner)).replace("doc.rust-lang.org", "")


async def test_all_six_fields_of_a_row_arrive(pki: Pki) -> None:
    row = SearchRow(
        "https://a.example/", "Title é <b>", "Text\nmore", "2 days ago", "a.example", ("One.", "Two.")
    )
    async with keep(pki, {}, {}, ScriptedProvider([SearchAnswer((row,))])) as (port, _):
        result = await search(pki, port, {"query": "x"}, MemoryAuditLog())

    assert result.rows == (row,)


@pytest.mark.parametrize(
    ("agent", "message"),
    [
        ("nobody", 'web_search: backend returned 401: {"type": "urn:fetchd:rule:identity", '),
        (
            "reader",
            'web_search: backend returned 403: {"type":"about:blank","title":"Forbidden","status":403,',
        ),
    ],
)
async def test_a_token_that_may_not_search(agent: str, message: str, pki: Pki) -> None:
    provider = ScriptedProvider([FOUND])
    async with keep(pki, {}, {}, provider) as (port, _):
        result = await search(pki, port, {"query": "x"}, MemoryAuditLog(), agent)

    assert result.text.startswith(message) and not provider.asked
    assert TOKENS[agent] not in result.text


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (SearchFailure(FailureKind.TRANSPORT, "request failed"), "backend returned 502: request failed"),
        (
            SearchFailure(FailureKind.BACKEND, "backend returned 422: its key was not accepted"),
            "backend returned 502: backend returned 422: its key was not accepted",
        ),
        (RuntimeError("boom"), "backend returned 500: the search task did not finish"),
    ],
)
async def test_what_fails_there_is_told_here(
    failure: SearchFailure | Exception, message: str, pki: Pki
) -> None:
    async with keep(pki, {}, {}, ScriptedProvider([failure])) as (port, _):
        result = await search(pki, port, {"query": "x"}, MemoryAuditLog())

    assert result.text == f"web_search: {message}"
    assert result.failure is not None and result.failure.kind is FailureKind.BACKEND


async def test_a_key_that_its_provider_repeats_stays_there(pki: Pki) -> None:
    with Origin(tls=pki.server_context("localhost")) as origin:
        origin.route("*", serve_peer(brave))
        tables = {
            "provider": "brave",
            "brave": {"endpoint": f"https://localhost:{origin.port}", "key_env": "BRAVE_KEY"},
        }
        async with keep(pki, tables, {"BRAVE_KEY": "canary-wrong-key"}) as (port, inner):
            result = await search(pki, port, {"query": "x"}, MemoryAuditLog())

    assert result.text == (
        "web_search: backend returned 502: backend returned 422: SUBSCRIPTION_TOKEN_INVALID: its key was not accepted"
    )
    assert "canary" not in result.text + str(inner.records)


async def test_a_caller_that_leaves_ends_the_search_on_both_sides(pki: Pki) -> None:
    provider, outer = ScriptedProvider([None]), MemoryAuditLog()
    async with (
        keep(pki, {}, {}, provider) as (port, inner),
        behind(pki, port, TOKENS["searcher"], outer) as asking,
    ):
        task = asyncio.create_task(asking.call({"query": "x"}, CALLER))
        await asyncio.wait_for(provider.hanging.wait(), PATIENCE)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(PATIENCE):
            while not inner.records:  # noqa: ASYNC110 - the log of the other side tells nobody
                await asyncio.sleep(0.01)

    assert line(inner).outcome is line(outer).outcome is CallOutcome.ABORTED
    assert provider.at_work == 0


async def test_a_certificate_of_another_is_no_endpoint(pki: Pki, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Pki(tmp_path / "other")
    provider = ScriptedProvider([FOUND])
    async with keep(other, {}, {}, provider) as (port, _):
        result = await search(pki, port, {"query": "x"}, MemoryAuditLog())

    assert result.text == "web_search: request failed" and not provider.asked


async def test_installations_that_ask_one_another_in_a_circle_say_so(pki: Pki) -> None:
    """Here → first → second → first, whose one turn is taken: what comes round waits for none."""
    first, second = bound_socket("127.0.0.1"), bound_socket("127.0.0.1")

    def asks(other: socket.socket) -> dict[str, object]:
        endpoint = f"https://localhost:{other.getsockname()[1]}"
        return {
            "provider": "gateway",
            "gateway": {"endpoint": endpoint, "key_env": "TOKEN", "concurrency": 1},
        }

    environ = {"TOKEN": TOKENS["searcher"]}
    async with (
        keep(pki, asks(second), environ, listening=first) as (port, log),
        keep(pki, asks(first), environ, listening=second),
    ):
        result = await search(pki, port, {"query": "x"}, MemoryAuditLog())

    again = "backend returned 502: "
    assert result.text == f"web_search: {again * 3}{CIRCLE.message}"
    assert [record.detail for record in log.records if isinstance(record, SearchRecord)] == [
        f"web_search: {CIRCLE.message}",
        "web_search: backend returned 502",
    ]


async def test_without_the_token_nothing_is_asked(pki: Pki) -> None:
    with CountingListener() as listener:
        async with behind(pki, listener.port, "", MemoryAuditLog()) as asking:
            result = await asking.call({"query": "x"}, CALLER)

        assert result.text == "web_search: request failed" and listener.accepts == 0
