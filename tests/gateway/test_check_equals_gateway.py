"""`fetchd check` and the gateway say the same of every URL (docs/bypasses.md, row 40).

The same text goes to `decide_url`, the function behind the command, and as raw bytes to a running gateway: in
absolute form, and taken apart into CONNECT and path. Where check refuses, the gateway gives that rule and asks no
DNS; where it allows, the gateway goes on to look the name up and stops there, since no name has an address that may
be dialled.
"""

from __future__ import annotations

import json
import re
import ssl
import string
from collections.abc import Iterator
from functools import cache

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from proxy_addons.policy.admission import Admission, decide_url
from proxy_addons.policy.config import parse_config
from proxy_addons.policy.limits import Profile
from proxy_addons.policy.verdicts import Rule
from tests.gateway import paths
from tests.kit.client import RawConnection
from tests.kit.client_h2 import H2Client
from tests.kit.corpora import corpora
from tests.kit.dns import NODATA, Addresses, Outcome, Query
from tests.kit.gateway import NAMES, World

CONNECT_STAGE = {"dns-failed", "no-allowed-address"}
TEXT_FOR_A_LINE = re.compile(r"[^\x00-\x20\x7f]+")
EASY_NAME = re.compile(r"(?!-)[a-z0-9-]{1,40}(\.[a-z0-9-]{1,40}){0,4}")
PROFILES = {"test": 0, "open": 1}
LIMITS = {"deny_hosts": ["denied.example", "*.blocked.example", "sub.ported.example:443"]}


def answer_nothing_usable(query: Query) -> Outcome:
    """Blocked addresses for every name, but none at all for those with an x."""
    if "x" in query.name:
        return NODATA
    return Addresses("169.254.169.254") if query.rtype == "A" else Addresses("::1", "64:ff9b::a00:1")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    changes = dict.fromkeys(PROFILES, LIMITS)
    with World(tmp_path_factory.mktemp("check"), profiles=changes) as world:
        world.dns.default = answer_nothing_usable
        for name in NAMES:
            world.dns.host_addresses(name)
        yield world
        assert world.origin.accepts == world.plain.accepts == 0


@pytest.fixture(scope="module")
def asker(world: World) -> Iterator[Asker]:
    with Asker(world) as asker:
        yield asker


class Asker:
    """Asks a gateway for URLs over connections that it keeps, one a profile, plain or in TLS."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.profiles: dict[str, Profile] = dict(parse_config(world.config(), source="test").profiles)
        self._kept: dict[tuple[str, bool], RawConnection] = {}

    def __enter__(self) -> Asker:
        return self

    def __exit__(self, *_: object) -> None:
        for connection in self._kept.values():
            connection.close()

    def absolute(self, url: str, host: str, profile: str, tls: bool) -> str:
        """The rule that answers `GET {url}` at the profile's listener."""
        connection = self._kept.get((profile, tls))
        if connection is None:
            opened = self.world.gateway.open(PROFILES[profile])
            connection = paths.listener_tls(self.world, opened) if tls else opened
            self._kept[profile, tls] = connection
        connection.request("GET", url, host)
        answer = connection.read_response()
        if answer.header("connection") == "close":
            connection.close()
            del self._kept[profile, tls]
        assert answer.header("fetchd-verdict") == "refused", (url, answer)
        assert answer.json()["rule"] == answer.header("fetchd-rule")
        return answer.header("fetchd-rule") or ""

    def tunnelled(self, where: str, asked: list[str], way: str, profile: str) -> list[str]:
        """The rule that answers each path in a tunnel to `where` (host:port); the CONNECT's own when refused."""
        name = where.rpartition(":")[0]
        with self.world.gateway.open(PROFILES[profile]) as connection:
            answer = connection.connect(where)
            if answer.status != 200:
                return [answer.header("fetchd-rule") or ""] * len(asked)
            inner = connection
            if way != "connect-plain":
                alpn = ("h2",) if way == "connect-h2" else ("http/1.1",)
                inner = connection.start_tls(name, trusting(str(self.world.gateway.ca_path)), alpn)
            if way == "connect-h2":
                h2 = H2Client(inner)
                answers = [h2.get(authority_of(where), path) for path in asked]
            else:
                authority = where.removesuffix(":80") if way == "connect-plain" else authority_of(where)
                answers = [inner.get(path, authority) for path in asked]
        return [answer.header("fetchd-rule") or "" for answer in answers]


@cache
def trusting(ca: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=ca)
    context.check_hostname = False  # what is in question is the rule, for names no certificate can carry too
    return context


def authority_of(where: str) -> str:
    return where.removesuffix(":443")


