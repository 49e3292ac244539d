"""Connecting to an origin: look-up and judgement when the connection is made, the decision, the dial, origin TLS.

The judged plan travels in a context variable to the event loop's `create_connection`, in the same task; nothing else
can open a connection (law 4). The daemon's hops are judged afresh one by one, so that an upstream connection is only
reused if its peer is in a set that this very fetch looked up.
"""

import asyncio
from collections.abc import Awaitable

from mitmproxy import http, tls
from mitmproxy.proxy.server_hooks import ServerConnectionHookData

from proxy_addons.audit.errors import AuditUnavailableError
from proxy_addons.dial import Dialer
from proxy_addons.engine.hops import Hop, Origin, Recorder, Sessions, hop_of
from proxy_addons.engine.loop import PLAN, DialPlan
from proxy_addons.engine.refusals import AUDIT_UNAVAILABLE, INTERNAL, time_is_up, upstream_failed
from proxy_addons.engine.tls import HTTP1, HTTP1_AND_2
from proxy_addons.meters import Meters
from proxy_addons.policy.verdicts import Failure, Rule, Verdict, refuse


class Connecting:
    """The `server_*` hooks and the origin's half of the `tls_*` hooks."""

    def __init__(self, dialer: Dialer, sessions: Sessions, recorder: Recorder, meters: Meters) -> None:
        self._dialer, self._sessions, self._recorder = dialer, sessions, recorder
        self._meters = meters
        self._handshakes: dict[str, asyncio.TimerHandle] = {}

    def requestheaders(self, flow: http.HTTPFlow) -> Awaitable[None] | None:
        """The last step before a request may go out: the daemon's own look-up."""
        hop = hop_of(flow)
        return self._judge(hop) if hop.from_daemon and not hop.refused else None

    async def server_connect(self, data: ServerConnectionHookData) -> None:
        """Judge, decide, and leave the plan for the dial."""
        origin = data.server
        if not isinstance(origin, Origin) or origin.hop is None:
            origin.error = INTERNAL.message
            return
        hop = origin.hop
        if hop.judged is None:
            await self._judge(hop)
        judged = hop.judged
        verdict = hop.refusal
        if verdict is None and not hop.decided:
            verdict = self._decide(hop)
        if verdict is not None or judged is None:
            origin.failure = INTERNAL if verdict is None else verdict
            origin.error = origin.failure.message
            return
        if hop.target is not None:
            # Stock sends the client's spelling of the name, and offers whatever protocols the client offered.
            origin.sni = hop.target.dns_name
            origin.alpn_offers = HTTP1_AND_2 if hop.session.client.alpn == b"h2" else HTTP1
        if not hop.from_daemon:
            hop.judged = None  # an agent's judgement belongs to this connection, not to the hop
        PLAN.set(DialPlan(self._dialer, judged, hop, origin))

    async def _judge(self, hop: Hop) -> None:
        target = hop.target
        if target is None or target.port is None:
            hop.refuse(INTERNAL)
            return
        try:
            async with asyncio.timeout_at(hop.deadline):
                hop.judged = await self._dialer.judge(target.dns_name, target.port, hop.profile)
        except TimeoutError:
            hop.refuse(late := time_is_up(hop))
            self._meters.looked_up(late)
            return
        self._meters.looked_up(hop.judged.verdict)
        hop.looked_up = hop.judged
        if hop.judged.verdict.refused:
            hop.refuse(hop.judged.verdict)

    def _decide(self, hop: Hop) -> Verdict | None:
        try:
            self._recorder.decided(hop)
        except AuditUnavailableError:
            return AUDIT_UNAVAILABLE
        return None

    def server_connected(self, data: ServerConnectionHookData) -> None:
        """TCP is up: a silent TLS handshake of the origin ends with the hop's time."""
        self._meters.origin_connected()
        origin = data.server
        assert isinstance(origin, Origin)
        session = self._sessions.of(data.client)
        session.control.watch_resets(origin)
        if origin.tls and origin.hop is not None:
            self._handshakes[origin.id] = asyncio.get_running_loop().call_at(
                origin.hop.deadline, self._handshake_late, data, origin
            )

    def _handshake_late(self, data: ServerConnectionHookData, origin: Origin) -> None:
        self._handshakes.pop(origin.id, None)
        if origin.hop is not None:
            origin.failure = time_is_up(origin.hop)
        session = self._sessions.find(data.client)
        if session is not None:
            session.control.abort_origin(origin, "origin TLS handshake not done in time")

    def tls_established_server(self, data: tls.TlsData) -> None:
        """The origin's certificate was verified."""
        self._stop_watching(data.conn.id)

    def tls_failed_server(self, data: tls.TlsData) -> None:
        """Say of what kind the failure was, never its cause."""
        self._stop_watching(data.conn.id)
        origin = data.conn
        assert isinstance(origin, Origin)
        if origin.failure is None and origin.hop is not None:
            origin.failure = _tls_failure(origin.hop, origin.error or "")

    def server_connect_error(self, data: ServerConnectionHookData) -> None:
        """A failed dial must not stick to the client connection (N11)."""
        self._meters.origin_failed()
        data.server.error = None

    def server_disconnected(self, data: ServerConnectionHookData) -> None:
        """Nothing is watched any more."""
        self._stop_watching(data.server.id)

    def _stop_watching(self, connection_id: str) -> None:
        timer = self._handshakes.pop(connection_id, None)
        if timer is not None:
            timer.cancel()


def _tls_failure(hop: Hop, error: str) -> Verdict:
    if "ertificate verify failed" not in error:
        return upstream_failed(hop)
    host = hop.target.host if hop.target is not None else ""
    return refuse(
        Rule.TLS_VERIFY,
        f"the certificate of {host} could not be verified",
        failure=Failure.SOFT,
        subject=host,
    )
