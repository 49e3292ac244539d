"""Which protocol a client speaks: exactly three shapes are known, all else is refused (SPEC 1.7, "raw bytes").

1  an HTTP/1 request line                    at the listener, in TLS, in a tunnel
2  a TLS record                              at the listener, or once in a tunnel
3  the HTTP/2 preface                        where ALPN agreed on h2

Raw TCP, SSH, h2c, TLS in TLS, SOCKS, protocols where the server speaks first: an answer of ours and the end, with
nothing dialled. Bytes that do not tell yet are waited for under a deadline.
"""

import re

from mitmproxy.net.tls import starts_like_tls_record
from mitmproxy.proxy import commands, context, events, layer
from mitmproxy.proxy.layers import modes
from mitmproxy.proxy.layers.http import HTTPMode

from proxy_addons.engine.hops import Session, Sessions
from proxy_addons.engine.http_layer import GateHttpLayer
from proxy_addons.engine.refusals import not_http, refuse_bytes
from proxy_addons.engine.tls import GateClientTlsLayer
from proxy_addons.policy.verdicts import Verdict

_METHOD = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,32}(?: |$)")
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


class RefuseLayer(layer.Layer):
    """Answers once and closes. Never opens a connection, never reads."""

    def __init__(self, context: context.Context, verdict: Verdict, session: Session | None) -> None:
        super().__init__(context)
        self._verdict, self._session = verdict, session

    def _handle_event(self, event: events.Event) -> layer.CommandGenerator[None]:
        if not isinstance(event, events.Start):
            return
        if self._session is not None:
            yield commands.SendData(self.context.client, refuse_bytes(self._session, self._verdict))
        yield commands.CloseConnection(self.context.client)


class NextLayer:
    """The `next_layer` addon."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    def next_layer(self, question: layer.NextLayer) -> None:
        """Choose a layer, or leave the question open when the bytes do not tell yet."""
        session = self._sessions.of(question.context.client)
        chosen = self._choose(question, session)
        if chosen is not None:
            question.layer = chosen

    def _choose(self, question: layer.NextLayer, session: Session) -> layer.Layer | None:
        where, data = question.context, question.data_client()
        if not isinstance(where.layers[0], modes.HttpProxy) or question.data_server():
            return RefuseLayer(where, not_http("unexpected protocol"), session)
        if not data:
            return None
        if session.entry.tls and not session.tls_to_listener and data[0] != 0x16:
            return RefuseLayer(where, not_http("this listener speaks TLS only"), session)
        if data[0] == 0x16:
            return self._tls(question, session, data)
        if session.in_tls and where.client.alpn == b"h2":
            if _PREFACE.startswith(data[: len(_PREFACE)]):
                return self._http(where, session)
        elif _METHOD.match(data) and not data.startswith(b"PRI "):
            return self._http(where, session)
        return RefuseLayer(where, not_http("only HTTP, and TLS with HTTP inside, is spoken here"), session)

    @staticmethod
    def _http(where: context.Context, session: Session) -> layer.Layer:
        mode = HTTPMode.regular if session.tunnel is None else HTTPMode.transparent
        return GateHttpLayer(where, mode, session)

    @staticmethod
    def _tls(question: layer.NextLayer, session: Session, data: bytes) -> layer.Layer | None:
        if session.in_tls:
            return RefuseLayer(question.context, not_http("TLS within TLS is not spoken here"), session)
        if len(data) < 3:
            return None
        if not starts_like_tls_record(data):
            return RefuseLayer(question.context, not_http("not a TLS record"), session)
        session.begin_tls()
        return GateClientTlsLayer(question.context)
