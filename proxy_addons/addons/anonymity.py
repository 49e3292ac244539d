"""What never reaches an origin, and what never reaches a client (SPEC 1.5).

Works on fresh messages: client and server side share mitmproxy's object, and stripping Connection in place broke
every second request (N9). Credentials are removed, not refused, and the answer says which (`Fetchd-Removed`).
"""

from mitmproxy import http

from proxy_addons.addons.integrity import nominated_fields, nominates_framing, transfer_coding_is_plain
from proxy_addons.engine.hops import Hop, hop_of
from proxy_addons.engine.lean import headers_of
from proxy_addons.engine.refusals import upstream_failed
from proxy_addons.policy.hosts import matches_any
from proxy_addons.policy.targets import Target
from proxy_addons.policy.wire import PREFIX

CREDENTIALS = (b"authorization", b"cookie", b"cookie2", b"referer")
"""Request fields that tell who asks or where from; a profile may let the first two through to named hosts."""
MAY_BE_LET_THROUGH = frozenset({b"authorization", b"cookie"})
HOP_BY_HOP = frozenset(
    {
        b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection",
        b"proxy-authentication-info", b"te", b"trailer", b"upgrade", b"http2-settings",
    }
)  # fmt: skip
"""RFC 9110 7.6.1 and its elders; Transfer-Encoding is kept, the framing being ours on both sides."""
NOT_FOR_ORIGINS = HOP_BY_HOP | {b"host"}
NOT_FOR_CLIENTS = HOP_BY_HOP | {b"alt-svc", b"proxy-status"}
"""Alt-Svc invites clients to leave for UDP; Proxy-Status of an origin would speak in our name."""
KNOWN_CODINGS = frozenset({b"gzip", b"x-gzip", b"deflate", b"br", b"zstd", b"identity", b"*"})
LIGHT_CODINGS = KNOWN_CODINGS - {b"br", b"zstd", b"*"}
"""Those whose decoders are not counted out (decoder_slots)."""

Field = tuple[bytes, bytes]


class Anonymity:
    """Rewrites the request towards the origin and the answer towards the client."""

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        """Make the request that goes out."""
        hop = hop_of(flow)
        if hop.refused or hop.target is None:
            return
        stream = flow.request.stream
        flow.request = outgoing_request(flow.request, hop, hop.target)
        flow.request.stream = stream

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        """Make the answer that goes back."""
        hop, response = hop_of(flow), flow.response
        if hop.refused or response is None:
            return
        fields = response.headers.fields
        nominated = nominated_fields(fields)
        if nominates_framing(nominated) or not transfer_coding_is_plain(fields):
            hop.refuse(upstream_failed(hop))
            return
        flow.response = incoming_response(response, flow.request, hop, nominated)


def outgoing_request(request: http.Request, hop: Hop, target: Target) -> http.Request:
    """The request as the origin sees it: the judged target's name and path, no trace of the client's identity."""
    data = request.data
    fields, hop.removed = _request_fields(data.headers.fields, hop, target)
    over_h2 = request.is_http2
    if not over_h2:
        fields.insert(0, (b"Host", target.authority.encode("ascii")))
    if "websocket" in hop.profile.upgrades and any(
        name.lower() == b"upgrade" for name, _ in data.headers.fields
    ):
        fields += [(b"Connection", b"upgrade"), (b"Upgrade", b"websocket")]
        fields = [pair for pair in fields if pair[0].lower() != b"sec-websocket-extensions"]  # N8
    return http.Request(
        target.dns_name, target.port or 0, data.method, target.scheme.encode("ascii"),
        target.authority.encode("ascii") if over_h2 else b"",
        target.request_path.encode("ascii"),
        b"HTTP/1.1" if data.http_version == b"HTTP/1.0" else data.http_version,
        headers_of(fields), data.content, None, data.timestamp_start, data.timestamp_end,
    )  # fmt: skip


def _request_fields(
    fields: tuple[Field, ...], hop: Hop, target: Target
) -> tuple[list[Field], tuple[str, ...]]:
    nominated = nominated_fields(fields)
    codings = LIGHT_CODINGS if _may_stream(hop, fields) else KNOWN_CODINGS
    trusted = bool(hop.profile.credential_hosts) and matches_any(hop.profile.credential_hosts, target)
    kept: list[Field] = []
    removed: list[str] = []
    for name, value in fields:
        key = name.lower()
        if key in NOT_FOR_ORIGINS or key in nominated or key.startswith(PREFIX):
            continue
        if key in CREDENTIALS and not (trusted and key in MAY_BE_LET_THROUGH):
            if (shown := key.decode("ascii")) not in removed:
                removed.append(shown)
            continue
        if key == b"accept-encoding":
            value = _readable_codings(value, codings)
        kept.append((name, value))
    return kept, tuple(removed)


def _may_stream(hop: Hop, fields: tuple[Field, ...]) -> bool:
    """Whether the answer may last as long as somebody has something to say: a model's, events.

    In br or zstd it would hold windows of a decoder all the while, and the eleventh such answer would wait its turn.
    """
    return hop.method not in ("GET", "HEAD") or any(
        name.lower() == b"accept" and b"text/event-stream" in value.lower() for name, value in fields
    )


def _readable_codings(value: bytes, codings: frozenset[bytes]) -> bytes:
    """Ask origins only for what can be inspected (dcb, dcz, lzma … could not)."""
    tokens = [token.strip() for token in value.split(b",")]
    known = [token for token in tokens if token.partition(b";")[0].strip().lower() in codings]
    return value if len(known) == len(tokens) else b", ".join(known) or b"identity"


def incoming_response(
    response: http.Response, request: http.Request, hop: Hop, nominated: frozenset[bytes]
) -> http.Response:
    """The answer as the client sees it, framed so that a cut shows."""
    data = response.data
    upgraded = data.status_code == 101
    old_client = hop.line is not None and hop.line.version == "HTTP/1.0"
    unframed = old_client or data.status_code == 304  # stock would write a last chunk after a 304
    kept = [
        (name, value)
        for name, value in data.headers.fields
        if not (key := name.lower()).startswith(PREFIX)
        and (key not in NOT_FOR_CLIENTS or (upgraded and key in (b"connection", b"upgrade")))
        and (key not in nominated or upgraded)
        and not (unframed and key == b"transfer-encoding")
    ]
    if not old_client and _ends_with_connection(response, request):
        kept.append((b"Transfer-Encoding", b"chunked"))
    return http.Response(
        b"HTTP/1.1" if data.http_version == b"HTTP/1.0" else data.http_version,
        data.status_code, data.reason, headers_of(kept), data.content, None,
        data.timestamp_start, data.timestamp_end,
    )  # fmt: skip


def _ends_with_connection(response: http.Response, request: http.Request) -> bool:
    """A body without a length: re-framed as chunked towards an HTTP/1.1 client."""
    names = {name.lower() for name, _ in response.headers.fields}
    return (
        request.method != "HEAD"
        and response.status_code not in (101, 204, 304)
        and not request.is_http2
        and not names & {b"content-length", b"transfer-encoding"}
    )
