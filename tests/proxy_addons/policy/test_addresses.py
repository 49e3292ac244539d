"""The blocked table, edges of each range, the IANA registries, the judgement of answers (SPEC 1.2, 1.3)."""

from __future__ import annotations

import csv
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from netaddr import IPAddress, IPNetwork

from proxy_addons.policy.addresses import (
    BLOCKED_RANGES,
    OWN_ADDRESS,
    SHIPPED_EXTRAS,
    UNREADABLE,
    AddressException,
    AddressTable,
    AnswerSet,
    BlockedRange,
    DroppedAddress,
    classify_address,
    decide_addresses,
)
from proxy_addons.policy.hosts import parse_host_pattern
from proxy_addons.policy.verdicts import ALLOWED, Failure, Rule, Verdict, refuse
from tests.kit.corpora import corpora

TABLE = AddressTable()
SHIPPED = AddressTable(SHIPPED_EXTRAS)
MAX = {4: 2**32 - 1, 6: 2**128 - 1}

CONTRACT = """
0.0.0.0/8 this network · 10.0.0.0/8 private · 100.64.0.0/10 shared (CGNAT) · 127.0.0.0/8 loopback
169.254.0.0/16 link-local · 172.16.0.0/12 private · 192.0.0.0/24 protocol assignments
192.0.2.0/24 documentation · 192.88.99.0/24 6to4 relay · 192.168.0.0/16 private · 198.18.0.0/15 benchmarking
198.51.100.0/24 documentation · 203.0.113.0/24 documentation · 224.0.0.0/4 multicast · 240.0.0.0/4 reserved
255.255.255.255/32 broadcast
::/96 unspecified, loopback, IPv4-compatible · ::ffff:0:0/96 IPv4-mapped · 64:ff9b::/96 NAT64
64:ff9b:1::/48 local NAT64 · 100::/64 discard-only · 2001::/23 protocol assignments
2001:2::/48 benchmarking · 2001:db8::/32 documentation · 2002::/16 6to4 · 3fff::/20 documentation
fc00::/7 unique local · fe80::/10 link-local · fec0::/10 site-local · ff00::/8 multicast
"""
"""SPEC 1.3, as it is written there."""


def test_the_table_is_that_of_the_contract() -> None:
    rows = [row.strip() for line in CONTRACT.strip().splitlines() for row in line.split("·")]
    assert [f"{row.cidr} {row.label}" for row in BLOCKED_RANGES] == rows
    assert [IPNetwork(row.cidr).version for row in BLOCKED_RANGES] == [4] * 16 + [6] * 14


def longest(rows: tuple[BlockedRange, ...], version: int, value: int) -> BlockedRange | None:
    """A second opinion: a walk over the rows."""
    covering = [
        (net.prefixlen, row)
        for row in rows
        for net in (IPNetwork(row.cidr),)
        if net.version == version and net.first <= value <= net.last
    ]
    return max(covering, key=lambda pair: pair[0])[1] if covering else None


EDGES = [
    # range, row at its first address, at its last, one before (- = no such address), one after
    ("0.0.0.0/8", "", "", "-", "allowed"),
    ("10.0.0.0/8", "", "", "allowed", "allowed"),
    ("100.64.0.0/10", "", "", "allowed", "allowed"),
    ("127.0.0.0/8", "", "", "allowed", "allowed"),
    ("169.254.0.0/16", "", "", "allowed", "allowed"),
    ("172.16.0.0/12", "", "", "allowed", "allowed"),
    ("192.0.0.0/24", "", "", "allowed", "allowed"),
    ("192.0.2.0/24", "", "", "allowed", "allowed"),
    ("192.88.99.0/24", "", "", "allowed", "allowed"),
    ("192.168.0.0/16", "", "", "allowed", "allowed"),
    ("198.18.0.0/15", "", "", "allowed", "allowed"),
    ("198.51.100.0/24", "", "", "allowed", "allowed"),
    ("203.0.113.0/24", "", "", "allowed", "allowed"),
    ("224.0.0.0/4", "", "", "allowed", "240.0.0.0/4"),
    ("240.0.0.0/4", "", "255.255.255.255/32", "224.0.0.0/4", "-"),
    ("255.255.255.255/32", "", "", "240.0.0.0/4", "-"),
    ("::/96", "", "", "-", "allowed"),
    ("::ffff:0:0/96", "", "", "allowed", "allowed"),
    ("64:ff9b::/96", "", "", "allowed", "allowed"),
    ("64:ff9b:1::/48", "", "", "allowed", "allowed"),
    ("100::/64", "", "", "allowed", "allowed"),
    ("2001::/23", "", "", "allowed", "allowed"),
    ("2001:2::/48", "", "", "2001::/23", "2001::/23"),
    ("2001:db8::/32", "", "", "allowed", "allowed"),
    ("2002::/16", "", "", "allowed", "allowed"),
    ("3fff::/20", "", "", "allowed", "allowed"),
    ("fc00::/7", "", "", "allowed", "allowed"),
    ("fe80::/10", "", "", "allowed", "fec0::/10"),
    ("fec0::/10", "", "", "fe80::/10", "ff00::/8"),
    ("ff00::/8", "", "", "fec0::/10", "-"),
]


