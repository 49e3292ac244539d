"""The profile of page reads: what of an agent's own profile stays, and that an allowlist only ever narrows."""

from __future__ import annotations

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy_addons.policy.admission import decide_url
from proxy_addons.policy.hosts import HostPattern, HostRules, parse_host_pattern
from proxy_addons.policy.limits import DEFAULT_PROFILE, MIB, Mode, Profile
from proxy_addons.policy.reading import DEFAULT_READ_BYTES, derive_read_profile
from proxy_addons.policy.redirects import decide_redirect
from proxy_addons.policy.targets import parse_target
from proxy_addons.policy.verdicts import Rule
from proxy_addons.policy.wire import DaemonRequest, parse_daemon_fields, render_daemon_fields


def patterns(*texts: str) -> tuple[HostPattern, ...]:
    return tuple(map(parse_host_pattern, texts))


OWN = Profile(
    "own",
    methods=frozenset({"GET", "POST"}),
    request_body=True,
    request_cap=10,
    upgrades=frozenset({"websocket"}),
    credential_hosts=patterns("a.example"),
    hosts=HostRules(patterns("*.example"), patterns("denied.example")),
    byte_cap=1,
    total_timeout=1,
    bytes_per_day=7,
)
CHANGED = {
    "name": "page_read",
    "schemes": {"http", "https"},
    "methods": {"GET"},
    "request_body": False,
    "request_cap": 0,
    "upgrades": set(),
    "credential_hosts": (),
    "byte_cap": 64 * MIB,
    "total_timeout": 120,
    "allowlist": patterns("b.example"),
}


def test_a_read_has_its_own_schemes_ceiling_and_time_and_all_else_of_the_agent() -> None:
    read = derive_read_profile(OWN, DEFAULT_READ_BYTES, patterns("b.example"))
    for field in fields(Profile):
        if field.init:
            wanted = CHANGED.get(field.name, getattr(OWN, field.name))
            assert getattr(read, field.name) == wanted, field.name


NARROWED: dict[str, tuple[str, tuple[str, ...] | None, bool]] = {
    "no allowlist": ("https://a.example/", None, True),
    "on it": ("https://a.example/", ("a.example",), True),
    "not on it": ("https://b.example/", ("a.example",), False),
    "on it by a pattern": ("http://www.a.example/", ("*.a.example",), True),
    "the pattern's own name is not under it": ("https://a.example/", ("*.a.example",), False),
    "on it, denied by the agent's profile": ("https://denied.example/", ("*",), False),
    "on it, not allowed by the agent's profile": ("https://a.test/", ("a.test",), False),
    "an empty one allows nothing": ("https://a.example/", (), False),
    "at its port": ("https://a.example/", ("a.example:443",), True),
    "at another port": ("http://a.example/", ("a.example:443",), False),
    "an address stays an address": ("https://10.0.0.7/", ("*",), False),
}


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("sentence", NARROWED)
def test_the_allowlist_narrows_and_opens_nothing(sentence: str, mode: Mode) -> None:
    url, allow, passes = NARROWED[sentence]
    own = Profile("own", hosts=OWN.hosts, mode=mode)
    read = derive_read_profile(own, 1, None if allow is None else patterns(*allow))
    verdict = decide_url(url, "GET", read).verdict
    monitored = mode is Mode.MONITOR and "profile" in sentence
    assert verdict.refused is not (passes or monitored)
    assert verdict.would_refuse is (Rule.HOST if monitored else None)


def test_it_is_asked_of_every_redirect_target_too() -> None:
    read = derive_read_profile(DEFAULT_PROFILE, 1, patterns("a.example"))
    source = parse_target("https://a.example/")
    for location, refused in ((b"/b", False), (b"https://b.example/", True)):
        decision = decide_redirect(source, 302, [location], 0, "GET", read)
        assert decision.verdict.refused is refused


NAMES = st.sampled_from(["*", "a.example", "*.b.example", "c.example:8443", "*:443", "xn--bcher-kva.example"])


@given(st.none() | st.lists(NAMES, max_size=5))
def test_an_allowlist_crosses_the_wire_unchanged(texts: list[str] | None) -> None:
    allow = None if texts is None else patterns(*texts)
    said = DaemonRequest("alice", "page_read", "f" * 20, 3, allow)
    assert parse_daemon_fields(render_daemon_fields("s" * 64, said)) == said


@pytest.mark.parametrize(
    "stated", ["Example.com", "a.example *b.example", "a.example https://b.example/", "10.0.0.7"]
)
def test_one_that_is_malformed_is_no_statement_at_all(stated: str) -> None:
    fields_of = render_daemon_fields("s" * 64, DaemonRequest("alice", "page_read", "f" * 20, 0))
    assert parse_daemon_fields((*fields_of, (b"fetchd-allow", stated.encode()))) is None
