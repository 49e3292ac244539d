"""Text to Target: the URL Standard's corpora, the forms of a host, what a message shows (SPEC 1.1, 1.6)."""

from __future__ import annotations

import json
from typing import Any

import ada_url
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proxy_addons.policy.admission import decide_url
from proxy_addons.policy.limits import DEFAULT_PROFILE
from proxy_addons.policy.targets import (
    DEFAULT_PORTS,
    MAX_HOST,
    Target,
    TargetParseError,
    parse_target,
    resolve_reference,
)
from proxy_addons.policy.verdicts import Rule
from tests.kit.corpora import corpora

STRICTER_THAN_WHATWG = {
    # The newest standard lets broken ASCII punycode through ("ASCII carve-out" of domain to ASCII). We refuse
    # it: no registry holds such a name, and software behind us may decode the label into something else.
    "http://a.b.c.xn--pokxncvks",
    "http://10.0.0.xn--pokxncvks",
    "http://a.b.c.XN--pokxncvks",
    "http://a.b.c.Xn--pokxncvks",
    "http://10.0.0.XN--pokxncvks",
    "http://10.0.0.xN--pokxncvks",
    "file://xn--/p",
    "https://xn--/",
}
STRICTER_NAMES = {
    # The same carve-out in toascii.json: punycode that does not decode, or decodes to what no name may hold.
    "xn--a",
    "xn--a.xn--zca",
    "xn--ls8h=",
    "xn--1ug.example",
    "xn--a-yoc",
    "xn--zn7c.com",
    "xn--0.com",
}


def read_cases(*parts: str) -> list[dict[str, Any]]:
    cases = json.loads(corpora(*parts).read_text("utf-8"))
    return [case for case in cases if isinstance(case, dict)]


def parse_or_none(text: str) -> Target | None:
    try:
        return parse_target(text)
    except TargetParseError:
        return None


def without_fragment(href: str) -> str:
    return href.partition("#")[0]


class TestUrlStandard:
    """urltestdata.json: never looser, same host and port."""

    def test_every_failure_is_refused_with_rule_parse(self) -> None:
        cases = [
            c for c in read_cases("wpt-url", "urltestdata.json") if c["base"] is None and c.get("failure")
        ]
        assert len(cases) >= 205
        verdicts = {c["input"]: decide_url(c["input"], "GET", DEFAULT_PROFILE).verdict for c in cases}
        assert [text for text, verdict in verdicts.items() if verdict.rule is not Rule.PARSE] == []

    def test_whatever_parses_is_what_the_standard_reads(self) -> None:
        cases = [c for c in read_cases("wpt-url", "urltestdata.json") if c["base"] is None and "href" in c]
        assert len(cases) >= 350
        refused, wrong = set(), []
        for case in cases:
            target = parse_or_none(case["input"])
            if target is None:
                refused.add(case["input"])
                continue
            scheme = case["protocol"][:-1]
            seen = (
                target.scheme,
                target.host,
                target.port,
                target.path,
                target.href,
                target.has_credentials,
            )
            expected = (
                scheme,
                case["hostname"],
                int(case["port"]) if case["port"] else DEFAULT_PORTS.get(scheme),
                case["pathname"],
                without_fragment(case["href"]),
                bool(case["username"] or case["password"]),
            )
            if seen != expected:
                wrong.append((case["input"], seen, expected))
        assert wrong == []
        assert refused == STRICTER_THAN_WHATWG

    def test_a_reference_resolves_as_the_standard_does_or_is_refused(self) -> None:
        cases = [c for c in read_cases("wpt-url", "urltestdata.json") if c["base"] is not None]
        assert len(cases) >= 330
        wrong = []
        for case in cases:
            try:
                href: str | None = resolve_reference(case["input"], parse_target(case["base"])).href
            except TargetParseError:
                href = None
            expected = None if case.get("failure") else without_fragment(case["href"])
            if href != expected:
                wrong.append((case["input"], case["base"], href, expected))
        assert wrong == []

    def test_lone_surrogates_are_no_url(self) -> None:
        for case in read_cases("wpt-url", "urltestdata-javascript-only.json"):
            assert parse_or_none(case["input"]) is None

    def test_names_become_ascii_as_the_standard_says(self) -> None:
        refused, wrong = set(), []
        for case in read_cases("wpt-url", "toascii.json"):
            target = parse_or_none(f"https://{case['input']}/x")
            if target is None and case["output"] is not None:
                refused.add(case["input"])
            elif target is not None and target.host != case["output"]:
                wrong.append((case["input"], target.host, case["output"]))
        assert wrong == []
        assert refused == STRICTER_NAMES

    def test_names_that_dns_cannot_carry_keep_the_fault_in_their_dns_name(self) -> None:
        """No form of such a host may look like a name that can be asked for (SPEC 1.2 fails its look-up)."""
        for case in read_cases("wpt-url", "verifydnslength_tests.json"):
            target = parse_or_none(case["input"])
            assert target is not None, case
            labels = target.dns_name.split(".")
            fits = len(target.dns_name) <= 253 and all(0 < len(label) <= 63 for label in labels)
            assert fits is not case["failure"], case


