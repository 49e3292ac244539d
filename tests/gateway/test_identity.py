"""Who is asking, on every way in (SPEC 7): token, listener, source range; judged per request, never mixed up."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import trustme

from proxy_addons.policy.agents import digest_token
from proxy_addons.policy.wire import DaemonRequest, render_daemon_fields
from tests.gateway.expect import NOBODY, contacts, forget, recent_lines, try_send
from tests.gateway.kept import KeptClient
from tests.gateway.paths import ABSOLUTE, ALL, Ask, Entry, TlsInTls, client_context, listener_tls, send
from tests.kit import replies
from tests.kit.client import Response, open_connection
from tests.kit.gateway import SECRET, World

KNOWN, OPEN_TO_ALL, CARLS, TLS_ONLY = range(4)
"""The listeners: for known agents, for anybody, Carl's own, and one that speaks nothing but TLS."""
TOKENS = {name: f"fetchd.{name}.{'0123456789abcdef' * 2}" for name in ("alice", "bob", "eve")}
DORAS_ADDRESS = "127.0.0.5"


def basic(name: str, token: str) -> tuple[str, str]:
    return "Proxy-Authorization", "Basic " + base64.b64encode(f"{name}:{token}".encode()).decode()


def bearer(token: str, scheme: str = "Bearer") -> tuple[str, str]:
    return "Proxy-Authorization", f"{scheme} {token}"


ALICE, BOB = basic("alice", TOKENS["alice"]), basic("bob", TOKENS["bob"])


def configuration(**agents: dict[str, Any]) -> dict[str, Any]:
    listeners = [
        {"address": "127.0.0.1:0", "profile": "open"},
        {"address": "127.0.0.1:0", "profile": "open", "anonymous": True},
        {"address": "127.0.0.1:0", "agent": "carl"},
        {"address": "127.0.0.1:0", "profile": "open", "tls": True},
    ]
    known = {
        "alice": {"profile": "alices", "token_sha256": digest_token(TOKENS["alice"])},
        "bob": {"profile": "bobs", "token_sha256": digest_token(TOKENS["bob"])},
        "carl": {"profile": "open"},
        "dora": {"profile": "open", "sources": [DORAS_ADDRESS, "10.0.0.0/8"]},
    }
    return {"gateway": {"listeners": listeners}, "agents": {**known, **agents}}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    everything = {
        "schemes": ["https", "http"], "methods": ["GET", "POST"],
        "request_body": True, "request_cap": 1000, "upgrades": ["websocket"],
    }  # fmt: skip
    profiles = {
        "alices": {**everything, "allow_hosts": ["a.example"]},
        "bobs": {**everything, "allow_hosts": ["b.example"]},
    }
    with World(tmp_path_factory.mktemp("identity"), profiles=profiles, config=configuration()) as world:
        yield world


@pytest.fixture
def world(shared: World) -> World:
    forget(shared)
    return shared


def with_credentials(ask: Ask, entry: Entry, *fields: tuple[str, str]) -> Ask:
    """The request as a client with these settings sends it: beside the URL, or beside the CONNECT."""
    return replace(ask, headers=fields) if entry in ABSOLUTE else replace(ask, connect_headers=fields)


def assert_agent(world: World, answer: Response, agent: str, profile: str) -> None:
    assert answer.status in (200, 101), answer
    (line,) = recent_lines(world, "decision", fetch_id=answer.header("fetchd-id"))
    assert (line["agent"], line["profile"]) == (agent, profile)
    assert str(answer.header("fetchd-policy")).startswith(f"{profile}@")


def assert_unknown(world: World, answer: Response | None, message: str) -> None:
    """407 that a client can read; nobody was contacted, and the line names nobody."""
    assert answer is not None
    assert (answer.status, answer.header("fetchd-rule")) == (407, "identity"), answer
    assert answer.header("proxy-authenticate") == 'Basic realm="fetchd"'
    assert message in answer.json()["detail"]
    assert contacts(world) == NOBODY
    (line,) = recent_lines(world, "decision", fetch_id=answer.header("fetchd-id"))
    assert (line["agent"], line["rule"]) == ("unknown", "identity")


# -- who


@dataclass(frozen=True, slots=True)
class Case:
    """listener: where the request comes in. agent None: refused with 407, and `profile` is part of the message."""

    listener: int
    fields: tuple[tuple[str, str], ...]
    agent: str | None
    profile: str
    host: str = "a.example"


