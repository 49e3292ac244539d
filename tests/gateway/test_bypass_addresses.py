"""Bypasses 27 to 35 of docs/bypasses.md: what DNS says, and what else might lead a connection elsewhere.

The gateway of this module runs in a hostile environment: proxy variables, host aliases and search domains that all
lead to a place inside. None of it may have an effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.gateway.expect import assert_allowed, assert_refused, contacts, forget
from tests.gateway.inside import INSIDE, InsideWorld
from tests.gateway.kept import KeptClient
from tests.gateway.paths import ALL, Ask, Entry, send
from tests.kit.dns import NODATA, NXDOMAIN, REFUSED, SERVFAIL, Addresses, CnameLoop, Outcome, Truncated
from tests.kit.exchange import Exchange, Route
from tests.kit.gateway import NAMES, ORIGIN_ADDRESS
from tests.kit.listener import CountingListener
from tests.kit.origin import Origin
from tests.kit.ports import bound_socket

DEAD_ADDRESS = "127.0.0.12"
"""Let in by an exception; nobody listens there."""


class HostileWorld(InsideWorld):
    """Also lets in an address where nobody listens, and the gateway's own address for two names."""

    own_port: int
    beside: Origin

    def __enter__(self) -> HostileWorld:
        self.beside = self._stack.enter_context(Origin("127.0.0.1"))
        with bound_socket("127.0.0.1") as free:
            self.own_port = free.getsockname()[1]
        super().__enter__()
        return self

    def config(self) -> dict[str, Any]:
        config = super().config()
        for profile in config["profiles"].values():
            profile["ports"] += [self.own_port, self.beside.port]
            profile["exceptions"] += [
                {"host": "*.example", "address": DEAD_ADDRESS},
                {"host": "self.example", "address": "127.0.0.1"},
            ]
        config["gateway"]["listeners"].append({"address": f"127.0.0.1:{self.own_port}", "profile": "open"})
        return config


@pytest.fixture(scope="module")
def proxy_trap() -> Iterator[CountingListener]:
    """Where the proxy variables lead."""
    with CountingListener() as trap:
        yield trap


@pytest.fixture(scope="module")
def hostile_world(
    tmp_path_factory: pytest.TempPathFactory, proxy_trap: CountingListener
) -> Iterator[HostileWorld]:
    folder = tmp_path_factory.mktemp("hostile")
    aliases = folder / "aliases"
    aliases.write_text("a.example inside.test\nmetadata inside.test\n")
    trap = f"http://127.0.0.1:{proxy_trap.port}"
    with pytest.MonkeyPatch.context() as patch:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
            patch.setenv(name, trap)
        patch.setenv("HOSTALIASES", str(aliases))
        patch.setenv("LOCALDOMAIN", "inside.test")
        patch.setenv("RES_OPTIONS", "ndots:5")
        with (
            CountingListener(INSIDE) as first,
            CountingListener("::1", first.port) as second,
            HostileWorld(folder, (first, second)) as world,
        ):
            yield world


@pytest.fixture
def world(hostile_world: HostileWorld, proxy_trap: CountingListener) -> Iterator[HostileWorld]:
    """Counters at zero, all names at the origin; nobody inside, and no proxy, is ever connected to."""
    for name in NAMES:
        hostile_world.dns.host_addresses(name, ORIGIN_ADDRESS)
    forget(hostile_world)
    hostile_world.beside.forget()
    yield hostile_world
    assert hostile_world.inside_connects == 0
    assert proxy_trap.accepts == 0


# -- 27: IPv4 hidden in IPv6, and every other address that is not the internet

