"""The smallest profile for a run: what was asked passes, what was not does not, nothing is wider than the base."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetchd.explaining.public_suffixes import registrable_domain
from proxy_addons.policy.admission import decide_url
from proxy_addons.policy.config import parse_config
from proxy_addons.policy.limits import MIB, Profile
from proxy_addons.policy.suggestions import (
    LEAST_ANSWER,
    Suggestion,
    SuggestionError,
    group_names,
    round_up_bytes,
    suggest_profile,
)
from proxy_addons.policy.targets import parse_target
from proxy_addons.policy.usage import MAX_PLACES, Usage, note

T1, T2 = "2026-11-30T10:00:00.000000Z", "2026-11-30T11:00:00.000000Z"
WATCH: dict[str, Any] = {
    "mode": "monitor",
    "schemes": ["https", "http"],
    "ports": [80, 443, 8443],
    "methods": ["GET"],
    "request_body": True,
    "request_cap": 1 << 20,
    "upgrades": ["websocket"],
    "allow_hosts": ["a.example"],
    "deny_hosts": ["bad.example", "*.ads.example.com"],
    "credential_hosts": ["a.example", "z.example"],
    "byte_cap": 64 * MIB,
    "total_timeout": 300,
    "exceptions": [
        {"host": "*.example", "address": "127.0.0.10"},
        {"host": "other.example", "address": "10.0.0.1"},
    ],
}


def base(**changes: Any) -> Profile:
    limits: Mapping[str, Any] = {**WATCH, **changes}
    return parse_config({"profiles": {"watch": limits}}, source="x").profiles["watch"]


def ask(
    usage: Usage, url: str, method: str = "GET", *, ends: bool = True, read: bool = False, **end: Any
) -> None:
    target = parse_target(url)
    usage.take_request(target, method, T1, would_refuse=False, read=read)
    if ends:
        usage.ended += 1
        size = end.get("body", 0)
        if size:
            usage.bodies.take(T1, url)
        known = {"answer": 100, "wire": 50, "seconds": 0.2}
        usage.take_end(T1, body=size, **{**known, **{k: v for k, v in end.items() if k != "body"}})


def run(*urls: str) -> Usage:
    usage = Usage()
    for url in urls:
        ask(usage, url)
    return usage


def suggested(usage: Usage, generalize: bool = False, **changes: Any) -> Suggestion:
    return suggest_profile(usage, base(**changes), "learned", registrable_domain if generalize else None)


def patterns(suggestion: Suggestion) -> list[str]:
    return [str(pattern) for pattern in suggestion.profile.hosts.allow]


# ----------------------------------------------------------------------------------------------------- hosts


def test_hosts_are_those_of_the_run_and_have_ports_where_there_is_more_than_one() -> None:
    assert patterns(suggested(run("https://b.example/x", "https://b.example/y"))) == ["b.example"]
    mixed = suggested(run("https://b.example/", "https://c.example:8443/"))
    assert patterns(mixed) == ["b.example:443", "c.example:8443"]
    assert decide_url("https://b.example:8443/", "GET", mixed.profile).verdict.rule == "host"
    assert mixed.profile.ports == {443, 8443}


def test_a_host_is_the_same_with_a_trailing_dot() -> None:
    assert patterns(suggested(run("https://b.example./", "https://b.example/"))) == ["b.example"]


def test_where_an_answer_led_is_allowed_though_it_was_not_followed() -> None:
    usage = run("https://b.example/")
    usage.take_redirect(parse_target("https://c.example/"), "GET", T2, "https://b.example/", read=False)
    suggestion = suggested(usage)
    assert patterns(suggestion) == ["b.example", "c.example"]
    assert suggestion.hosts[1].places == (("c.example", 443),)


def test_the_method_after_a_redirect_is_allowed_too() -> None:
    usage = Usage()
    ask(usage, "https://b.example/", "POST", body=5)
    usage.take_redirect(parse_target("https://b.example/done"), "GET", T2, "https://b.example/", read=False)
    assert suggested(usage).profile.methods == {"GET", "POST"}


def test_denials_stay_but_for_those_that_the_run_went_past() -> None:
    suggestion = suggested(run("https://bad.example/", "https://b.example/"))
    assert [str(one) for one in suggestion.profile.hosts.deny] == ["*.ads.example.com"]
    assert "bad.example is denied in watch" in suggestion.comments["deny_hosts"][0]


REPORTED = (
    "1 host that watch only reported: whoever steers the agent chose them,"
    " so look at each before it is in force: "
)
LED = (
    "1 host that nobody asked for: an answer led there, so a site chose them; take out what you do not know: "
)
CHOSEN: dict[str, tuple[list[str], str, list[str]]] = {
    "what the base allows needs no look": ([], "https://docs.example.org/x", []),
    "a host that was only reported": ([], "https://evil.test/", [f"{REPORTED}evil.test"]),
    "where an answer led": (
        ["https://planted.test/", "https://docs.example.org/"], "https://docs.example.org/x", [f"{LED}planted.test"],
    ),
    "a denial that the run went past": (
        [], "https://bad.example/",
        [
            f"{REPORTED}bad.example",
            "the run went past 1 denial of watch, taken out of deny_hosts here: bad.example",
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize("sentence", CHOSEN)
def test_what_somebody_may_have_planted_is_named_at_the_head(sentence: str) -> None:
    led_to, url, cautions = CHOSEN[sentence]
    usage = run(url)
    for planted in led_to:
        usage.take_redirect(parse_target(planted), "GET", T2, url, read=False)

    found = suggested(usage, allow_hosts=["*.example.org"]).cautions

    assert list(found[: len(cautions)]) == cautions
    assert not any("only reported" in one or "led there" in one for one in found[len(cautions) :])


def test_of_many_planted_hosts_the_first_are_named() -> None:
    caution = suggested(run(*(f"https://h{n}.test/" for n in range(7))), allow_hosts=[]).cautions[0]
    assert caution.startswith("7 hosts that watch only reported: ")
    assert caution.endswith(": h0.test, h1.test, h2.test, h3.test, h4.test, ...")


def test_credential_hosts_and_exceptions_are_those_that_the_run_touched() -> None:
    usage = run("https://a.example/")
    usage.take_addresses(("a.example", 443), ("127.0.0.10",))
    profile = suggested(usage).profile
    assert [str(one) for one in profile.credential_hosts] == ["a.example"]
    assert [str(one.host) for one in profile.exceptions] == ["*.example"]
    assert suggested(run("https://b.test/")).profile.exceptions == ()


def test_an_exception_is_kept_for_a_host_whose_addresses_are_not_known() -> None:
    assert len(suggested(run("https://a.example/")).profile.exceptions) == 1


def test_too_many_hosts_are_an_error_that_says_what_helps() -> None:
    usage = Usage()
    for number in range(10_001):
        ask(usage, f"https://h{number}.example/")
    with pytest.raises(SuggestionError, match="--generalize"):
        suggested(usage)
    assert len(patterns(suggest_profile(usage, base(), "x", lambda host: "example"))) == 1
    for number in range(MAX_PLACES):
        ask(usage, f"https://i{number}.example/")
    assert len(usage.places) == MAX_PLACES and usage.overflow > 0
    with pytest.raises(SuggestionError):
        suggest_profile(usage, base(), "x", lambda host: "example")


GROUPS: dict[str, tuple[Sequence[str], Sequence[str]]] = {
    "three names below a domain become one pattern": (
        ["a.example.com", "b.example.com", "c.example.com"],
        ["*.example.com"],
    ),
    "two stay as they are": (["a.example.com", "b.example.com"], ["a.example.com", "b.example.com"]),
    "the domain itself stays exact": (
        ["example.com", "a.example.com", "b.example.com", "c.example.com"],
        ["example.com", "*.example.com"],
    ),
    "the deepest domain that has three": (
        ["a.cdn.example.com", "b.cdn.example.com", "c.cdn.example.com", "www.example.com"],
        ["*.cdn.example.com", "www.example.com"],
    ),
    "names of different depths": (
        ["a.x.example.com", "b.example.com", "c.example.com"],
        ["*.example.com"],
    ),
    "different owners below a public suffix": (
        ["a.co.uk", "b.co.uk", "c.co.uk"],
        ["a.co.uk", "b.co.uk", "c.co.uk"],
    ),
    "different owners below a private one": (
        ["a.github.io", "b.github.io", "c.github.io", "d.github.io"],
        ["a.github.io", "b.github.io", "c.github.io", "d.github.io"],
    ),
    "one owner below a private suffix": (
        ["a.me.github.io", "b.me.github.io", "c.me.github.io"],
        ["*.me.github.io"],
    ),
    "names of one's own below no listed suffix": (
        ["a.corp", "b.corp", "c.corp"],
        ["a.corp", "b.corp", "c.corp"],
    ),
    "international names": (
        ["a.xn--bcher-kva.example", "b.xn--bcher-kva.example", "c.xn--bcher-kva.example"],
        ["*.xn--bcher-kva.example"],
    ),
    "a public suffix with a wildcard in the list": (
        ["a.b.kawasaki.jp", "c.d.kawasaki.jp", "e.f.kawasaki.jp"],
        ["a.b.kawasaki.jp", "c.d.kawasaki.jp", "e.f.kawasaki.jp"],
    ),
}


@pytest.mark.parametrize("sentence", GROUPS)
def test_generalize(sentence: str) -> None:
    names, wanted = GROUPS[sentence]
    suggestion = suggested(run(*(f"https://{name}/" for name in names)), generalize=True)
    assert sorted(patterns(suggestion)) == sorted(wanted)


def test_generalize_does_not_open_what_a_denial_kept_closed() -> None:
    usage = run(*(f"https://{name}.example.com/" for name in ("a", "b", "c", "x.ads")))
    assert "*.example.com" not in patterns(suggested(usage, generalize=True))
    usage = run(*(f"https://{name}.example.com/" for name in ("a", "b", "c")))
    kept = suggested(usage, generalize=True).profile
    assert decide_url("https://x.ads.example.com/", "GET", kept).verdict.rule == "host"


def test_a_pattern_has_each_port_that_was_asked() -> None:
    names = [f"https://{name}.example.com/" for name in "abc"] + ["https://a.example.com:8443/"]
    assert patterns(suggested(run(*names), generalize=True)) == ["*.example.com:443", "*.example.com:8443"]


LABELS = st.sampled_from(["a", "b", "c", "d", "com", "uk", "co", "github", "io", "example"])
NAMES = st.lists(st.lists(LABELS, min_size=1, max_size=5).map(".".join), max_size=30)


@given(NAMES)
def test_a_group_has_one_owner_and_covers_its_names(names: list[str]) -> None:
    for name, parent in group_names(names, registrable_domain, lambda suffix: False).items():
        assert name.endswith(f".{parent}")
        owner = registrable_domain(name)
        assert owner is not None and (parent == owner or parent.endswith(f".{owner}"))


# ---------------------------------------------------------------------------------------------- other limits


def test_methods_schemes_ports_and_tools_are_those_of_the_run() -> None:
    usage = run("https://b.example/")
    ask(usage, "https://b.example/", "M-SEARCH")
    ask(usage, "https://b.example/", "odd method")
    note(usage.tools, "web_fetch", T1, "x")
    note(usage.tools, "no_tool_of_ours", T1, "x")
    suggestion = suggested(usage)
    profile = suggestion.profile
    assert set(profile.methods) == {"GET", "M-SEARCH"}
    assert (set(profile.schemes), set(profile.ports)) == ({"https"}, {443})
    assert profile.tools == {"web_fetch"}
    assert any("odd method cannot stand in a profile" in one for one in suggestion.cautions)


def test_page_reads_leave_the_limits_that_do_not_hold_for_them_alone() -> None:
    usage = Usage()
    ask(usage, "http://b.example/", read=True, answer=None, seconds=None)
    profile = suggested(usage).profile
    assert (set(profile.schemes), set(profile.methods)) == ({"https", "http"}, {"GET"})
    assert (profile.byte_cap, profile.total_timeout) == (64 * MIB, 300)
    assert (patterns(suggested(usage)), set(profile.ports)) == (["b.example"], {80})


@pytest.mark.parametrize(
    ("sizes", "request_body", "cap"),
    [
        pytest.param([0], False, 0, id="no body at all"),
        pytest.param([1], True, 1024, id="a small one"),
        pytest.param([1024], True, 1024, id="exactly a step"),
        pytest.param([5, 1025], True, 2048, id="one byte more"),
        pytest.param([(1 << 20) - 1], True, 1 << 20, id="never past that of the base"),
    ],
)
def test_request_cap(sizes: list[int], request_body: bool, cap: int) -> None:
    usage = Usage()
    for size in sizes:
        ask(usage, "https://b.example/", "POST", body=size)
    profile = suggested(usage).profile
    assert (profile.request_body, profile.request_cap) == (request_body, cap)


@pytest.mark.parametrize(
    ("answer", "cap"),
    [(0, LEAST_ANSWER), (MIB, MIB), (MIB + 1, 2 * MIB), (33 * MIB, 64 * MIB), (64 * MIB, 64 * MIB)],
)
def test_byte_cap_is_the_next_power_of_two(answer: int, cap: int) -> None:
    usage = Usage()
    ask(usage, "https://b.example/", answer=answer)
    assert suggested(usage).profile.byte_cap == cap


@pytest.mark.parametrize(
    ("seconds", "limit"), [(0.1, 10), (3.3, 10), (3.4, 15), (60, 180), (100, 300), (250, 300)]
)
def test_total_timeout_is_three_times_the_longest(seconds: float, limit: float) -> None:
    usage = Usage()
    ask(usage, "https://b.example/", seconds=seconds)
    assert suggested(usage).profile.total_timeout == limit


def test_what_the_log_does_not_tell_is_left_as_it_was() -> None:
    open_one = Usage()
    ask(open_one, "https://b.example/", "POST", ends=False)
    cut = run("https://b.example/")
    for rule in ("byte-cap", "total-timeout", "request-cap"):
        note(cut.refused, rule, T1, "x")
    old = run("https://b.example/")
    old.unsized = 1
    for usage in (open_one, cut):
        profile = suggested(usage).profile
        assert (profile.byte_cap, profile.total_timeout) == (64 * MIB, 300)
        assert (profile.request_body, profile.request_cap) == (True, 1 << 20)
    assert suggested(old).profile.request_cap == 1 << 20
    assert suggested(open_one).profile.upgrades == {"websocket"}
    assert suggested(cut).profile.upgrades == frozenset()


def test_a_websocket_that_was_seen_is_allowed() -> None:
    usage = run("https://b.example/")
    usage.upgrades.take(T1, "https://b.example/")
    assert suggested(usage).profile.upgrades == {"websocket"}


def test_limits_that_a_run_says_nothing_of_are_the_base_s() -> None:
    limits: dict[str, Any] = {
        "requests_per_minute": 60,
        "blocked_extra": ["192.31.196.0/24"],
        "lookup_timeout": 2,
    }
    profile, before = suggested(run("https://b.example/"), **limits).profile, base(**limits)
    for name in ("requests_per_minute", "blocked_extra", "lookup_timeout", "connect_timeout"):
        assert getattr(profile, name) == getattr(before, name)


def test_nothing_at_all_is_an_error() -> None:
    with pytest.raises(SuggestionError, match="nothing was let through"):
        suggested(Usage())


@pytest.mark.parametrize(("size", "rounded"), [(0, 1), (1, 1), (2, 2), (3, 4), (1025, 2048)])
def test_rounding(size: int, rounded: int) -> None:
    assert round_up_bytes(size, 1) == rounded


URLS = st.builds(
    "{}://{}{}/p".format,
    st.sampled_from(["https", "http"]),
    st.lists(LABELS, min_size=1, max_size=4).map(".".join),
    st.sampled_from(["", ":8443"]),
)


@given(st.lists(st.tuples(URLS, st.sampled_from(["GET", "POST", "DELETE"])), min_size=1), URLS, st.booleans())
def test_every_request_of_the_run_passes_and_nothing_passes_that_the_base_did_not_let_pass(
    asked: list[tuple[str, str]], other: str, generalize: bool
) -> None:
    usage = Usage()
    for url, method in asked:
        ask(usage, url, method)
    suggestion = suggested(usage, generalize)
    for url, method in asked:
        assert not decide_url(url, method, suggestion.profile).verdict.refused
    hosts = {parse_target(url).dns_name for url, _ in asked}
    if not generalize and parse_target(other).dns_name not in hosts:
        assert decide_url(other, "GET", suggestion.profile).verdict.refused
    assert suggestion.profile.byte_cap <= suggestion.base.byte_cap
    assert suggestion.profile.ports <= suggestion.base.ports