class TestTwoBindings:
    """`can_ada` (fast, older) must never be left alone with a text that it reads otherwise than `ada_url`."""

    @pytest.mark.parametrize(
        ("text", "host"),
        [
            pytest.param("https://ẞ.example/", "xn--zca.example", id="capital sharp s is not ss"),
            pytest.param("https://%E1%BA%9E.example/", "xn--zca.example", id="nor when percent-encoded"),
            pytest.param("https://x@%E1%BA%9E.example/", "xn--zca.example", id="nor behind a user name"),
            pytest.param("https:%E1%BA%9E.example/", "xn--zca.example", id="nor without slashes"),
            pytest.param("https:///%E1%BA%9E.example/", "xn--zca.example", id="nor after three slashes"),
            pytest.param("https:\\\\%E1%BA%9E.example/", "xn--zca.example", id="nor after backslashes"),
            pytest.param("https://١٢٧.٠.٠.١/", None, id="Arabic-Indic digits break the Bidi rule"),
            pytest.param("https://%D9%A1%D9%A2%D9%A7.0.0.1/", None, id="also percent-encoded"),
        ],
    )
    def test_hosts_that_an_older_ada_reads_otherwise(self, text: str, host: str | None) -> None:
        target = parse_or_none(text)
        assert (target and target.host) == host

    def test_a_caret_in_a_path_is_encoded(self) -> None:
        assert parse_target("https://h.example/a^b?c^d").request_path == "/a%5Eb?c^d"

    @given(
        st.lists(
            st.sampled_from(
                [*"htps:/\\@?#%[]._-^~!$&'()*+,;=|\t\n \x00aA0x7fẞ。①١é", "%E1%BA%9E", "127.0.0.1"]
            ),
            max_size=16,
        ).map("".join),
        st.sampled_from(["", "https://", "http:", "https://u:p@", "ftp://", "foo://", "https://xn--"]),
    )
    @example("/%E1%BA%9E", "https://")
    @example("/..", "foo://")
    def test_same_reading_or_refused(self, text: str, start: str) -> None:
        target = parse_or_none(start + text)
        if target is not None:
            assert target.href == without_fragment(ada_url.URL(start + text).href)


HOSTS = [
    ("https://example.com/", "example.com", False, "a name"),
    ("https://EXAMPLE.com/", "example.com", False, "a name in capitals"),
    ("https://example.com./", "example.com.", False, "a trailing dot is kept in the host"),
    (
        "https://bücher。example/",
        "xn--bcher-kva.example",
        False,
        "C003: an ideographic full stop separates labels",
    ),
    ("https://a_b.example/", "a_b.example", False, "C007: an underscore is no fault"),
    ("https://xn--n3h.example/", "xn--n3h.example", False, "C007: an emoji label is no fault"),
    (
        "https://r3---sn-x.example/",
        "r3---sn-x.example",
        False,
        "C007: hyphens in places 3 and 4 are no fault",
    ),
    ("https://127.0.0.1/", "127.0.0.1", True, "dotted"),
    ("https://0177.0.0.1/", "127.0.0.1", True, "octal"),
    ("https://0x7f.0.0.1/", "127.0.0.1", True, "hexadecimal"),
    ("https://127.1/", "127.0.0.1", True, "short"),
    ("https://2130706433/", "127.0.0.1", True, "decimal"),
    ("https://0x7F000001/", "127.0.0.1", True, "hexadecimal in one part"),
    ("https://01200000007/", "10.0.0.7", True, "C001: octal in one part"),
    ("https://025177524776/", "169.254.169.254", True, "C001: octal link-local in one part"),
    ("https://0300.0250.1.9/", "192.168.1.9", True, "C001: octal parts beside decimal ones"),
    ("https://0x7f.1/", "127.0.0.1", True, "mixed"),
    ("https://%31%32%37.0.0.1/", "127.0.0.1", True, "percent-encoded"),
    ("https://１２７.0.0.1/", "127.0.0.1", True, "full-width digits"),
    ("https://①②⑦.0.0.1/", "127.0.0.1", True, "circled digits"),
    ("https://10。0。0。5/", "10.0.0.5", True, "C003: ideographic full stops"),
    ("https://10．0．0．5/", "10.0.0.5", True, "C003: full-width full stops"),
    ("https://10｡0｡0｡5/", "10.0.0.5", True, "C003: half-width full stops"),
    ("https://127.0.0.1./", "127.0.0.1", True, "dotted with a trailing dot"),
    ("https://[::1]/", "[::1]", True, "bracketed"),
    ("https://[::ffff:127.0.0.1]/", "[::ffff:7f00:1]", True, "mapped"),
    ("https://[::127.0.0.1]/", "[::7f00:1]", True, "compatible"),
    ("https://[0:0:0:0:0:0:0:1]/", "[::1]", True, "written out"),
    (
        "https://127.0.0.1../",
        "127.0.0.1..",
        False,
        "an address before an empty label is a name, of no use to DNS",
    ),
    ("https://10.0.0.5:443\\@allowed.example/", "10.0.0.5", True, "C005: a backslash ends the authority"),
    ("https://allowed.exa\tmple/", "allowed.example", False, "C005: a tab vanishes"),
    ("https://localho\u017ft/", "localhost", False, "a long s is an s"),
    ("https://https://example.com/", "https", False, "a URL in front of a URL"),
]