UNKNOWN, NEEDED = "not known here", "serves known agents only"
CASES = {
    "name and token": Case(KNOWN, (ALICE,), "alice", "alices"),
    "a token alone": Case(KNOWN, (bearer(TOKENS["bob"]),), "bob", "bobs", "b.example"),
    "schemes are names without case": Case(KNOWN, (bearer(TOKENS["alice"], "bEARER"),), "alice", "alices"),
    "a token wins where anybody may come": Case(OPEN_TO_ALL, (ALICE,), "alice", "alices"),
    "a token wins at another's listener": Case(CARLS, (BOB,), "bob", "bobs", "b.example"),
    "nothing, where anybody may come": Case(OPEN_TO_ALL, (), "open@{port}", "open"),
    "nothing, at Carl's listener": Case(CARLS, (), "carl", "open"),
    "nothing, where one must be known": Case(KNOWN, (), None, NEEDED),
    "a token that is nobody's": Case(KNOWN, (basic("eve", TOKENS["eve"]),), None, UNKNOWN),
    "a token that is nobody's, where anybody may come": Case(
        OPEN_TO_ALL, (basic("eve", TOKENS["eve"]),), None, UNKNOWN
    ),
    "a token that is nobody's, at Carl's": Case(CARLS, (bearer(TOKENS["eve"]),), None, UNKNOWN),
    "Bob's token under Alice's name": Case(KNOWN, (basic("alice", TOKENS["bob"]),), None, UNKNOWN),
    "a name that is nobody's before a token": Case(KNOWN, (basic("", TOKENS["alice"]),), None, UNKNOWN),
    "a token in capitals": Case(KNOWN, (bearer(TOKENS["alice"].upper()),), None, UNKNOWN),
    "a name without a token": Case(OPEN_TO_ALL, (basic("alice", ""),), None, UNKNOWN),
    "an empty field": Case(OPEN_TO_ALL, (("Proxy-Authorization", ""),), None, UNKNOWN),
    "no base64": Case(OPEN_TO_ALL, (("Proxy-Authorization", "Basic ***"),), None, UNKNOWN),
    "another scheme": Case(OPEN_TO_ALL, (("Proxy-Authorization", "Negotiate YII="),), None, UNKNOWN),
    "the digest of a token": Case(KNOWN, (bearer(digest_token(TOKENS["alice"])),), None, UNKNOWN),
    "two statements, of which one holds": Case(KNOWN, (ALICE, BOB), None, UNKNOWN),
    "the same statement twice": Case(KNOWN, (ALICE, ALICE), None, UNKNOWN),
    "a token for the origin is none for us": Case(
        KNOWN, (("Authorization", f"Bearer {TOKENS['alice']}"),), None, NEEDED
    ),
}


@pytest.mark.parametrize("entry", ALL)
@pytest.mark.parametrize("sentence", CASES)
def test_who_is_asking(world: World, sentence: str, entry: Entry) -> None:
    case = CASES[sentence]
    ask = with_credentials(Ask(host=case.host), entry, *case.fields)
    answer = try_send(world, entry, ask, listener=case.listener)
    if case.agent is None:
        assert_unknown(world, answer, case.profile)
    else:
        assert answer is not None
        port = world.gateway.listeners[case.listener][1]
        assert_agent(world, answer, case.agent.format(port=port), case.profile)


@pytest.mark.parametrize(("source", "agent"), [(DORAS_ADDRESS, "dora"), ("127.0.0.6", None)])
def test_a_source_range_is_an_agent_and_its_neighbour_is_not(
    world: World, source: str, agent: str | None
) -> None:
    host, port, _ = world.gateway.listeners[KNOWN]
    with open_connection(host, port, source=source) as proxy:
        proxy.request("GET", world.url(), world.authority())
        answer = proxy.read_response()
    if agent is None:
        assert_unknown(world, answer, NEEDED)
    else:
        assert_agent(world, answer, agent, "open")


def test_a_token_wins_over_the_source_and_a_bad_one_does_not_fall_back_to_it(world: World) -> None:
    host, port, _ = world.gateway.listeners[KNOWN]
    with open_connection(host, port, source=DORAS_ADDRESS) as proxy:
        proxy.request("GET", world.url(), world.authority(), [ALICE])
        assert_agent(world, proxy.read_response(), "alice", "alices")
        forget(world)
        proxy.request("GET", world.url(), world.authority(), [basic("alice", TOKENS["eve"])])
        assert_unknown(world, proxy.read_response(), UNKNOWN)


# -- each under its own rules


