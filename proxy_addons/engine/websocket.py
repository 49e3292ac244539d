"""WebSocket, where a profile allows the upgrade: bounded, uncompressed.

N8  stock keeps all messages of a socket's life and inflates deflated ones without bound (0.5 MB to 936 MiB). The
    extension is taken out of the handshake by the anonymity addon; raw bytes both ways are capped here over the life
    of the socket, before wsproto sees them.
"""

from mitmproxy import http
from mitmproxy.proxy import commands, context, events, layer
from mitmproxy.proxy.layers import websocket

from proxy_addons.engine.hops import Hop, hop_of
from proxy_addons.policy.verdicts import ALLOWED, Rule, Verdict, refuse

_KEPT_MESSAGES = 1


class GateWebsocketLayer(websocket.WebsocketLayer):
    """Counts raw bytes both ways against the profile's byte cap and the agent's budget."""

    def __init__(self, context: context.Context, flow: http.HTTPFlow) -> None:
        super().__init__(context, flow)
        self._bytes = 0
        self._cut = False

    def handle_event(self, event: events.Event) -> layer.CommandGenerator[None]:
        if self._cut:
            return
        if isinstance(event, events.DataReceived):
            self._bytes += len(event.data)
            hop = hop_of(self.flow)
            verdict = self._judge(hop, len(event.data))
            if verdict.refused:
                self._cut = True
                hop.refuse(verdict)
                hop.session.recorder.closed(hop)
                yield commands.CloseConnection(self.context.server)
                yield commands.CloseConnection(self.context.client)
                return
        yield from super().handle_event(event)
        if self.flow.websocket is not None and len(self.flow.websocket.messages) > _KEPT_MESSAGES:
            del self.flow.websocket.messages[:-_KEPT_MESSAGES]

    def _judge(self, hop: Hop, size: int) -> Verdict:
        """Whether `size` more bytes may pass."""
        spent = hop.spending.spend(size) if hop.spending is not None else ALLOWED
        if self._bytes > hop.profile.byte_cap:
            message = f"the WebSocket exceeds the {hop.profile.byte_cap}-byte size cap"
            return refuse(Rule.BYTE_CAP, message)
        return spent
