"""Remedies: a row for every rule, and each of them true when a configuration file is changed as it says."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from netaddr import IPNetwork

from proxy_addons.policy.addresses import AnswerSet, decide_addresses
from proxy_addons.policy.admission import LADDER, decide_target, decide_url
from proxy_addons.policy.config import parse_config, render_profile
from proxy_addons.policy.config_forms import FormError
from proxy_addons.policy.config_schema import PROFILE_TABLE, TABLES
from proxy_addons.policy.hosts import HostRules, parse_host_pattern
from proxy_addons.policy.limits import DEFAULT_PROFILE, Profile
from proxy_addons.policy.remedies import (
    Question,
    Reach,
    Remedy,
    find_credential_remedy,
    find_remedy,
)
from proxy_addons.policy.remedy_rules import MOST, REMEDIES, RUNGS
from proxy_addons.policy.targets import Target, parse_target
from proxy_addons.policy.verdicts import Rule


def profiles(**tables: Mapping[str, Any]) -> Mapping[str, Profile]:
    return parse_config({"profiles": tables}, source="test").profiles


def changed(remedy: Remedy, before: Mapping[str, Profile]) -> Profile:
    """The profile that the remedy speaks of, read from a file to which its lines were added."""
    (lines,) = tomllib.loads("\n".join(remedy.toml))["profiles"].values()
    name = remedy.profile
    assert remedy.is_new == (name not in before)
    written = render_profile(before[name]) if name in before else {}
    written = {key: value for key, value in written.items() if value is not None}
    return profiles(**{name: {**written, **lines}})[name]


LOOSEST = Profile(
    "loosest",
    schemes=frozenset({"https", "http"}),
    ports=frozenset(range(1, 65536)),
    methods=frozenset({"GET", "HEAD", "POST", "DELETE", "M-SEARCH"}),
    hosts=HostRules(),
)


def target(url: str) -> Target:
    return parse_target(url)


# ------------------------------------------------------------------------------------------------- every rule


def test_every_rule_has_a_row() -> None:
    assert set(REMEDIES) == set(Rule)


def test_every_rung_of_the_ladder_has_one() -> None:
    assert set(RUNGS) == {check.rule for check in LADDER}


@pytest.mark.parametrize("rule", Rule)
@pytest.mark.parametrize("known", [True, False], ids=["URL known", "nothing known"])
def test_every_rule_gets_an_answer_in_words_or_changes(rule: Rule, known: bool) -> None:
    question = Question(rule, target("https://a.example:8443/") if known else None)
    remedy = find_remedy(question, DEFAULT_PROFILE)

    assert bool(remedy.changes) == (remedy.reach is Reach.PROFILE)
    assert remedy.text or remedy.changes


@pytest.mark.parametrize("key", MOST)
def test_the_largest_values_are_those_a_file_may_say(key: str) -> None:
    form = TABLES[PROFILE_TABLE][key].form
    form.read(MOST[key])
    with pytest.raises(FormError):
        form.read(MOST[key] + 1)


UNALTERABLE = [
    Rule.PARSE, Rule.USERINFO, Rule.REDIRECT_CAP, Rule.DOWNGRADE, Rule.AUTHORITY_MISMATCH, Rule.NO_SNI,
    Rule.NOT_HTTP,
]  # fmt: skip


@pytest.mark.parametrize("rule", UNALTERABLE)
def test_what_holds_in_every_profile_is_said_to(rule: Rule) -> None:
    remedy = find_remedy(Question(rule, target("https://a.example/")), LOOSEST)

    assert (remedy.reach, remedy.toml) == (Reach.NEVER, ())


ELSEWHERE = {
    Rule.TLS_VERIFY: "extra_ca",
    Rule.UPSTREAM: "the origin failed",
    Rule.IDENTITY: "fetchd agent add",
    Rule.BUDGET: "requests_per_minute",
    Rule.INTERNAL: "a fault of the gateway's own",
    Rule.AUDIT_UNAVAILABLE: "make room",
    Rule.DNS_FAILED: "nameservers of [dns]",
}


@pytest.mark.parametrize("rule", ELSEWHERE)
def test_what_no_limit_of_a_profile_did_names_its_own_remedy(rule: Rule) -> None:
    remedy = find_remedy(Question(rule, target("https://a.example/")), LOOSEST)

    assert (remedy.reach, remedy.toml) == (Reach.ELSEWHERE, ())
    assert ELSEWHERE[rule] in remedy.text


# ------------------------------------------------------------------------------------------------- the ladder

LADDERS: dict[str, tuple[str, str, dict[str, Any], list[str]]] = {
    "a host that is not on the list is added to it": (
        "https://docs.rs/tokio", "GET", {"allow_hosts": ["a.example"]},
        ['allow_hosts = ["a.example", "docs.rs"]'],
    ),
    "a trailing dot is no part of a pattern": (
        "https://docs.rs./", "GET", {"allow_hosts": []}, ['allow_hosts = ["docs.rs"]'],
    ),
    "a denied host: the pattern that denies it goes": (
        "https://x.ads.example/", "GET", {"deny_hosts": ["*.ads.example", "b.example"]},
        ['deny_hosts = ["b.example"]'],
    ),
    "denied and not allowed: both lists change": (
        "https://docs.rs/", "GET", {"allow_hosts": [], "deny_hosts": ["docs.rs"]},
        ["deny_hosts = []", 'allow_hosts = ["docs.rs"]'],
    ),
    "a pattern for another port does not allow it": (
        "https://docs.rs/", "GET", {"allow_hosts": ["docs.rs:80"]}, ['allow_hosts = ["docs.rs:80", "docs.rs"]'],
    ),
    "a port": ("https://docs.rs:8443/", "GET", {}, ["ports = [80, 443, 8443]"]),
    "a scheme": ("http://docs.rs/", "GET", {}, ['schemes = ["http", "https"]']),
    "a method": ("https://docs.rs/", "M-SEARCH", {}, ['methods = ["GET", "HEAD", "M-SEARCH"]']),
    "everything at once, for the first broken rule hides the next": (
        "http://docs.rs:81/", "POST", {"allow_hosts": []},
        [
            'schemes = ["http", "https"]', "ports = [80, 81, 443]", 'methods = ["GET", "HEAD", "POST"]',
            'allow_hosts = ["docs.rs"]',
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", LADDERS)
def test_the_lines_for_a_profile(case: str) -> None:
    url, method, limits, lines = LADDERS[case]
    before = profiles(p=limits)
    refused = decide_url(url, method, before["p"])
    assert refused.verdict.rule is not None

    remedy = find_remedy(Question(refused.verdict.rule, refused.target, method), before["p"], before)

    assert remedy.toml == ("[profiles.p]", *lines)
    assert not decide_url(url, method, changed(remedy, before)).verdict.refused


NEVER: dict[str, tuple[str, str, str]] = {
    "an address as host": ("https://10.0.0.7/", "GET", "an IP address as host"),
    "an address in other digits": ("https://0x7f.1/", "GET", "an IP address as host"),
    "another scheme": ("ftp://docs.rs/", "GET", "ftp is not spoken here"),
    "a scheme without host": ("data:text/plain,a", "GET", "data is not spoken here"),
    "port 0": ("https://docs.rs:0/", "GET", "port 0 cannot stand in a profile"),
    "a method in small letters": ("https://docs.rs/", "get", "get cannot stand in a profile"),
    "a name with an empty label": ("https://a..example/", "GET", "no name that DNS can carry"),
}


@pytest.mark.parametrize("case", NEVER)
def test_what_no_profile_can_say(case: str) -> None:
    url, method, words = NEVER[case]
    profile = profiles(p={"allow_hosts": []})["p"]
    rule = decide_url(url, method, profile).verdict.rule
    assert rule is not None

    remedy = find_remedy(Question(rule, target(url), method), profile)

    assert remedy.reach is Reach.NEVER and words in remedy.text


def test_a_tunnel_s_method_and_scheme_are_not_judged_before_it_stands() -> None:
    before = profiles(p={"schemes": ["http"], "methods": ["POST"]})
    remedy = find_remedy(Question(Rule.PORT, target("https://a.example:22/"), "CONNECT"), before["p"], before)

    assert remedy.toml == ("[profiles.p]", "ports = [22, 80, 443]")


def test_a_method_with_a_body_is_said_to_need_more_unless_it_has_it() -> None:
    without = profiles(p={})["p"]
    question = Question(Rule.METHOD, target("https://a.example/"), "POST")

    (warning,) = find_remedy(question, without).warnings
    assert "request_cap" in warning
    with_body = profiles(p={"request_body": True, "request_cap": 1})["p"]
    assert find_remedy(question, with_body).warnings == ()


def test_a_profile_that_allows_it_by_now_is_said_to() -> None:
    remedy = find_remedy(Question(Rule.HOST, target("https://a.example/")), profiles(p={})["p"])

    assert (remedy.reach, remedy.toml) == (Reach.ALLOWED, ())
    assert "profile p as it is now does not refuse it" in remedy.text


def test_a_profile_that_only_monitors_needs_nothing_for_what_it_only_reports() -> None:
    before = profiles(p={"mode": "monitor", "allow_hosts": [], "methods": ["GET"]})
    url = target("https://docs.rs:8443/")

    enforced = find_remedy(Question(Rule.PORT, url, "POST"), before["p"], before)
    assert enforced.toml == ("[profiles.p]", "ports = [80, 443, 8443]")
    reported = find_remedy(Question(Rule.HOST, url, "POST"), before["p"], before)
    assert decide_target(url, "POST", changed(enforced, before)).would_refuse is Rule.METHOD
    verdict = decide_target(url, "POST", changed(reported, before))
    assert (verdict.refused, verdict.would_refuse) == (False, None)


HOSTS = st.sampled_from(
    [
        "a.example",
        "b.a.example",
        "docs.rs.",
        "xn--bcher-kva.example",
        "bücher.example",
        "10.0.0.7",
        "[::1]",
        "a_b.c",
    ]
)
URLS = st.builds(
    lambda scheme, user, host, port, path: f"{scheme}://{user}{host}{port}{path}",
    st.sampled_from(["https", "http", "ftp", "wss"]),
    st.sampled_from(["", "", "", "u:p@"]),
    HOSTS,
    st.sampled_from(["", ":80", ":443", ":8443", ":0", ":65535"]),
    st.sampled_from(["/", "/a?b=c"]),
)
METHODS = st.sampled_from(["GET", "HEAD", "POST", "DELETE", "M-SEARCH", "get", "A_B", "CONNECT-X"])
PATTERNS = st.lists(
    st.sampled_from(
        ["*", "a.example", "*.a.example", "*:8443", "docs.rs", "*.example", "xn--bcher-kva.example:80"]
    ),
    max_size=3,
    unique=True,
)
PROFILES = st.one_of(
    st.fixed_dictionaries(
        {},
        optional={
            "schemes": st.sampled_from([["https"], ["http"], ["https", "http"]]),
            "ports": st.sampled_from([[443], [80, 443], [8443]]),
            "methods": st.sampled_from([["GET"], ["POST", "HEAD"]]),
            "allow_hosts": PATTERNS,
            "deny_hosts": PATTERNS,
        },
    ).map(lambda limits: ("p", limits)),
    st.fixed_dictionaries(
        {},
        optional={
            "ports": st.sampled_from([[443], [80]]),
            "methods": st.just(["GET"]),
            "allow_hosts": PATTERNS,
            "deny_hosts": PATTERNS,
            "byte_cap": st.just(4096),
            "concurrent_hops": st.just(4),
        },
    ).map(lambda limits: ("default", limits)),
)


@given(URLS, METHODS, PROFILES)
def test_with_its_remedy_the_same_admission_passes_and_without_one_none_would(
    url: str, method: str, written: tuple[str, dict[str, Any]]
) -> None:
    """The remedy is found from what a log keeps of the URL."""
    name, limits = written
    before = profiles(**{name: limits})
    refused = decide_url(url, method, before[name])
    rule = refused.verdict.rule
    if rule is None:
        return
    assert refused.target is not None
    remedy = find_remedy(Question(rule, parse_target(refused.target.display), method), before[name], before)

    if remedy.reach is Reach.NEVER:
        assert decide_target(refused.target, method, LOOSEST).refused
        return
    assert remedy.reach is Reach.PROFILE
    after = changed(remedy, before)
    # Credentials are not in the log, and a rule before that one hides them.
    bare = refused.target._replace(has_credentials=False)
    assert not decide_target(bare, method, after).refused
    if after.name != name:
        assert name == "default"
        assert (after.byte_cap, after.concurrent_hops) == (
            before[name].byte_cap,
            before[name].concurrent_hops,
        )


# -------------------------------------------------------------------------------------------------- addresses


def dropped(*addresses: str, profile: Profile = DEFAULT_PROFILE) -> tuple[tuple[str, str], ...]:
    """What policy says of them, as the log has it."""
    found = decide_addresses("a.example", 443, [AnswerSet(addresses)], profile.addresses).dropped
    return tuple((one.address, one.row.cidr) for one in found)


@pytest.mark.parametrize(
    ("addresses", "written"),
    [
        pytest.param(("10.0.0.7",), "10.0.0.7", id="a private address"),
        pytest.param(("fd00::7",), "fd00::7", id="an IPv6 one"),
        pytest.param(("::ffff:10.0.0.7",), "::ffff:10.0.0.7", id="a mapped one"),
        pytest.param(("10.0.0.7", "10.0.0.8"), "10.0.0.7", id="of several the first will do"),
    ],
)
def test_an_exception_for_one_address_at_one_port(addresses: tuple[str, ...], written: str) -> None:
    before = profiles(p={"exceptions": [{"host": "b.example", "address": "10.9.9.9"}]})
    question = Question(Rule.NO_ALLOWED_ADDRESS, target("https://a.example/"), dropped=dropped(*addresses))
    remedy = find_remedy(question, before["p"], before)

    (change,) = remedy.changes
    assert change.added == ({"host": "a.example", "address": written, "port": 443},)
    assert f"{written} is in a blocked range" in remedy.warnings[0]
    after = changed(remedy, before)
    answers = [AnswerSet(addresses)]
    assert decide_addresses("a.example", 443, answers, after.addresses, after.exceptions).allowed == (
        addresses[0],
    )
    assert decide_addresses("a.example", 444, answers, after.addresses, after.exceptions).verdict.refused


def test_a_range_of_the_profile_s_own_is_excepted_too() -> None:
    before = profiles(p={"blocked_extra": ["93.184.216.0/24"]})
    rows = dropped("93.184.216.34", profile=before["p"])
    remedy = find_remedy(
        Question(Rule.NO_ALLOWED_ADDRESS, target("https://a.example/"), dropped=rows), before["p"], before
    )

    after = changed(remedy, before)
    decision = decide_addresses(
        "a.example", 443, [AnswerSet(("93.184.216.34",))], after.addresses, after.exceptions
    )
    assert not decision.verdict.refused


@pytest.mark.parametrize(
    ("rows", "reach", "words"),
    [
        pytest.param((), Reach.ELSEWHERE, "has no address", id="no address at all"),
        pytest.param(
            (("127.0.0.1", "own address"),),
            Reach.NEVER,
            "a listener of fetchd",
            id="where the gateway listens",
        ),
        pytest.param(
            (("93.184.216.34", "own address"),), Reach.PROFILE, "", id="a public address of the machine"
        ),
        pytest.param((("zzz", "unreadable address"),), Reach.NEVER, "", id="no address in the answer"),
        pytest.param((("\x1b[1m", "10.0.0.0/8"),), Reach.NEVER, "", id="nonsense in the log"),
    ],
)
def test_other_addresses(rows: tuple[tuple[str, str], ...], reach: Reach, words: str) -> None:
    question = Question(Rule.NO_ALLOWED_ADDRESS, target("https://a.example/"), dropped=rows)
    remedy = find_remedy(question, profiles(p={})["p"])

    assert remedy.reach is reach and words in remedy.text


def test_an_address_that_is_excepted_by_now_is_said_to_be() -> None:
    profile = profiles(p={"exceptions": [{"host": "a.example", "address": "10.0.0.0/8"}]})["p"]
    question = Question(Rule.NO_ALLOWED_ADDRESS, target("https://a.example/"), dropped=dropped("10.0.0.7"))

    assert find_remedy(question, profile).reach is Reach.ALLOWED
    (hole,) = profile.exceptions
    assert hole.network == IPNetwork("10.0.0.0/8")


# ------------------------------------------------------------------------------------------- sizes and times

RAISED: dict[str, tuple[Question, dict[str, Any], list[str]]] = {
    "a body where none is allowed": (
        Question(Rule.REQUEST_CAP), {}, ["request_body = true", "request_cap = 1048576"],
    ),
    "a body over the cap": (
        Question(Rule.REQUEST_CAP), {"request_body": True, "request_cap": 1000},
        ["request_body = true", "request_cap = 2000"],
    ),
    "a web tool that cannot be held": (
        Question(Rule.WEB_TOOL), {"request_body": True, "request_cap": 1000}, ['web_tools = "pass"'],
    ),
    "an answer over the cap": (Question(Rule.BYTE_CAP), {"byte_cap": 1000}, ["byte_cap = 2000"]),
    "one that had come further than twice the cap": (
        Question(Rule.BYTE_CAP, decoded_bytes=2000), {"byte_cap": 1000}, ["byte_cap = 4000"],
    ),
    "the last doubling ends at what may be written": (
        Question(Rule.BYTE_CAP), {"byte_cap": (1 << 40) - 1}, [f"byte_cap = {1 << 40}"],
    ),
    "a slow connect": (Question(Rule.CONNECT_TIMEOUT), {}, ["connect_timeout = 10.0"]),
    "a slow connect that the whole leaves no room for": (
        Question(Rule.CONNECT_TIMEOUT), {"connect_timeout": 5, "total_timeout": 8},
        ["connect_timeout = 10.0", "total_timeout = 18.0"],
    ),
    "a slow origin": (Question(Rule.TOTAL_TIMEOUT), {}, ["total_timeout = 40.0"]),
    "a slow nameserver": (Question(Rule.DNS_FAILED, dns_ms=5000.0), {}, ["lookup_timeout = 10.0"]),
    "an upgrade": (Question(Rule.UPGRADE), {}, ['upgrades = ["websocket"]']),
}  # fmt: skip


@pytest.mark.parametrize("case", RAISED)
def test_a_limit_is_raised(case: str) -> None:
    question, limits, lines = RAISED[case]
    before = profiles(p=limits)
    remedy = find_remedy(question, before["p"], before)

    assert remedy.toml == ("[profiles.p]", *lines)
    changed(remedy, before)


@pytest.mark.parametrize(
    ("rule", "limits"),
    [
        (Rule.REQUEST_CAP, {"request_body": True, "request_cap": 1 << 40}),
        (Rule.BYTE_CAP, {"byte_cap": 1 << 40}),
        (Rule.CONNECT_TIMEOUT, {"connect_timeout": 3600}),
        (Rule.TOTAL_TIMEOUT, {"total_timeout": 3600}),
        (Rule.UPGRADE, {"upgrades": ["websocket"]}),
    ],
)
def test_what_is_at_its_most_cannot_be_raised(rule: Rule, limits: dict[str, Any]) -> None:
    assert find_remedy(Question(rule), profiles(p=limits)["p"]).reach is Reach.NEVER


# ----------------------------------------------------------------------------------------------- where it goes


def test_default_is_changed_where_that_tightens_nothing_away() -> None:
    before = profiles(default={"allow_hosts": [], "ports": [443]})
    remedy = find_remedy(Question(Rule.PORT, target("https://docs.rs:80/")), before["default"], before)

    assert remedy.toml == ("[profiles.default]", "ports = [80, 443]", 'allow_hosts = ["docs.rs"]')
    assert not decide_url("https://docs.rs:80/", "GET", changed(remedy, before)).verdict.refused


@pytest.mark.parametrize(
    ("taken", "name"),
    [((), "wider"), (("default", "wider"), "wider-2"), (("wider", "wider-2", "wider-3"), "wider-4")],
)
def test_what_would_loosen_default_goes_beside_it_with_all_that_tightens_it(
    taken: tuple[str, ...], name: str
) -> None:
    before = profiles(default={"deny_hosts": ["*.ads.example"], "byte_cap": 4096})
    remedy = find_remedy(Question(Rule.SCHEME, target("http://docs.rs/")), before["default"], taken)

    assert (remedy.profile, remedy.is_new) == (name, True)
    assert set(remedy.toml[1:]) == {
        'deny_hosts = ["*.ads.example"]', "byte_cap = 4096", 'schemes = ["http", "https"]',
    }  # fmt: skip
    assert any("default may only be tightened" in warning for warning in remedy.warnings)


def test_credentials_are_let_through_to_the_host_alone() -> None:
    before = profiles(p={"credential_hosts": ["b.example"]})
    remedy = find_credential_remedy(target("https://a.example/x"), before["p"], before)

    assert remedy is not None
    assert remedy.toml == ("[profiles.p]", 'credential_hosts = ["b.example", "a.example"]')
    after = changed(remedy, before)
    assert parse_host_pattern("a.example") in after.credential_hosts
    assert find_credential_remedy(target("https://a.example/x"), after) is None
