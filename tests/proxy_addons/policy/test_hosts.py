"""Host patterns (SPEC 1.1): what is one, what it covers, and how allow and deny lists join."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proxy_addons.policy.hosts import (
    ANY_HOST,
    MAX_NAME,
    HostPattern,
    HostPatternError,
    HostRules,
    matches_any,
    parse_host_pattern,
    walk_suffixes,
)
from proxy_addons.policy.targets import TargetParseError, parse_target

GOOD = {
    "*": HostPattern("", True, None),
    "*:443": HostPattern("", True, 443),
    "docs.rs": HostPattern("docs.rs", False, None),
    "docs.rs:443": HostPattern("docs.rs", False, 443),
    "*.example.com": HostPattern("example.com", True, None),
    "*.example.com:8443": HostPattern("example.com", True, 8443),
    "localhost": HostPattern("localhost", False, None),
    "*.com": HostPattern("com", True, None),
    "xn--bcher-kva.example": HostPattern("xn--bcher-kva.example", False, None),
    "a_b.example": HostPattern("a_b.example", False, None),
    "example.com:1": HostPattern("example.com", False, 1),
    "example.com:65535": HostPattern("example.com", False, 65535),
    "a" * 63 + ".example": HostPattern("a" * 63 + ".example", False, None),
}


@pytest.mark.parametrize("text", GOOD)
def test_good_patterns_are_their_own_text(text: str) -> None:
    pattern = parse_host_pattern(text)
    assert pattern == GOOD[text]
    assert str(pattern) == text


CANONICAL = [
    ("Example.COM", "example.com", "capitals"),
    ("*.Example.COM:443", "*.example.com:443", "capitals in a wildcard with port"),
    ("bücher.example", "xn--bcher-kva.example", "not ASCII"),
    ("ß.example", "xn--zca.example", "sharp s is not ss"),
    ("ẞ.example", "xn--zca.example", "nor is the capital one"),
    ("example.com.", "example.com", "a trailing dot"),
    ("*.example.com.", "*.example.com", "a trailing dot in a wildcard"),
    ("ex\u00adample.com", "example.com", "a soft hyphen, which vanishes"),
    ("a%2Ecom", "a.com", "a percent-encoded dot"),
    ("a。com", "a.com", "an ideographic full stop"),
    ("example.com:0443", "example.com:443", "zeros before the port"),
    ("*:080", "*:80", "zeros before the port of the wildcard"),
]


@pytest.mark.parametrize(("text", "form"), [pytest.param(*row[:2], id=row[2]) for row in CANONICAL])
def test_another_form_is_refused_with_the_form_to_write(text: str, form: str) -> None:
    with pytest.raises(HostPatternError) as caught:
        parse_host_pattern(text)
    assert str(caught.value) == f'host pattern "{text}": write {form}'
    assert str(parse_host_pattern(form)) == form


BAD = [
    ("", "nothing"),
    ("*ample.com", "half a label"),
    ("a.*.com", "a wildcard in the middle"),
    ("*.*.com", "two wildcards"),
    ("**", "a doubled wildcard"),
    ("*.", "a wildcard of nothing"),
    ("*example.com", "a wildcard without a dot"),
    ("example.*", "a wildcard at the end"),
    ("10.0.0.1", "an address"),
    ("0x7f.1", "an address in another notation"),
    ("2130706433", "an address as a number"),
    ("*.10.0.0.1", "subdomains of an address"),
    ("[::1]", "a bracketed address"),
    ("[::1]:443", "a bracketed address with port"),
    ("::1", "a bare IPv6 address"),
    ("https://docs.rs", "a URL"),
    ("docs.rs/", "a slash"),
    ("docs.rs/x", "a path"),
    ("docs.rs?x", "a query"),
    ("docs.rs#x", "a fragment"),
    ("docs.rs\\x", "a backslash"),
    ("user@docs.rs", "credentials"),
    ("docs.rs:", "a colon without port"),
    ("docs.rs:0", "port 0"),
    ("docs.rs:65536", "a port above 65535"),
    ("docs.rs:-1", "a negative port"),
    ("docs.rs:+1", "a signed port"),
    ("docs.rs:4_43", "a port with an underscore"),
    ("docs.rs:٤٤٣", "a port in other digits"),
    ("docs.rs:443:443", "two ports"),
    ("docs.rs:" + "9" * 5000, "a port of 5,000 digits"),
    (":443", "a port alone"),
    (" docs.rs", "a space in front"),
    ("docs.rs ", "a space behind"),
    ("docs .rs", "a space inside"),
    ("docs.\trs", "a tab, which a URL parser would drop"),
    ("docs.rs\n", "a line break"),
    ("a..b", "an empty label"),
    (".docs.rs", "an empty first label"),
    ("docs.rs..", "an empty last label"),
    ("a" * 64 + ".rs", "a label of 64 octets"),
    (".".join(["a" * 50] * 5), "a name of 254 octets"),
    ("xn--a.example", "broken punycode"),
    ("a%00b", "an encoded NUL"),
    ("\ud800", "a lone surrogate"),
]


@pytest.mark.parametrize("text", [pytest.param(row[0], id=row[1]) for row in BAD])
def test_what_has_no_form_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(HostPatternError) as caught:
        parse_host_pattern(text)
    assert str(caught.value).startswith(f'host pattern "{text}" is not *, a host name or *.name')
    assert str(caught.value).endswith("write docs.rs or *.docs.rs:443")


MATCHES = [
    ("*", "https://anything.example/", True, "the wildcard covers any host"),
    ("*:443", "https://a.example/", True, "a port that is the scheme's own"),
    ("*:443", "https://a.example:80/", False, "another port"),
    ("*:443", "http://a.example:443/", True, "the port counts, not the scheme"),
    ("example.com", "https://example.com/", True, "the name itself"),
    ("example.com", "https://EXAMPLE.com/", True, "whatever its letter case"),
    ("example.com", "https://example.com./", True, "and with a trailing dot"),
    ("example.com", "https://example.com../", False, "but not before an empty label"),
    ("example.com", "https://www.example.com/", False, "a name does not cover subdomains"),
    ("example.com", "https://notexample.com/", False, "nor a longer label"),
    ("example.com", "https://example.com.evil.example/", False, "nor a longer name"),
    ("*.example.com", "https://www.example.com/", True, "a wildcard covers a subdomain"),
    ("*.example.com", "https://a.b.example.com/", True, "and one below it"),
    ("*.example.com", "https://www.example.com./", True, "and one with a trailing dot"),
    ("*.example.com", "https://example.com/", False, "a wildcard does not cover the name itself"),
    ("*.example.com", "https://notexample.com/", False, "nor a longer label"),
    ("*.example.com", "https://example.com.evil.example/", False, "nor a longer name"),
    ("*.example.com:8443", "https://a.example.com:8443/", True, "a wildcard with port"),
    ("*.example.com:8443", "https://a.example.com/", False, "a wildcard with another port"),
    ("*.com", "https://a.com/", True, "a wildcard of a top-level domain"),
    ("xn--bcher-kva.example", "https://bücher.example/", True, "a name given in Unicode"),
]


@pytest.mark.parametrize(
    ("pattern", "url", "covered"), [pytest.param(*row[:3], id=f"{row[3]}: {row[0]}") for row in MATCHES]
)
def test_matches(pattern: str, url: str, covered: bool) -> None:
    target = parse_target(url)
    parsed = parse_host_pattern(pattern)
    assert parsed.matches(target.dns_name, target.port) is covered
    assert matches_any((parsed,), target) is covered
    assert HostRules(allow=(parsed,)).admits(target) is covered
    assert HostRules(allow=(ANY_HOST,), deny=(parsed,)).admits(target) is not covered


def rules(allow: str, deny: str = "") -> HostRules:
    return HostRules(
        tuple(map(parse_host_pattern, allow.split())), tuple(map(parse_host_pattern, deny.split()))
    )


RULES = [
    (HostRules(), "https://a.example/", True, "by default all pass"),
    (rules(""), "https://a.example/", False, "nothing allowed means nothing passes"),
    (rules("*", "a.example"), "https://a.example/", False, "deny wins over the wildcard"),
    (rules("*", "a.example"), "https://a.example./", False, "a trailing dot does not get past deny"),
    (rules("*", "a.example"), "https://A.EXAMPLE/", False, "nor do capitals"),
    (rules("*", "a.example"), "https://b.a.example/", True, "deny of a name leaves subdomains"),
    (rules("*", "*.a.example"), "https://b.a.example/", False, "deny of subdomains takes them"),
    (rules("*", "*.a.example"), "https://a.example/", True, "and leaves the name"),
    (rules("a.example", "a.example"), "https://a.example/", False, "deny wins over the same pattern"),
    (rules("a.example", "*"), "https://a.example/", False, "deny of everything wins"),
    (rules("b.a.example", "*.a.example"), "https://b.a.example/", False, "deny wins over a longer pattern"),
    (rules("a.example", "a.example:80"), "https://a.example/", True, "deny of another port leaves this one"),
    (rules("a.example", "a.example:443"), "https://a.example/", False, "deny of this port takes it"),
    (rules("*", "*:80"), "https://a.example:80/", False, "deny of a port on every host"),
    (rules("a.example:80 a.example:443"), "https://a.example/", True, "two patterns of one name"),
    (rules("*.allowed.example allowed.example"), "https://notallowed.example/", False, "C009: whole labels"),
    (
        rules("*.allowed.example allowed.example"),
        "https://allowed.example.evil.example/",
        False,
        "C009: the end of the name, not its start",
    ),
    (rules("*.allowed.example allowed.example"), "https://sub.allowed.example/", True, "C009: a subdomain"),
]


@pytest.mark.parametrize(("rule", "url", "passes"), [pytest.param(*row[:3], id=row[3]) for row in RULES])
def test_rules(rule: HostRules, url: str, passes: bool) -> None:
    assert rule.admits(parse_target(url)) is passes


def test_lists_of_credential_hosts() -> None:
    patterns = (parse_host_pattern("a.example"), parse_host_pattern("*.b.example:443"))
    urls = ["https://a.example/", "https://x.b.example/", "https://x.b.example:80/", "https://b.example/"]
    assert [matches_any(patterns, parse_target(url)) for url in urls] == [True, True, False, False]
    assert not matches_any((), parse_target("https://a.example/"))


LONG = "a." * 3000 + "b.example"


@pytest.mark.parametrize(
    ("deny", "admitted"),
    [
        pytest.param("b.example", True, id="the end of it is another name"),
        pytest.param("*.b.example", False, id="below it"),
        pytest.param("*.example", False, id="two below"),
        pytest.param(f"*.{'a.' * 122}b.example", False, id="below the longest name there is"),
        pytest.param("*.c.example", True, id="elsewhere"),
    ],
)
def test_a_name_too_long_for_DNS_is_judged_as_any(deny: str, admitted: bool) -> None:
    target = parse_target(f"https://{LONG}/")
    assert HostRules(deny=(parse_host_pattern(deny),)).admits(target) is admitted


def test_of_a_name_too_long_for_DNS_no_more_is_looked_at_than_of_the_longest() -> None:
    assert len(list(walk_suffixes(LONG))) <= MAX_NAME // 2 + 1
    assert list(walk_suffixes("a.bc.d")) == ["a.bc.d", "bc.d", "d"]
    assert list(walk_suffixes("x" * (MAX_NAME + 1))) == list(walk_suffixes("")) == []


@given(st.lists(st.sampled_from(["a", "bb", "c" * 60]), min_size=1, max_size=400).map(".".join))
def test_the_suffixes_of_a_name_are_those_that_a_pattern_can_have(name: str) -> None:
    labels = name.split(".")
    every = [".".join(labels[at:]) for at in range(len(labels))]
    assert list(walk_suffixes(name)) == [suffix for suffix in every if len(suffix) <= MAX_NAME]


LABEL = st.sampled_from(["a", "b", "aa", "example", "com", "x-y", "a_b"])
NAME = st.lists(LABEL, min_size=1, max_size=4).map(".".join)
PATTERN = st.builds("{}{}{}".format, st.sampled_from(["", "*."]), NAME, st.sampled_from(["", ":443", ":80"]))


@given(
    st.lists(st.one_of(PATTERN, st.just("*"), st.just("*:80")), max_size=6), NAME, st.sampled_from([443, 80])
)
def test_the_index_finds_what_a_walk_over_the_list_finds(texts: list[str], name: str, port: int) -> None:
    patterns = tuple(map(parse_host_pattern, texts))
    target = parse_target(f"https://{name}:{port}/")
    assert HostRules(allow=patterns).admits(target) is matches_any(patterns, target)


@given(PATTERN, st.one_of(NAME, st.text(max_size=20)))
def test_a_pattern_matches_whole_labels_only(text: str, host: str) -> None:
    try:
        target = parse_target(f"https://{host}/")
    except TargetParseError:
        return
    pattern = parse_host_pattern(text)
    if pattern.matches(target.dns_name, target.port):
        labels, wanted = target.dns_name.split("."), pattern.suffix.split(".")
        assert labels[-len(wanted) :] == wanted
        assert (len(labels) > len(wanted)) is pattern.subdomains


@given(
    st.one_of(
        st.text(max_size=40), PATTERN, st.from_regex(re.compile(r"(\*\.)?[a-zA-Z.%0-9é*-]{0,12}(:\d+)?"))
    )
)
@example("a:" + "1" * 4301)
def test_any_text_is_a_pattern_that_is_its_own_text_or_an_error(text: str) -> None:
    try:
        pattern = parse_host_pattern(text)
    except HostPatternError:
        return
    assert str(pattern) == text
    assert parse_host_pattern(str(pattern)) == pattern