@pytest.mark.parametrize("entry", ALL)
@pytest.mark.parametrize(
    ("agent", "host", "passes"),
    [
        ("alice", "a.example", True),
        ("alice", "b.example", False),
        ("bob", "a.example", False),
        ("bob", "b.example", True),
    ],
)
def test_each_agent_is_held_to_its_own_hosts(
    world: World, entry: Entry, agent: str, host: str, passes: bool
) -> None:
    ask = with_credentials(Ask(host=host), entry, basic(agent, TOKENS[agent]))
    answer = send(world, entry, ask, listener=KNOWN)
    if passes:
        assert_agent(world, answer, agent, f"{agent}s")
    else:
        assert (answer.status, answer.json()["detail"]) == (403, f"host not allowed: {host}")
        assert answer.json()["allowed"] == ["a.example" if agent == "alice" else "b.example"]
        assert contacts(world) == NOBODY


def test_one_connection_may_carry_requests_of_many(world: World) -> None:
    """A pool in front of two agents: every request is judged as what it says, and nothing of one helps the other."""
    world.origin.route("/mixed", replies.text("both"))
    told = []
    with world.gateway.open(KNOWN) as proxy:
        for field, host in [
            (ALICE, "a.example"), (BOB, "a.example"), (BOB, "b.example"), (None, "a.example"), (ALICE, "a.example"),
        ]:  # fmt: skip
            proxy.request("GET", world.url("/mixed", host), world.authority(host), [field] if field else [])
            told.append(proxy.read_response())
    assert [answer.status for answer in told] == [200, 403, 200, 407, 200]
    lines = [recent_lines(world, "decision", fetch_id=one.header("fetchd-id"))[0] for one in told]
    assert [line["agent"] for line in lines] == ["alice", "bob", "bob", "unknown", "alice"]


def test_an_upstream_connection_of_one_profile_is_not_lent_to_another(world: World) -> None:
    """Two agents that may ask the same host, on one client connection: the peer was judged under one profile."""
    world.origin.route("/lent", replies.text("x"))
    with world.gateway.open(OPEN_TO_ALL) as proxy:
        for fields in ([ALICE], [], [ALICE], []):
            proxy.request("GET", world.url("/lent"), world.authority(), fields)
            assert proxy.read_response().status == 200
    assert contacts(world).connects == 2


def test_redirect_chains_are_each_agent_s_own(world: World) -> None:
    """Alice is redirected; Bob asking for the target is at hop 0, and so is she who has no name."""
    world.origin.route("/moved", replies.redirect("/target"))
    world.origin.route("/target", replies.text("x"))
    with world.gateway.open(OPEN_TO_ALL) as proxy:

        def ask(path: str, fields: list[tuple[str, str]]) -> int:
            proxy.request("GET", world.url(path), world.authority(), fields)
            answer = proxy.read_response()
            (line,) = recent_lines(world, "decision", fetch_id=answer.header("fetchd-id"))
            return int(line["hop"])

        assert ask("/moved", [ALICE]) == 0
        assert ask("/target", []) == 0
        assert ask("/target", [ALICE]) == 1


# -- tokens stay here


@pytest.mark.parametrize("entry", ALL)
def test_a_token_reaches_neither_origin_nor_log(world: World, entry: Entry) -> None:
    for field in (ALICE, bearer(TOKENS["alice"])):
        answer = send(world, entry, with_credentials(Ask(), entry, field), listener=KNOWN)
        assert answer.status in (200, 101)
    bad = basic("alice", TOKENS["eve"])
    assert send(world, entry, with_credentials(Ask(), entry, bad), listener=KNOWN).status == 407
    sent = b"".join(bytes(connection.received) for connection in entry.origin(world).connections)
    kept = "".join(
        path.read_text("latin-1") for path in world.gateway.state.rglob("*") if path.is_file()
    ) + "".join(world.gateway.errors)
    for secret in (*TOKENS.values(), *(one[1].removeprefix("Basic ") for one in (ALICE, BOB, bad))):
        assert secret not in kept
        assert secret.encode() not in sent


def test_a_tunnel_is_its_connect_s_and_a_token_inside_changes_nothing(world: World) -> None:
    """Inside, the field is meant for the origin: it is taken away, and the request is Alice's."""
    with KeptClient(world, Entry.CONNECT_H1, listener=KNOWN, credentials=[ALICE]) as client:
        assert_agent(world, client.get(world.url(), [BOB]), "alice", "alices")
        assert_agent(world, client.get(world.url(), [basic("alice", TOKENS["eve"])]), "alice", "alices")


@pytest.mark.parametrize("entry", [Entry.ABSOLUTE_HTTPS, Entry.CONNECT_H1])
def test_a_name_that_only_the_daemon_may_say_is_ignored(world: World, entry: Entry) -> None:
    claimed = [
        (name.decode(), value.decode())
        for name, value in render_daemon_fields(SECRET, DaemonRequest("bob", "bobs", "f" * 20, 0))
        if name != b"Proxy-Authorization"
    ]
    ask = with_credentials(Ask(), entry, ALICE)
    ask = replace(ask, headers=[*ask.headers, *claimed])
    assert_agent(world, send(world, entry, ask, listener=KNOWN), "alice", "alices")


