"""One request and its answer: mitmproxy's `HttpStream`, with one place where a refusal becomes an answer.

Whoever finds a reason to stop a hop sets it (`Hop.refuse`); `check_killed`, which mitmproxy asks after every HTTP
hook, sends it: the origin's side is cancelled, the client gets a problem document and stays connected, or, once a
body has begun, a reset. mitmproxy's own HTML error pages never leave.
"""

import asyncio
import secrets
from typing import Any

from mitmproxy import flow as mflow
from mitmproxy import http
from mitmproxy.proxy import commands, context, events, layer
from mitmproxy.proxy.layers import http as mhttp
from mitmproxy.proxy.layers.http import HttpStream
from mitmproxy.proxy.layers.http._events import (
    ErrorCode,
    RequestData,
    RequestEndOfMessage,
    RequestHeaders,
    RequestProtocolError,
    RequestTrailers,
    ResponseData,
    ResponseEndOfMessage,
    ResponseHeaders,
    ResponseProtocolError,
    ResponseTrailers,
)

from proxy_addons.audit.errors import AuditUnavailableError
from proxy_addons.engine.framing import OwedBodies, is_clear_head
from proxy_addons.engine.hops import Hop, Origin, Session, attach_hop
from proxy_addons.engine.http1 import http_layer_of
from proxy_addons.engine.refusals import (
    AUDIT_UNAVAILABLE,
    INTERNAL,
    RefusedBody,
    not_http,
    response_for,
    time_is_up,
    upstream_failed,
)
from proxy_addons.engine.reuse import GetJudgedConnection
from proxy_addons.policy.verdicts import Verdict


class HopStopped(events.Event):
    """A hop ends from outside: its whole time is spent, or it was refused under way. Addressed to its stream."""

    def __init__(self, stream: "GateStream") -> None:
        self.stream = stream


_OF_REQUEST = frozenset({RequestHeaders, RequestData, RequestEndOfMessage})
_OF_ANSWER = frozenset({ResponseHeaders, ResponseData, ResponseEndOfMessage})
"""The events that stock hands to the state of either side."""
_TOO_SHORT = "body shorter than its Content-Length"


def _nothing() -> layer.CommandGenerator[None]:
    yield from ()


