"""What every search provider is held to: the scripted one, the local index, the public APIs (law 8)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from fetchd.core.caller import Caller
from fetchd.core.failures import FailureKind
from fetchd.search.fake import ScriptedProvider
from fetchd.search.interface import (
    Argument,
    Freshness,
    SafeSearch,
    SearchAnswer,
    SearchArguments,
    SearchFailure,
    SearchProvider,
    SearchRow,
    Support,
)
from fetchd.search.local.composition import open_local_index
from fetchd.search.providers.opening import open_providers
from fetchd.search.providers.vendor import VendorSearch
from fetchd.search.results import render_results
from fetchd.web_access.links import open_links
from proxy_addons.policy.config import parse_config
from proxy_addons.policy.config_search import ProviderConfig, SearchConfig, SearchProviderName
from proxy_addons.policy.limits import DEFAULT_PROFILE
from proxy_addons.policy.vendors.dialects import Vendor
from tests.fetchd.search.providers.peers import KEY, Answer, brave, searxng, serve, tavily
from tests.kit import vendor_answers as answers
from tests.kit.exchange import Exchange, Request, Route
from tests.kit.origin import Origin
from tests.kit.pki import Pki
from tests.kit.sync import PATIENCE, Gate
from tests.kit.vendor_server import VendorServer

CALLER = Caller("bot", DEFAULT_PROFILE)


def gateway(request: Request) -> Answer:
    """The search gateway of SPEC 4."""
    assert request.path == "/v1/search" and request.values("authorization") == [f"Bearer {KEY}"]
    query = json.loads(request.body)["query"]
    return (
        200,
        {"query": query, "results": [{"title": "A", "url": "https://a.example/", "description": ""}]},
        (),
    )


PEERS: dict[str, tuple[str, Callable[[Request], Answer]]] = {
    "gateway": ("", gateway),
    "brave": ("", brave),
    "searxng": ("/searxng", searxng),
    "tavily": ("", tavily),
}
"""Where each is below its host, and what answers there."""

type Opener = Callable[[Path, Route | None], AbstractAsyncContextManager[SearchProvider]]
"""A provider over a folder of its own. route: in place of what answers."""


@asynccontextmanager
async def open_scripted(folder: Path, route: Route | None) -> AsyncIterator[SearchProvider]:
    found = SearchAnswer((SearchRow("https://a.example/", "A"),))
    yield ScriptedProvider([found if route is None else None])


@asynccontextmanager
async def open_local(folder: Path, route: Route | None) -> AsyncIterator[SearchProvider]:
    async with open_local_index(folder, SearchConfig) as index:
        yield index.provider


@asynccontextmanager
async def open_remote(name: str, folder: Path, route: Route | None) -> AsyncIterator[SearchProvider]:
    which, (base, peer) = SearchProviderName(name), PEERS[name]
    pki = Pki(folder)
    with Origin(tls=pki.server_context("localhost")) as origin:
        origin.route("*", route or serve(peer))
        described = ProviderConfig(which, f"https://localhost:{origin.port}{base}", "SEARCH_KEY")
        config = SearchConfig(which, providers={which: described})
        async with open_providers(config, [str(pki.ca_path)], {"SEARCH_KEY": KEY}) as providers:
            yield providers[which]


VENDORS: dict[str, answers.Object] = {
    "anthropic": answers.message(
        answers.search_use(), answers.search_result("https://a.example/"), searches=1
    ),
    "openai": answers.response(answers.web_call(sources=["https://a.example/"])),
    "openrouter": answers.chat("x", answers.url_citation("https://a.example/")),
}
"""What answers where a vendor of models is asked."""


@asynccontextmanager
async def open_vendor(name: str, folder: Path, route: Route | None) -> AsyncIterator[SearchProvider]:
    pki = Pki(folder)
    with VendorServer(tls=pki.server_context("localhost")) as vendor:
        vendor.replies = [VENDORS[name] if route is None else route]
        table = {"endpoint": f"https://localhost:{vendor.port}", "model": "m", "key_env": "SEARCH_KEY"}
        vendors = parse_config({"vendors": {name: table}}, source="test").asking.vendors
        async with open_links(vendors, [str(pki.ca_path)], {"SEARCH_KEY": KEY}) as links:
            yield VendorSearch(lambda: vendors[Vendor(name)], links)


OPENERS: dict[str, Opener] = {
    "scripted": open_scripted,
    "local": open_local,
    **{name: partial(open_remote, name) for name in PEERS},
    **{name: partial(open_vendor, name) for name in VENDORS},
}
each = pytest.mark.parametrize("opener", OPENERS.values(), ids=OPENERS)

ODD = [
    SearchArguments('\x00\r\n!!g a:b "c" (d) -e *f* site:g'),
    SearchArguments("x" * 400, 20, Freshness.YEAR),
    SearchArguments(
        "rust", 1, include_domains=("a&b=c#d?e", "*", "..", "xn--"), exclude_domains=("*.a.example",)
    ),
    SearchArguments("rust", country="\u202e\x07", search_lang="&x=y"),
    SearchArguments("rust", safesearch=SafeSearch.STRICT, search_lang="en", country="de"),
]


def test_every_provider_that_can_be_named_is_here() -> None:
    assert set(OPENERS) == {"scripted", *SearchProviderName}


@each
async def test_its_table_says_what_the_core_and_the_docs_need(opener: Opener, tmp_path: Path) -> None:
    async with opener(tmp_path, None) as provider:
        assert provider.name in list(SearchProviderName)
        assert set(provider.capabilities) == set(Argument)
        assert provider.capabilities[Argument.QUERY].support is not Support.REFUSED
        for argument, capability in provider.capabilities.items():
            if capability.support is Support.REFUSED:
                assert capability.way_out and capability.way_out[-1] != ".", argument


@each
async def test_a_plain_search_is_answered_with_rows_that_can_be_rendered(
    opener: Opener, tmp_path: Path
) -> None:
    async with opener(tmp_path, None) as provider:
        answer = await provider.search(SearchArguments("rust"), CALLER)
    assert isinstance(answer, SearchAnswer), answer
    assert answer.dropped >= 0 and isinstance(render_results("rust", answer.rows), str)
    assert bool(answer.rows) is (provider.name != "local" or isinstance(provider, ScriptedProvider))


@each
async def test_odd_arguments_give_an_answer_or_a_failure_of_one_line(opener: Opener, tmp_path: Path) -> None:
    async with opener(tmp_path, None) as provider:
        for arguments in ODD:
            outcome = await provider.search(arguments, CALLER)
            if isinstance(outcome, SearchFailure):
                assert outcome.kind in (FailureKind.BACKEND, FailureKind.TRANSPORT)
                assert outcome.message.isprintable() and KEY not in outcome.message


@pytest.mark.parametrize("name", [name for name in OPENERS if name != "local"])
async def test_a_search_that_is_dropped_ends(name: str, tmp_path: Path) -> None:
    asked, gate = Gate(), Gate()

    async def hold(exchange: Exchange) -> None:
        asked.open()
        await gate.wait()
        await exchange.close()

    async with OPENERS[name](tmp_path, hold) as provider:
        search = asyncio.create_task(provider.search(SearchArguments("rust"), CALLER))
        under_way = provider.hanging if isinstance(provider, ScriptedProvider) else asked
        await asyncio.wait_for(under_way.wait(), PATIENCE)
        search.cancel()
        with pytest.raises(asyncio.CancelledError):
            await search
    gate.open()