def test_the_edges_below_are_those_of_every_range() -> None:
    assert [row[0] for row in EDGES] == [row.cidr for row in BLOCKED_RANGES]


@pytest.mark.parametrize(("cidr", "first", "last", "before", "after"), EDGES, ids=[row[0] for row in EDGES])
def test_both_edges(cidr: str, first: str, last: str, before: str, after: str) -> None:
    net = IPNetwork(cidr)
    expected = {
        net.first: first or cidr,
        net.last: last or cidr,
        net.first - 1: before,
        net.last + 1: after,
    }
    for value, row in expected.items():
        if row == "-":
            assert not 0 <= value <= MAX[net.version]
            continue
        match = TABLE.match(IPAddress(value, net.version))
        assert (match.cidr if match else "allowed") == row, IPAddress(value, net.version)


ALWAYS_ALLOWED = ["1.1.1.1", "8.8.8.8", "93.184.216.34", "2606:4700:4700::1111", "2001:4860:4860::8888"]


@pytest.mark.parametrize("address", ALWAYS_ALLOWED)
def test_always_allowed_by_the_table(address: str) -> None:
    assert TABLE.match(IPAddress(address)) is None
    assert SHIPPED.match(IPAddress(address)) is None
    assert decide_addresses("h", 443, [AnswerSet((address,))], TABLE).verdict is ALLOWED


@pytest.mark.parametrize("embedded", [*ALWAYS_ALLOWED[:3], "127.0.0.1", "10.0.0.1"])
@pytest.mark.parametrize(
    ("form", "cidr"),
    [
        pytest.param("::ffff:{}", "::ffff:0:0/96", id="mapped"),
        pytest.param("::{}", "::/96", id="compatible"),
        pytest.param("64:ff9b::{}", "64:ff9b::/96", id="NAT64"),
        pytest.param("::ffff:0:{}", "::ffff:0:0:0/96", id="translated, by the shipped extras"),
    ],
)
def test_an_embedding_address_is_blocked_whatever_it_embeds(form: str, cidr: str, embedded: str) -> None:
    row = classify_address("h", 443, form.format(embedded), SHIPPED)
    assert row is not None
    assert row.cidr == cidr


SHIPPED_CIDRS = {
    "168.63.129.16/32": "cloud platform endpoint",
    "5f00::/16": "segment routing",
    "100:0:0:1::/64": "dummy prefix",
    "::ffff:0:0:0/96": "IPv4-translated",
}


def test_the_shipped_extras_are_those_of_the_contract() -> None:
    assert {row.cidr: row.label for row in SHIPPED_EXTRAS} == SHIPPED_CIDRS


@pytest.mark.parametrize("cidr", SHIPPED_CIDRS)
def test_edges_of_the_shipped_extras(cidr: str) -> None:
    net = IPNetwork(cidr)
    for value in (net.first, net.last):
        match = SHIPPED.match_value(net.version, value)
        assert match is not None
        assert match.cidr == cidr
        assert TABLE.match_value(net.version, value) is None, "not built in"
    after = SHIPPED.match_value(net.version, net.last + 1)
    before = SHIPPED.match_value(net.version, net.first - 1)
    assert after is None
    # The dummy prefix begins where discard-only ends.
    assert (before.cidr if before else None) == ("100::/64" if cidr == "100:0:0:1::/64" else None)