@pytest.mark.parametrize(("text", "host", "literal"), [pytest.param(*row[:3], id=row[3]) for row in HOSTS])
def test_host_forms(text: str, host: str, literal: bool) -> None:
    target = parse_target(text)
    assert (target.host, target.is_ip_literal) == (host, literal)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("example.com", id="a bare name"),
        pytest.param("/path", id="a path"),
        pytest.param("//example.com/", id="no scheme"),
        pytest.param("https://", id="no host"),
        pytest.param("https://example.com:65536/", id="a port above 65535"),
        pytest.param("https://example.com:4 43/", id="a space in the port"),
        pytest.param("https://1.2.3.4.5/", id="five numbers"),
        pytest.param("https://foo.0x4/", id="ends in a number and is none"),
        pytest.param("https://[::1/", id="an open bracket"),
        pytest.param("https://[fe80::1%25eth0]/", id="a zone"),
        pytest.param("https://evil.example%23.allowed.example/", id="C009: an encoded hash in the host"),
        pytest.param("https://evil.example%2f.allowed.example/", id="C009: an encoded slash in the host"),
        pytest.param("https://allowed.example\r\nX-A: b/", id="C005: a line break leaves a bad port"),
        pytest.param("https://a%00b/", id="an encoded NUL in the host"),
        pytest.param("https://a/\ud800", id="a lone surrogate in the path"),
        pytest.param("\ud800", id="a lone surrogate alone"),
    ],
)
def test_no_absolute_url(text: str) -> None:
    with pytest.raises(TargetParseError, match=r"\Ainvalid url\Z"):
        parse_target(text)


DNS_NAMES = [
    ("https://example.com/", "example.com", "as written"),
    ("https://example.com./", "example.com", "one trailing dot goes"),
    ("https://example.com../", "example.com..", "an empty last label stays, so that no look-up can take it"),
    ("https://127.0.0.1../", "127.0.0.1..", "nor does it turn into an address"),
    ("https://.example.com/", ".example.com", "an empty first label stays"),
    ("https://./", "", "the root alone is no name"),
]


@pytest.mark.parametrize(("text", "name"), [pytest.param(*row[:2], id=row[2]) for row in DNS_NAMES])
def test_dns_name(text: str, name: str) -> None:
    assert parse_target(text).dns_name == name


PORTS = [
    ("https://a/", 443, "a", "https has 443"),
    ("http://a/", 80, "a", "http has 80"),
    ("wss://a/", 443, "a", "wss has 443"),
    ("ftp://a/", 21, "a", "ftp has 21"),
    ("https://a:443/", 443, "a", "its own port is not shown"),
    ("https://a:00443/", 443, "a", "its own port with zeros in front"),
    ("https://a:/", 443, "a", "a colon alone is the scheme's own port"),
    ("https://a:80/", 80, "a:80", "another scheme's port is shown"),
    ("https://a:0/", 0, "a:0", "port 0 is a port"),
    ("foo://a/", None, "a", "an unknown scheme has none"),
]


