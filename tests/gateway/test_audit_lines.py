"""What the log says of a hop (SPEC 1.9), member by member, and what it must never say."""

from __future__ import annotations

import hashlib
import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proxy_addons.audit import AuditKeys
from tests.gateway.lines import wait_line, wait_lines
from tests.gateway.paths import ALL, Ask, Entry, send
from tests.kit import replies
from tests.kit.client import RawConnection, Response
from tests.kit.gateway import ORIGIN_ADDRESS, World

QUERY = "token=the-query-secret"
SECRETS = (
    "the-query-secret",
    "the-cookie-secret",
    "the-user-secret",
    "the-body-secret",
    "the-fragment-secret",
)
FIELDS = [("Cookie", "a=the-cookie-secret"), ("X-Own", "the-cookie-secret")]
CAP = 50_000
CHAINED = ("chain", "seq", "time", "prev", "hash", "kind")


@pytest.fixture(scope="module")
def shared_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    profiles = {name: {"byte_cap": CAP} for name in ("test", "open")}
    with World(tmp_path_factory.mktemp("audit-lines"), profiles=profiles) as world:
        yield world


def said(line: dict[str, Any]) -> dict[str, Any]:
    """What a line says of its hop: without its place in the chain, and with times told apart from none."""
    rest = {name: value for name, value in line.items() if name not in CHAINED}
    rest["ms"] = {name for name, value in rest["ms"].items() if value is not None and value >= 0}
    return rest


def lines_of(world: World, answer: Response) -> tuple[dict[str, Any], dict[str, Any]]:
    """The decision and the close line of a hop that was let through."""
    fetch = answer.header("fetchd-id")
    return wait_line(world.gateway, "decision", fetch_id=fetch), wait_line(
        world.gateway, "close", fetch_id=fetch
    )


def digest_of(world: World, query: str) -> str | None:
    return AuditKeys.load_or_create(world.gateway.state / "keys").query_digest(query)


def agent_of(world: World, profile: str) -> str:
    listeners = {name: port for _, port, name in world.gateway.listeners}
    return f"{profile}@{listeners[profile]}"


def certificate_of(world: World) -> str:
    """SHA-256 of the origin's certificate."""
    from tests.kit.client import open_connection

    with open_connection(world.origin.host, world.origin.port) as raw:
        inside: RawConnection = raw.start_tls("a.example", world.pki.client_context())
        assert isinstance(inside.sock, ssl.SSLSocket)
        der = inside.sock.getpeercert(binary_form=True)
        assert der is not None
        return hashlib.sha256(der).hexdigest()


@pytest.mark.parametrize(
    "entry", [Entry.ABSOLUTE_HTTPS, Entry.CONNECT_H1, Entry.CONNECT_H2, Entry.TLS_LISTENER]
)
def test_an_allowed_fetch(world: World, entry: Entry) -> None:
    world.origin.route("/page", replies.page("four"))
    answer = send(world, entry, Ask(f"/page?{QUERY}#the-fragment-secret", headers=FIELDS))
    decision, close = lines_of(world, answer)
    policy = answer.header("fetchd-policy")

    assert answer.status == 200
    assert said(decision) == {
        "agent": agent_of(world, "open"),
        "profile": "open",
        "policy": policy,
        "fetch_id": answer.header("fetchd-id"),
        "hop": 0,
        "method": "GET",
        "url": world.url("/page"),
        "query_digest": digest_of(world, QUERY),
        "verdict": "allowed",
        "rule": None,
        "detail": None,
        "would_refuse": None,
        "addresses": {"returned": [ORIGIN_ADDRESS], "dropped": [], "dialled": None, "omitted": 0},
        "status": None,
        "ms": {"dns", "total"},
    }
    assert said(close) == {
        "decision": decision["seq"],
        "agent": agent_of(world, "open"),
        "fetch_id": answer.header("fetchd-id"),
        "hop": 0,
        "verdict": "allowed",
        "rule": None,
        "detail": None,
        "addresses": {"returned": [ORIGIN_ADDRESS], "dropped": [], "dialled": ORIGIN_ADDRESS, "omitted": 0},
        "tls": {"version": "TLSv1.3", "certificate_sha256": certificate_of(world)},
        "status": 200,
        "media_type": "text/html",
        "redirect_to": None,
        "request_bytes": 0,
        "wire_bytes": 4,
        "decoded_bytes": 4,
        "ms": {"dns", "connect", "tls", "first_byte", "total"},
    }


