"""The capability table of SPEC 6, row by row."""

import pytest

from proxy_addons.policy.vendors.dialects import (
    DEFAULT_DIALECTS,
    DIALECTS,
    Capability,
    Dialect,
    Vendor,
)

SOURCE = [
    # dialect, search, fetch, allow, block: the table of the source
    ("anthropic-2025", True, True, True, True),
    ("openai-chat-2025", True, False, True, False),
    ("openrouter-2025", True, False, False, False),
]
TODAY = [
    ("anthropic", True, True, True, True),
    ("openai-chat", True, False, False, False),
    ("openai-responses", True, False, True, False),
    ("openrouter", True, True, True, True),
]


@pytest.mark.parametrize(("name", "search", "fetch", "allow", "block"), SOURCE + TODAY)
def test_each_dialect_can_what_its_row_says(
    name: str, search: bool, fetch: bool, allow: bool, block: bool
) -> None:
    row = DIALECTS[name]
    found = [row.can(capability) for capability in Capability]
    assert found == [search, fetch, allow, block]


def test_the_rows_of_the_source_are_marked_and_no_others() -> None:
    assert [row.name for row in DIALECTS.values() if row.source] == [name for name, *_ in SOURCE]


@pytest.mark.parametrize("row", DIALECTS.values(), ids=lambda row: row.name)
def test_what_a_dialect_cannot_it_explains_with_a_way_out(row: Dialect) -> None:
    lacking = {capability for capability in Capability if not row.can(capability)}
    assert set(row.cannot) == lacking
    assert all(";" in reason and not reason.endswith(".") for reason in row.cannot.values())


@pytest.mark.parametrize("vendor", Vendor)
def test_each_vendor_has_a_default_of_today(vendor: Vendor) -> None:
    row = DIALECTS[DEFAULT_DIALECTS[vendor]]
    assert row.vendor is vendor
    assert not row.source
