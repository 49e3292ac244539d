"""All SSRF payloads through the whole gateway, before a DNS that answers every name with inside addresses.

What the URL alone gives away is refused by the ladder, without a query. What only the answer gives away ends at the
judgement of addresses: rule no-allowed-address. Listeners on the answered loopback addresses count zero connects;
the payloads are sent once as they are, and once aimed at the very port those listeners have.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.gateway.expect import assert_allowed, forget
from tests.gateway.inside import InsideWorld, inside_world
from tests.gateway.paths import ALL, Ask, Entry, send
from tests.kit.client import RawConnection
from tests.kit.corpora import corpora
from tests.kit.dns import Addresses, Outcome, Query

INSIDE_V4 = ("169.254.169.254", "127.0.0.66", "10.0.0.1", "0.0.0.0")
INSIDE_V6 = ("::1", "64:ff9b::a00:1", "::ffff:127.0.0.66", "fd00:ec2::254")
ON_A_LINE = re.compile(r"[^\x00-\x20\x7f]+")
BROKEN_PUNYCODE = ("xn--", "xn--a")

EASY_NAME = re.compile(r"(?!-)[a-z0-9-]{1,40}(\.[a-z0-9-]{1,40}){0,4}")


def answer_inside(query: Query) -> Outcome:
    return Addresses(*(INSIDE_V4 if query.rtype == "A" else INSIDE_V6))


@pytest.fixture(scope="module")
def inside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InsideWorld]:
    """A gateway all of whose names lead inside but for `a.example`."""
    with inside_world(tmp_path_factory.mktemp("ssrf")) as world:
        world.dns.default = answer_inside
        yield world


@pytest.fixture(autouse=True)
def _nobody_inside_is_contacted(inside: InsideWorld) -> Iterator[None]:
    yield
    assert inside.inside_connects == 0


def payloads() -> list[dict[str, Any]]:
    lines = corpora("ssrf", "ssrf-payloads.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def names_that_resolve() -> list[str]:
    """The hosts of the `resolve` rows that a client could name in a tunnel."""
    hosts = dict.fromkeys(row["whatwg"]["host"] for row in payloads() if row["expect"] == "resolve")
    return [host for host in hosts if EASY_NAME.fullmatch(host) and host not in BROKEN_PUNYCODE]


def fits_dns(host: str) -> bool:
    """No empty label but the root's, none over 63, at most 253 in all (RFC 1035, 2.3.4)."""
    labels = host.removesuffix(".").split(".")
    return all(1 <= len(label) <= 63 for label in labels) and len(host.removesuffix(".")) <= 253


def ask(connection: RawConnection, url: str, host: str) -> str:
    connection.request("GET", url, host)
    answer = connection.read_response()
    assert answer.header("fetchd-verdict") == "refused", (url, answer)
    return answer.header("fetchd-rule") or ""


def test_every_payload_that_the_url_gives_away_is_refused_by_its_rule_without_a_query(
    inside: InsideWorld,
) -> None:
    rejected = [row for row in payloads() if row["expect"] == "reject" and ON_A_LINE.fullmatch(row["url"])]
    assert len(rejected) > 1000
    inside.dns.forget_queries()
    with inside.gateway.open() as connection:
        for row in rejected:
            host = (row["whatwg"] or {}).get("host") or "x.example"
            assert ask(connection, row["url"], host) == row["reason"], row["url"]
    assert inside.dns.count() == 0


def test_every_payload_that_a_line_cannot_carry_is_answered_or_closed_and_reaches_nobody(
    inside: InsideWorld,
) -> None:
    odd = [row["url"] for row in payloads() if not ON_A_LINE.fullmatch(row["url"])]
    assert odd
    for url in odd:
        with inside.gateway.open() as connection:
            connection.send(f"GET {url} HTTP/1.1\r\nHost: x.example\r\n\r\n".encode("utf-8", "surrogatepass"))
            connection.finish_sending()
            data, _ = connection.receive_until_closed()
        assert b"Fetchd-Verdict: refused" in data
        assert b"allowed" not in data


@pytest.mark.parametrize("aimed", [False, True], ids=["as-it-is", "at-the-listeners'-port"])
def test_every_payload_that_resolves_ends_at_the_judgement_of_its_addresses(
    inside: InsideWorld, aimed: bool
) -> None:
    rows = [row for row in payloads() if row["expect"] == "resolve" and ON_A_LINE.fullmatch(row["url"])]
    assert len(rows) > 250
    with inside.gateway.open() as connection:
        for row in rows:
            host, url = row["whatwg"]["host"], row["url"]
            port = str(inside.inside_port) if aimed else row["whatwg"]["port"]
            authority = f"{host}:{port}" if port else host
            if aimed:
                url = f"https://{authority}/"
            wanted = "no-allowed-address"
            if host in BROKEN_PUNYCODE:
                wanted = "parse"  # stricter than the standard of today, which lets it stand
            elif not fits_dns(host):
                wanted = "dns-failed"  # a name that DNS cannot carry is asked of nobody
            assert ask(connection, url, authority) == wanted, url


@pytest.mark.parametrize("entry", ALL)
def test_names_that_lead_inside_are_refused_on_every_way_in(inside: InsideWorld, entry: Entry) -> None:
    names = names_that_resolve()
    assert len(names) > 40
    chosen = names if entry is Entry.CONNECT_H1 else names[::4]
    for name in chosen:
        answer = send(inside, entry, Ask("/latest/meta-data/", name, inside.inside_port))
        assert (answer.status, answer.header("fetchd-rule")) == (403, "no-allowed-address"), name
        assert b"169.254" not in answer.body and b"127.0.0.66" not in answer.body


def test_the_audit_names_what_was_dropped_and_why(inside: InsideWorld) -> None:
    answer = send(inside, Entry.ABSOLUTE_HTTPS, Ask("/", "rebind.test", inside.inside_port))
    (line,) = inside.gateway.decisions(fetch_id=answer.header("fetchd-id"))
    dropped = {one["address"]: one["range"] for one in line["addresses"]["dropped"]}
    assert dropped == {
        "169.254.169.254": "169.254.0.0/16",
        "127.0.0.66": "127.0.0.0/8",
        "10.0.0.1": "10.0.0.0/8",
        "0.0.0.0": "0.0.0.0/8",
        "::1": "::/96",
        "64:ff9b::a00:1": "64:ff9b::/96",
        "::ffff:127.0.0.66": "::ffff:0:0/96",
        "fd00:ec2::254": "fc00::/7",
    }
    assert line["addresses"]["dialled"] is None


@pytest.mark.parametrize("entry", ALL)
def test_the_twin_with_an_allowed_address_connects_once(inside: InsideWorld, entry: Entry) -> None:
    forget(inside)
    assert_allowed(inside, send(inside, entry, Ask("/latest/meta-data/")))
    assert (inside.dns.count("a.example", "A"), inside.dns.count("a.example", "AAAA")) == (1, 1)