@pytest.mark.parametrize("entry", ALL)
def test_who_says_to_be_the_daemon_without_its_secret_is_nobody(world: World, entry: Entry) -> None:
    """Where anybody may come, too: a wrong statement is not the same as none."""
    ask = with_credentials(Ask(), entry, ("Proxy-Authorization", f"Fetchd-Daemon {'0' * 64}"))
    answer = try_send(world, entry, ask, listener=OPEN_TO_ALL)
    assert answer is not None
    assert (answer.status, answer.header("fetchd-rule")) == (407, "identity")
    assert contacts(world) == NOBODY


def test_bytes_that_never_become_a_request_are_the_tunnel_s_owner_s(world: World) -> None:
    with world.gateway.open(KNOWN) as proxy:
        assert proxy.connect(world.authority(), [ALICE]).status == 200
        proxy.send(b"SSH-2.0-OpenSSH_9.6\r\n")
        answer = proxy.read_response()
    assert str(answer.header("fetchd-policy")).startswith("alices@")
    (line,) = recent_lines(world, "decision", fetch_id=answer.header("fetchd-id"))
    assert (line["agent"], line["profile"], line["rule"]) == ("alice", "alices", "not-http")


@pytest.mark.parametrize("profile", ["open", "default", "no-such-profile"])
def test_the_daemon_names_an_agent_and_the_agent_s_own_profile_judges(world: World, profile: str) -> None:
    """Whatever profile the daemon believes Bob to have."""
    fields = [
        (name.decode(), value.decode())
        for name, value in render_daemon_fields(SECRET, DaemonRequest("bob", profile, "f" * 20, 0))
    ]
    for host, status in (("b.example", 200), ("a.example", 403)):
        answer = send(world, Entry.ABSOLUTE_HTTPS, Ask(host=host, headers=fields), listener=KNOWN)
        assert (answer.status, str(answer.header("fetchd-policy")).partition("@")[0]) == (status, "bobs")


def test_a_challenged_client_may_answer_on_the_same_connection(world: World) -> None:
    """As clients do that send credentials only when asked."""
    with world.gateway.open(KNOWN) as proxy:
        proxy.request("CONNECT", world.authority(), world.authority())
        refused = proxy.read_response("CONNECT")
        assert (refused.status, refused.header("proxy-authenticate")) == (407, 'Basic realm="fetchd"')
        proxy.request("CONNECT", world.authority(), world.authority(), [ALICE])
        assert proxy.read_response("CONNECT").status == 200
        inside = proxy.start_tls("a.example", client_context(world, Ask()))
        inside.request("GET", "/", world.authority())
        assert_agent(world, inside.read_response(), "alice", "alices")


# -- TLS to the listener


def test_a_listener_for_tls_speaks_nothing_else(world: World) -> None:
    with world.gateway.open(TLS_ONLY) as proxy:
        proxy.request("GET", world.url(), world.authority(), [ALICE])
        answer = proxy.read_response()
    assert (answer.status, answer.json()["detail"]) == (400, "this listener speaks TLS only")
    assert contacts(world) == NOBODY
    with world.gateway.open(TLS_ONLY) as proxy:
        inside = listener_tls(world, proxy)
        inside.request("GET", world.url(), world.authority(), [ALICE])
        assert_agent(world, inside.read_response(), "alice", "alices")


def test_a_certificate_of_the_operator_s_own_is_shown_at_the_listener_alone(tmp_path: Path) -> None:
    """Inside a tunnel the leaf is still one of our CA for the name asked for."""
    authority = trustme.CA()
    leaf = authority.issue_cert("proxy.example")
    certificate, key, root = tmp_path / "proxy.pem", tmp_path / "proxy.key", tmp_path / "root.pem"
    leaf.private_key_pem.write_to_path(key)
    for index, blob in enumerate(leaf.cert_chain_pems):
        blob.write_to_path(certificate, append=index > 0)
    authority.cert_pem.write_to_path(root)
    config = {
        "gateway": {"listeners": [{"address": "127.0.0.1:0", "profile": "test", "tls": True}]},
        "tls": {"listener_certificate": str(certificate), "listener_key": str(key)},
    }
    with World(tmp_path, config=config) as world, world.gateway.open(0) as proxy:
        outside = proxy.start_tls("proxy.example", ssl.create_default_context(cafile=str(root)))
        assert outside.connect(world.authority()).status == 200
        inside = TlsInTls(outside, world, Ask())
        inside.request("GET", "/", world.authority())
        assert inside.read_response().status == 200