class TestIanaRegistries:
    """Version 2025-10-09 of both special-purpose registries."""

    @staticmethod
    def rows(name: str) -> list[dict[str, str]]:
        with corpora("iana", name).open(newline="") as file:
            return list(csv.DictReader(file))

    @pytest.mark.parametrize(
        ("name", "count"),
        [("iana-special-ipv4.csv", 26), ("iana-special-ipv6.csv", 25)],
        ids=["IPv4", "IPv6"],
    )
    def test_whatever_is_not_globally_reachable_is_blocked(self, name: str, count: int) -> None:
        rows = self.rows(name)
        assert len(rows) == count
        for row in rows:
            net = IPNetwork(row["prefix"])
            if row["globally_reachable"] == "true":
                continue
            # Whole: no segment between its ends is allowed; the ends of the table's rows cut the segments.
            cuts = {net.first, net.last} | {
                edge
                for blocked in (*BLOCKED_RANGES, *SHIPPED_EXTRAS)
                for other in (IPNetwork(blocked.cidr),)
                if other.version == net.version
                for edge in (other.first - 1, other.first, other.last, other.last + 1)
                if net.first <= edge <= net.last
            }
            assert [
                IPAddress(v, net.version) for v in cuts if SHIPPED.match_value(net.version, v) is None
            ] == [], row

    @pytest.mark.parametrize("name", ["iana-special-ipv4.csv", "iana-special-ipv6.csv"], ids=["IPv4", "IPv6"])
    def test_one_past_a_row_is_blocked_only_by_another_row(self, name: str) -> None:
        everything = (*BLOCKED_RANGES, *SHIPPED_EXTRAS)
        for row in self.rows(name):
            net = IPNetwork(row["prefix"])
            for value in (net.first - 1, net.first, net.last, net.last + 1):
                if 0 <= value <= MAX[net.version]:
                    assert SHIPPED.match_value(net.version, value) == longest(
                        everything, net.version, value
                    ), row

    def test_the_reachable_rows_that_we_block_all_the_same(self) -> None:
        """Ours to decide: protocol assignments as a whole, relays and translators that hide an address."""
        blocked = {
            row["prefix"]
            for name in ("iana-special-ipv4.csv", "iana-special-ipv6.csv")
            for row in self.rows(name)
            if row["globally_reachable"] == "true"
            and SHIPPED.match(IPAddress(IPNetwork(row["prefix"]).first))
        }
        assert blocked == {
            "192.0.0.9/32",
            "192.0.0.10/32",
            "64:ff9b::/96",
            "2001:1::1/128",
            "2001:1::2/128",
            "2001:1::3/128",
            "2001:3::/32",
            "2001:4:112::/48",
            "2001:20::/28",
            "2001:30::/28",
        }


@pytest.mark.parametrize(
    ("address", "row"),
    [
        pytest.param("255.255.255.255", "255.255.255.255/32 (broadcast)", id="broadcast within reserved"),
        pytest.param("255.255.255.254", "240.0.0.0/4 (reserved)", id="reserved beside it"),
        pytest.param(
            "2001:2::1", "2001:2::/48 (benchmarking)", id="benchmarking within protocol assignments"
        ),
        pytest.param("2001:2:1::", "2001::/23 (protocol assignments)", id="protocol assignments beside it"),
        pytest.param("::1", "::/96 (unspecified, loopback, IPv4-compatible)", id="loopback"),
        pytest.param("169.254.169.254", "169.254.0.0/16 (link-local)", id="a metadata service"),
    ],
)
def test_the_longest_row_is_named(address: str, row: str) -> None:
    assert str(classify_address("h", 443, address, TABLE)) == row


def test_an_extra_row_within_a_built_in_one_is_named_and_a_wider_one_is_not() -> None:
    extra = AddressTable([BlockedRange("10.1.0.0/16", "office"), BlockedRange("8.0.0.0/6", "wide")])
    named = [
        str(classify_address("h", 443, a, extra)) for a in ("10.1.2.3", "10.2.0.0", "8.8.8.8", "12.0.0.0")
    ]
    assert named == ["10.1.0.0/16 (office)", "10.0.0.0/8 (private)", "8.0.0.0/6 (wide)", "None"]


@pytest.mark.parametrize(
    "address",
    [
        "", " ", "localhost", "127.1", "2130706433", "0x7f.0.0.1", "010.0.0.1", "1.1.1", "1.1.1.1 ",
        " 1.1.1.1", "1.1.1.1\n", "1.1.1.1\x00", "1.1.1.256", "1.1.1.1/32", "1.1.1.1:443", "١.1.1.1",
        "[2606:4700::1]", "2606:4700::1%eth0", "fe80::1%1", "2606:4700::1/128", "2606:4700:::1", "2606:4700::1\n",
        ":", "\ud800", "::ffff:010.0.0.1",
    ],
    ids=repr,
)  # fmt: skip
def test_what_is_no_plain_address_is_blocked(address: str) -> None:
    assert classify_address("h", 443, address, TABLE) is UNREADABLE
    decision = decide_addresses("h", 443, [AnswerSet((address,))], TABLE)
    assert (decision.allowed, decision.verdict.rule) == ((), Rule.NO_ALLOWED_ADDRESS)