class GateStream(HttpStream):
    """The stream of one hop; `self.hop` is set from the first hook on."""

    hop: Hop

    def __init__(self, context: context.Context, stream_id: int, session: Session, later: Any) -> None:
        super().__init__(context, stream_id)
        self._session = session
        self._later = later
        self._timer: asyncio.TimerHandle | None = None
        self._head_sent = False
        self._talks_upstream = False
        self._owed = OwedBodies()

    @property
    def has_begun(self) -> bool:
        """Whether its head is here, and so the hop."""
        return hasattr(self, "hop")

    # --- requests ------------------------------------------------------------------------------------------------

    def _handle_event(self, event: events.Event) -> layer.CommandGenerator[None]:
        kind = type(event)
        if kind in _OF_REQUEST or kind in _OF_ANSWER:
            if isinstance(event, (RequestData, ResponseData)) and not event.data:
                # An empty HTTP/2 frame would be written as the last chunk of an HTTP/1 body.
                return _nothing()
            if self._owed.end_short(event) and not self.hop.answered:
                of_request = kind in _OF_REQUEST
                self.hop.refuse(not_http(_TOO_SHORT) if of_request else upstream_failed(self.hop))
                return self._answer()
            state = self.client_state if kind in _OF_REQUEST else self.server_state
            steps: layer.CommandGenerator[None] = state(event)
            return steps
        if isinstance(event, HopStopped):
            return self._stopped()
        if isinstance(event, (RequestTrailers, ResponseTrailers)):
            return _nothing()  # N3
        other: layer.CommandGenerator[None] = super()._handle_event(event)
        return other

    def check_invalid(self, request: bool) -> layer.CommandGenerator[bool]:
        """mitmproxy's first step with a head, and so the birth of the hop; malformed heads end here.

        The target, odd or not, is for the admission ladder to judge.
        """
        message: http.Message | None
        if request:
            self._begin()
            message, verdict = self.flow.request, not_http("malformed request head")
        else:
            message, verdict = self.flow.response, upstream_failed(self.hop)
        assert message is not None
        if is_clear_head(message):
            return False
        if self.hop.line is not None:
            self.hop.target = self.hop.line.target
        self.hop.refuse(verdict)
        yield from self._answer()
        return True

    def _begin(self) -> None:
        session, request = self._session, self.flow.request
        profile = session.profile  # until the identity hook has said whose request it is
        loop = asyncio.get_running_loop()
        # mitmproxy's `method` is upper case whatever was sent; it goes out as sent, so that is what is judged.
        method = request.data.method.decode("ascii", "backslashreplace")
        self.hop = Hop(
            session, secrets.token_hex(8), method, profile, session.agent,
            loop.time() + profile.total_timeout,
        )  # fmt: skip
        self.hop.line = None if request.is_http2 else session.line
        attach_hop(self.flow, self.hop)

    def _start_timer(self) -> None:
        """Once the hooks have chosen the profile, and with it the time limit."""
        if self._timer is None and self.hop.method != "CONNECT":
            self._timer = asyncio.get_running_loop().call_at(self.hop.deadline, self._later, HopStopped(self))

    def let_go(self) -> None:
        """The stream is gone: its time is not measured any more, its place is free."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self.has_begun:
            return
        hop = self.hop
        if hop.spending is not None:
            hop.spending.release()
        if hop.call is not None and hop.call.kept is not None:
            hop.call.kept.release()

    def make_server_connection(self) -> layer.CommandGenerator[bool]:
        """Get an upstream connection for the judged target, and write the decision before its first byte."""
        hop, target = self.hop, self.hop.target
        if target is None or target.port is None:
            hop.refuse(INTERNAL)
            yield from self._answer()
            return False
        connection, error = yield GetJudgedConnection(
            (target.dns_name, target.port), target.scheme == "https", None, "tcp", hop.profile.version
        )
        if error is None and type(connection) is not Origin:
            hop.refuse(INTERNAL)
        elif error is not None:
            hop.refuse(self._why_not_connected())
        else:
            hop.origin = connection
            self._decide()
        if hop.refused:
            yield from self._answer()
            return False
        self.context.server = self.flow.server_conn = connection
        self._talks_upstream = True
        return True

    def _why_not_connected(self) -> Verdict:
        origin = self.hop.origin
        if origin is not None and origin.failure is not None:
            return origin.failure
        if asyncio.get_running_loop().time() >= self.hop.deadline:
            return time_is_up(self.hop)
        return upstream_failed(self.hop)

    def _decide(self) -> None:
        try:
            self._session.recorder.decided(self.hop)
        except AuditUnavailableError:
            self.hop.refuse(AUDIT_UNAVAILABLE)

    def state_consume_request_body(self, event: events.Event) -> layer.CommandGenerator[None]:
        """A body that is kept whole, for an addon to read before anything is sent; bounded (N7)."""
        return self._guarded(self._keep_piece(event))

    def _keep_piece(self, event: events.Event) -> layer.CommandGenerator[None]:
        hop = self.hop
        kept = hop.call.kept if hop.call is not None else None
        if type(event) is RequestData:
            size = len(event.data)
            hop.request_bytes += size
            verdict = kept.take(size) if kept is not None else INTERNAL
            if not verdict.refused and hop.spending is not None and hop.profile.bytes_per_day is not None:
                verdict = hop.spending.spend(size)
            if verdict.refused:
                hop.refuse(verdict)
                raise RefusedBody
        yield from super().state_consume_request_body(event)
        if kept is not None and type(event) is RequestEndOfMessage:
            self.flow.request.data.content = b""  # it was sent, and the answer may take its time

    def state_stream_request_body(self, event: events.Event) -> layer.CommandGenerator[None]:
        """A counting callable that refuses must end in an answer, not in a dropped chunk (N15)."""
        yield from self._guarded(self._until_refused(super().state_stream_request_body(event)))

    # --- answers -------------------------------------------------------------------------------------------------

    def start_response_stream(self) -> layer.CommandGenerator[None]:
        """As in mitmproxy, without its log line."""
        assert self.flow.response is not None
        self._head_sent = True
        yield mhttp.SendHttp(
            ResponseHeaders(self.stream_id, self.flow.response, end_stream=False), self.context.client
        )
        self.server_state = self.state_stream_response_body

    def state_stream_response_body(self, event: events.Event) -> layer.CommandGenerator[None]:
        """Stock drops a chunk whose callable raised, and the body then ends normally (N15)."""
        response = self.flow.response
        if type(event) is ResponseData and response is not None and callable(response.stream):
            return self._guarded(self._stream_piece(response.stream, event.data))
        return self._guarded(self._until_refused(super().state_stream_response_body(event)))

    def _stream_piece(self, count: Any, data: bytes) -> layer.CommandGenerator[None]:
        """Stock's step for one piece of a body whose callable gives bytes, as ours do; no copy is kept."""
        yield mhttp.SendHttp(ResponseData(self.stream_id, count(data)), self.context.client)

    def _guarded(self, steps: layer.CommandGenerator[None]) -> layer.CommandGenerator[None]:
        try:
            yield from steps
        except RefusedBody:
            yield from self._answer()
        except Exception:  # noqa: BLE001 (law 5)
            self.hop.refuse(INTERNAL)
            yield from self._answer()
        else:
            # The meter may let the chunk that crosses the cap through (the daemon's requests) and refuse after it.
            if self.hop.refused and not self.hop.answered:
                yield from self._answer()

    def _until_refused(self, steps: layer.CommandGenerator[None]) -> layer.CommandGenerator[None]:
        """`steps`, but not past a `request` hook that failed: stock does not ask, and ends the upload."""
        for command in steps:
            yield command
            if isinstance(command, mhttp.HttpRequestHook) and self.hop.refused:
                steps.close()
                return

    def send_response(self, already_streamed: bool = False) -> layer.CommandGenerator[None]:
        self._talks_upstream = False
        self._head_sent = True
        yield from super().send_response(already_streamed)

    def handle_connect_finish(self) -> layer.CommandGenerator[None]:
        """An accepted CONNECT on a plain connection: from here on, bytes need not climb through this layer."""
        yield from super().handle_connect_finish()
        if self.child_layer is not None and not self._session.tls_to_listener:
            self._session.pipe = self

    def take_child(self) -> layer.Layer | None:
        """Implements `hops.Pipe`."""
        above = http_layer_of(self.context)
        ready = self._paused is None and above is not None and above.is_pipe()
        return self.child_layer if ready else None

    def passthrough(self, event: events.Event) -> layer.CommandGenerator[None]:
        """After a CONNECT or a 101 events go to the child, but for what we stop ourselves."""
        if isinstance(event, HopStopped) and event.stream is self:
            yield from self._stopped()
        else:
            yield from super().passthrough(event)

    def check_killed(self, emit_error_hook: bool) -> layer.CommandGenerator[bool]:
        """Asked by mitmproxy after every hook."""
        if self.hop.refused and self._can_be_answered():
            yield from self._answer()
            return True
        self._start_timer()
        if self.flow.error is None and not self._paused_event_queue:
            return False  # there is nothing that stock would look at
        return bool((yield from super().check_killed(emit_error_hook)))

    def _can_be_answered(self) -> bool:
        gone = any(isinstance(event, RequestProtocolError) for event in self._paused_event_queue)
        return not self.hop.answered and not gone and self.client_state != self.state_errored

    def handle_protocol_error(
        self, event: RequestProtocolError | ResponseProtocolError
    ) -> layer.CommandGenerator[None]:
        """An origin that fails before its head was passed on gives our answer in place of an HTML page."""
        if (
            isinstance(event, ResponseProtocolError)
            and not self._head_sent
            and self.client_state != self.state_errored
            and event.code is not ErrorCode.KILL
        ):
            self._talks_upstream = False
            self.hop.refuse(self._why_not_connected())
            yield from self._answer()
        else:
            yield from super().handle_protocol_error(event)

    def stop(self, verdict: Verdict) -> None:
        """Implements `hops.Stoppable`."""
        self.hop.refuse(verdict)
        self._later(HopStopped(self))

    def _stopped(self) -> layer.CommandGenerator[None]:
        """Where nobody has refused the hop before, its time is up."""
        done = self.client_state == self.state_done and self.server_state == self.state_done
        if self.client_state == self.state_errored or (done and self.child_layer is None):
            return
        self.hop.refuse(time_is_up(self.hop))
        if self.child_layer is not None:  # an upgraded connection: nothing is left to answer on
            self._session.recorder.closed(self.hop)
            self._session.control.abort("an upgraded connection was stopped")
            return
        yield from self._answer()

    def _answer(self) -> layer.CommandGenerator[None]:
        """Send the hop's refusal, whatever state the exchange is in. The one place that does."""
        hop = self.hop
        assert hop.refusal is not None
        hop.answered = True
        self.let_go()
        self._audit_refusal(hop)
        if self._talks_upstream:
            self._talks_upstream = False
            yield mhttp.SendHttp(
                RequestProtocolError(self.stream_id, "refused", ErrorCode.CANCEL), self.context.server
            )
        self.flow.error = mflow.Error(hop.refusal.message)
        yield mhttp.HttpErrorHook(self.flow)
        if self._head_sent:
            yield mhttp.SendHttp(
                ResponseProtocolError(self.stream_id, "refused", ErrorCode.KILL), self.context.client
            )
        else:
            yield from self._send_problem(hop)
        self.flow.live = False
        self.client_state = self.server_state = self.state_errored
        yield mhttp.DropStream(self.stream_id)

    def _audit_refusal(self, hop: Hop) -> None:
        try:
            if hop.decided:
                self._session.recorder.closed(hop)
            else:
                self._session.recorder.decided(hop)
        except AuditUnavailableError:
            hop.refusal = AUDIT_UNAVAILABLE  # still a refusal; now it says why nothing passes

    def _send_problem(self, hop: Hop) -> layer.CommandGenerator[None]:
        """The problem document. A client that is still sending its body is answered and then closed."""
        self._head_sent = True
        assert hop.refusal is not None
        response = response_for(hop, hop.refusal)
        self.flow.response = response
        still_sending = self.client_state != self.state_done and not self._owed.request_ended
        over_h1 = not self.flow.request.is_http2
        if still_sending and over_h1:
            response.headers["Connection"] = "close"
        if self.flow.request.method == "HEAD":
            response.data.content = b""
        yield mhttp.SendHttp(ResponseHeaders(self.stream_id, response, False), self.context.client)
        if response.raw_content:
            yield mhttp.SendHttp(ResponseData(self.stream_id, response.raw_content), self.context.client)
        yield mhttp.SendHttp(ResponseEndOfMessage(self.stream_id), self.context.client)
        if still_sending and over_h1:
            yield commands.CloseConnection(self.context.client)
