"""Bypasses 20 to 26 of docs/bypasses.md: one host, many spellings. Rule, look-up, TLS and dial read the same one."""

from __future__ import annotations

import ssl
from collections.abc import Iterator

import pytest

from tests.gateway.expect import (
    NOBODY,
    assert_allowed,
    assert_refused,
    contacts,
    ended,
    forget,
    refuse_beside_twin,
    try_send,
)
from tests.gateway.paths import ABSOLUTE, ALL, TLS_TUNNELS, TUNNELS, Ask, Entry, send
from tests.kit.gateway import World

ONLY_A = 2
"""The listener whose profile allows a.example alone."""


@pytest.fixture(scope="module")
def shared_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    denied = ["denied.example", "kilo.example", "strasse.example"]
    opened = {"schemes": ["https", "http"], "upgrades": ["websocket"]}
    profiles = {"open": {"deny_hosts": denied}, "only-a": {**opened, "allow_hosts": ["a.example"]}}
    folder = tmp_path_factory.mktemp("spelling")
    with World(folder, profiles=profiles, listeners=("test", "open", "only-a")) as world:
        yield world


def spelled(host: str, canonical: str = "a.example") -> Ask:
    """A request whose URL, CONNECT and Host spell the name in this way; the server name is canonical."""
    return Ask(host=host, server_name=canonical)


# -- 20: case and trailing dots


@pytest.mark.parametrize("host", ["A.EXAMPLE", "a.example.", "A.eXaMpLe."])
@pytest.mark.parametrize("entry", ALL)
def test_case_20_an_allow_list_means_the_name(world: World, entry: Entry, host: str) -> None:
    assert_allowed(world, send(world, entry, spelled(host), listener=ONLY_A))
    (request,) = entry.origin(world).requests
    assert [value.lower().replace(".:", ":") for value in request.values("host")] == [
        Ask().authority(world, entry)
    ]
    assert {query.name for query in world.dns.queries if "marker" not in query.name} == {"a.example"}


@pytest.mark.parametrize("host", ["DENIED.EXAMPLE", "denied.example.", "DeNiEd.example."])
@pytest.mark.parametrize("entry", ALL)
def test_case_20_a_deny_list_means_the_name(world: World, entry: Entry, host: str) -> None:
    """`denied.example.` slipped through rules that compared letters."""
    refuse_beside_twin(world, entry, spelled(host, "denied.example"), "host", 403)


@pytest.mark.parametrize("entry", ALL)
def test_case_20_two_trailing_dots_are_no_name(world: World, entry: Entry) -> None:
    refuse_beside_twin(world, entry, spelled("denied.example..", "denied.example"), "dns-failed", 502)
    answer = send(world, entry, spelled("a.example.."), listener=ONLY_A)
    assert_refused(world, answer, "host", 403)


@pytest.mark.parametrize("server_name", ["a.example", "A.EXAMPLE", "a.example."])
@pytest.mark.parametrize("host_field", ["a.example", "A.EXAMPLE", "a.example."])
@pytest.mark.parametrize("entry", TLS_TUNNELS)
def test_case_20_mixed_spellings_of_one_name(
    world: World, entry: Entry, host_field: str, server_name: str
) -> None:
    mixed = Ask(
        host="A.example", server_name=server_name, host_field=Ask(host=host_field).authority(world, entry)
    )
    assert_allowed(world, send(world, entry, mixed, listener=ONLY_A))
    assert world.origin.connections[0].sni == "a.example"


# -- 21: brackets

BRACKETS = (
    "[a.example]",
    "[[a.example]]",
    "[denied.example]",
    "[1.2.3.4]",
    "[127.0.0.10]",
    "[a.example",
    "a.example]",
)


@pytest.mark.parametrize("host", BRACKETS)
@pytest.mark.parametrize("entry", ALL)
def test_case_21_brackets_hold_ipv6_alone(world: World, entry: Entry, host: str) -> None:
    """A CONNECT to `[a.example]` was taken with its brackets removed, after the rules had been asked."""
    refuse_beside_twin(world, entry, spelled(host), "parse", 403)


@pytest.mark.parametrize("entry", ALL)
def test_case_21_brackets_in_the_host_field(world: World, entry: Entry) -> None:
    attack = Ask(host_field=Ask(host="[a.example]").authority(world, entry))
    refuse_beside_twin(world, entry, attack, "authority-mismatch", 421)


# -- 22: characters at which some parser stops