ADDRESSES = st.one_of(
    st.integers(0, MAX[4]).map(lambda value: (4, value)),
    st.integers(0, MAX[6]).map(lambda value: (6, value)),
    st.builds(
        lambda row, offset, end: (IPNetwork(row.cidr).version, getattr(IPNetwork(row.cidr), end) + offset),
        st.sampled_from((*BLOCKED_RANGES, *SHIPPED_EXTRAS)),
        st.integers(-3, 3),
        st.sampled_from(["first", "last"]),
    ).filter(lambda pair: 0 <= pair[1] <= MAX[pair[0]]),
)


@given(ADDRESSES)
def test_the_prepared_table_says_what_a_walk_over_the_rows_says(pair: tuple[int, int]) -> None:
    assert TABLE.match_value(*pair) == longest(BLOCKED_RANGES, *pair)
    assert SHIPPED.match_value(*pair) == longest((*BLOCKED_RANGES, *SHIPPED_EXTRAS), *pair)


OK4, OK4B, OK6 = "93.184.216.34", "1.1.1.1", "2606:4700:4700::1111"
BAD4, BAD4B, BAD6 = "10.0.0.1", "127.0.0.1", "fd00::1"
HARD = refuse(Rule.NO_ALLOWED_ADDRESS, "host h.example has no allowed address", subject="h.example")
SOFT = refuse(
    Rule.DNS_FAILED, "dns resolution failed for h.example", failure=Failure.SOFT, subject="h.example"
)

A_ANSWERS = {
    "allowed": AnswerSet((OK4,)),
    "blocked": AnswerSet((BAD4,)),
    "mixed": AnswerSet((BAD4, OK4, BAD4B)),
    "no data": AnswerSet(()),
    "failed": AnswerSet((), failed=True),
}
AAAA_ANSWERS = {
    "allowed": AnswerSet((OK6,)),
    "blocked": AnswerSet((BAD6,)),
    "mixed": AnswerSet((OK6, BAD6)),
    "no data": AnswerSet(()),
    "failed": AnswerSet((), failed=True),
}
GRID: dict[tuple[str, str], Verdict] = {
    ("blocked", "blocked"): HARD,
    ("blocked", "no data"): HARD,
    ("blocked", "failed"): HARD,  # the other type returned only blocked addresses
    ("no data", "blocked"): HARD,
    ("no data", "no data"): HARD,  # nothing returned, nothing failed
    ("no data", "failed"): SOFT,
    ("failed", "blocked"): HARD,
    ("failed", "no data"): SOFT,
    ("failed", "failed"): SOFT,
}
"""SPEC 1.2. Every other pair holds an allowed address."""


@pytest.mark.parametrize(
    ("a", "aaaa"),
    list(itertools.product(A_ANSWERS, AAAA_ANSWERS)),
    ids=lambda name: str(name).replace(" ", "-"),
)
def test_both_answers(a: str, aaaa: str) -> None:
    answers = [A_ANSWERS[a], AAAA_ANSWERS[aaaa]]
    decision = decide_addresses("h.example", 443, answers, TABLE)
    returned = [address for answer in answers for address in answer.addresses]
    assert decision.verdict == GRID.get((a, aaaa), ALLOWED)
    assert decision.allowed == tuple(address for address in returned if address in (OK4, OK6))
    assert [d.address for d in decision.dropped] == [x for x in returned if x in (BAD4, BAD4B, BAD6)]
    assert bool(decision.allowed) is ((a, aaaa) not in GRID)


def test_dropped_addresses_carry_their_row_and_the_message_carries_neither() -> None:
    decision = decide_addresses("h.example", 443, [AnswerSet((BAD4, BAD4B)), AnswerSet((BAD6,))], TABLE)
    assert decision.dropped == (
        DroppedAddress(BAD4, BlockedRange("10.0.0.0/8", "private")),
        DroppedAddress(BAD4B, BlockedRange("127.0.0.0/8", "loopback")),
        DroppedAddress(BAD6, BlockedRange("fc00::/7", "unique local")),
    )
    assert decision.verdict == HARD


def test_order_is_kept_and_repeats_are_judged_once() -> None:
    decision = decide_addresses(
        "h", 443, [AnswerSet((OK4B, BAD4, OK4, OK4B, BAD4)), AnswerSet((OK6,))], TABLE
    )
    assert decision.allowed == (OK4B, OK4, OK6)
    assert [drop.address for drop in decision.dropped] == [BAD4]


