"""What every search provider is held to, the scripted one among them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fetchd.core.caller import Caller
from fetchd.search.fake import ScriptedProvider
from fetchd.search.interface import (
    Argument,
    SearchAnswer,
    SearchArguments,
    SearchProvider,
    SearchRow,
    Support,
)
from fetchd.search.results import render_results
from proxy_addons.policy.limits import DEFAULT_PROFILE

CALLER = Caller("bot", DEFAULT_PROFILE)


def check_table(provider: SearchProvider) -> None:
    """Its name and its capabilities say what the core and the docs need of them."""
    assert provider.name and provider.name.isascii() and provider.name == provider.name.lower()
    assert set(provider.capabilities) == set(Argument)
    assert provider.capabilities[Argument.QUERY].support is not Support.REFUSED
    for argument, capability in provider.capabilities.items():
        if capability.support is Support.REFUSED:
            assert capability.way_out and capability.way_out[-1] != ".", argument


async def check_search(provider: SearchProvider, query: str = "rust") -> None:
    """It answers a plain search with rows that can be rendered."""
    answer = await provider.search(SearchArguments(query), CALLER)
    assert isinstance(answer, SearchAnswer), answer
    assert answer.dropped >= 0
    assert isinstance(render_results(query, answer.rows), str)


PROVIDERS: dict[str, Callable[[], SearchProvider]] = {
    "scripted": lambda: ScriptedProvider([SearchAnswer((SearchRow("https://a.example/", "A"),))]),
}
"""Makers of providers that answer."""


@pytest.mark.parametrize("make", PROVIDERS.values(), ids=PROVIDERS)
async def test_a_provider(make: Callable[[], SearchProvider]) -> None:
    provider = make()
    check_table(provider)
    await check_search(provider)
