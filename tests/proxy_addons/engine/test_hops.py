"""The memory of a connection: the first refusal stands, TLS is known by depth, a session by its client."""

from __future__ import annotations

import pytest
from mitmproxy.connection import Client, ConnectionState

from proxy_addons.engine.hops import Tunnel, attach_hop, hop_of
from proxy_addons.policy.targets import parse_target
from proxy_addons.policy.verdicts import Rule, refuse
from tests.proxy_addons.engine.fakes import Stage

FIRST, SECOND = refuse(Rule.HOST, "first"), refuse(Rule.METHOD, "second")


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_the_first_refusal_stands(stage: Stage) -> None:
    assert not stage.hop.refused
    stage.hop.refuse(FIRST)
    stage.hop.refuse(SECOND)
    assert stage.hop.refused and stage.hop.refusal is FIRST


def test_a_hop_is_shown_without_credentials_and_query(stage: Stage) -> None:
    stage.hop.shown = "as it came"
    assert stage.hop.display == "as it came"
    stage.hop.target = parse_target("https://u:p@a.example:8443/x?secret#f")
    assert stage.hop.display == stage.hop.context.url == "https://a.example:8443/x"


def test_what_an_answer_says_of_its_hop(stage: Stage) -> None:
    stage.hop.number = 3
    context = stage.hop.context
    assert (context.fetch_id, context.hop) == ("0" * 16, 3)
    assert context.policy == f"default@{stage.hop.profile.version}"


@pytest.mark.parametrize(
    ("listener", "tunnel", "inside", "in_tls"),
    [
        pytest.param(False, False, False, False, id="plain"),
        pytest.param(True, False, False, True, id="TLS to the listener"),
        pytest.param(False, True, False, False, id="a tunnel without TLS"),
        pytest.param(True, True, False, False, id="a tunnel without TLS, made over TLS"),
        pytest.param(False, True, True, True, id="a tunnel with TLS"),
        pytest.param(True, True, True, True, id="TLS at both depths"),
    ],
)
def test_tls_is_known_by_depth(
    stage: Stage, listener: bool, tunnel: bool, inside: bool, in_tls: bool
) -> None:
    session = stage.session
    if listener:
        session.begin_tls()
    if tunnel:
        session.tunnel = Tunnel(parse_target("https://a.example/"))
    if inside:
        session.begin_tls()
    assert session.in_tls is in_tls


def test_sessions_are_known_by_their_client_until_dropped(stage: Stage) -> None:
    stranger = Client(peername=("127.0.0.1", 9), sockname=("127.0.0.1", 2), state=ConnectionState.OPEN)
    assert stage.sessions.of(stage.client) is stage.session
    assert stage.sessions.find(stranger) is None
    with pytest.raises(KeyError):
        stage.sessions.of(stranger)
    assert (len(stage.sessions), stage.sessions.all()) == (1, [stage.session])
    stage.sessions.drop(stage.client)
    stage.sessions.drop(stage.client)
    assert len(stage.sessions) == 0


def test_a_flow_without_a_hop_is_an_error(stage: Stage) -> None:
    flow = stage.flow(with_hop=False)
    with pytest.raises(KeyError):
        hop_of(flow)
    attach_hop(flow, stage.hop)
    assert hop_of(flow) is stage.hop
