"""Redirects (SPEC 1.4): which hop of a chain a request is, and the judgement of every 3xx.

An agent's own client follows redirects by itself; the ledger, shared by all workers, tells a followed hop from a
fresh request. The daemon says its hop number beside its secret.
"""

from mitmproxy import http

from proxy_addons.chains import ChainLedger
from proxy_addons.engine.hops import hop_of
from proxy_addons.policy.limits import MAX_REDIRECTS
from proxy_addons.policy.redirects import RedirectKind, decide_redirect, ledger_key, render_location
from proxy_addons.policy.verdicts import Rule, refuse


class Chains:
    """Numbers hops, refuses redirects. A ledger that cannot be used raises, and the hop is refused `internal`."""

    def __init__(self, ledger: ChainLedger) -> None:
        self._ledger = ledger

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        """Consume the entry that the redirect to this target left."""
        hop = hop_of(flow)
        if hop.refused or hop.target is None:
            return
        if not hop.from_daemon:
            hop.number = self._ledger.take(hop.agent, ledger_key(hop.target))
        if hop.number > MAX_REDIRECTS:  # no redirect of ours leads here: a client counts wrong
            hop.refuse(refuse(Rule.REDIRECT_CAP, f"exceeded max redirects ({MAX_REDIRECTS})"))

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        """Judge a 3xx; a refused one is replaced by the refusal, its body never read."""
        hop, response = hop_of(flow), flow.response
        if hop.refused or hop.target is None or response is None:
            return
        if not 300 <= response.status_code < 400:
            return
        locations = [value for name, value in response.headers.fields if name.lower() == b"location"]
        decision = decide_redirect(
            hop.target, response.status_code, locations, hop.number, hop.method, hop.profile
        )
        match decision.kind:
            case RedirectKind.ORDINARY:
                return
            case RedirectKind.UNREADABLE:
                # The daemon follows nothing it cannot read; other clients might read it differently.
                if not hop.from_daemon:
                    hop.refuse(decision.verdict)
            case RedirectKind.REDIRECT:
                if decision.target is not None:
                    hop.redirect_to = decision.target.display
                if decision.verdict.refused:
                    hop.refuse(decision.verdict)
                elif not hop.from_daemon and decision.target is not None:
                    self._ledger.remember(hop.agent, ledger_key(decision.target), decision.hop)
                    response.headers.fields = (
                        *(
                            (name, value)
                            for name, value in response.headers.fields
                            if name.lower() != b"location"
                        ),
                        (b"Location", render_location(decision.target, locations)),
                    )