BLOCKED = {
    "0.0.0.0": "0.0.0.0/8", "0.1.2.3": "0.0.0.0/8", "10.0.0.1": "10.0.0.0/8", "100.100.100.200": "100.64.0.0/10",
    "127.0.0.66": "127.0.0.0/8", "169.254.169.254": "169.254.0.0/16", "172.31.255.255": "172.16.0.0/12",
    "192.0.0.192": "192.0.0.0/24", "192.0.2.1": "192.0.2.0/24", "192.88.99.1": "192.88.99.0/24",
    "192.168.1.1": "192.168.0.0/16", "198.19.255.255": "198.18.0.0/15", "198.51.100.1": "198.51.100.0/24",
    "203.0.113.1": "203.0.113.0/24", "224.0.0.1": "224.0.0.0/4", "240.0.0.1": "240.0.0.0/4",
    "255.255.255.255": "255.255.255.255/32", "168.63.129.16": "168.63.129.16/32",
    "::": "::/96", "::1": "::/96", "::127.0.0.66": "::/96", "::ffff:127.0.0.66": "::ffff:0:0/96",
    "::ffff:8.8.8.8": "::ffff:0:0/96", "::ffff:0:127.0.0.66": "::ffff:0:0:0/96",
    "64:ff9b::7f00:42": "64:ff9b::/96", "64:ff9b:1::7f00:42": "64:ff9b:1::/48", "100::1": "100::/64",
    "100:0:0:1::1": "100:0:0:1::/64", "2001:0:4136:e378:8000:63bf:3fff:fdd2": "2001::/23",
    "2001:2::1": "2001:2::/48", "2001:db8::1": "2001:db8::/32", "2002:7f00:42::": "2002::/16",
    "3fff::1": "3fff::/20", "5f00::1": "5f00::/16", "fd00:ec2::254": "fc00::/7", "fe80::1": "fe80::/10",
    "fec0::1": "fec0::/10", "ff02::1": "ff00::/8",
}  # fmt: skip


@pytest.mark.parametrize("address", BLOCKED)
def test_case_27_a_name_with_a_blocked_address_alone_is_not_dialled(
    world: HostileWorld, address: str
) -> None:
    world.dns.host_addresses("b.example", address)
    for entry in ALL:
        answer = send(world, entry, Ask(host="b.example", port=world.inside_port))
        assert (answer.status, answer.header("fetchd-rule")) == (403, "no-allowed-address"), entry
        assert answer.json()["detail"] == "host b.example has no allowed address"
        (line,) = world.gateway.decisions(fetch_id=answer.header("fetchd-id"))
        assert line["verdict"] == "refused"
        assert [one["range"] for one in line["addresses"]["dropped"]] == [BLOCKED[address]]
    assert contacts(world).connects == 0


@pytest.mark.parametrize("entry", ALL)
def test_case_27_a_name_with_an_allowed_address_connects_once(world: HostileWorld, entry: Entry) -> None:
    assert_allowed(world, send(world, entry, Ask()))
    assert (world.dns.count("a.example", "A"), world.dns.count("a.example", "AAAA")) == (1, 1)


# -- 28: the answer that changes between the check and the connection


@pytest.mark.parametrize("entry", ALL)
def test_case_28_one_set_of_answers_a_dial_and_no_second_look_up(world: HostileWorld, entry: Entry) -> None:
    world.dns.script("b.example", "A", Addresses(ORIGIN_ADDRESS), Addresses(INSIDE))
    world.dns.script("b.example", "AAAA", NODATA, Addresses("::1"))
    assert_allowed(world, send(world, entry, Ask(host="b.example")))
    assert (world.dns.count("b.example", "A"), world.dns.count("b.example", "AAAA")) == (1, 1)
    forget(world)
    answer = send(world, entry, Ask(host="b.example"))
    assert_refused(world, answer, "no-allowed-address", 403, contacted=contacts(world))
    assert contacts(world).connects == 0
    assert (world.dns.count("b.example", "A"), world.dns.count("b.example", "AAAA")) == (1, 1)


@pytest.mark.parametrize("entry", [entry for entry in ALL if entry is not Entry.WEBSOCKET])
def test_case_28_a_kept_connection_stays_with_its_judged_address(world: HostileWorld, entry: Entry) -> None:
    """The judgement made at connect stands for that connection, and for no other."""
    world.dns.script("b.example", "A", Addresses(ORIGIN_ADDRESS), Addresses(INSIDE))
    entry.origin(world).route("/last", last_answer())
    with KeptClient(world, entry) as client:
        paths = ("/one", "/two", "/last", "/four")
        rules = [client.get(client.url(path, "b.example")).header("fetchd-rule") for path in paths]
    assert rules == [None, None, None, "no-allowed-address"]
    assert contacts(world).connects == 1
    assert world.dns.count("b.example", "A") == 2


def last_answer() -> Route:
    """The origin closes after it."""

    async def route(exchange: Exchange) -> None:
        await exchange.start(200, [("content-length", "0"), ("connection", "close")])
        await exchange.close()

    return route


# -- 29: mixed answers


MIXED = {
    "A inside first": ([INSIDE, ORIGIN_ADDRESS], []),
    "A inside last": ([ORIGIN_ADDRESS, INSIDE], []),
    "A allowed, AAAA inside": ([ORIGIN_ADDRESS], ["::1"]),
    "all kinds beside one allowed": (
        ["10.0.0.1", INSIDE, ORIGIN_ADDRESS, "169.254.169.254"],
        ["::1", "fe80::1"],
    ),
}