@pytest.mark.parametrize(("text", "port", "authority"), [pytest.param(*row[:3], id=row[3]) for row in PORTS])
def test_effective_port(text: str, port: int | None, authority: str) -> None:
    target = parse_target(text)
    assert (target.port, target.authority) == (port, authority)


CREDENTIALS = [
    ("https://user@h/", True, "a user name"),
    ("https://user:@h/", True, "a user name and an empty password"),
    ("https://:pass@h/", True, "a password alone"),
    ("https://a@b@h/", True, "two at signs"),
    ("https://@h/", False, "an empty user name is none"),
    ("https://:@h/", False, "an empty user name and password are none"),
    ("https://h/@x", False, "an at sign in the path"),
    ("https://h?@x", False, "an at sign in the query"),
]


@pytest.mark.parametrize(("text", "has"), [pytest.param(*row[:2], id=row[2]) for row in CREDENTIALS])
def test_credentials(text: str, has: bool) -> None:
    assert parse_target(text).has_credentials is has


QUERIES = [
    ("https://h/p", "/p", "none"),
    ("https://h/p?", "/p?", "an empty one is sent"),
    ("https://h/p?#f", "/p?", "an empty one before a fragment"),
    ("https://h/p?a=b&c", "/p?a=b&c", "plain"),
    ("https://h/p?a=b#c?d", "/p?a=b", "the fragment is dropped"),
    ("https://h/p#c?d", "/p", "a question mark in a fragment is none"),
    ("https://h/p?q='x'", "/p?q='x'", "quotes are not encoded on the way"),
    ('https://h/p?q="<^`{|}>', '/p?q="<^`{|}>', "nor is what a request target can carry"),
    ("https://h/p?q='x'#f", "/p?q='x'", "nor before a fragment"),
    ("https://h/p?%zz%41", "/p?%zz%41", "percent signs stay, good or bad"),
    ("https://h/p?é", "/p?%C3%A9", "what is not ASCII is encoded"),
    ("https://h/p?a b", "/p?a%20b", "so is a space"),
    ("https://h/p?a\tb\n", "/p?ab", "tab and line break vanish"),
    ("  https://h/p?a  ", "/p?a", "outer spaces vanish"),
    ("https://h?a", "/?a", "a path is added"),
]


@pytest.mark.parametrize(("text", "request_path"), [pytest.param(*row[:2], id=row[2]) for row in QUERIES])
def test_query_as_supplied(text: str, request_path: str) -> None:
    target = parse_target(text)
    assert (target.request_path, target.path + target.query) == (request_path, request_path)


DISPLAYS = [
    (
        "https://user:pass@host.example:8443/a/b?x=secret#frag",
        "https://host.example:8443/a/b",
        "SPEC 1.6: no credentials, query, fragment",
    ),
    ("https://host.example:443/a", "https://host.example/a", "the scheme's own port is left out"),
    ("https://host.example", "https://host.example/", "the path is at least a slash"),
    ("https://BÜCHER.example/ü", "https://xn--bcher-kva.example/%C3%BC", "ASCII throughout"),
    ("https://[::1]:8443/", "https://[::1]:8443/", "brackets stay"),
    ("file:///etc/passwd?x", "file:///etc/passwd", "an empty host"),
    ("data:text/plain,x?y", "data:text/plain,x", "a URL without a host"),
]


@pytest.mark.parametrize(("text", "display"), [pytest.param(*row[:2], id=row[2]) for row in DISPLAYS])
def test_display(text: str, display: str) -> None:
    assert parse_target(text).display == display


REFERENCES = [
    ("", "https://h.example/a/b?q", "empty is the base itself, its query too"),
    ("c", "https://h.example/a/c", "a relative path"),
    ("/c", "https://h.example/c", "an absolute path"),
    ("?z", "https://h.example/a/b?z", "a query"),
    ("#f", "https://h.example/a/b?q", "a fragment is dropped"),
    ("//o.example", "https://o.example/", "another host"),
    ("\\\\o.example/x", "https://o.example/x", "backslashes are slashes"),
    ("https:c", "https://h.example/a/c", "the same scheme without slashes is relative"),
    ("http:c", "http://c/", "another scheme without slashes is not"),
    ("../../../x", "https://h.example/x", "no way above the root"),
    ("/%2e%2e/x", "https://h.example/x", "encoded dots are dots"),
]