STOPS = {
    "NUL": ("denied.example\0.a.example", "not-http"),
    "control": ("denied.example\x01.a.example", "not-http"),
    "DEL": ("denied.example\x7f.a.example", "not-http"),
    "space": ("denied.example .a.example", "not-http"),
    "%00": ("denied.example%00.a.example", "parse"),
    "%0d%0a": ("denied.example%0d%0a.a.example", "parse"),
    "%20": ("denied.example%20.a.example", "parse"),
    "%2f": ("denied.example%2f.a.example", "parse"),
    "%40": ("a.example%40denied.example", "parse"),
    "%25": ("denied%252eexample", "parse"),
    "bare percent": ("denied%.example", "parse"),
    "angle": ("denied.example<.a.example", "parse"),
    "pipe": ("denied.example|.a.example", "parse"),
    "caret": ("denied.example^.a.example", "parse"),
}


@pytest.mark.parametrize("kind", STOPS)
@pytest.mark.parametrize("entry", ALL)
def test_case_22_no_parser_stops_early(world: World, entry: Entry, kind: str) -> None:
    """The rule saw a suffix that is allowed, the resolver stopped at the NUL."""
    host, rule = STOPS[kind]
    status = 400 if rule == "not-http" else 403
    refuse_beside_twin(world, entry, spelled(host), rule, status)


@pytest.mark.parametrize(
    "host", ["denied%2eexample", "denied%2Eexample", "%64enied.example", "denied%2eexample."]
)
@pytest.mark.parametrize("entry", ALL)
def test_case_22_percent_encoding_is_undone_before_the_rules(world: World, entry: Entry, host: str) -> None:
    refuse_beside_twin(world, entry, spelled(host, "denied.example"), "host", 403)


@pytest.mark.parametrize("entry", ALL)
def test_case_22_a_backslash_is_a_slash(world: World, entry: Entry) -> None:
    """In a URL the host ends there (WHATWG); a CONNECT has no path."""
    rule = "host" if entry in ABSOLUTE else "parse"
    refuse_beside_twin(world, entry, spelled("denied.example\\.a.example"), rule, 403)


@pytest.mark.parametrize("mark", ["/", "?", "#"])
@pytest.mark.parametrize("entry", TUNNELS)
def test_case_22_a_connect_ends_with_its_port(world: World, entry: Entry, mark: str) -> None:
    refuse_beside_twin(world, entry, spelled(f"a.example{mark}.denied.example"), "parse", 403)


@pytest.mark.parametrize("value", ["a.example\0", "a.example%00", "a.example\\", "a.example/", "@"])
@pytest.mark.parametrize("entry", ALL)
def test_case_22_the_host_field_too(world: World, entry: Entry, value: str) -> None:
    authority = Ask().authority(world, entry)
    attack = Ask(host_field=value + authority.removeprefix("a.example"))
    closes = entry is Entry.CONNECT_H2 and "\0" in value
    rule, status = ("not-http", 400) if "\0" in value else ("authority-mismatch", 421)
    refuse_beside_twin(world, entry, attack, rule, status, closes=closes)


NAMES_IN_TLS = {
    "NUL": b"denied.example\0.a.example",
    "NUL at the end": b"a.example\0",
    "space": b"a.example ",
    "slash": b"a.example/",
    "percent": b"a%2eexample",
    "wildcard": b"*.example",
    "latin-1": b"b\xfccher.example",
    "utf-8": "bücher.example".encode(),
    "address": b"127.0.0.10",
    "long label": b"a" * 64 + b".example",
    "empty label": b"a..example",
}


@pytest.mark.parametrize("kind", NAMES_IN_TLS)
def test_case_22_odd_names_in_the_hello(world: World, kind: str) -> None:
    """A server name that is no DNS name names nobody; it reaches neither a certificate nor an origin."""
    with world.gateway.open(1) as proxy:
        assert proxy.connect(world.authority()).status == 200
        proxy.send(client_hello(NAMES_IN_TLS[kind]))
        proxy.finish_sending()
        answer = ended(proxy)

    assert contacts(world) == NOBODY
    assert NAMES_IN_TLS[kind] not in answer
    forget(world)
    assert_allowed(world, send(world, Entry.CONNECT_H1, Ask()))


def client_hello(name: bytes) -> bytes:
    """A TLS hello for `name`, whatever its bytes: made for a harmless name of the same length."""
    harmless = (b"x" * 59 + b".") * 2
    harmless = harmless[: len(name) - 1] + b"z"
    arriving, leaving = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = ssl.create_default_context().wrap_bio(arriving, leaving, server_hostname=harmless.decode())
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    hello = leaving.read()
    assert hello.count(harmless) == 1
    return hello.replace(harmless, name)


