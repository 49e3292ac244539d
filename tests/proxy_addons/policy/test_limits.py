"""The built-in profile (SPEC 1); the policy version, which changes with every limit and with nothing else."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from typing import Any

import pytest
from netaddr import AddrFormatError, IPAddress, IPNetwork

from proxy_addons.policy import limits
from proxy_addons.policy.addresses import AddressException, BlockedRange
from proxy_addons.policy.hosts import ANY_HOST, HostRules, parse_host_pattern
from proxy_addons.policy.limits import DEFAULT_PROFILE, Profile, WebTools


def patterns(*texts: str) -> tuple[Any, ...]:
    return tuple(map(parse_host_pattern, texts))


def hole(host: str = "a.example", network: str = "10.0.0.0/8", port: int | None = None) -> AddressException:
    return AddressException(parse_host_pattern(host), IPNetwork(network), port)


def test_the_default_profile_is_the_table_of_the_contract() -> None:
    assert {f.name: getattr(DEFAULT_PROFILE, f.name) for f in fields(Profile) if f.init} == {
        "name": "default",
        "schemes": {"https"},
        "ports": {80, 443},
        "methods": {"GET", "HEAD"},
        "request_body": False,
        "request_cap": 0,
        "upgrades": frozenset(),
        "hosts": HostRules((ANY_HOST,), ()),
        "credential_hosts": (),
        "byte_cap": 8_388_608,
        "lookup_timeout": 5,
        "connect_timeout": 5,
        "total_timeout": 20,
        "blocked_extra": (),
        "exceptions": (),
        "mode": "enforce",
        "tools": {"web_fetch", "page_read", "web_search"},
        "concurrent_hops": None,
        "requests_per_minute": None,
        "bytes_per_day": None,
        "web_tools": "enforce",
        "web_tools_max_uses": 5,
        "allowlist": None,
    }


def test_what_no_profile_may_change() -> None:
    assert (limits.MAX_REDIRECTS, limits.MAX_CHARS, limits.USER_AGENT) == (5, 40_000, "harness-webfetch/0.0")
    assert (limits.CLIENT_HEAD_SECONDS, limits.HANDSHAKE_SECONDS) == (10, 10)
    assert (limits.SILENT_TUNNEL_SECONDS, limits.IDLE_SECONDS) == (10, 60)


OTHER_VALUES: dict[str, list[Any]] = {
    "name": ["other"],
    "schemes": [frozenset({"http"}), frozenset({"http", "https"}), frozenset()],
    "ports": [frozenset({443}), frozenset({80, 443, 8443}), frozenset()],
    "methods": [frozenset({"GET"}), frozenset({"GET", "HEAD", "POST"}), frozenset()],
    "request_body": [True],
    "request_cap": [1],
    "upgrades": [frozenset({"websocket"})],
    "hosts": [
        HostRules(()),
        HostRules(patterns("a.example")),
        HostRules(patterns("*.a.example")),
        HostRules(patterns("a.example:443")),
        HostRules(patterns("a,b")),
        HostRules(patterns("a", "b")),
        HostRules(patterns("*:443")),
        HostRules((ANY_HOST,), patterns("a.example")),
        HostRules((ANY_HOST,), patterns("*")),
    ],
    "credential_hosts": [patterns("*"), patterns("a.example"), patterns("a,b"), patterns("a", "b")],
    "byte_cap": [8_388_607, 8_388_609],
    "lookup_timeout": [4.9, 6],
    "connect_timeout": [4.9, 6],
    "total_timeout": [19.9, 21],
    "blocked_extra": [
        (BlockedRange("5f00::/16", "x"),),
        (BlockedRange("5f00::/17", "x"),),
        (BlockedRange("5f00::/16", "x"), BlockedRange("100:0:0:1::/64", "x")),
    ],
    "exceptions": [
        (hole(),),
        (hole(host="*.a.example"),),
        (hole(network="10.0.0.1/32"),),
        (hole(port=443),),
        (hole(), hole(port=443)),
    ],
    "mode": [limits.Mode.MONITOR],
    "tools": [frozenset()],
    "concurrent_hops": [1, 2],
    "requests_per_minute": [1, 2],
    "bytes_per_day": [1, 2],
    "web_tools": [WebTools.PASS, WebTools.REFUSE],
    "web_tools_max_uses": [1, 6],
    "allowlist": [(), patterns("a.example"), patterns("a", "b")],
}


def test_every_limit_changes_the_version_and_none_is_forgotten() -> None:
    """A new field of Profile fails here until it has another value above."""
    assert set(OTHER_VALUES) == {f.name for f in fields(Profile) if f.init}
    variants = [DEFAULT_PROFILE] + [
        replace(DEFAULT_PROFILE, **{name: value}) for name, values in OTHER_VALUES.items() for value in values
    ]
    versions = [profile.version for profile in variants]
    assert len(set(versions)) == len(variants)
    assert all(re.fullmatch(r"[0-9a-f]{12}", version) for version in versions)


EQUAL = [
    (
        {"schemes": frozenset(["http", "https"])},
        {"schemes": frozenset(["https", "http"])},
        "order of schemes",
    ),
    ({"ports": frozenset(range(99))}, {"ports": frozenset(range(98, -1, -1))}, "order of ports"),
    (
        {"hosts": HostRules(patterns("a", "b"), patterns("c", "d"))},
        {"hosts": HostRules(patterns("b", "a"), patterns("d", "c"))},
        "order of host patterns",
    ),
    (
        {"hosts": HostRules(patterns("a", "a"))},
        {"hosts": HostRules(patterns("a"))},
        "a pattern written twice",
    ),
    (
        {"credential_hosts": patterns("a", "b")},
        {"credential_hosts": patterns("b", "a")},
        "order of credential hosts",
    ),
    (
        {"blocked_extra": (BlockedRange("5f00::/16", "x"), BlockedRange("100:0:0:1::/64", "y"))},
        {"blocked_extra": (BlockedRange("100:0:0:1::/64", "y"), BlockedRange("5f00::/16", "z"))},
        "order and labels of extra ranges",
    ),
    ({"exceptions": (hole("a"), hole("b"))}, {"exceptions": (hole("b"), hole("a"))}, "order of exceptions"),
    ({"lookup_timeout": 5}, {"lookup_timeout": 5.0}, "a whole number of seconds as float"),
    ({}, {}, "nothing"),
]


@pytest.mark.parametrize(("one", "other"), [pytest.param(*row[:2], id=row[2]) for row in EQUAL])
def test_the_version_does_not_change_with(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert Profile("p", **one).version == Profile("p", **other).version


def test_no_text_of_one_limit_can_pass_for_another() -> None:
    assert (
        Profile("p", schemes=frozenset({"a', 'b"})).version
        != Profile("p", schemes=frozenset({"a", "b"})).version
    )
    swapped = HostRules((), patterns("a")), HostRules(patterns("a"), ())
    assert Profile("p", hosts=swapped[0]).version != Profile("p", hosts=swapped[1]).version


def test_extra_ranges_are_in_the_profiles_own_table_only() -> None:
    address = IPAddress("5f00::1")
    extended = replace(DEFAULT_PROFILE, blocked_extra=(BlockedRange("5f00::/16", "x"),))
    assert DEFAULT_PROFILE.addresses.match(address) is None
    assert extended.addresses.match(address) == BlockedRange("5f00::/16", "x")


def test_an_extra_range_that_is_none_is_an_error() -> None:
    with pytest.raises(AddrFormatError):
        Profile("p", blocked_extra=(BlockedRange("nonsense", "x"),))