@pytest.mark.parametrize("mix", MIXED)
@pytest.mark.parametrize("entry", ALL)
def test_case_29_blocked_members_are_dropped_and_the_allowed_one_dialled_once(
    world: HostileWorld, entry: Entry, mix: str
) -> None:
    v4, v6 = MIXED[mix]
    world.dns.script("b.example", "A", Addresses(*v4))
    world.dns.script("b.example", "AAAA", Addresses(*v6) if v6 else NODATA)
    answer = send(world, entry, Ask(host="b.example"))
    assert_allowed(world, answer)
    (line,) = world.gateway.decisions(fetch_id=answer.header("fetchd-id"))
    assert {one["address"] for one in line["addresses"]["dropped"]} == {*v4, *v6} - {ORIGIN_ADDRESS}


@pytest.mark.parametrize("entry", ALL)
def test_case_29_when_the_allowed_one_is_dead_no_blocked_one_takes_its_place(
    world: HostileWorld, entry: Entry
) -> None:
    world.dns.script("b.example", "A", Addresses(INSIDE, DEAD_ADDRESS))
    world.dns.script("b.example", "AAAA", Addresses("::1"))
    answer = send(world, entry, Ask(host="b.example", port=world.inside_port))
    assert (answer.status, answer.header("fetchd-rule")) == (502, "upstream")
    assert world.inside_connects == 0


# -- 30: a denied name is never resolved

REFUSED_FIRST = {
    "a denied host": (Ask(host="denied.example"), "host"),
    "a secret as a label of a denied host": (Ask(host="c2VjcmV0.denied.example"), "host"),
    "a denied host in capitals": (Ask(host="c2VjcmV0.DENIED.example"), "host"),
    "a port that is not allowed": (Ask(host="b.example", port=22), "port"),
    "a method that is not allowed": (Ask(host="b.example", method="DELETE"), "method"),
    "a Host field of another name": (
        Ask(host="b.example", host_field="c2VjcmV0.example"),
        "authority-mismatch",
    ),
}


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (entry, why)
        for entry in ALL
        for why, (ask, _) in REFUSED_FIRST.items()
        if entry is not Entry.WEBSOCKET or ask.method == "GET"  # its handshake is one
    ],
)
def test_case_30_what_is_refused_by_name_costs_no_query(world: HostileWorld, entry: Entry, why: str) -> None:
    ask, rule = REFUSED_FIRST[why]
    answer = send(world, entry, ask)
    assert_refused(world, answer, rule, 421 if rule == "authority-mismatch" else 403)


# -- 31: every way a look-up can fail

