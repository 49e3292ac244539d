"""Decision and close lines of hops (SPEC 1.9): the one file that turns a hop into audit records."""

import secrets
import time
from functools import lru_cache

from mitmproxy import connection, http

from proxy_addons.audit.errors import AuditUnavailableError
from proxy_addons.audit.event_record import EventRecord
from proxy_addons.audit.hop_record import (
    Addresses,
    CloseRecord,
    DecisionRecord,
    DroppedAddress,
    PhaseTimes,
    TlsFacts,
)
from proxy_addons.audit.sink import AuditSink
from proxy_addons.audit.web_record import WebRecord
from proxy_addons.dial import DialReport
from proxy_addons.engine.hops import Hop, Origin, Session, VendorCall, hop_of
from proxy_addons.meters import Meters
from proxy_addons.policy.content_types import parse_content_type
from proxy_addons.policy.targets import TargetParseError, parse_target
from proxy_addons.policy.vendors.answer_facts import AnswerFacts
from proxy_addons.policy.verdicts import RULES, Outcome, Verdict
from proxy_addons.policy.wire import HopContext, policy_name


class Audit:
    """Implements `hops.Recorder` on a sink, and hears from mitmproxy when hops end."""

    def __init__(self, sink: AuditSink, meters: Meters) -> None:
        self._sink, self._meters = sink, meters
        self._open: set[Hop] = set()

    @property
    def open_hops(self) -> int:
        """Hops that were let through and have not ended."""
        return len(self._open)

    # --- Recorder ------------------------------------------------------------------------------------------------

    def decided(self, hop: Hop) -> None:
        """Write the decision line; of a refused hop it is the only one."""
        if hop.decided:
            return
        try:
            self._write_decision(hop)
        except AuditUnavailableError:
            if hop.refusal is not None:  # else it comes back here as a refusal
                self._meters.hop_lost(hop.profile.name)
            raise

    def _write_decision(self, hop: Hop) -> None:
        refusal, times = hop.refusal, _times(hop)
        if refusal is None and not self._sink.available:
            # A log that took the line but cannot keep it is no log (law 5).
            self._sink.append(EventRecord(event="audit-unavailable"))
        hop.decision = self._sink.append(
            DecisionRecord(
                agent=hop.agent,
                profile=hop.profile.name,
                policy=policy_name(hop.profile),
                fetch_id=hop.fetch_id,
                hop=hop.number,
                method=hop.method,
                url=hop.display,
                query_digest=self._query_digest(hop),
                verdict=Outcome.REFUSED if refusal is not None else Outcome.ALLOWED,
                rule=str(refusal.rule) if refusal is not None else None,
                detail=refusal.message if refusal is not None else None,
                would_refuse=str(hop.would_refuse) if hop.would_refuse is not None else None,
                addresses=_addresses(hop),
                status=RULES[refusal.rule].status
                if refusal is not None and refusal.rule is not None
                else None,
                ms=times,
            )
        )
        hop.decided, hop.chain = True, self._sink.series
        if refusal is None:
            self._open.add(hop)
            if hop.would_refuse is not None:
                self._meters.reported(hop.would_refuse, hop.profile.name)
        else:
            self._meters.hop_ended(hop.profile.name, refusal, times)

    def closed(self, hop: Hop, error: str | None = None) -> None:
        """Write the close line of a hop that was let through."""
        if hop.closed or not hop.decided:
            return
        hop.closed = True
        self._open.discard(hop)
        refusal, meter, times = hop.refusal, hop.meter, _times(hop)
        name = hop.profile.name
        self._meters.hop_ended(name, refusal, times)
        if meter is not None:
            self._meters.bytes_passed(name, hop.request_bytes, meter.wire_bytes, meter.decoded_bytes)
        self._sink.append(
            CloseRecord(
                decision=hop.decision,
                agent=hop.agent,
                fetch_id=hop.fetch_id,
                hop=hop.number,
                verdict=Outcome.REFUSED if refusal is not None else Outcome.ALLOWED,
                rule=str(refusal.rule) if refusal is not None else None,
                detail=refusal.message if refusal is not None else error,
                addresses=_addresses(hop),
                tls=_tls_facts(hop.origin),
                status=hop.status,
                media_type=hop.media_type,
                redirect_to=hop.redirect_to,
                request_bytes=hop.request_bytes,
                wire_bytes=meter.wire_bytes if meter is not None else None,
                decoded_bytes=meter.decoded_bytes if meter is not None else None,
                ms=times,
            )
        )
        if hop.call is not None and hop.call.reader is not None:
            self._sink.append(_web_record(hop, hop.call, hop.call.reader.facts))

    def refused(self, session: Session, verdict: Verdict) -> HopContext:
        """Write the decision line for bytes that never became a hop."""
        tunnel, profile = session.tunnel, session.profile
        shown = f"{tunnel.target.host}:{tunnel.target.port}" if tunnel is not None else None
        context = HopContext(secrets.token_hex(8), 0, policy_name(profile), shown)
        self._sink.append(
            DecisionRecord(
                agent=session.agent,
                profile=profile.name,
                policy=context.policy,
                fetch_id=context.fetch_id,
                hop=0,
                method="-",
                url=shown,
                verdict=Outcome.REFUSED,
                rule=str(verdict.rule),
                detail=verdict.message,
            )
        )
        self._meters.hop_ended(profile.name, verdict, PhaseTimes())
        return context

    def event(self, session: Session | None, name: str, detail: str) -> None:
        """Write a line about a connection rather than a hop."""
        facts: dict[str, str | int | float | bool | None] = {}
        if session is not None:
            facts = {"agent": session.agent, "profile": session.profile.name}
            if session.tunnel is not None:
                facts["tunnel"] = session.tunnel.target.authority
        self._sink.append(EventRecord(event=name, detail=detail, facts=facts))

    def _query_digest(self, hop: Hop) -> str | None:
        target = hop.target
        return self._sink.query_digest(target.query[1:]) if target is not None and target.query else None

    # --- hooks ---------------------------------------------------------------------------------------------------

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        """Note what the close line will say of the answer, whatever becomes of it."""
        hop, response = hop_of(flow), flow.response
        if response is None:
            return
        hop.first_byte = time.perf_counter()
        hop.status = response.status_code
        for name, value in response.headers.fields:
            if name.lower() == b"content-type":
                hop.media_type = _essence(value) if len(value) <= _SHORT else _read_essence(value)
                break

    def response(self, flow: http.HTTPFlow) -> None:
        """The answer is complete; a WebSocket goes on."""
        hop = hop_of(flow)
        if flow.websocket is None and not hop.refused:
            self.closed(hop)

    def error(self, flow: http.HTTPFlow) -> None:
        """The exchange broke off: client gone, origin failed."""
        hop = hop_of(flow)
        if not hop.answered:
            self.closed(hop, "broke off")

    def client_disconnected(self, client: connection.Client) -> None:
        """A connection that was dropped in the middle tells of no ends: its hops end here."""
        for hop in [hop for hop in self._open if hop.session.client is client]:
            self.closed(hop, "the client went away")

    def websocket_end(self, flow: http.HTTPFlow) -> None:
        """Both directions are closed."""
        self.closed(hop_of(flow))


