"""Profiles that only monitor (SPEC 1): the rules `host` and `method` are audited, all others hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.gateway.expect import NOBODY, assert_refused, contacts, forget, recent_lines, try_send
from tests.gateway.paths import ALL, TUNNELS, Ask, Entry, send
from tests.kit import replies
from tests.kit.gateway import World

MONITOR = 0


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    limits = {
        "mode": "monitor",
        "schemes": ["https", "http"],
        "methods": ["GET"],
        "allow_hosts": ["a.example"],
        "deny_hosts": ["denied.example"],
        "upgrades": ["websocket"],
    }
    with World(tmp_path_factory.mktemp("monitor"), profiles={"watch": limits}, listeners=("watch",)) as world:
        world.origin.route("/to-denied", replies.redirect(world.url("/", "denied.example")))
        world.plain.route("/to-denied", replies.redirect(world.plain_url("/", "denied.example")))
        world.origin.route("/down", replies.redirect(world.plain_url()))
        yield world


@pytest.fixture
def world(shared: World) -> World:
    forget(shared)
    return shared


PASSES: dict[str, tuple[Ask, str | None]] = {
    "what is allowed": (Ask(), None),
    "a host that no pattern allows": (Ask(host="b.example"), "host"),
    "a host that is denied": (Ask(host="denied.example"), "host"),
    "a method that is not listed": (Ask(method="DELETE"), "method"),
    "both: the first of them is told": (Ask(host="b.example", method="DELETE"), "method"),
    "a redirect to a host that is denied": (Ask(path="/to-denied"), None),
}


@pytest.mark.parametrize("entry", ALL)
@pytest.mark.parametrize("sentence", PASSES)
def test_passes_and_is_audited(world: World, sentence: str, entry: Entry) -> None:
    ask, rule = PASSES[sentence]
    if entry is Entry.WEBSOCKET and ask.method != "GET":
        pytest.skip("a WebSocket begins with GET")
    answer = send(world, entry, ask, listener=MONITOR)
    assert answer.status in (200, 101, 302)
    assert answer.header("fetchd-verdict") == "allowed"
    (line,) = recent_lines(world, "decision", fetch_id=answer.header("fetchd-id"))
    assert (line["verdict"], line.get("rule"), line.get("would_refuse")) == ("allowed", None, rule)
    assert contacts(world).connects == 1


HOLDS: dict[str, tuple[Ask, str, int]] = {
    "a port": (Ask(host="b.example", port=8022), "port", 403),
    "an address as host": (Ask(host="10.0.0.7"), "ip-literal", 403),
    "credentials": (Ask(host="b.example", userinfo="user:pass"), "userinfo", 403),
    "a body": (Ask(host="b.example", method="POST", body=b"x"), "request-cap", 413),
    "another Host": (Ask(host="b.example", host_field="a.example"), "authority-mismatch", 421),
}


@pytest.mark.parametrize("entry", ALL)
@pytest.mark.parametrize("sentence", HOLDS)
def test_every_other_rule_holds(world: World, sentence: str, entry: Entry) -> None:
    ask, rule, status = HOLDS[sentence]
    if ask.userinfo and entry in TUNNELS:
        pytest.skip("a tunnelled request has no place for it")
    if ask.body and entry is Entry.WEBSOCKET:
        pytest.skip("a WebSocket begins with GET")
    if ask.body and entry is Entry.CONNECT_H2:
        ask = replace(ask, headers=[("content-length", "1")])  # else it is known by its first byte only
    assert_refused(world, try_send(world, entry, ask, listener=MONITOR), rule, status)


def test_addresses_are_judged_as_ever(world: World) -> None:
    world.dns.host_addresses("inside.example.net", "10.0.0.7")
    answer = send(world, Entry.CONNECT_H1, Ask(host="inside.example.net"), listener=MONITOR)
    assert answer.header("fetchd-rule") == "no-allowed-address"
    assert contacts(world).connects == 0
    (line,) = recent_lines(world, "decision", fetch_id=answer.header("fetchd-id"))
    assert (line["verdict"], line["would_refuse"]) == ("refused", "host")


@pytest.mark.parametrize("entry", [Entry.ABSOLUTE_HTTPS, Entry.CONNECT_H2])
def test_a_downgrade_is_refused_as_ever(world: World, entry: Entry) -> None:
    answer = send(world, entry, Ask(path="/down"), listener=MONITOR)
    assert answer.header("fetchd-rule") == "downgrade"


def test_a_name_that_dns_cannot_carry_costs_nothing(world: World) -> None:
    answer = send(world, Entry.CONNECT_H1, Ask(host=f"{'a' * 64}.example"), listener=MONITOR)
    assert answer.header("fetchd-rule") == "dns-failed"
    assert contacts(world) == NOBODY
