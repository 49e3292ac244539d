"""Request bodies (SPEC 1): refused unless the profile takes them, else counted as they stream up (N7).

Stock keeps a request body whole: 300 MB cost 1 GB. Nothing is kept here.
"""

from collections.abc import Callable

from mitmproxy import http

from proxy_addons.engine.hops import Hop, hop_of
from proxy_addons.engine.lean import expected_body_size
from proxy_addons.engine.refusals import RefusedBody
from proxy_addons.policy.verdicts import Rule, Verdict, refuse


class RequestBody:
    """Refuses by rule request-cap; runs after the names are checked and before anything is sent."""

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        """Judge the declared length; count what is not declared."""
        hop = hop_of(flow)
        if hop.refused:
            return
        cap = hop.profile.request_cap if hop.profile.request_body else 0
        try:
            size = expected_body_size(flow.request)
        except ValueError:
            size = -1
        if size == 0 and not flow.request.is_http2:
            return
        if size is not None and size > cap:
            hop.refuse(over_cap(hop, cap))
            return
        if size == -1 or (size is None and cap == 0):
            hop.refuse(over_cap(hop, cap))
            return
        if hop.call is None or hop.call.kept is None:
            flow.request.stream = _counter(hop, cap)
        # Else the stream keeps it, and counts it (engine.stream).


def over_cap(hop: Hop, cap: int) -> Verdict:
    """The body is longer than `cap`."""
    message = f"request body exceeds the {cap}-byte cap" if cap else "request body not allowed"
    return refuse(Rule.REQUEST_CAP, message, subject=hop.display or "")


def _counter(hop: Hop, cap: int) -> Callable[[bytes], bytes]:
    def count(chunk: bytes) -> bytes:
        hop.request_bytes += len(chunk)
        if hop.request_bytes > cap:
            hop.refuse(over_cap(hop, cap))
            raise RefusedBody
        return chunk

    return count
