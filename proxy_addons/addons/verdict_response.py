"""The Fetchd-* fields on an origin's answer (SPEC 1.7), and what else must hold before it goes back."""

from mitmproxy import http

from proxy_addons.engine.hops import hop_of
from proxy_addons.policy.verdicts import Failure, Rule, refuse
from proxy_addons.policy.wire import render_allowed_fields


class VerdictResponse:
    """Marks allowed answers; refuses a 101 that nobody may have asked for."""

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        """The last step of an answer that passes."""
        hop, response = hop_of(flow), flow.response
        if hop.refused or response is None:
            return
        if response.status_code == 101 and not _upgrade_was_asked(flow):
            hop.refuse(refuse(Rule.UPGRADE, "upgrade not allowed", failure=Failure.SOFT))
            return
        response.headers.fields += render_allowed_fields(hop.context, hop.removed)
        if response.status_code == 101:
            response.stream = False


def _upgrade_was_asked(flow: http.HTTPFlow) -> bool:
    """The request was a WebSocket handshake we let through, and the answer adds no extension (N8)."""
    response = flow.response
    return (
        response is not None
        and flow.request.headers.get("upgrade", "").lower() == "websocket"
        and response.headers.get("upgrade", "").lower() == "websocket"
        and "sec-websocket-extensions" not in response.headers
    )