def test_a_plain_fetch_has_no_tls(world: World) -> None:
    world.plain.route("/page", replies.page("four"))
    _, close = lines_of(world, send(world, Entry.ABSOLUTE_HTTP, Ask("/page")))
    assert close["tls"] is None and close["ms"]["tls"] is None


def test_a_reused_connection_costs_no_second_dial(world: World) -> None:
    world.plain.route("/page", replies.page("four"))
    host = f"a.example:{world.plain.port}"
    with world.gateway.open(1) as proxy:
        proxy.get(world.plain_url("/page"), host)
        second = proxy.get(world.plain_url("/page"), host)
    decision, close = lines_of(world, second)
    assert said(decision)["ms"] == {"total"}
    assert said(close)["ms"] == {"first_byte", "total"}
    assert close["addresses"]["dialled"] == ORIGIN_ADDRESS


@pytest.mark.parametrize("entry", [entry for entry in ALL if entry.scheme == "https"])
def test_a_refused_hop_has_one_line(world: World, entry: Entry) -> None:
    ask = Ask(f"/secret?{QUERY}", host="denied.example", headers=FIELDS)
    answer = send(world, entry, ask)
    decision = wait_line(world.gateway, "decision", fetch_id=answer.header("fetchd-id"))
    assert said(decision) == {
        "agent": agent_of(world, "open"),
        "profile": "open",
        "policy": answer.header("fetchd-policy"),
        "fetch_id": answer.header("fetchd-id"),
        "hop": 0,
        "method": "GET",
        "url": world.url("/secret", "denied.example"),
        "query_digest": digest_of(world, QUERY),
        "verdict": "refused",
        "rule": "host",
        "detail": "host not allowed: denied.example",
        "would_refuse": None,
        "addresses": None,
        "status": 403,
        "ms": {"total"},
    }
    assert world.gateway.lines("close", fetch_id=answer.header("fetchd-id")) == []


def test_a_failed_look_up_tells_what_was_returned_and_dropped(world: World) -> None:
    world.dns.host_addresses("inner.example", "10.1.2.3", "169.254.169.254")
    answer = send(world, Entry.CONNECT_H1, Ask(host="inner.example"))
    decision = wait_line(world.gateway, "decision", fetch_id=answer.header("fetchd-id"))
    assert (decision["rule"], decision["status"]) == ("no-allowed-address", 403)
    addresses = decision["addresses"]
    assert sorted(addresses["returned"]) == ["10.1.2.3", "169.254.169.254"]
    assert {(one["address"], one["range"]) for one in addresses["dropped"]} == {
        ("10.1.2.3", "10.0.0.0/8"),
        ("169.254.169.254", "169.254.0.0/16"),
    }
    assert addresses["dialled"] is None
    assert "10.1.2.3" not in answer.body.decode()


def test_a_redirect_chain_is_numbered(world: World) -> None:
    for number in range(3):
        world.origin.route(f"/r{number}", replies.redirect(f"/r{number + 1}?{QUERY}"))
    world.origin.route("/r3", replies.redirect(world.plain_url(f"/down?{QUERY}")))
    answers = [send(world, Entry.CONNECT_H1, Ask("/r0"))]
    while location := answers[-1].header("location"):
        answers.append(send(world, Entry.CONNECT_H1, Ask(location.removeprefix(world.url("")))))

    decisions = [wait_line(world.gateway, "decision", fetch_id=a.header("fetchd-id")) for a in answers]
    closes = [wait_line(world.gateway, "close", fetch_id=a.header("fetchd-id")) for a in answers]
    assert [line["hop"] for line in decisions] == [line["hop"] for line in closes] == [0, 1, 2, 3]
    assert [line["url"] for line in decisions] == [world.url(f"/r{number}") for number in range(4)]
    assert [line["verdict"] for line in decisions] == ["allowed"] * 4
    assert [line["verdict"] for line in closes] == ["allowed"] * 3 + ["refused"]
    assert [line["status"] for line in closes] == [302] * 4
    targets = [world.url(f"/r{number}") for number in (1, 2, 3)] + [world.plain_url("/down")]
    assert [line["redirect_to"] for line in closes] == targets
    reason = "refusing https to http downgrade"
    refusal = f"redirect from {world.url('/r3')} to {world.plain_url('/down')} refused: {reason}"
    assert (closes[3]["rule"], closes[3]["detail"]) == ("downgrade", refusal)
    assert answers[3].json()["detail"] == refusal