# -- 23: international names

DENIED_FORMS = {
    "full width": "ｄｅｎｉｅｄ.example",
    "ideographic full stop": "denied。example",
    "full width stop": "denied．example",
    "half width stop": "denied｡example",
    "circled letters": "ⓓⓔⓝⓘⓔⓓ.example",
    "mathematical letters": "𝐝𝐞𝐧𝐢𝐞𝐝.example",
    "soft hyphen": "den\u00adied.example",
    "zero width space": "den\u200bied.example",
    "word joiner": "denied\u2060.example",
    "percent-encoded full width": "%EF%BD%84enied.example",
}


@pytest.mark.parametrize("kind", DENIED_FORMS)
@pytest.mark.parametrize("entry", ALL)
def test_case_23_mapped_characters_are_the_name(world: World, entry: Entry, kind: str) -> None:
    refuse_beside_twin(world, entry, spelled(DENIED_FORMS[kind], "denied.example"), "host", 403)


@pytest.mark.parametrize("entry", ALL)
def test_case_23_the_kelvin_sign_is_a_k(world: World, entry: Entry) -> None:
    refuse_beside_twin(world, entry, spelled("\u212ailo.example", "kilo.example"), "host", 403)


@pytest.mark.parametrize("host", ["strasse.example", "STRASSE.example"])
@pytest.mark.parametrize("entry", ALL)
def test_case_23_sharp_s_is_a_letter_of_its_own(world: World, entry: Entry, host: str) -> None:
    """IDNA 2003 (mitmproxy, Python's codec) maps ß to ss: another name, another rule."""
    world.dns.host_addresses("xn--strae-oqa.example", "127.0.0.1")
    assert_refused(world, send(world, entry, spelled(host, "strasse.example")), "host", 403)
    answer = send(world, entry, spelled("straße.example", "xn--strae-oqa.example"))
    assert answer.header("fetchd-rule") == "no-allowed-address"
    assert world.dns.count("xn--strae-oqa.example") == 2
    assert world.dns.count("strasse.example") == 0


@pytest.mark.parametrize(
    "host", ["bücher.example", "BÜCHER.example", "bu\u0308cher.example", "XN--BCHER-KVA.example"]
)
@pytest.mark.parametrize("entry", ALL)
def test_case_23_one_canonical_form_goes_out(world: World, entry: Entry, host: str) -> None:
    canonical = "xn--bcher-kva.example"
    assert_allowed(world, send(world, entry, spelled(host, canonical)))
    (connection,) = entry.origin(world).connections
    assert connection.requests[0].values("host") == [Ask(host=canonical).authority(world, entry)]
    assert connection.sni == (canonical if entry.scheme == "https" else None)
    assert world.dns.count(canonical) == 2


INVALID = [
    "xn--.example",
    "xn--a.example",
    "xn--\u00fc.example",
    "a\ufffdb.example",
    "\u00ad",
]


@pytest.mark.parametrize("host", INVALID, ids=ascii)
@pytest.mark.parametrize("entry", ALL)
def test_case_23_invalid_names_are_refused(world: World, entry: Entry, host: str) -> None:
    refuse_beside_twin(world, entry, spelled(host), "parse", 403)


@pytest.mark.parametrize("entry", ALL)
def test_case_23_punycode_of_plain_ascii_is_another_name(world: World, entry: Entry) -> None:
    """Decoded, `xn--denied-` reads denied. Nobody decodes it here: rule and look-up both see it as it stands."""
    answer = send(world, entry, spelled("xn--denied-.example", "xn--denied-.example"))
    assert (answer.status, answer.header("fetchd-rule")) == (502, "dns-failed")
    assert world.dns.count("xn--denied-.example") == contacts(world).queries == 2
    assert contacts(world).connects == 0


# -- 24: addresses in disguise

LOOPBACK = (
    "127.0.0.10 127.0.0.10. 2130706442 017700000012 0x7f00000a 0X7F.0.0.0xA 127.10 127.0.10 0177.0.0.012 "
    "0x7f.0.10 127.0.0.0xa 127.0.0.012 １２７.0.0.10 ①②⑦.0.0.10 127%2e0%2e0%2e10 %31%32%37.0.0.10 127。0。0。10"
).split()
IPV6 = (
    "[::1]",
    "[::ffff:127.0.0.10]",
    "[::127.0.0.10]",
    "[0:0:0:0:0:ffff:7f00:a]",
    "[64:ff9b::7f00:a]",
    "[::]",
)