FAILURES: dict[str, tuple[Outcome, str]] = {
    "NXDOMAIN": (NXDOMAIN, "dns-failed"),
    "SERVFAIL": (SERVFAIL, "dns-failed"),
    "REFUSED": (REFUSED, "dns-failed"),
    "an alias that leads back to itself": (CnameLoop(), "dns-failed"),
    "no data": (NODATA, "no-allowed-address"),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_case_31_a_look_up_that_fails_is_told_from_one_that_leads_inside(
    world: HostileWorld, failure: str
) -> None:
    outcome, rule = FAILURES[failure]
    for rtype in ("A", "AAAA"):
        world.dns.script("b.example", rtype, outcome)
    for entry in ALL:
        answer = send(world, entry, Ask(host="b.example"))
        assert answer.header("fetchd-rule") == rule, entry
        assert answer.status == (502 if rule == "dns-failed" else 403)
    assert contacts(world).connects == 0


@pytest.mark.parametrize("entry", ALL)
def test_case_31_of_three_hundred_addresses_the_first_64_are_looked_at(
    world: HostileWorld, entry: Entry
) -> None:
    inside = [f"127.0.1.{n}" for n in range(150)] + [f"10.0.0.{n}" for n in range(150)]
    for place in (300, 64):
        world.dns.script(
            "b.example", "A", Truncated(Addresses(*inside[:place], ORIGIN_ADDRESS, *inside[place:]))
        )
        answer = send(world, entry, Ask(host="b.example"))
        assert (answer.status, answer.header("fetchd-rule")) == (403, "no-allowed-address")
    world.dns.script("b.example", "A", Truncated(Addresses(*inside[:63], ORIGIN_ADDRESS, *inside[63:])))
    assert_allowed(world, send(world, entry, Ask(host="b.example")))


def test_case_31_an_alias_is_followed_within_the_answer_only(world: HostileWorld) -> None:
    world.dns.script("b.example", "A", Addresses(INSIDE, via=("innocent.example.",)))
    world.dns.script("c.example", "A", Addresses(ORIGIN_ADDRESS, via=("inside.example.",)))
    refused = send(world, Entry.ABSOLUTE_HTTPS, Ask(host="b.example", port=world.inside_port))
    assert refused.header("fetchd-rule") == "no-allowed-address"
    assert_allowed(world, send(world, Entry.ABSOLUTE_HTTPS, Ask(host="c.example")))
    assert world.dns.count("inside.example") == world.dns.count("innocent.example") == 0


# -- 32: hosts files, aliases, search domains, names of one label

LOCAL = ["localhost", "LOCALHOST", "localhost.", "a.localhost", "a.b.LocalHost.", "localho\u017ft"]


@pytest.mark.parametrize("name", LOCAL)
@pytest.mark.parametrize("entry", ALL)
def test_case_32_localhost_is_this_machine_and_asks_nobody(
    world: HostileWorld, entry: Entry, name: str
) -> None:
    sent = name.encode("idna").decode() if not name.isascii() else name
    answer = send(world, entry, Ask(host=name, port=world.inside_port, server_name=sent.rstrip(".")))
    assert_refused(world, answer, "no-allowed-address", 403)


SINGLE = ["metadata", "host.docker.internal", "kubernetes.default.svc", "instance-data"]


@pytest.mark.parametrize("name", SINGLE)
@pytest.mark.parametrize("entry", ALL)
def test_case_32_a_name_is_asked_as_it_is_without_search_domains_or_aliases(
    world: HostileWorld, entry: Entry, name: str
) -> None:
    answer = send(world, entry, Ask(host=name, port=world.inside_port))
    assert (answer.status, answer.header("fetchd-rule")) == (502, "dns-failed")
    assert {query.name for query in world.dns.queries} - {name} <= {
        query.name for query in world.dns.queries if query.name.startswith("marker-")
    }
    assert (world.dns.count(name, "A"), world.dns.count(name, "AAAA")) == (1, 1)
    world.dns.host_addresses(name, INSIDE)
    answer = send(world, entry, Ask(host=name, port=world.inside_port))
    assert answer.header("fetchd-rule") == "no-allowed-address"
    world.dns.script(name, "A", NXDOMAIN)
    world.dns.script(name, "AAAA", NXDOMAIN)


# -- 33: DNS over HTTPS is one more host


@pytest.mark.parametrize("entry", ALL)
def test_case_33_dns_over_https_is_judged_like_any_other_host(world: HostileWorld, entry: Entry) -> None:
    query = "/dns-query?dns=AAABAAABAAAAAAAAA3d3dwdleGFtcGxlA2NvbQAAAQAB"
    assert_refused(world, send(world, entry, Ask(query, "denied.example")), "host", 403)
    assert_allowed(world, send(world, entry, Ask(query)))


# -- 34: the gateway asked to connect to itself


@pytest.mark.parametrize("entry", ALL)
def test_case_34_its_own_listeners_are_never_dialled_whatever_is_excepted(
    world: HostileWorld, entry: Entry
) -> None:
    """`self.example` may have 127.0.0.1; a listener of the gateway there is out all the same."""
    world.dns.host_addresses("self.example", "127.0.0.1")
    answer = send(world, entry, Ask(host="self.example", port=world.own_port))
    assert (answer.status, answer.header("fetchd-rule")) == (403, "no-allowed-address")
    (line,) = world.gateway.decisions(fetch_id=answer.header("fetchd-id"))
    assert [one["range"] for one in line["addresses"]["dropped"]] == ["own address"]


def test_case_34_the_same_address_at_another_port_connects_once(world: HostileWorld) -> None:
    world.dns.host_addresses("self.example", "127.0.0.1")
    answer = send(world, Entry.ABSOLUTE_HTTP, Ask(host="self.example", port=world.beside.port))
    assert (answer.status, world.beside.accepts) == (200, 1)


# -- 35: proxy variables and upstream proxies


@pytest.mark.parametrize("entry", ALL)
def test_case_35_proxy_variables_have_no_effect(
    world: HostileWorld, entry: Entry, proxy_trap: CountingListener
) -> None:
    assert_allowed(world, send(world, entry, Ask()))
    assert proxy_trap.accepts == 0