def host_field(found: Admission) -> str:
    return found.target.authority if found.target is not None and found.target.host else "x.example"


def assert_same(asker: Asker, url: str, profile: str, *, tls: bool = False) -> None:
    """One URL in absolute form."""
    found = decide_url(url, "GET", asker.profiles[profile])
    asked = asker.world.dns.count()
    rule = asker.absolute(url, host_field(found), profile, tls)
    if found.verdict.refused:
        assert rule == str(found.verdict.rule), url
        assert asker.world.dns.count() == asked, "a refused URL asks no DNS"
    else:
        assert rule in CONNECT_STAGE, url


# --- where the URLs come from -----------------------------------------------------------------------------------


def corpus_urls() -> list[str]:
    """Every URL of the WHATWG tests and of the SSRF payloads that a request line can carry."""
    found = [case["input"] for case in json.loads(corpora("wpt-url", "urltestdata.json").read_text("utf-8"))
             if isinstance(case, dict)]  # fmt: skip
    for line in corpora("ssrf", "ssrf-payloads.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        found += [row["url"], row.get("https_variant", {}).get("url", row["url"])]
    return [url for url in dict.fromkeys(found) if TEXT_FOR_A_LINE.fullmatch(url) and is_utf8(url)]


def is_utf8(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


LABELS = st.one_of(
    st.sampled_from(["www", "denied", "blocked", "sub", "ported", "example", "com", "localhost", "a", "0x7f", "1",
                     "127", "0177", "xn--bcher-kva", "xn--", "bücher", "ẞ", "１２７", "①", "%31", "%2e", "_d", "-",
                     "a" * 63, "a" * 64, ""]),
    st.text(string.ascii_letters + string.digits + "-_", min_size=1, max_size=8),
)  # fmt: skip
HOSTS = st.one_of(
    st.lists(LABELS, min_size=1, max_size=5).map(".".join),
    st.sampled_from(["denied.example", "DENIED.example.", "a.blocked.example", "blocked.example", "[::1]",
                     "[::ffff:1.2.3.4]", "sub.ported.example", "[fe80::1%25eth0]", "2130706433", "127.1",
                     "0x7f.1", "[", "[::1", "a]"]),
    st.ip_addresses().map(lambda address: f"[{address}]" if address.version == 6 else str(address)),
)  # fmt: skip
SCHEMES = st.sampled_from([
    "https:", "https:", "https:", "http:", "HTTPS:", "ftp:", "ws:", "file:", "data:", "x:", "",
    "h\u1e97tps:"
])  # fmt: skip
SLASHES = st.sampled_from(["//", "//", "//", "//", "/", "", "///", "\\\\", "/\\"])
USERS = st.sampled_from(["", "", "", "", "", "@", ":@", "u@", "u:p@", "a%40b@", "u@v@"])
PORTS = st.sampled_from([
    "", "", "", "", ":", ":443", ":80", ":0443", ":0", ":22", ":65535", ":65536",
    ":4+43", ":x"
])  # fmt: skip
PRINTABLE = st.characters(min_codepoint=0x21, exclude_characters="\x7f", exclude_categories=["Cs"])
TAILS = st.one_of(
    st.sampled_from(
        ["", "/", "/a/../b", "/%2e%2e/", "?q=1", "#f", "/a?b#c", "\\x", "/a;b", "/é", "?é", "?a'\"<>"]
    ),
    st.text(PRINTABLE, max_size=12),
)
BUILT = st.builds("".join, st.tuples(SCHEMES, SLASHES, USERS, HOSTS, PORTS, TAILS)).filter(
    lambda url: TEXT_FOR_A_LINE.fullmatch(url) is not None
)
ANYTHING = st.text(PRINTABLE, min_size=1, max_size=40).filter(is_utf8)


# --- absolute form ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("profile", "tls"),
    [("test", False), ("test", True), ("open", False)],
    ids=["https", "over-tls", "http-too"],
)
def test_every_url_of_the_corpora_gets_the_rule_that_check_gives(
    asker: Asker, profile: str, tls: bool
) -> None:
    urls = corpus_urls()
    assert len(urls) > 2000
    for url in urls:
        assert_same(asker, url, profile, tls=tls)


@given(url=BUILT, profile=st.sampled_from(sorted(PROFILES)))
@example(url="/", profile="test")
@example(url="*", profile="test")
@settings(max_examples=1000)
def test_every_url_that_can_be_put_together_gets_the_rule_that_check_gives(
    asker: Asker, url: str, profile: str
) -> None:
    assert_same(asker, url, profile)


@given(text=ANYTHING)
@settings(max_examples=300)
def test_text_that_may_be_no_url_at_all_gets_the_rule_that_check_gives(asker: Asker, text: str) -> None:
    assert_same(asker, text, "test")


@pytest.mark.parametrize("method", ["HEAD", "POST", "DELETE", "get", "BREW"])
def test_the_method_is_judged_alike(asker: Asker, method: str) -> None:
    found = decide_url("https://n.example/", method, asker.profiles["test"])
    with asker.world.gateway.open() as connection:
        connection.request(method, "https://n.example/", "n.example")
        answer = connection.read_response(method)
    rule = answer.header("fetchd-rule")
    assert rule == str(found.verdict.rule) if found.verdict.refused else rule in CONNECT_STAGE


def test_octets_that_are_not_utf_8_are_refused_by_both(asker: Asker) -> None:
    raw = b"https://n\xff.example/"
    found = decide_url(raw.decode("utf-8", "surrogateescape"), "GET", asker.profiles["test"])
    with asker.world.gateway.open() as connection:
        connection.send(b"GET " + raw + b" HTTP/1.1\r\nHost: n.example\r\n\r\n")
        assert connection.read_response().header("fetchd-rule") == str(found.verdict.rule) == "parse"


# --- tunnels ----------------------------------------------------------------------------------------------------


def tunnel_cases() -> list[tuple[str, str]]:
    """host:port as the corpora spell the place, and the path, wherever TLS clients could name the host."""
    found: dict[tuple[str, int], str] = {}
    profile = Profile("any", schemes=frozenset({"http", "https"}))
    for url in corpus_urls():
        target = decide_url(url, "GET", profile).target
        if target is None or target.scheme not in profile.schemes or target.port is None:
            continue
        if target.has_credentials or not (target.is_ip_literal or EASY_NAME.fullmatch(target.host)):
            continue
        found.setdefault((target.host, target.port), target.request_path)
    return [(f"{host}:{port}", path) for (host, port), path in found.items()]


NAMED = ["denied.example:443", "a.blocked.example:443", "blocked.example:443", "sub.ported.example:443",
         "sub.ported.example:80", "DENIED.Example:443", "denied.example.:443", "n.example:22"]  # fmt: skip


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("way", ["connect-h1", "connect-h2", "connect-plain"])
def test_a_tunnel_to_the_place_gets_the_rule_that_check_gives(asker: Asker, way: str, profile: str) -> None:
    places = [(where, "/a?b=c") for where in NAMED]
    scheme = "http" if way == "connect-plain" else "https"
    for where, path in places + tunnel_cases():
        limits = asker.profiles[profile]
        asked = [path, "/"]
        rules = asker.tunnelled(where, asked, way, profile)
        at_connect = decide_url(f"https://{where}/", "GET", limits).verdict
        for one, rule in zip(asked, rules, strict=True):
            found = decide_url(f"{scheme}://{where}{one}", "GET", limits).verdict
            if at_connect.rule in (Rule.PORT, Rule.IP_LITERAL):
                found = at_connect  # before the scheme inside can be known
            assert rule == str(found.rule) if found.refused else rule in CONNECT_STAGE, where


@pytest.mark.parametrize(
    "where",
    ["0177.0.0.1:443", "0x7f000001:443", "2130706433:443", "127.1:443", "１２７.0.0.1:443", "127.0.0.1.:443",
     "[::1]:443", "[::ffff:7f00:1]:443", "[::127.0.0.1]:443", "%31%32%37.0.0.1:443"],
)  # fmt: skip
def test_connect_to_an_address_in_any_notation_gets_the_message_that_check_gives(
    asker: Asker, where: str
) -> None:
    found = decide_url(f"https://{where}/", "GET", asker.profiles["test"]).verdict
    with asker.world.gateway.open() as connection:
        answer = connection.connect(where, host="x.example")
    assert (answer.status, answer.reason) == (403, found.message)
    assert answer.header("fetchd-rule") == str(found.rule) == "ip-literal"


@pytest.mark.parametrize("entry", paths.ALL)
@pytest.mark.parametrize("name", ["a.example", "xn--strae-oqa.example"])
def test_the_same_request_connects_once_where_an_address_may_be_dialled(
    world: World, name: str, entry: paths.Entry
) -> None:
    origin = entry.origin(world)
    world.dns.host_addresses(name, origin.host)
    try:
        answer = paths.send(world, entry, paths.Ask("/twin", name))
        assert (answer.status, answer.header("fetchd-verdict")) == (200, "allowed")
        assert [request.values("host") for request in origin.requests] == [[f"{name}:{origin.port}"]]
        assert origin.accepts == 1
    finally:
        world.dns.host_addresses(name)
        for one in (world.origin, world.plain):
            one.forget()