def test_the_body_of_a_request_is_counted_and_not_kept(world: World) -> None:
    answer = send(world, Entry.CONNECT_H1, Ask("/up", method="POST", body=b"the-body-secret"))
    _, close = lines_of(world, answer)
    assert close["request_bytes"] == len("the-body-secret")
    assert "the-body-secret" not in json.dumps(world.gateway.audit())


def test_a_cut_body(world: World) -> None:
    world.origin.route("/big", replies.chunked([bytes(CAP), bytes(1)]))
    answer = send(world, Entry.ABSOLUTE_HTTPS, Ask("/big"))
    _, close = lines_of(world, answer)
    assert not answer.complete
    assert (close["verdict"], close["rule"], close["status"]) == ("refused", "byte-cap", 200)
    assert close["detail"] == f"response from {world.url('/big')} exceeds the {CAP}-byte size cap"
    assert close["decoded_bytes"] == CAP and close["wire_bytes"] >= CAP


def test_a_client_that_leaves(world: World) -> None:
    world.origin.route("/endless", replies.endless(b"x"))
    with world.gateway.open() as proxy:
        proxy.request("GET", world.url("/endless"), world.authority())
        assert proxy.receive()
    close = wait_lines(world.gateway, "close", detail="broke off")[-1]
    assert (close["verdict"], close["rule"], close["status"]) == ("allowed", None, 200)


@pytest.mark.parametrize(
    ("sent", "rule", "shown"),
    [
        (b"SSH-2.0-OpenSSH_9.9 the-body-secret\r\n", "not-http", None),
        (b"\r\nSSH-2.0-OpenSSH_9.9 the-body-secret\r\n", "not-http", None),
        (
            b"GET https://u:the-user-secret@a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
            "userinfo",
            "https://a.example/",
        ),
        (b"GET /the-body-secret?x HTTP/1.1\r\nHost: a.example\r\n\r\n", "parse", None),
    ],
)
def test_what_never_became_a_fetch(world: World, sent: bytes, rule: str, shown: str | None) -> None:
    before = len(world.gateway.decisions(rule=rule))
    with world.gateway.open() as proxy:
        proxy.send(sent)
        proxy.receive()
    line = wait_lines(world.gateway, "decision", before + 1, rule=rule)[-1]
    assert (line["verdict"], line["agent"]) == ("refused", agent_of(world, "test"))
    if shown is not None:
        assert line["url"] == shown


def test_secrets_of_requests_are_in_no_file_and_no_message(world: World) -> None:
    """C075. The last test of this module: the log holds what all others did."""
    world.origin.route("/page", replies.page("the-body-secret"))
    ways = [Entry.ABSOLUTE_HTTPS, Entry.CONNECT_H1, Entry.CONNECT_H2, Entry.TLS_LISTENER_CONNECT]
    for entry in ways:
        send(world, entry, Ask(f"/page?{QUERY}", headers=FIELDS))
        send(world, entry, Ask(f"/page?{QUERY}", headers=FIELDS, method="POST", body=b"the-body-secret"))
        send(world, entry, Ask(f"/page?{QUERY}", host="denied.example", headers=FIELDS))
    world.gateway.stop()

    files = [path for path in world.gateway.state.rglob("*") if path.is_file()]
    assert any(path.suffix == ".jsonl" for path in files)
    written = {path: _text(path) for path in files} | {Path("stderr"): "\n".join(world.gateway.errors)}
    for secret in SECRETS:
        assert [path for path, text in written.items() if secret in text] == [], secret


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "replace")
