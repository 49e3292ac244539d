"""The admission ladder (SPEC 1.1) row by row, in order, and the corpora of hostile URLs held against it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proxy_addons.policy.admission import LADDER, Position, decide_target, decide_url
from proxy_addons.policy.hosts import HostRules, parse_host_pattern
from proxy_addons.policy.limits import DEFAULT_PROFILE, Profile
from proxy_addons.policy.targets import DEFAULT_PORTS, Target, TargetParseError, parse_target
from proxy_addons.policy.verdicts import ALLOWED, Failure, Rule
from tests.kit.corpora import corpora

HARD, SOFT = Failure.HARD, Failure.SOFT


def profile(**limits: Any) -> Profile:
    return replace(DEFAULT_PROFILE, **limits)


def rules(allow: str, deny: str = "") -> HostRules:
    return HostRules(
        tuple(map(parse_host_pattern, allow.split())), tuple(map(parse_host_pattern, deny.split()))
    )


SECRET = "hunter2"

REFUSED = [
    # url, rule, failure as an argument, message, why
    ("", Rule.PARSE, HARD, "invalid url", "nothing"),
    ("example.com", Rule.PARSE, HARD, "invalid url", "no scheme"),
    ("/path", Rule.PARSE, HARD, "invalid url", "relative"),
    ("https://", Rule.PARSE, HARD, "invalid url", "no host"),
    ("https://h:65536/", Rule.PARSE, HARD, "invalid url", "port above 65535"),
    ("https://a/\ud800", Rule.PARSE, HARD, "invalid url", "a lone surrogate"),
    ("http://example.com/", Rule.SCHEME, SOFT, "scheme not allowed: http", "plain http"),
    ("HTTP://example.com/", Rule.SCHEME, SOFT, "scheme not allowed: http", "a scheme in capitals"),
    ("ftp://example.com/", Rule.SCHEME, SOFT, "scheme not allowed: ftp", "ftp"),
    ("file:///etc/passwd", Rule.SCHEME, SOFT, "scheme not allowed: file", "file"),
    ("javascript:alert(1)", Rule.SCHEME, SOFT, "scheme not allowed: javascript", "javascript"),
    ("data:text/html,x", Rule.SCHEME, SOFT, "scheme not allowed: data", "data"),
    ("blob:https://a/b", Rule.SCHEME, SOFT, "scheme not allowed: blob", "blob"),
    ("wss://example.com/", Rule.SCHEME, SOFT, "scheme not allowed: wss", "wss"),
    ("view-source:https://a/", Rule.SCHEME, SOFT, "scheme not allowed: view-source", "a scheme in front"),
    ("https://user@example.com/", Rule.USERINFO, HARD, "url must not contain userinfo", "a user name"),
    ("https://:p@example.com/", Rule.USERINFO, HARD, "url must not contain userinfo", "a password alone"),
    (
        "https://a.example@b.example/",
        Rule.USERINFO,
        HARD,
        "url must not contain userinfo",
        "a name as user name",
    ),
    ("https://example.com:8443/", Rule.PORT, HARD, "port not allowed: 8443", "another port"),
    ("https://example.com:0/", Rule.PORT, HARD, "port not allowed: 0", "port 0"),
    ("https://example.com:442/", Rule.PORT, HARD, "port not allowed: 442", "one below"),
    ("https://example.com:444/", Rule.PORT, HARD, "port not allowed: 444", "one above"),
    ("https://0177.0.0.1/", Rule.IP_LITERAL, HARD, "ip literal host not allowed: 127.0.0.1", "octal"),
    ("https://127.1/", Rule.IP_LITERAL, HARD, "ip literal host not allowed: 127.0.0.1", "short"),
    ("https://2130706433/", Rule.IP_LITERAL, HARD, "ip literal host not allowed: 127.0.0.1", "decimal"),
    (
        "https://1.1.1.1/",
        Rule.IP_LITERAL,
        HARD,
        "ip literal host not allowed: 1.1.1.1",
        "a public address too",
    ),
    ("https://127.0.0.1./", Rule.IP_LITERAL, HARD, "ip literal host not allowed: 127.0.0.1", "trailing dot"),
    ("https://[::1]/", Rule.IP_LITERAL, HARD, "ip literal host not allowed: ::1", "bracketed"),
    (
        "https://[::ffff:127.0.0.1]/",
        Rule.IP_LITERAL,
        HARD,
        "ip literal host not allowed: ::ffff:7f00:1",
        "mapped",
    ),
    ("https://[::127.0.0.1]/", Rule.IP_LITERAL, HARD, "ip literal host not allowed: ::7f00:1", "compatible"),
    (
        "https://10.0.0.5:443\\@allowed.example/",
        Rule.IP_LITERAL,
        HARD,
        "ip literal host not allowed: 10.0.0.5",
        "C005: a backslash before the at sign",
    ),
]


@pytest.mark.parametrize(
    ("url", "rule", "failure", "message"),
    [pytest.param(*row[:4], id=f"{row[1]}: {row[4]}") for row in REFUSED],
)
def test_refused_by_the_default_profile(url: str, rule: Rule, failure: Failure, message: str) -> None:
    admission = decide_url(url, "GET", DEFAULT_PROFILE)
    verdict = admission.verdict
    assert (verdict.refused, verdict.rule, verdict.failure, verdict.message) == (True, rule, failure, message)
    assert (admission.target is None) is (rule is Rule.PARSE)


PASSES = [
    ("https://example.com/", "a plain URL"),
    ("https://example.com:443/", "the scheme's own port"),
    ("https://example.com:80/", "port 80 under https"),
    ("https://@example.com/", "an empty user name"),
    ("https://:@example.com/", "an empty user name and password"),
    ("https://example.com./", "a trailing dot"),
    ("https://localhost/", "a single label: its addresses are judged later"),
    ("https://a_b.example/", "C007: an underscore"),
    ("https://bücher。example/", "C003: a name given in Unicode"),
    ("https://example.com/%2f..", "an odd path"),
    ("https://example.com/?u=http://127.0.0.1/", "an address in the query"),
]


@pytest.mark.parametrize("url", [pytest.param(row[0], id=row[1]) for row in PASSES])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_allowed_by_the_default_profile(url: str, method: str) -> None:
    admission = decide_url(url, method, DEFAULT_PROFILE)
    assert admission.verdict is ALLOWED
    assert admission.target == parse_target(url)


def test_rules_six_and_seven_of_other_profiles() -> None:
    verdict = decide_url("https://a.example/", "POST", DEFAULT_PROFILE).verdict
    assert (verdict.rule, verdict.failure, verdict.message) == (Rule.METHOD, HARD, "method not allowed: POST")
    assert decide_url("https://a.example/", "get", DEFAULT_PROFILE).verdict.rule is Rule.METHOD
    denied = decide_url("https://A.example./x", "GET", profile(hosts=rules("*", "a.example"))).verdict
    assert (denied.rule, denied.failure, denied.message) == (Rule.HOST, HARD, "host not allowed: a.example.")
    outside = decide_url("https://b.example/", "GET", profile(hosts=rules("a.example"))).verdict
    assert (outside.rule, outside.message) == (Rule.HOST, "host not allowed: b.example")
    assert not decide_url("http://a.example/", "GET", profile(schemes=frozenset({"http"}))).verdict.refused
    assert not decide_url("https://a.example:8443/", "GET", profile(ports=frozenset({8443}))).verdict.refused


C009_RULES = rules("allowed.example *.allowed.example")


@pytest.mark.parametrize(
    ("url", "rule"),
    [
        pytest.param("https://evil.example%23.allowed.example/", Rule.PARSE, id="an encoded hash"),
        pytest.param("https://evil.example%2f.allowed.example/", Rule.PARSE, id="an encoded slash"),
        pytest.param("https://notallowed.example/", Rule.HOST, id="a longer label"),
        pytest.param("https://allowed.example.evil.example/", Rule.HOST, id="a longer name"),
        pytest.param("https://sub.allowed.example/", None, id="a subdomain"),
    ],
)
def test_c009_suffixes(url: str, rule: Rule | None) -> None:
    assert decide_url(url, "GET", profile(hosts=C009_RULES)).verdict.rule is rule


class TestOrder:
    """Only the first broken rule is reported: this URL breaks all of them and is mended from the top."""

    HOSTS = rules("*", "b.example")
    STEPS = (
        ("http://u:hunter2@127.1:8443", "POST", Rule.SCHEME),
        ("https://u:hunter2@127.1:8443", "POST", Rule.USERINFO),
        ("https://127.1:8443", "POST", Rule.PORT),
        ("https://127.1", "POST", Rule.IP_LITERAL),
        ("https://b.example", "POST", Rule.METHOD),
        ("https://b.example", "GET", Rule.HOST),
        ("https://a.example", "GET", None),
    )

    @pytest.mark.parametrize(
        ("url", "method", "rule"), STEPS, ids=[str(step[2] or "allowed") for step in STEPS]
    )
    @pytest.mark.parametrize("position", Position)
    def test_the_first_broken_rule(
        self, url: str, method: str, rule: Rule | None, position: Position
    ) -> None:
        limits = profile(hosts=self.HOSTS)
        verdict = decide_target(parse_target(url), method, limits, position)
        assert verdict.rule is rule
        if rule is not None:
            soft = position is Position.REDIRECT or rule is Rule.SCHEME
            assert verdict.failure is (SOFT if soft else HARD)
            assert verdict.subject == parse_target(url).display
            assert SECRET not in verdict.message + verdict.subject
        if position is Position.ARGUMENT:
            assert decide_url(url, method, limits).verdict == verdict

    def test_a_url_that_does_not_parse_breaks_no_later_rule(self) -> None:
        assert decide_url("http://u:p@[::1:8443/", "POST", DEFAULT_PROFILE).verdict.rule is Rule.PARSE

    def test_the_ladder_is_in_the_order_of_the_contract(self) -> None:
        order = "scheme userinfo port ip-literal method host"
        assert [check.rule.value for check in LADDER[:6]] == order.split()
        # The allowlist of one page read is check 7 once more, and no profile that monitors lets it go.
        assert [(check.rule, check.monitored) for check in LADDER[6:]] == [(Rule.HOST, False)]

    def test_the_scheme_alone_is_reported(self) -> None:
        verdict = decide_url("http://user@example.com:8080/", "GET", DEFAULT_PROFILE).verdict
        assert verdict.message == "scheme not allowed: http"


class TestHostileUrls:
    """ssrf-payloads.jsonl: 1,481 URLs, and the https form of those given with http."""

    STRICTER = frozenset({"https://xn--/", "https://xn--a/"})
    """Broken punycode that the newest standard lets through; see test_targets."""

    @staticmethod
    def rows() -> list[tuple[str, str, str, str | None]]:
        """URL, expectation, reason, host as the standard reads it."""
        lines = corpora("ssrf", "ssrf-payloads.jsonl").read_text("ascii").splitlines()
        rows = []
        for row in map(json.loads, lines):
            host = row["whatwg"]["host"] if row["whatwg"] else None
            rows.append((row["url"], row["expect"], row["reason"], host))
            variant = row.get("https_variant")
            if variant:
                rows.append((variant["url"], variant["expect"], variant["reason"], variant.get("host")))
        assert len(lines) == 1481
        assert len(rows) > 1700
        return rows

    def test_every_rejected_one_is_refused_by_the_rule_it_is_rejected_for(self) -> None:
        wrong = []
        for url, expect, reason, _ in self.rows():
            verdict = decide_url(url, "GET", DEFAULT_PROFILE).verdict
            if expect == "reject" and (verdict.rule is None or verdict.rule.value != reason):
                wrong.append((url, reason, verdict))
        assert wrong == []

    def test_every_other_one_is_admitted_under_the_host_that_the_standard_reads(self) -> None:
        wrong, refused = [], set()
        for url, expect, _, host in self.rows():
            if expect != "resolve":
                continue
            admission = decide_url(url, "GET", DEFAULT_PROFILE)
            if admission.target is None:
                assert admission.verdict.rule is Rule.PARSE
                refused.add(url)
            elif admission.verdict.refused or admission.target.host != host:
                wrong.append((url, host, admission))
        assert wrong == []
        assert refused == self.STRICTER


TEXTS = st.one_of(
    st.text(max_size=60),
    st.builds(
        "{}{}{}".format,
        st.sampled_from(["https://", "http://", "https:", "ftp://", "https://u:p@", "https://[", "data:"]),
        st.text(st.characters(codec="utf-8"), max_size=24),
        st.sampled_from(["", "/", ":443/", ":8443", "]/", "?q#f"]),
    ),
)


@given(TEXTS, st.one_of(st.sampled_from(["GET", "HEAD", "POST"]), st.text(max_size=8)))
@example("https://a/\ud800", "GET")
@example("https://\u0660.1/", "GET")
def test_any_text_gets_a_verdict(text: str, method: str) -> None:
    admission = decide_url(text, method, DEFAULT_PROFILE)
    target, verdict = admission.target, admission.verdict
    assert verdict.refused is (verdict.rule is not None) is bool(verdict.message)
    assert verdict.refused is (verdict.failure is not None)
    if target is None:
        assert verdict.rule is Rule.PARSE
        with pytest.raises(TargetParseError):
            parse_target(text)
    elif not verdict.refused:
        assert_within_the_default_profile(target, method)


def assert_within_the_default_profile(target: Target, method: str) -> None:
    """Told from the URL as it would be dialled, without the help of the checks."""
    assert target.href.startswith("https://")
    authority = target.href.removeprefix("https://").partition("/")[0]
    assert authority.removeprefix("@") == target.authority
    assert (target.scheme, target.port in (80, DEFAULT_PORTS["https"]), method in ("GET", "HEAD")) == (
        "https",
        True,
        True,
    )
    assert not target.host.startswith("[")
    assert not target.dns_name.rpartition(".")[2].isdigit()
