"""Law 5, hook by hook: each hook of mitmproxy is refused, fatal, or of a protocol that is never spoken."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any

import mitmproxy.proxy.layers
import pytest
from mitmproxy import hooks, tls, websocket
from mitmproxy.proxy import context, layer
from mitmproxy.proxy.server_hooks import ServerConnectionHookData
from mitmproxy.test import taddons, tflow
from wsproto.frame_protocol import Opcode

from proxy_addons.engine.fail_closed import (
    BEFORE_SERVICE,
    LIFECYCLE,
    REMEDIES,
    Remedy,
    apply_remedy,
    session_of,
)
from proxy_addons.engine.next_layer import RefuseLayer
from proxy_addons.engine.refusals import INTERNAL
from proxy_addons.policy.verdicts import Rule, refuse
from tests.proxy_addons.engine.fakes import Stage

for _found in pkgutil.walk_packages(mitmproxy.proxy.layers.__path__, "mitmproxy.proxy.layers."):
    importlib.import_module(_found.name)  # a hook is known once its module is

NEVER_SPOKEN = {
    "socks5_auth": "the listener speaks HTTP",
    "http_connect_upstream": "there is no upstream proxy",
    **{f"dns_{what}": "no DNS is served" for what in ("request", "response", "error")},
    **{f"tcp_{what}": "rawtcp is off" for what in ("start", "message", "end", "error")},
    **{f"udp_{what}": "no UDP is listened to" for what in ("start", "message", "end", "error")},
    **{f"quic_start_{side}": "no UDP is listened to" for side in ("client", "server")},
}


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_every_hook_of_mitmproxy_is_accounted_for_once() -> None:
    accounted = [*REMEDIES, *LIFECYCLE & hooks.all_hooks.keys(), *NEVER_SPOKEN]
    assert sorted(accounted) == sorted(hooks.all_hooks)


def test_every_remedy_is_used() -> None:
    assert set(REMEDIES.values()) == set(Remedy)


def test_what_opens_something_new_can_refuse_it() -> None:
    refusing = {Remedy.REFUSING_LAYER, Remedy.NO_TLS, Remedy.FAIL_DIAL}
    assert {REMEDIES[hook] for hook in BEFORE_SERVICE} == refusing
    assert {hook for hook, remedy in REMEDIES.items() if remedy in refusing} == BEFORE_SERVICE


@pytest.mark.parametrize("hook", [hook for hook in NEVER_SPOKEN if hook.startswith(("tcp_", "udp_", "dns_"))])
def test_a_protocol_that_is_spoken_all_the_same_cuts_the_client(stage: Stage, hook: str) -> None:
    makers: dict[str, Callable[..., Any]] = {
        "tcp": tflow.ttcpflow,
        "udp": tflow.tudpflow,
        "dns": tflow.tdnsflow,
    }
    make = makers[hook[:3]]
    apply_remedy(hook, make(client_conn=stage.client), stage.sessions)
    assert stage.control.done == [f"abort: hook {hook} failed"]


@pytest.mark.parametrize(
    "hook", [h for h, r in REMEDIES.items() if r in (Remedy.REFUSE_HOP, Remedy.ANSWER_CONNECT)]
)
class TestHop:
    def test_is_refused(self, stage: Stage, hook: str) -> None:
        apply_remedy(hook, stage.flow(), stage.sessions)
        assert stage.hop.refusal is INTERNAL and stage.control.done == []

    def test_streams_no_request_body(self, stage: Stage, hook: str) -> None:
        flow = stage.flow()
        flow.request.stream = True
        apply_remedy(hook, flow, stage.sessions)
        assert flow.request.stream is False

    def test_stays_refused_by_the_rule_that_came_first(self, stage: Stage, hook: str) -> None:
        first = refuse(Rule.HOST, "host not allowed: a.example")
        stage.hop.refuse(first)
        apply_remedy(hook, stage.flow(), stage.sessions)
        assert stage.hop.refusal is first

    def test_without_a_record_costs_the_client_its_connection(self, stage: Stage, hook: str) -> None:
        apply_remedy(hook, stage.flow(with_hop=False), stage.sessions)
        assert stage.control.done == ["abort: hook hop failed"]


async def test_next_layer_gets_one_that_answers_and_closes(stage: Stage) -> None:
    with taddons.context() as host:
        where = context.Context(stage.client, host.options)
        question = layer.NextLayer(where)
        apply_remedy("next_layer", question, stage.sessions)
        assert isinstance(question.layer, RefuseLayer)


async def test_a_broken_hello_gets_no_tls_and_no_tunnel_past_us(stage: Stage) -> None:
    with taddons.context() as host:
        hello = tls.ClientHelloData(context.Context(stage.client, host.options), None)  # type: ignore[arg-type]
        hello.ignore_connection = hello.establish_server_tls_first = True
        apply_remedy("tls_clienthello", hello, stage.sessions)
        assert (hello.ignore_connection, hello.establish_server_tls_first) == (False, False)
        assert stage.client.error == INTERNAL.message
        assert stage.control.done == ["abort: hook failed"]


@pytest.mark.parametrize("hook", ["tls_start_client", "tls_start_server"])
async def test_no_tls_object_is_provided(stage: Stage, hook: str) -> None:
    with taddons.context() as host:
        conn = stage.client if hook == "tls_start_client" else stage.origin
        start = tls.TlsData(conn, context.Context(stage.client, host.options), ssl_conn=object())  # type: ignore[arg-type]
        apply_remedy(hook, start, stage.sessions)
        assert start.ssl_conn is None and stage.client.error == INTERNAL.message


def test_a_client_is_closed_before_it_is_read(stage: Stage) -> None:
    apply_remedy("client_connected", stage.client, stage.sessions)
    assert stage.client.error == INTERNAL.message


def test_a_dial_is_not_made(stage: Stage) -> None:
    data = ServerConnectionHookData(server=stage.origin, client=stage.client)
    apply_remedy("server_connect", data, stage.sessions)
    assert stage.origin.error == INTERNAL.message and stage.origin.failure is INTERNAL


async def test_an_origin_just_connected_is_dropped(stage: Stage) -> None:
    with taddons.context() as host:
        for hook, data in (
            ("server_connected", ServerConnectionHookData(server=stage.origin, client=stage.client)),
            (
                "tls_established_server",
                tls.TlsData(stage.origin, context.Context(stage.client, host.options)),
            ),
        ):
            stage.control.done.clear()
            stage.origin.failure = None
            apply_remedy(hook, data, stage.sessions)
            assert stage.control.done == [f"abort origin: hook {hook} failed"]
            assert stage.origin.failure is INTERNAL


def test_a_message_is_dropped_and_both_ends_are_cut(stage: Stage) -> None:
    flow = stage.flow()
    flow.websocket = websocket.WebSocketData([websocket.WebSocketMessage(Opcode.TEXT, True, b"x")])
    apply_remedy("websocket_message", flow, stage.sessions)
    assert flow.websocket.messages[-1].dropped
    assert stage.control.done == ["abort: hook websocket_message failed"]


@pytest.mark.parametrize("hook", [hook for hook, remedy in REMEDIES.items() if remedy is Remedy.CUT_CLIENT])
def test_after_the_fact_the_connection_is_cut(stage: Stage, hook: str) -> None:
    data = (
        ServerConnectionHookData(server=stage.origin, client=stage.client)
        if "server" in hook
        else stage.flow()
    )
    apply_remedy(hook, stage.client if hook == "client_disconnected" else data, stage.sessions)
    assert stage.control.done == [f"abort: hook {hook} failed"]


async def test_the_session_is_found_whatever_the_hook_is_about(stage: Stage) -> None:
    with taddons.context() as host:
        where = context.Context(stage.client, host.options)
        for data in (
            stage.client,
            stage.flow(),
            ServerConnectionHookData(server=stage.origin, client=stage.client),
            tls.TlsData(stage.origin, where),
            layer.NextLayer(where),
        ):
            assert session_of(data, stage.sessions) is stage.session
        assert session_of(object(), stage.sessions) is None
        stage.sessions.drop(stage.client)
        assert session_of(stage.client, stage.sessions) is None
