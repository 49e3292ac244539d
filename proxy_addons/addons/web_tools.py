"""Agents' own calls to vendors of models: what a vendor would reach the web for is held to the agent's profile.

    head      which vendor's host, which request (vendors.endpoints); what nobody knows is refused
    body      kept whole, within KEPT_BYTES, decoded, judged and narrowed (vendors.holding) before anything is sent
    answer    passes as it comes, and is read on the side (vendors.answers)

Under `pass` nothing is kept: only the answer is read. In a profile that monitors, nothing is changed and nothing
refused, but a body that no bound lets be read.
"""

import asyncio
import re
from collections.abc import Awaitable
from functools import partial

from mitmproxy import connection, http

from proxy_addons.addons.kept_bodies import KEPT_BYTES, KeptBodies
from proxy_addons.engine.hops import Hop, VendorCall, hop_of
from proxy_addons.engine.lean import expected_body_size, headers_of, values_by_name
from proxy_addons.policy.codings import BodyError, Coding, UnsupportedCodingError, parse_content_encoding
from proxy_addons.policy.content_types import parse_content_type
from proxy_addons.policy.limits import Mode
from proxy_addons.policy.limits import WebTools as Holding
from proxy_addons.policy.metering import BodyMeter
from proxy_addons.policy.rulebook import CurrentRules
from proxy_addons.policy.vendors.answers import make_reader
from proxy_addons.policy.vendors.endpoints import BODYLESS, DIVERTING, Endpoint, Handling, find_endpoint
from proxy_addons.policy.vendors.held import HeldError
from proxy_addons.policy.vendors.holding import Held, hold_request
from proxy_addons.policy.verdicts import Failure, Rule, Verdict, refuse

INLINE_BYTES = 256 << 10
"""What is judged in the event loop: 2 ms at the most. Longer bodies go to a thread, one at a time: parsed, a body
takes several times its size.
"""
CLOSED = (
    "what this request could make the provider fetch cannot be held to the profile: only model calls are read"
)
_OF_THE_OLD_BODY = frozenset(
    {
        b"content-length", b"transfer-encoding", b"content-encoding",
        b"content-md5", b"digest", b"content-digest", b"repr-digest",
    }
)  # fmt: skip


_JSON_TYPE = re.compile(rb'[ \t]*application/json[ \t]*(;[ \t]*(charset="?utf-?8"?[ \t]*)?)*', re.IGNORECASE)
"""No other parameter: with two charsets, or one in RFC 8187's form, servers differ in which they take."""


