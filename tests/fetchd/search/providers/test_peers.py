"""Each provider over TLS against a faithful server of its own; that of Tavily also serves its public SDK."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from fetchd.core.caller import Caller
from fetchd.core.failures import FailureKind
from fetchd.search.interface import (
    Freshness,
    SafeSearch,
    SearchAnswer,
    SearchArguments,
    SearchFailure,
    SearchProvider,
    SearchRow,
)
from fetchd.search.providers.opening import open_providers
from proxy_addons.policy.config_search import ProviderConfig, SearchConfig, SearchProviderName
from proxy_addons.policy.limits import DEFAULT_PROFILE
from tests.fetchd.search.providers.peers import KEY, PAGES, Answer, brave, searxng, serve, tavily
from tests.kit.exchange import Request
from tests.kit.origin import Origin
from tests.kit.pki import Pki

CALLER = Caller("bot", DEFAULT_PROFILE)
BASES = {"brave": "", "searxng": "/searxng", "tavily": ""}
PEERS: dict[str, Callable[[Request], Answer]] = {"brave": brave, "searxng": searxng, "tavily": tavily}


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    return Pki(tmp_path)


@pytest.fixture
def origin(pki: Pki) -> Iterator[Origin]:
    with Origin(tls=pki.server_context("localhost", "127.0.0.1")) as origin:
        yield origin


@asynccontextmanager
async def open_one(name: str, pki: Pki, origin: Origin, *, key: str = KEY) -> AsyncIterator[SearchProvider]:
    which = SearchProviderName(name)
    described = ProviderConfig(which, f"https://localhost:{origin.port}{BASES[name]}", "SEARCH_KEY")
    config = SearchConfig(which, providers={which: described})
    async with open_providers(config, [str(pki.ca_path)], {"SEARCH_KEY": key}) as providers:
        yield providers[which]


async def ask(name: str, pki: Pki, origin: Origin, arguments: SearchArguments, **more: str) -> SearchAnswer:
    async with open_one(name, pki, origin, **more) as provider:
        outcome = await provider.search(arguments, CALLER)
    assert isinstance(outcome, SearchAnswer), outcome
    return outcome


async def fail(name: str, pki: Pki, origin: Origin, arguments: SearchArguments, **more: str) -> str:
    async with open_one(name, pki, origin, **more) as provider:
        outcome = await provider.search(arguments, CALLER)
    assert isinstance(outcome, SearchFailure) and outcome.kind is FailureKind.BACKEND, outcome
    assert KEY not in outcome.message
    return outcome.message


def urls(answer: SearchAnswer) -> list[str]:
    return [row.url for row in answer.rows]


@pytest.mark.parametrize("name", PEERS)
async def test_a_plain_search(name: str, pki: Pki, origin: Origin) -> None:
    origin.route("*", serve(PEERS[name]))
    answer = await ask(name, pki, origin, SearchArguments("rust"))

    assert urls(answer) == [page.url for page in PAGES[:4]]
    assert [(row.title, row.description) for row in answer.rows] == [
        (page.title, page.text) for page in PAGES[:4]
    ]
    assert answer.credits == (1 if name == "tavily" else None)


@pytest.mark.parametrize("name", PEERS)
async def test_nothing_found(name: str, pki: Pki, origin: Origin) -> None:
    origin.route("*", serve(PEERS[name]))

    assert (await ask(name, pki, origin, SearchArguments("zzz"))).rows == ()


async def test_brave_takes_every_argument(pki: Pki, origin: Origin) -> None:
    origin.route("*", serve(brave))
    arguments = SearchArguments(
        "rust",
        2,
        Freshness.YEAR,
        "de",
        "en",
        SafeSearch.STRICT,
        ("rust-lang.org", "wikipedia.org"),
        ("doc.rust-lang.org",),
    )
    answer = await ask("brave", pki, origin, arguments)

    assert answer.rows == (
        SearchRow(
            "https://www.rust-lang.org/",
            "Rust",
            "A language.",
            "2 days ago",
            "www.rust-lang.org",
            ("A LANGUAGE.",),
        ),
        SearchRow(
            "https://en.wikipedia.org/wiki/Rust",
            "Rust on Wikipedia",
            "An oxide.",
            "2 days ago",
            "en.wikipedia.org",
            ("AN OXIDE.",),
        ),
    )


async def test_brave_takes_a_long_search_as_POST(pki: Pki, origin: Origin) -> None:
    origin.route("*", serve(brave))
    domains = tuple(f"{'a' * 60}.{'b' * 55}{number}.example"[:128] for number in range(19))
    answer = await ask(
        "brave",
        pki,
        origin,
        SearchArguments(
            "rust " + "世" * 390,
            include_domains=(
                *domains,
                "tokio.rs",
            )[:20],
        ),
    )

    assert origin.requests[0].method == "POST" and answer.rows == ()


async def test_tavily_takes_every_argument(pki: Pki, origin: Origin) -> None:
    origin.route("*", serve(tavily))
    arguments = SearchArguments(
        "rust", 2, Freshness.DAY, "us", None, None, ("rust-lang.org", "facepunch.com"), ("doc.rust-lang.org",)
    )

    answer = await ask("tavily", pki, origin, arguments)

    assert urls(answer) == ["https://www.rust-lang.org/", "https://rust.facepunch.com/"]


async def test_searxng_takes_what_it_knows(pki: Pki, origin: Origin) -> None:
    origin.route("*", serve(searxng))
    arguments = SearchArguments("tokio", None, Freshness.WEEK, None, "de-CH", SafeSearch.MODERATE)

    assert urls(await ask("searxng", pki, origin, arguments)) == ["https://tokio.rs/"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("brave", "backend returned 422: SUBSCRIPTION_TOKEN_INVALID: its key was not accepted"),
        (
            "tavily",
            "backend returned 401: its key was not accepted: Unauthorized: missing or invalid API key.",
        ),
    ],
)
async def test_a_key_that_is_not_accepted(name: str, message: str, pki: Pki, origin: Origin) -> None:
    origin.route("*", serve(PEERS[name]))

    assert await fail(name, pki, origin, SearchArguments("rust"), key="another-0123456789") == message


async def test_searxng_without_its_json_format(pki: Pki, origin: Origin) -> None:
    origin.route("*", serve(partial(searxng, formats=("html",))))

    assert await fail("searxng", pki, origin, SearchArguments("rust")) == (
        "backend returned 403: its JSON format is not enabled; add json to search.formats in its settings"
    )


async def test_searxng_whose_engines_are_all_dead(pki: Pki, origin: Origin) -> None:
    origin.route("*", serve(partial(searxng, dead=("google", "bing"))))

    message = await fail("searxng", pki, origin, SearchArguments("rust"))
    assert (
        message == "no results, and not every one of its engines answered: google (timeout); bing (timeout)"
    )


async def test_a_command_never_reaches_searxng(pki: Pki, origin: Origin) -> None:
    origin.route("*", serve(searxng))

    assert (await fail("searxng", pki, origin, SearchArguments("!!g secret"))).startswith(
        'provider "searxng" cannot honour query'
    )
    assert origin.accepts == 0


def test_the_public_sdk_of_tavily_takes_our_server_for_its_own(pki: Pki, origin: Origin) -> None:
    import requests
    from tavily import TavilyClient
    from tavily.errors import BadRequestError, InvalidAPIKeyError

    origin.route("*", serve(tavily))

    def client(key: str) -> TavilyClient:
        session = requests.Session()
        session.verify, session.trust_env = str(pki.ca_path), False
        return TavilyClient(key, api_base_url=f"https://localhost:{origin.port}", session=session)

    found = client(KEY).search(
        "rust",
        max_results=2,
        time_range="day",
        country="france",
        include_domains=["rust-lang.org"],
        include_usage=True,
    )
    assert [row["url"] for row in found["results"]] == [page.url for page in PAGES[:2]]
    assert found["usage"] == {"credits": 1}
    with pytest.raises(InvalidAPIKeyError, match="Unauthorized"):
        client("another").search("rust")
    with pytest.raises(BadRequestError, match="too long"):
        client(KEY).search("rust" * 200)
