"""Which rows the domain lists let through, whatever a provider says it did."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetchd.search.domains import DomainList, keep_rows, parse_entry
from fetchd.search.interface import SearchRow
from tests.kit.counting import count_calls


def keeps(url: str, include: tuple[str, ...] = (), exclude: tuple[str, ...] = ()) -> bool:
    return bool(keep_rows([SearchRow(url)], include, exclude))


@pytest.mark.parametrize(
    ("entry", "url", "covered"),
    [
        ("example.com", "https://example.com/", True),
        ("example.com", "http://example.com:8080/a?b#c", True),
        ("example.com", "https://www.example.com/", True),
        ("example.com", "https://a.b.example.com/", True),
        ("example.com", "https://notexample.com/", False),
        ("example.com", "https://example.com.evil.example/", False),
        ("example.com", "https://example.org/?u=example.com", False),
        ("example.com", "https://example.com@evil.example/", False),
        ("example.com", "https://evil.example\\@example.com/", False),
        ("example.com", "https://EXAMPLE.COM./", True),
        ("example.com", "https://ex%61mple.com/", True),
        ("example.com", "//example.com/", False),
        ("example.com", "example.com", False),
        ("example.com", "javascript:example.com", False),
        ("EXAMPLE.com.", "https://example.com/", True),
        ("www.example.com", "https://example.com/", False),
        ("com", "https://example.com/", True),
        ("*.example.com", "https://www.example.com/", True),
        ("*.example.com", "https://example.com/", False),
        ("bücher.example", "https://xn--bcher-kva.example/", True),
        ("xn--bcher-kva.example", "https://BÜCHER.example/", True),
        ("127.0.0.1", "http://127.1/", True),
        ("example.com:443", "https://example.com/", False),
        ("user@example.com", "https://example.com/", False),
        ("*", "https://example.com/", False),
        ("*.", "https://example.com/", False),
        (".", "https://example.com/", False),
        ("example.com#", "https://example.com/", False),
        ("example.com?", "https://example.com/", False),
        ("example.com\\x", "https://example.com/", False),
    ],
)
def test_what_an_entry_covers(entry: str, url: str, covered: bool) -> None:
    assert keeps(url, include=(entry,)) is covered
    assert keeps(url, exclude=(entry,)) is not covered


@pytest.mark.parametrize(
    ("entry", "covered"), [("b.example", True), ("*.b.example", True), ("c.example", False)]
)
def test_a_host_as_long_as_an_answer_may_be_costs_no_more_than_another(entry: str, covered: bool) -> None:
    hosts, host = DomainList([entry]), f"{'a.' * 1000}b.example"

    assert hosts.covers(host) is covered
    assert count_calls(lambda: hosts.covers(host)) < 50


def test_without_lists_every_row_stays() -> None:
    assert keeps("not a URL") and keeps("javascript:1")


def test_a_row_without_a_host_stays_unless_hosts_are_asked_for() -> None:
    assert keeps("not a URL", exclude=("a.example",)) and keeps("javascript:1", exclude=("a.example",))
    assert not keeps("not a URL", include=("a.example",)) and not keeps(
        "javascript:1", include=("a.example",)
    )


def test_the_exclude_list_wins() -> None:
    lists = {"include": ("example.com",), "exclude": ("private.example.com",)}
    assert keeps("https://example.com/", **lists) and not keeps("https://a.private.example.com/", **lists)
    assert not keeps("https://example.com/", include=("example.com",), exclude=("EXAMPLE.com",))


def test_rows_keep_their_order() -> None:
    rows = [SearchRow(f"https://{name}.example/") for name in "cabdca"]
    kept = keep_rows(rows, ("a.example", "c.example"), ())
    assert [row.url[8] for row in kept] == ["c", "a", "c", "a"]


@given(st.text(), st.text(), st.booleans())
def test_any_entry_and_any_url_are_judged(entry: str, url: str, included: bool) -> None:
    parse_entry(entry)
    keeps(url, (entry,) if included else (), () if included else (entry,))


@given(st.lists(st.text(), max_size=20), st.lists(st.text(), max_size=20), st.lists(st.text(), max_size=5))
def test_what_an_exclude_list_drops_no_include_list_brings_back(
    include: list[str], exclude: list[str], urls: list[str]
) -> None:
    rows = [SearchRow(url) for url in urls]
    both = keep_rows(rows, include, exclude)
    assert set(both) <= set(keep_rows(rows, (), exclude)) and set(both) <= set(keep_rows(rows, include, ()))


LABELS = st.lists(st.sampled_from(["a", "b", "example", "", "com"]), max_size=5).map(".".join)


@given(st.lists(st.tuples(st.sampled_from(["", "*."]), LABELS).map("".join), max_size=6), LABELS)
def test_a_list_covers_what_one_of_its_entries_covers(texts: list[str], host: str) -> None:
    entries = [entry for text in texts if (entry := parse_entry(text)) is not None]
    assert DomainList(texts).covers(host) is any(entry.covers(host) for entry in entries)
