"""The redirect ladder (SPEC 1.4): what a redirect is, its three rules in order, and the key of the ledger."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy_addons.policy.hosts import HostRules, parse_host_pattern
from proxy_addons.policy.limits import DEFAULT_PROFILE, MAX_REDIRECTS, Profile
from proxy_addons.policy.redirects import (
    REDIRECT_STATUSES,
    RedirectDecision,
    RedirectKind,
    decide_redirect,
    ledger_key,
    next_method,
    parse_locations,
    render_location,
)
from proxy_addons.policy.targets import parse_target
from proxy_addons.policy.verdicts import ALLOWED, Failure, Outcome, Rule, Verdict

SOURCE = parse_target("https://a.example/p/1?q=secret#f")
ANY_SCHEME = replace(DEFAULT_PROFILE, schemes=frozenset({"http", "https"}))


def decide(
    *locations: bytes,
    status: int = 302,
    hop: int = 0,
    method: str = "GET",
    profile: Profile = DEFAULT_PROFILE,
    source: str = "",
) -> RedirectDecision:
    base = parse_target(source) if source else SOURCE
    return decide_redirect(base, status, locations, hop, method, profile)


@pytest.mark.parametrize("status", [*range(300, 310), 200, 201, 204, 399, 404, 500])
def test_statuses(status: int) -> None:
    """C021: the five of the Fetch standard redirect; 300, 304, 305, 306 and all else are ordinary answers."""
    decision = decide(b"https://b.example/x", status=status)
    if status in (301, 302, 303, 307, 308):
        assert decision == RedirectDecision(
            RedirectKind.REDIRECT, ALLOWED, parse_target("https://b.example/x"), 1
        )
    else:
        assert decision == RedirectDecision(RedirectKind.ORDINARY, ALLOWED, None, 0)
    assert (status in REDIRECT_STATUSES) is (status in (301, 302, 303, 307, 308))


@pytest.mark.parametrize("status", sorted(REDIRECT_STATUSES))
def test_without_a_location_every_status_is_an_ordinary_answer(status: int) -> None:
    assert decide(status=status) == RedirectDecision(RedirectKind.ORDINARY, ALLOWED, None, 0)


LOCATIONS = [
    ([b""], "https://a.example/p/1?q=secret", "C019: an empty value is the hop itself"),
    ([b"2"], "https://a.example/p/2", "a relative path"),
    ([b"/caf\xc3\xa9"], "https://a.example/caf%C3%A9", "C023: raw UTF-8 is encoded once"),
    ([b"/caf\xe9"], "https://a.example/caf%E9", "C023: any other octet is kept"),
    ([b"/caf\xe9\xc3\xa9"], "https://a.example/caf%E9%C3%A9", "C023: each octet of a mixture is kept"),
    ([b"/caf%C3%A9"], "https://a.example/caf%C3%A9", "what is encoded is not encoded again"),
    ([b"https://b\xc3\xbccher.example/"], "https://xn--bcher-kva.example/", "C023: a host in raw UTF-8"),
    ([b"//o.example/x"], "https://o.example/x", "another host"),
    ([b"\\\\o.example\\x"], "https://o.example/x", "backslashes are slashes"),
    ([b" \t/x \t"], "https://a.example/x", "outer whitespace goes"),
    ([b"/a\tb"], "https://a.example/ab", "a tab vanishes"),
    ([b"/x#f"], "https://a.example/x", "the fragment goes"),
    ([b"/x", b"/x"], "https://a.example/x", "two lines that agree are one"),
    ([b"/x", b"/y"], None, "two lines that differ are none"),
    ([b"/x", b"/x "], None, "nor two that differ in a space"),
    ([b"https://"], None, "no host"),
    ([b"https://b.example:99999/"], None, "a port above 65535"),
    ([b"https://b\xfccher.example/"], None, "a host in Latin-1"),
    ([b"//[::1/"], None, "an open bracket"),
]


@pytest.mark.parametrize(("locations", "href"), [pytest.param(*row[:2], id=row[2]) for row in LOCATIONS])
def test_locations(locations: list[bytes], href: str | None) -> None:
    target = parse_locations(SOURCE, locations)
    assert (target and target.href) == href
    decision = decide(*locations)
    if href is None:
        assert decision == RedirectDecision(
            RedirectKind.UNREADABLE,
            Verdict(Outcome.REFUSED, Rule.PARSE, "invalid url", Failure.SOFT, "https://a.example/p/1"),
        )
    else:
        assert (decision.kind, decision.target) == (RedirectKind.REDIRECT, target)


def test_an_unreadable_location_is_reported_as_such_even_past_the_cap() -> None:
    assert decide(b"https://", hop=MAX_REDIRECTS + 3).kind is RedirectKind.UNREADABLE


CAP = "exceeded max redirects (5)"
DOWNGRADE = "refusing https to http downgrade"


def expect_refusal(decision: RedirectDecision, rule: Rule, to: str, reason: str) -> None:
    message = f"redirect from https://a.example/p/1 to {to} refused: {reason}"
    assert decision.verdict == Verdict(Outcome.REFUSED, rule, message, Failure.SOFT, to)
    assert decision.kind is RedirectKind.REDIRECT


@pytest.mark.parametrize("hop", range(9))
def test_five_are_followed_and_a_sixth_is_refused(hop: int) -> None:
    decision = decide(b"https://b.example/x?y=secret", hop=hop)
    assert decision.hop == hop + 1
    if hop < 5:
        assert decision.verdict is ALLOWED
    else:
        expect_refusal(decision, Rule.REDIRECT_CAP, "https://b.example/x", CAP)


def test_an_empty_location_ends_at_the_cap() -> None:
    """C019: five more requests for the same URL, then the refusal."""
    target, hop, requests = SOURCE, 0, 1
    while not (decision := decide_redirect(target, 302, [b""], hop, "GET", DEFAULT_PROFILE)).verdict.refused:
        assert decision.target is not None
        target, hop, requests = decision.target, decision.hop, requests + 1
    assert requests == 6
    expect_refusal(decision, Rule.REDIRECT_CAP, "https://a.example/p/1", CAP)


ORDER = [
    # hop, profile, location, rule, reason
    (5, ANY_SCHEME, b"http://u:p@127.1:22/", Rule.REDIRECT_CAP, CAP, "cap before downgrade and admission"),
    (5, DEFAULT_PROFILE, b"ftp://b.example/", Rule.REDIRECT_CAP, CAP, "cap before admission"),
    (4, ANY_SCHEME, b"http://u:p@127.1:22/", Rule.DOWNGRADE, DOWNGRADE, "downgrade before admission"),
    (
        4,
        DEFAULT_PROFILE,
        b"http://b.example/",
        Rule.DOWNGRADE,
        DOWNGRADE,
        "downgrade before the scheme check",
    ),
    (0, DEFAULT_PROFILE, b"ftp://u@b.example/", Rule.SCHEME, "scheme not allowed: ftp", "then the scheme"),
    (
        0,
        DEFAULT_PROFILE,
        b"https://u:p@127.1:22/",
        Rule.USERINFO,
        "url must not contain userinfo",
        "credentials",
    ),
    (0, DEFAULT_PROFILE, b"https://127.1:22/", Rule.PORT, "port not allowed: 22", "the port"),
    (
        0,
        DEFAULT_PROFILE,
        b"https://127.1/",
        Rule.IP_LITERAL,
        "ip literal host not allowed: 127.0.0.1",
        "the literal",
    ),
    (
        0,
        replace(DEFAULT_PROFILE, hosts=HostRules(deny=(parse_host_pattern("b.example"),))),
        b"https://b.example/",
        Rule.HOST,
        "host not allowed: b.example",
        "the host rules",
    ),
]


@pytest.mark.parametrize(
    ("hop", "profile", "location", "rule", "reason"), [pytest.param(*row[:5], id=row[5]) for row in ORDER]
)
def test_only_the_first_rule_is_reported(
    hop: int, profile: Profile, location: bytes, rule: Rule, reason: str
) -> None:
    decision = decide(location, hop=hop, profile=profile)
    assert decision.target is not None
    expect_refusal(decision, rule, decision.target.display, reason)
    assert b"u:p" not in decision.verdict.message.encode()


CHAINS = [
    (["http://a/1", "https://a/2", "http://a/3"], 1, "C025: http, https, http stops at the second redirect"),
    (["https://a/1", "http://a/2", "https://a/3"], 0, "C025: https, http, https stops at the first"),
    (["http://a/1", "http://a/2", "https://a/3"], None, "http, http, https goes through"),
    (["https://a/1", "https://a/2", "https://b/3"], None, "https throughout goes through"),
]


@pytest.mark.parametrize(("urls", "stop"), [pytest.param(*row[:2], id=row[2]) for row in CHAINS])
def test_a_downgrade_anywhere_in_a_chain(urls: list[str], stop: int | None) -> None:
    refused = None
    for hop, (source, location) in enumerate(itertools.pairwise(urls)):
        decision = decide(location.encode(), source=source, hop=hop, profile=ANY_SCHEME)
        if decision.verdict.refused:
            assert decision.verdict.rule is Rule.DOWNGRADE
            assert decision.verdict.message == f"redirect from {source} to {location} refused: {DOWNGRADE}"
            refused = hop
            break
    assert refused == stop


def test_default_settings_call_it_a_downgrade_too() -> None:
    """C025, last chain: plain http is not allowed at all, and the downgrade is still what is reported."""
    expect_refusal(decide(b"http://a/2"), Rule.DOWNGRADE, "http://a/2", DOWNGRADE)


METHODS: list[tuple[int, dict[str, str], str]] = [
    (
        301,
        {"GET": "GET", "HEAD": "HEAD", "POST": "GET", "PUT": "PUT", "DELETE": "DELETE"},
        "only POST changes",
    ),
    (
        302,
        {"GET": "GET", "HEAD": "HEAD", "POST": "GET", "PUT": "PUT", "DELETE": "DELETE"},
        "only POST changes",
    ),
    (
        303,
        {"GET": "GET", "HEAD": "HEAD", "POST": "GET", "PUT": "GET", "DELETE": "GET"},
        "all but GET and HEAD",
    ),
    (307, {"GET": "GET", "HEAD": "HEAD", "POST": "POST", "PUT": "PUT", "DELETE": "DELETE"}, "none changes"),
    (308, {"GET": "GET", "HEAD": "HEAD", "POST": "POST", "PUT": "PUT", "DELETE": "DELETE"}, "none changes"),
]


@pytest.mark.parametrize(
    ("status", "methods"), [pytest.param(*row[:2], id=f"{row[0]}: {row[2]}") for row in METHODS]
)
def test_the_method_of_the_next_hop(status: int, methods: dict[str, str]) -> None:
    assert {method: next_method(status, method) for method in methods} == methods


def test_the_next_hop_is_judged_by_its_own_method() -> None:
    reader = replace(DEFAULT_PROFILE, methods=frozenset({"GET"}))
    assert decide(b"/2", status=303, method="POST", profile=reader).verdict is ALLOWED
    kept = decide(b"/2", status=307, method="POST", profile=reader)
    expect_refusal(kept, Rule.METHOD, "https://a.example/2", "method not allowed: POST")


SAME_KEY = [
    ("https://a.example/caf%C3%A9", "https://a.example/caf%c3%a9", "letter case of an encoding"),
    ("https://a.example/a%2Fb", "https://a.example/a%2fb", "letter case of an encoded slash"),
    ("https://a.example/%61", "https://a.example/a", "an encoded letter"),
    ("https://a.example/?q='x'", "https://a.example/?q=%27x%27", "an encoded quote"),
    ("https://a.example/a|b^c", "https://a.example/a%7Cb%5Ec", "what only some clients encode"),
    ("https://A.example:443/x", "https://a.example/x", "a host in capitals with its own port"),
    ("https://a.example/x#f", "https://a.example/x", "a fragment"),
    ("https://a.example./x", "https://a.example/x", "a trailing dot"),
    ("https://a.example/x?", "https://a.example/x", "a bare question mark"),
    ("https://a.example", "https://a.example/", "no path"),
    ("https://a.example/b/../x", "https://a.example/x", "dot segments"),
    ("https://a.example/caf%E9", "https://a.example/caf%C3%A9", "Latin-1 octets read as characters"),
    ("https://a.example/caf%C3%A9", "https://a.example/caf%C3%83%C2%A9", "UTF-8 octets read as Latin-1"),
    ("https://bücher.example/x", "https://xn--bcher-kva.example/x", "a host in Unicode"),
    ("https:\\\\a.example\\x", "https://a.example/x", "backslashes"),
]
OTHER_KEY = [
    ("https://a.example/x", "https://a.example/y", "another path"),
    ("https://a.example/x", "https://a.example/X", "letter case of a path"),
    ("https://a.example/x", "https://b.example/x", "another host"),
    ("https://a.example/x", "https://a.example:80/x", "another port"),
    ("https://a.example:80/x", "http://a.example/x", "another scheme"),
    ("https://a.example/x", "https://a.example/x?y", "a query"),
    ("https://a.example/?a=b", "https://a.example/?a=c", "another query"),
    ("https://a.example/%C3%A9x", "https://a.example/x", "non-ASCII octets or none"),
]


@pytest.mark.parametrize(("one", "other"), [pytest.param(*row[:2], id=row[2]) for row in SAME_KEY])
def test_one_key_for_one_target(one: str, other: str) -> None:
    assert ledger_key(parse_target(one)) == ledger_key(parse_target(other))


@pytest.mark.parametrize(("one", "other"), [pytest.param(*row[:2], id=row[2]) for row in OTHER_KEY])
def test_another_key_for_another_target(one: str, other: str) -> None:
    assert ledger_key(parse_target(one)) != ledger_key(parse_target(other))


LOCATION = st.one_of(
    st.binary(max_size=40),
    st.builds(
        bytes.__add__, st.sampled_from([b"https://", b"//", b"/", b"http:", b"?"]), st.binary(max_size=20)
    ),
)


def reread(octets: bytes) -> list[str]:
    """How clients turn Location octets into a URL: UTF-8 where it is, each octet, Latin-1 characters."""
    readings = [
        "".join(chr(byte) if byte < 0x80 else f"%{byte:02X}" for byte in octets),
        octets.decode("latin-1"),
    ]
    try:
        return [octets.decode(), *readings]
    except UnicodeDecodeError:
        return readings


@given(st.lists(LOCATION, max_size=2), st.sampled_from([301, 302, 303, 307, 308]), st.integers(0, 9))
def test_any_location_gets_a_decision(locations: list[bytes], status: int, hop: int) -> None:
    decision = decide(*locations, status=status, hop=hop)
    facts: dict[RedirectKind, Any] = {
        RedirectKind.ORDINARY: (False, False, 0),
        RedirectKind.UNREADABLE: (True, False, 0),
    }
    seen = (decision.verdict.refused, decision.target is not None, decision.hop)
    if decision.kind is RedirectKind.REDIRECT:
        assert decision.hop == hop + 1
        assert hop < MAX_REDIRECTS or decision.verdict.rule is Rule.REDIRECT_CAP
    else:
        assert seen == facts[decision.kind]
    assert decision.verdict.failure in (None, Failure.SOFT)
    assert decision.verdict.message.isascii()


@given(st.text(st.characters(codec="latin-1", exclude_characters="\\%\t\n\r#\x00"), max_size=20))
def test_no_reading_of_a_path_leaves_the_ledger(path: str) -> None:
    """The cap holds for a client that reads the octets of a Location in any of the common ways."""
    octets = b"/p/" + path.encode("latin-1")
    target = parse_locations(SOURCE, [octets])
    assert target is not None
    for reading in reread(octets.strip()):
        requested = parse_locations(SOURCE, [reading.encode()])
        assert requested is not None
        assert ledger_key(requested) == ledger_key(target), reading


@pytest.mark.parametrize(
    ("location", "rendered"),
    [
        pytest.param(b"/next", b"https://a.example/next", id="a relative Location becomes the judged target"),
        pytest.param(rb"\\b.example\x", b"https://b.example/x", id="backslashes get their one reading"),
        pytest.param(b"/caf\xe9", b"https://a.example/caf%E9", id="a bare octet is percent-encoded once"),
        pytest.param(
            b"/p?q='x'#part", b"https://a.example/p?q='x'#part", id="query as supplied, fragment kept"
        ),
        pytest.param(b"/p#a b", b"https://a.example/p", id="a fragment no field may carry is dropped"),
        pytest.param(b"//b.example:444/", b"https://b.example:444/", id="another port stays"),
    ],
)
def test_an_allowed_redirect_has_one_reading(location: bytes, rendered: bytes) -> None:
    """What a client is sent to is what was judged."""
    target = parse_locations(parse_target("https://a.example/start"), [location])
    assert target is not None

    assert render_location(target, [location]) == rendered
