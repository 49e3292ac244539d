"""Law 5, hook by hook: what makes a refusal stick when a hook of ours raises.

Stock mitmproxy logs the exception and lets the traffic through. Hooks that come before bytes move can refuse; hooks
that come after the fact can only cut the connection. Either way a line in the audit says `internal`.
"""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any

from mitmproxy import http
from mitmproxy.connection import Client

from proxy_addons.engine.hops import Session, Sessions, hop_of
from proxy_addons.engine.refusals import INTERNAL


class Remedy(Enum):
    """What is done to the thing a hook was about."""

    REFUSE_HOP = "the hop is answered with rule internal, or cut when its body has begun"
    ANSWER_CONNECT = "the CONNECT is answered with rule internal"
    REFUSING_LAYER = "the connection gets a layer that answers and closes"
    NO_TLS = "no TLS object is provided: the handshake cannot start, and the client is cut"
    REFUSE_CLIENT = "the client connection is closed before a byte is read"
    FAIL_DIAL = "the upstream connection is not made"
    CUT_ORIGIN = "the upstream connection is dropped unflushed"
    DROP_MESSAGE = "the message is dropped and both ends are cut"
    CUT_CLIENT = "the client and its upstream connections are dropped"


REMEDIES: Mapping[str, Remedy] = MappingProxyType(
    {
        "client_connected": Remedy.REFUSE_CLIENT,
        "client_disconnected": Remedy.CUT_CLIENT,
        "server_connect": Remedy.FAIL_DIAL,
        "server_connected": Remedy.CUT_ORIGIN,
        "server_connect_error": Remedy.CUT_CLIENT,
        "server_disconnected": Remedy.CUT_CLIENT,
        "next_layer": Remedy.REFUSING_LAYER,
        "tls_clienthello": Remedy.NO_TLS,
        "tls_start_client": Remedy.NO_TLS,
        "tls_start_server": Remedy.NO_TLS,
        "tls_established_client": Remedy.CUT_CLIENT,
        "tls_established_server": Remedy.CUT_ORIGIN,
        "tls_failed_client": Remedy.CUT_CLIENT,
        "tls_failed_server": Remedy.CUT_CLIENT,
        "http_connect": Remedy.ANSWER_CONNECT,
        "http_connected": Remedy.CUT_CLIENT,
        "http_connect_error": Remedy.CUT_CLIENT,
        "requestheaders": Remedy.REFUSE_HOP,
        "request": Remedy.REFUSE_HOP,
        "responseheaders": Remedy.REFUSE_HOP,
        "response": Remedy.REFUSE_HOP,
        "error": Remedy.CUT_CLIENT,
        "websocket_start": Remedy.CUT_CLIENT,
        "websocket_message": Remedy.DROP_MESSAGE,
        "websocket_end": Remedy.CUT_CLIENT,
    }
)
"""Every hook that a flow of ours can reach. A hook that is not here belongs to a protocol that is never spoken
(raw TCP, UDP, DNS, SOCKS, QUIC): if one should fire, the client is cut."""

LIFECYCLE = frozenset({"load", "configure", "running", "done", "update", "add_log"})
"""Hooks about the process: a failure there is fatal, never half open."""

BEFORE_SERVICE = frozenset(
    {"next_layer", "tls_clienthello", "tls_start_client", "tls_start_server", "server_connect"}
)
"""Hooks that open something new; a poisoned client gets none of it."""


def session_of(data: Any, sessions: Sessions) -> Session | None:
    """The session that a hook's argument belongs to, whatever the hook."""
    client = _client_of(data)
    if client is None and isinstance(data, Client):
        client = data
    return sessions.find(client) if client is not None else None


def _client_of(data: Any) -> Client | None:
    for holder, name in ((data, "client_conn"), (data, "client"), (getattr(data, "context", None), "client")):
        client = getattr(holder, name, None)
        if client is not None and isinstance(client, Client):  # to ask it of None takes an ABC's long way
            return client
    return None


def apply_remedy(hook: str, data: Any, sessions: Sessions) -> None:
    """Make the refusal of a failed hook stick."""
    session = session_of(data, sessions)
    match REMEDIES.get(hook, Remedy.CUT_CLIENT):
        case Remedy.REFUSE_HOP | Remedy.ANSWER_CONNECT:
            _refuse_hop(data, session)
        case Remedy.REFUSING_LAYER:
            from proxy_addons.engine.next_layer import RefuseLayer

            data.layer = RefuseLayer(data.context, INTERNAL, session)
        case Remedy.NO_TLS:
            _refuse_tls(data, session)
        case Remedy.REFUSE_CLIENT:
            data.error = INTERNAL.message
        case Remedy.FAIL_DIAL:
            data.server.error = INTERNAL.message
            data.server.failure = INTERNAL
        case Remedy.CUT_ORIGIN:
            origin = getattr(data, "server", None) or data.conn
            origin.failure = INTERNAL
            if session is not None:
                session.control.abort_origin(origin, f"hook {hook} failed")
        case Remedy.DROP_MESSAGE:
            data.websocket.messages[-1].drop()
            _cut(session, hook)
        case Remedy.CUT_CLIENT:
            _cut(session, hook)


def _refuse_hop(flow: http.HTTPFlow, session: Session | None) -> None:
    flow.request.stream = False
    try:
        hop = hop_of(flow)
    except KeyError:
        _cut(session, "hop")
        return
    # A hop that some rule already refused stays refused by that rule.
    hop.refuse(INTERNAL)


def _refuse_tls(data: Any, session: Session | None) -> None:
    if hasattr(data, "ignore_connection"):
        data.ignore_connection = False
        data.establish_server_tls_first = False
    if hasattr(data, "ssl_conn"):
        data.ssl_conn = None
    data.context.client.error = INTERNAL.message
    if session is not None:
        session.control.abort("hook failed")


def _cut(session: Session | None, hook: str) -> None:
    if session is not None:
        session.control.abort(f"hook {hook} failed")