class WebTools:
    """Refuses by rule web-tool; runs before bodies are counted and before the request is made anew."""

    def __init__(self, rules: CurrentRules, bodies: KeptBodies) -> None:
        self._rules = rules
        self._bodies = bodies
        self._turn = asyncio.Lock()

    # --- requests --------------------------------------------------------------------------------------------------

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        """Find out what it is to the vendor; have its body kept where that has to be read."""
        hop = hop_of(flow)
        target = hop.target
        if hop.refused or target is None:
            return
        vendor = self._rules.now.vendor_hosts.find(target)
        if vendor is None:
            return
        fields = values_by_name(flow.request.headers)
        endpoint = find_endpoint(vendor, hop.method, target, diverted=not DIVERTING.isdisjoint(fields))
        hop.call = call = VendorCall(endpoint)
        if hop.profile.web_tools is Holding.PASS:
            return
        match endpoint.handling:
            case Handling.CLOSED:
                self._stop(hop, CLOSED)
            case Handling.INSPECTED:
                reason = _why_unreadable(fields)
                if reason is None:
                    self._keep(flow, hop, call, KEPT_BYTES)
                else:
                    self._stop(hop, reason)
            case Handling.HARMLESS if hop.method in BODYLESS and not _monitors(hop):
                self._keep(flow, hop, call, 0)

    def _keep(self, flow: http.HTTPFlow, hop: Hop, call: VendorCall, limit: int) -> None:
        try:
            declared = expected_body_size(flow.request)
        except ValueError:
            declared = None
        if _monitors(hop) and (declared is None or declared > limit):
            hop.would_refuse = hop.would_refuse or Rule.WEB_TOOL  # it is not read, and so passes
            return
        if declared is not None and declared > max(limit, 0) and hop.profile.request_body:
            hop.refuse(_too_long(hop, limit))
            return
        call.kept = self._bodies.open_room(hop, limit, partial(_too_long, hop, limit))

    def request(self, flow: http.HTTPFlow) -> Awaitable[None] | None:
        """The body is whole: judge it."""
        hop = hop_of(flow)
        call = hop.call
        if (
            call is None
            or call.kept is None
            or hop.refused
            or call.endpoint.handling is not Handling.INSPECTED
        ):
            return None
        data = flow.request.data.content or b""
        coded = b"content-encoding" in values_by_name(flow.request.headers)
        if len(data) <= INLINE_BYTES and not coded:
            self._conclude(flow, hop, call, _judge(flow, data, call.endpoint, hop))
            return None
        return self._judge_aside(flow, hop, call, data)

    async def _judge_aside(self, flow: http.HTTPFlow, hop: Hop, call: VendorCall, data: bytes) -> None:
        async with self._turn:
            held = await asyncio.to_thread(_judge, flow, data, call.endpoint, hop)
        self._conclude(flow, hop, call, held)

    def _conclude(self, flow: http.HTTPFlow, hop: Hop, call: VendorCall, held: Held | str) -> None:
        if isinstance(held, str):
            self._stop(hop, held)
            return
        call.declared = held.tools
        if held.body is None:
            return
        if _monitors(hop):
            hop.would_refuse = hop.would_refuse or Rule.WEB_TOOL
            return
        call.narrowed = True
        data = flow.request.data
        kept = [(name, value) for name, value in data.headers.fields if name.lower() not in _OF_THE_OLD_BODY]
        data.headers = headers_of([*kept, (b"Content-Length", b"%d" % len(held.body))])
        data.content = held.body

    @staticmethod
    def _stop(hop: Hop, message: str) -> None:
        if _monitors(hop):
            hop.would_refuse = hop.would_refuse or Rule.WEB_TOOL
            return
        hop.refuse(refuse(Rule.WEB_TOOL, message, failure=Failure.SOFT, subject=hop.display or ""))

    # --- answers ---------------------------------------------------------------------------------------------------

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        """Have the answer of a model read as it passes."""
        hop, response = hop_of(flow), flow.response
        call = hop.call
        if call is not None and call.kept is not None:
            call.kept.release()  # the vendor has it: until then it may have waited in a buffer
        if call is None or call.endpoint.kind is None or hop.refused or response is None:
            return
        if not call.endpoint.runs:
            return  # it says nothing of web tools
        types = values_by_name(response.headers).get(b"content-type", [])
        parsed = parse_content_type(types[0]) if types else None
        if parsed is not None and response.status_code == 200:
            call.reader = make_reader(call.endpoint.kind, parsed.essence)

    def response(self, flow: http.HTTPFlow) -> Awaitable[None] | None:
        """The answer has passed; read what waited for its end."""
        call = hop_of(flow).call
        if call is None or call.reader is None:
            return None
        if call.reader.waiting <= INLINE_BYTES:
            call.reader.finish()
            return None
        return asyncio.to_thread(call.reader.finish)

    def client_disconnected(self, client: connection.Client) -> None:
        """A connection that was dropped in the middle tells of no ends."""
        self._bodies.forget(client)


def _monitors(hop: Hop) -> bool:
    return hop.profile.mode is Mode.MONITOR


def _too_long(hop: Hop, limit: int) -> Verdict:
    if limit == 0:
        return refuse(Rule.WEB_TOOL, CLOSED, failure=Failure.SOFT, subject=hop.display or "")
    limit = min(limit, hop.profile.request_cap)
    message = f"request body exceeds the {limit} bytes within which web tools can be held to the profile"
    return refuse(Rule.REQUEST_CAP, message, failure=Failure.SOFT, subject=hop.display or "")


def _why_unreadable(fields: dict[bytes, list[bytes]]) -> str | None:
    """Why a body under these fields has more than one reading, or none."""
    types = fields.get(b"content-type", [])
    if types and (len(types) > 1 or _JSON_TYPE.fullmatch(types[0]) is None):
        return "the request body cannot be held to the profile: its Content-Type is not application/json in UTF-8"
    try:
        codings = parse_content_encoding(fields.get(b"content-encoding", []))
    except UnsupportedCodingError:
        return "the request body cannot be held to the profile: its Content-Encoding is not known"
    if Coding.DEFLATE in codings:  # with a zlib header or without: bytes can be made that are both
        return "the request body cannot be held to the profile: deflate has two readings; use gzip"
    return None


def _judge(flow: http.HTTPFlow, data: bytes, endpoint: Endpoint, hop: Hop) -> Held | str:
    """What may leave, or the message of the refusal. Takes time: long bodies are judged in a thread."""
    try:
        codings = parse_content_encoding(values_by_name(flow.request.headers).get(b"content-encoding", []))
        if codings:
            meter = BodyMeter(codings, KEPT_BYTES)
            data = b"".join(meter.feed(data))
            meter.finish()
        return hold_request(data, endpoint, hop.profile)
    except BodyError:
        return "the request body cannot be held to the profile: it does not decode within bounds"
    except HeldError as error:
        return str(error)