def test_a_partial_answer_that_failed_later_still_counts_what_it_holds() -> None:
    assert decide_addresses("h", 443, [AnswerSet((OK4,), failed=True)], TABLE).allowed == (OK4,)
    assert decide_addresses("h.example", 443, [AnswerSet((BAD4,), failed=True)], TABLE).verdict == HARD


def exception(host: str, network: str, port: int | None = None) -> AddressException:
    return AddressException(parse_host_pattern(host), IPNetwork(network), port)


EXCEPTIONS = [
    (exception("h.example", "10.0.0.1/32"), "h.example", 443, "10.0.0.1", True, "its host at its address"),
    (
        exception("h.example", "10.0.0.0/24"),
        "h.example",
        443,
        "10.0.0.255",
        True,
        "the last address of its network",
    ),
    (exception("h.example", "10.0.0.0/24"), "h.example", 443, "10.0.1.0", False, "one past its network"),
    (exception("h.example", "10.0.0.1/32"), "o.example", 443, "10.0.0.1", False, "another host"),
    (exception("h.example", "10.0.0.1/32"), "x.h.example", 443, "10.0.0.1", False, "a subdomain of its host"),
    (
        exception("*.h.example", "10.0.0.1/32"),
        "x.h.example",
        443,
        "10.0.0.1",
        True,
        "a subdomain by wildcard",
    ),
    (exception("h.example", "10.0.0.1/32", 8443), "h.example", 8443, "10.0.0.1", True, "its port"),
    (exception("h.example", "10.0.0.1/32", 8443), "h.example", 443, "10.0.0.1", False, "another port"),
    (
        exception("h.example:80", "10.0.0.1/32"),
        "h.example",
        443,
        "10.0.0.1",
        False,
        "another port of the pattern",
    ),
    (exception("h.example", "fd00::/8"), "h.example", 443, "fd00::1", True, "an IPv6 network"),
    (exception("h.example", "10.0.0.0/8"), "h.example", 443, "::ffff:10.0.0.1", False, "not the mapped form"),
    (exception("h.example", "0.0.0.0/0"), "h.example", 443, "::1", False, "not another IP version"),
    (exception("h.example", "::/0"), "h.example", 443, "127.0.0.1", False, "nor the other way round"),
    (exception("*", "0.0.0.0/0"), "h.example", 443, "127.1", False, "an unreadable address has no exception"),
]


@pytest.mark.parametrize(
    ("hole", "host", "port", "address", "allowed"), [pytest.param(*row[:5], id=row[5]) for row in EXCEPTIONS]
)
def test_exceptions(hole: AddressException, host: str, port: int, address: str, allowed: bool) -> None:
    decision = decide_addresses(host, port, [AnswerSet((address,))], TABLE, [hole])
    assert (decision.allowed == (address,)) is allowed
    assert decision.verdict.refused is not allowed


def test_own_addresses_are_blocked_unless_excepted() -> None:
    own = frozenset({OK4})
    decision = decide_addresses("h", 443, [AnswerSet((OK4, OK4B))], TABLE, own=own)
    assert (decision.allowed, decision.dropped) == ((OK4B,), (DroppedAddress(OK4, OWN_ADDRESS),))
    assert (
        decide_addresses("h", 443, [AnswerSet((OK4,))], TABLE, own=own).verdict.rule
        is Rule.NO_ALLOWED_ADDRESS
    )
    excepted = decide_addresses("h", 443, [AnswerSet((OK4,))], TABLE, [exception("h", OK4)], own)
    assert excepted.allowed == (OK4,)
    assert classify_address("h", 443, "127.0.0.1", TABLE, own=True) == BlockedRange("127.0.0.0/8", "loopback")


ANSWERS = st.lists(
    st.builds(
        AnswerSet,
        st.lists(
            st.one_of(ADDRESSES.map(lambda pair: str(IPAddress(pair[1], pair[0]))), st.text(max_size=20)),
            max_size=4,
        ).map(tuple),
        st.booleans(),
    ),
    max_size=3,
)


@given(ANSWERS)
def test_no_address_of_the_table_is_ever_allowed(answers: list[AnswerSet]) -> None:
    decision = decide_addresses("h.example", 443, answers, SHIPPED)
    for address in decision.allowed:
        parsed = IPAddress(address)
        assert longest((*BLOCKED_RANGES, *SHIPPED_EXTRAS), parsed.version, int(parsed)) is None
    returned = list(dict.fromkeys(a for answer in answers for a in answer.addresses))
    assert sorted([*decision.allowed, *(drop.address for drop in decision.dropped)]) == sorted(returned)
    assert decision.verdict.refused is not bool(decision.allowed)
