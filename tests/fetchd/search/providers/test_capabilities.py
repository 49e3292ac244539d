"""The capability tables: a cell for each provider and argument, as docs/search.md shows them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from fetchd.search.capabilities import find_refused
from fetchd.search.interface import (
    Argument,
    Capability,
    Freshness,
    SafeSearch,
    SearchArguments,
    Support,
)
from fetchd.search.local.provider import CAPABILITIES as LOCAL
from fetchd.search.providers.opening import DIALECTS
from fetchd.search.providers.vendor import capabilities_of
from proxy_addons.policy.config_search import SearchProviderName
from proxy_addons.policy.vendors.dialects import DEFAULT_DIALECTS
from proxy_addons.policy.vendors.dialects import DIALECTS as ASKED
from tests.kit.corpora import REPOSITORY

TABLES: Mapping[str, Mapping[Argument, Capability]] = {
    "local": LOCAL,
    **{name.value: dialect.capabilities for name, dialect in DIALECTS.items()},
    **{vendor.value: capabilities_of(ASKED[name]) for vendor, name in DEFAULT_DIALECTS.items()},
}
WORDS = {Support.NATIVE: "yes", Support.SYNTAX: "syntax", Support.AFTER: "after", Support.REFUSED: "no"}
EVERYTHING = SearchArguments(
    "a", 1, Freshness.DAY, "us", "en", SafeSearch.STRICT, ("a.example",), ("b.example",)
)


def render_table() -> str:
    rows = [
        f"| `{argument}` | "
        + " | ".join(WORDS[TABLES[name][argument].support] for name in SearchProviderName)
        + " |"
        for argument in Argument
    ]
    return "\n".join(rows)


def render_refused() -> str:
    return "\n".join(
        f"- `{name.value}`, `{argument}`: {TABLES[name][argument].way_out}"
        for name in SearchProviderName
        for argument in Argument
        if TABLES[name][argument].support is Support.REFUSED
    )


def test_every_provider_has_a_cell_for_every_argument() -> None:
    assert set(TABLES) == set(SearchProviderName)
    for name, table in TABLES.items():
        assert set(table) == set(Argument), name


def test_the_documentation_has_the_same_table() -> None:
    text = (REPOSITORY / "docs/search.md").read_text("utf-8")

    assert "| argument | " + " | ".join(f"`{name.value}`" for name in SearchProviderName) + " |" in text
    assert f"|{'---|' * (len(SearchProviderName) + 1)}\n{render_table()}\n\n" in text
    assert f"\n{render_refused()}\n\n" in text


@pytest.mark.parametrize("name", TABLES)
def test_what_is_refused_has_a_way_out_and_nothing_else_has_one(name: str) -> None:
    for argument, capability in TABLES[name].items():
        assert bool(capability.way_out) is (capability.support is Support.REFUSED), argument


@pytest.mark.parametrize("name", TABLES)
def test_the_first_refused_argument_is_named(name: str) -> None:
    refused = [one for one in Argument if TABLES[name][one].support is Support.REFUSED]
    found = find_refused(name, TABLES[name], EVERYTHING)

    if not refused:
        assert found is None
    else:
        way_out = TABLES[name][refused[0]].way_out
        assert found is not None
        assert found.message == f'provider "{name}" cannot honour {refused[0]}; {way_out}'
