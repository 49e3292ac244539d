"""Sets of entries: what they cover, and that long ones are not held to each other one by one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fetchd.web_access.declaration import WebAccess
from fetchd.web_access.domains import DomainSet, parse_domain
from fetchd.web_access.errors import DeclarationError
from fetchd.web_access.inheriting import inherit
from proxy_addons.policy.hosts import HostPattern
from tests.kit.counting import count_calls

NAMES = st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=4).map(".".join)
ENTRIES = st.builds(HostPattern, NAMES, st.booleans(), st.none())


def covers(wide: HostPattern, narrow: HostPattern) -> bool:
    """By what an entry means: its hosts are the name itself, but for `*.name`, and all below it."""
    if narrow.suffix == wide.suffix:
        return narrow.subdomains or not wide.subdomains
    return narrow.suffix.endswith(f".{wide.suffix}")


@given(st.lists(ENTRIES, max_size=6), ENTRIES)
def test_a_set_finds_what_covers_an_entry(entries: list[HostPattern], one: HostPattern) -> None:
    found = list(DomainSet(entries).find_covers(one))
    assert set(found) == {other for other in entries if covers(other, one)}
    assert len(found) == len(set(found))
    assert DomainSet(entries).covers(one) == bool(found)


def test_a_name_is_covered_by_whole_labels_alone() -> None:
    found = DomainSet(map(parse_domain, ["docs.rs", "*.example.com"]))
    hosts = ["docs.rs", "a.docs.rs", "xdocs.rs", "rs", "example.com", "a.example.com"]
    assert [found.contains(host) for host in hosts] == [True, True, False, False, False, True]
    assert (bool(found), bool(DomainSet(()))) == (True, False)


def test_a_host_of_a_thousand_labels_costs_no_more_than_the_longest_there_is() -> None:
    """A vendor writes it into its answer."""
    found, host = DomainSet(map(parse_domain, ["docs.rs"])), f"{'a.' * 3000}docs.rs"
    assert found.contains(host)
    assert count_calls(lambda: found.contains(host)) < 1000


def test_a_thousand_entries_are_not_held_to_a_thousand_one_by_one() -> None:
    """Callers over HTTP send such lists: a million comparisons would hold up everybody else for a second."""
    own = tuple(f"a{number}.example.com" for number in range(1000))
    others = tuple(f"*.b{number}.example.com" for number in range(1000))
    wide, narrow = WebAccess(True, allowed_domains=own), WebAccess(True, False, None, own, others)
    try:
        calls = count_calls(lambda: inherit(wide, narrow).vendor_filter())
    except DeclarationError:
        raise AssertionError("both lists can be told to a vendor") from None
    assert calls < 1_000_000