@pytest.mark.parametrize("host", [*LOOPBACK, *IPV6], ids=ascii)
@pytest.mark.parametrize("entry", ALL)
def test_case_24_addresses_in_any_notation(world: World, entry: Entry, host: str) -> None:
    """`2130706433` and `127.1` reach an addon as names; the system's resolver then reads them as addresses."""
    refuse_beside_twin(world, entry, spelled(host), "ip-literal", 403)


# -- 25: zone identifiers

ZONES = (
    "[::1%eth0]",
    "[::1%25eth0]",
    "[fe80::1%25lo]",
    "[fe80::1%251]",
    "[::1%]",
    "127.0.0.1%25lo",
    "[::1%2525lo]",
)


@pytest.mark.parametrize("host", ZONES)
@pytest.mark.parametrize("entry", ALL)
def test_case_25_zones_are_no_part_of_a_url(world: World, entry: Entry, host: str) -> None:
    refuse_beside_twin(world, entry, spelled(host), "parse", 403)


# -- 26: the rest of an authority


@pytest.mark.parametrize("userinfo", ["user", "user:pass", ":pass", "a.example", "denied.example:443", "%40"])
@pytest.mark.parametrize("host", ["a.example", "b.example"])
@pytest.mark.parametrize("entry", ABSOLUTE)
def test_case_26_userinfo_is_refused_and_not_repeated(
    world: World, entry: Entry, host: str, userinfo: str
) -> None:
    attack = Ask(host=host, userinfo=userinfo)
    answer = try_send(world, entry, attack)
    assert_refused(world, answer, "userinfo", 403)
    assert answer is not None and b"pass" not in answer.body
    forget(world)
    assert_allowed(world, send(world, entry, Ask()))


@pytest.mark.parametrize(
    "host", ["user@a.example", "user:pass@a.example", "denied.example:443@a.example", "@a.example"]
)
@pytest.mark.parametrize("entry", TUNNELS)
def test_case_26_a_connect_has_no_userinfo(world: World, entry: Entry, host: str) -> None:
    refuse_beside_twin(world, entry, spelled(host), "parse", 403)


PORTS = {"0": "port", "22": "port", "0022": "port", "00022": "port", "65535": "port"}
BAD_PORTS = ("65536", "99999", "-1", "+443", "443x", "0x1bb", "4.43", "443:443", "٤٤٣", "443%20", "1e3")


@pytest.mark.parametrize("port", [*PORTS, *BAD_PORTS], ids=ascii)
@pytest.mark.parametrize("entry", ALL)
def test_case_26_ports(world: World, entry: Entry, port: str) -> None:
    attack = Ask(port=port, server_name="a.example", host_field="a.example")
    refuse_beside_twin(world, entry, attack, PORTS.get(port, "parse"), 403)


@pytest.mark.parametrize("entry", ABSOLUTE)
def test_case_26_leading_zeros_of_an_allowed_port(world: World, entry: Entry) -> None:
    """One canonical form: the zeros are gone before rule, Host and dial."""
    port = f"00{entry.origin(world).port}"
    assert_allowed(world, send(world, entry, Ask(port=port)))
    (request,) = entry.origin(world).requests
    assert request.values("host") == [Ask().authority(world, entry)]


@pytest.mark.parametrize("host", ["a.example", "a.example:", ":", "[::1]"])
@pytest.mark.parametrize("entry", TUNNELS)
def test_case_26_a_connect_names_host_and_port(world: World, entry: Entry, host: str) -> None:
    refuse_beside_twin(world, entry, Ask(host=host, port="", server_name="a.example"), "parse", 403)


@pytest.mark.parametrize("entry", ALL)
def test_case_26_no_host_at_all(world: World, entry: Entry) -> None:
    refuse_beside_twin(world, entry, Ask(host="", server_name="a.example"), "parse", 403)


@pytest.mark.parametrize("entry", ALL)
def test_case_26_a_host_of_300_bytes(world: World, entry: Entry) -> None:
    refuse_beside_twin(world, entry, spelled("a" * 290 + ".example"), "dns-failed", 502)


@pytest.mark.parametrize("entry", [Entry.ABSOLUTE_HTTP, Entry.CONNECT_PLAIN])
def test_case_26_plain_http_on_port_443(world: World, entry: Entry) -> None:
    """The port does not make the scheme."""
    answer = send(world, entry, Ask(port=443), listener=0)
    assert_refused(world, answer, "scheme", 403)
    assert_allowed(world, send(world, Entry.CONNECT_H1, Ask(), listener=0))
