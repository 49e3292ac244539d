"""The target of a hop, and the admission ladder on it (SPEC 1.1), on every entry path.

    outside a tunnel   absolute-form only; the request line's own parse is judged
    CONNECT            parse, port and IP literal are refused there, with the message in the reason phrase; so is a
                       name that neither DNS nor a certificate can carry
    in a tunnel        origin-form only; scheme by whether TLS was spoken, name and port by the CONNECT

A refused target costs no DNS query and no connection.
"""

import re

from mitmproxy import http

from proxy_addons.engine.hops import Hop, Tunnel, hop_of
from proxy_addons.engine.refusals import not_http
from proxy_addons.engine.request_line import TargetForm
from proxy_addons.policy.addresses import AnswerSet, decide_addresses
from proxy_addons.policy.admission import LADDER, decide_target
from proxy_addons.policy.agents import Identity
from proxy_addons.policy.limits import Mode, Profile
from proxy_addons.policy.targets import Target, TargetParseError, parse_target
from proxy_addons.policy.verdicts import Failure, Rule, Verdict, refuse
from proxy_addons.resolve.resolver import BadNameError, parse_labels

_AT_CONNECT = frozenset({Rule.PORT, Rule.IP_LITERAL})
_HOST_AND_PORT = re.compile(r"[\w.:%\[\]-]{1,300}")
INVALID_URL = refuse(Rule.PARSE, "invalid url")


class Admission:
    """Sets `hop.target` and refuses by the first broken rule."""

    def http_connect(self, flow: http.HTTPFlow) -> None:
        """Accept a tunnel, dialling nothing; what is refused here is what TLS could not be offered for."""
        hop = hop_of(flow)
        line = hop.line
        hop.shown = _show_connect(line.raw_target) if line is not None else None
        if hop.session.tunnel is not None:
            hop.refuse(not_http("CONNECT within a tunnel"))
            return
        target = line.target if line is not None else None
        if target is None:
            hop.refuse(INVALID_URL)
            return
        hop.target = target
        verdict = _decide_connect(target, hop.profile)
        if verdict is not None:
            hop.refuse(verdict)
        if not hop.refused:
            hop.session.tunnel = Tunnel(target, None, hop.credential, Identity(hop.agent, hop.profile))

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        """Find the target and walk the ladder."""
        hop = hop_of(flow)
        if hop.session.tunnel is None:
            self._take_absolute(hop)
        else:
            self._take_tunnelled(hop, flow.request, hop.session.tunnel)
        if hop.target is None or hop.refused:
            hop.refuse(INVALID_URL)
            return
        verdict = decide_target(hop.target, hop.method, hop.profile)
        hop.would_refuse = verdict.would_refuse
        if verdict.refused:
            hop.refuse(verdict)

    @staticmethod
    def _take_absolute(hop: Hop) -> None:
        line = hop.line
        if line is not None and line.form is TargetForm.ABSOLUTE:
            hop.target = line.target

    @staticmethod
    def _take_tunnelled(hop: Hop, request: http.Request, tunnel: Tunnel) -> None:
        if hop.line is not None and hop.line.form is TargetForm.ABSOLUTE:
            hop.target = hop.line.target
            hop.refuse(mismatch("an absolute URL within a tunnel", tunnel.target))
            return
        scheme = "https" if hop.session.in_tls else "http"
        path = request.data.path.decode("utf-8", "surrogateescape")
        if not path.startswith("/"):
            return
        name = tunnel.target
        try:
            hop.target = parse_target(f"{scheme}://{name.host}:{name.port}{path}")
        except TargetParseError:
            return
        if tunnel.refusal is not None:
            hop.refuse(tunnel.refusal)


def _show_connect(raw: str) -> str | None:
    """A CONNECT target as logs may show it: not where it could hold credentials, a path or a query (SPEC 1.6)."""
    return raw if _HOST_AND_PORT.fullmatch(raw) else None


def mismatch(what: str, tunnel: Target) -> Verdict:
    """Some name of the request is not the name the tunnel was made for."""
    return refuse(Rule.AUTHORITY_MISMATCH, f"{what} does not match {tunnel.authority}", failure=Failure.SOFT)


def _decide_connect(target: Target, profile: Profile) -> Verdict | None:
    nameable = _is_dns_name(target.dns_name)
    rungs = _AT_CONNECT if nameable else _AT_CONNECT | {Rule.HOST}
    for check in LADDER:
        if check.monitored and profile.mode is Mode.MONITOR:
            continue
        if check.rule in rungs and check.breaks(target, "CONNECT", profile):
            return refuse(check.rule, check.message(target, "CONNECT"), subject=target.authority)
    if nameable:
        return None
    # No certificate can carry such a name, so inside TLS nothing could be said; its look-up fails unasked (SPEC 1.2).
    answers = [AnswerSet((), failed=True)]
    return decide_addresses(target.dns_name, target.port or 0, answers, profile.addresses).verdict


def _is_dns_name(name: str) -> bool:
    try:
        parse_labels(name)
    except BadNameError:
        return False
    return True
