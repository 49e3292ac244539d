"""The engine's own refusals, and any refusal as mitmproxy sends it: `http.Response` or raw bytes."""

import time

from mitmproxy import http
from mitmproxy.net.http import http1

from proxy_addons.audit.errors import AuditUnavailableError
from proxy_addons.engine.hops import Hop, Session
from proxy_addons.policy.verdicts import Failure, Rule, Verdict, refuse
from proxy_addons.policy.wire import HopContext, WireAnswer, policy_name, render_refusal

INTERNAL = refuse(Rule.INTERNAL, "internal error; the request was refused", failure=Failure.SOFT)
"""Law 5: what any failure of our own becomes."""

AUDIT_UNAVAILABLE = refuse(
    Rule.AUDIT_UNAVAILABLE, "the audit log cannot be written; no request is let through", failure=Failure.SOFT
)


class RefusedBody(Exception):  # noqa: N818 (a signal to the stream, not an error)
    """Raised by a body callable after it set the hop's refusal."""


_IN_SHAPE = frozenset({Rule.WEB_TOOL, Rule.REQUEST_CAP})
"""Refusals of a model's request that are told in its vendor's own words."""


def not_http(detail: str) -> Verdict:
    """Bytes or a head that are not the HTTP spoken here."""
    return refuse(Rule.NOT_HTTP, detail)


def upstream_failed(hop: Hop) -> Verdict:
    """The origin could not be reached, or its answer not be read; never repeats its cause (SPEC 2)."""
    host = hop.target.host if hop.target is not None else ""
    return refuse(Rule.UPSTREAM, f"the origin {host} failed", failure=Failure.SOFT, subject=host)


def time_is_up(hop: Hop) -> Verdict:
    """The hop's whole time was spent before the answer was complete."""
    return refuse(Rule.TOTAL_TIMEOUT, f"request to {hop.display} timed out", failure=Failure.SOFT)


def response_for(hop: Hop, verdict: Verdict) -> http.Response:
    """The HTTP answer to a refused hop."""
    shape = hop.call.shape if hop.call is not None and verdict.rule in _IN_SHAPE else None
    return _response(
        render_refusal(verdict, hop.context, hop.profile, retry_after=verdict.retry_after, shape=shape)
    )


def refuse_bytes(session: Session, verdict: Verdict) -> bytes:
    """Audit and answer bytes that never became a hop: a whole HTTP answer which says that the connection closes."""
    try:
        context = session.recorder.refused(session, verdict)
    except AuditUnavailableError:
        context, verdict = HopContext("-", 0, policy_name(session.profile)), AUDIT_UNAVAILABLE
    response = _response(render_refusal(verdict, context, session.profile))
    response.headers["Connection"] = "close"
    raw: bytes = http1.assemble_response(response)
    return raw


def _response(answer: WireAnswer) -> http.Response:
    now = time.time()
    return http.Response(
        http_version=b"HTTP/1.1",
        status_code=answer.status,
        reason=answer.reason.encode("ascii"),
        headers=http.Headers(answer.fields),
        content=answer.body,
        trailers=None,
        timestamp_start=now,
        timestamp_end=now,
    )