@pytest.mark.parametrize(("reference", "href"), [pytest.param(*row[:2], id=row[2]) for row in REFERENCES])
def test_resolve_reference(reference: str, href: str) -> None:
    assert resolve_reference(reference, parse_target("https://h.example/a/b?q#f")).href == href


@pytest.mark.parametrize("reference", ["https://", "//[", "https://h:99999/", "//a b/", "\ud800"])
def test_a_reference_that_does_not_parse(reference: str) -> None:
    with pytest.raises(TargetParseError):
        resolve_reference(reference, parse_target("https://h.example/"))


URLISH = st.one_of(
    st.text(max_size=60),
    st.builds(
        "{}{}{}{}".format,
        st.sampled_from(["https://", "http:", "HTTPS:\\\\", "foo:", "ftp:/", "data:", "file:"]),
        st.text(max_size=20),
        st.sampled_from(["", "/", ":443/", "@h/", "?", "#"]),
        st.text(max_size=20),
    ),
)


@given(URLISH)
@example("data:a #x")
@example("https://a/\ud800")
@example("https://" + "a" * 5000)
def test_any_text_is_a_target_or_an_error_and_its_href_is_itself(text: str) -> None:
    target = parse_or_none(text)
    if target is not None:
        again = parse_target(target.href)
        assert again.href == target.href
        assert (again.scheme, again.host, again.port, again.path) == (
            target.scheme,
            target.host,
            target.port,
            target.path,
        )
        shown = (target.host, target.path, target.href, target.display)
        assert all(text.isascii() and text.isprintable() for text in shown)
        assert "#" not in target.href + target.query


@given(URLISH, URLISH)
def test_any_reference_is_a_target_or_an_error(reference: str, base: str) -> None:
    source = parse_or_none(base)
    if source is not None:
        try:
            target = resolve_reference(reference, source)
        except TargetParseError:
            return
        assert parse_target(target.href).href == target.href


LONG_HOST = "\u4e00" * (MAX_HOST + 1)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"https://{LONG_HOST}/", id="as it is"),
        pytest.param(f"https://{LONG_HOST}", id="without a path"),
        pytest.param(f"https:{LONG_HOST}/", id="without slashes"),
        pytest.param(f" h\tttps:\\\n/{LONG_HOST}?q", id="with what the parser drops or takes for a slash"),
        pytest.param(f"https://user:@{LONG_HOST}:443#f", id="between user and port"),
        pytest.param("ftp://" + "%e4%b8%80" * (MAX_HOST + 1), id="percent-encoded"),
        pytest.param("https://" + "a.%CC%81" * MAX_HOST + "/", id="of labels that are short"),
        pytest.param("https://xn--" + "a9" * MAX_HOST + "/", id="in ASCII"),
        pytest.param("https://%58n--" + "a9" * MAX_HOST + "/", id="in ASCII, one letter percent-encoded"),
    ],
)
def test_an_international_host_longer_than_names_are_written_is_not_parsed(text: str) -> None:
    """The parsers take time by the square of it."""
    assert parse_or_none(text) is None
    with pytest.raises(TargetParseError):
        resolve_reference(text, parse_target("http://base.example/"))


@pytest.mark.parametrize("reference", [f"//{LONG_HOST}/", f"/\t\\{LONG_HOST}"])
def test_nor_is_one_of_a_reference(reference: str) -> None:
    with pytest.raises(TargetParseError):
        resolve_reference(reference, parse_target("https://base.example/"))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"https://{LONG_HOST[1:]}/", id="a host of just that length"),
        pytest.param("https://" + "a." * 5_000 + "b/", id="a long host in ASCII"),
        pytest.param(f"https://h/{LONG_HOST}", id="a path"),
        pytest.param(f"https://h?{LONG_HOST}", id="a query"),
        pytest.param(f"https://h#//{LONG_HOST}", id="a fragment"),
        pytest.param(f"https://{LONG_HOST}@h/", id="a user name"),
        pytest.param(f"data:{LONG_HOST}", id="what follows a scheme without hosts"),
    ],
)
def test_whatever_else_is_long_is_parsed(text: str) -> None:
    assert parse_or_none(text) is not None


@pytest.mark.parametrize(
    "reference", [LONG_HOST, f"/{LONG_HOST}", f"./{LONG_HOST}", f"?{LONG_HOST}", f"a//{LONG_HOST}"]
)
def test_a_long_reference_without_a_host_is_resolved(reference: str) -> None:
    assert resolve_reference(reference, parse_target("https://base.example/")).host == "base.example"