_SHORT = 200
"""Octets of a Content-Type that is worth keeping."""


def _web_record(hop: Hop, call: VendorCall, facts: AnswerFacts) -> WebRecord:
    kind = call.endpoint.kind
    return WebRecord(
        decision=hop.decision,
        agent=hop.agent,
        fetch_id=hop.fetch_id,
        hop=hop.number,
        vendor=call.endpoint.vendor.value,
        endpoint=kind.value if kind is not None else "",
        web_tools=hop.profile.web_tools.value,
        declared=call.declared,
        narrowed=call.narrowed,
        calls=[(one.tool, one.error, one.ended) for one in facts.calls.values()],
        citations=[(url, _is_within(url, hop)) for url in facts.citations],
        omitted=facts.omitted,
        search_requests=facts.search_requests,
        fetch_requests=facts.fetch_requests,
        input_tokens=facts.input_tokens,
        output_tokens=facts.output_tokens,
        stop=facts.stop,
        paused=facts.paused,
        complete=facts.complete,
    )


def _is_within(url: str, hop: Hop) -> bool:
    try:
        return hop.profile.hosts.admits(parse_target(url))
    except TargetParseError:
        return False


def _read_essence(value: bytes) -> str | None:
    parsed = parse_content_type(value)
    return parsed.essence if parsed is not None else None


_essence = lru_cache(maxsize=256)(_read_essence)


def _addresses(hop: Hop) -> Addresses | None:
    origin = hop.origin
    if origin is not None and origin.report is not None:
        if origin.audited is None or origin.audited[0] is not origin.report:
            origin.audited = (origin.report, _render_report(origin.report))
        return origin.audited[1]
    return _render_report(hop.looked_up.report) if hop.looked_up is not None else None


def _render_report(report: DialReport) -> Addresses:
    dropped = tuple(DroppedAddress(address, row) for address, row in report.dropped)
    return Addresses(report.returned, dropped, report.dialled)


def _times(hop: Hop) -> PhaseTimes:
    now = time.perf_counter()
    report = hop.origin.report if hop.origin is not None else None
    if report is None and hop.looked_up is not None:
        report = hop.looked_up.report
    opened_here = hop.origin is None or hop.origin.hop is hop
    return PhaseTimes(
        dns=report.dns_ms if report is not None and opened_here else None,
        connect=report.connect_ms if report is not None and opened_here and report.dialled else None,
        tls=_tls_ms(hop.origin) if opened_here else None,
        first_byte=(hop.first_byte - hop.started) * 1e3 if hop.first_byte is not None else None,
        total=(now - hop.started) * 1e3,
    )


def _tls_ms(origin: Origin | None) -> float | None:
    if origin is None or origin.timestamp_tls_setup is None or origin.timestamp_tcp_setup is None:
        return None
    return float((origin.timestamp_tls_setup - origin.timestamp_tcp_setup) * 1e3)


def _tls_facts(origin: Origin | None) -> TlsFacts | None:
    if origin is None or not origin.tls_version or not origin.certificate_list:
        return None
    if origin.certificate_digest is None:
        origin.certificate_digest = origin.certificate_list[0].fingerprint().hex()
    return TlsFacts(origin.tls_version, origin.certificate_digest)
