"""One name for one request, and nothing smuggled beside it (SPEC 1.7).

1  no CR, LF or NUL in a field value
2  HTTP/1.1 has a Host field; nobody has two
3  in a tunnel: the TLS server name is there and is the CONNECT name
4  every Host field and :authority is the target's name and port
5  Transfer-Encoding is chunked or absent
6  Connection nominates no framing field, Host or Content-* field (N2)
7  Upgrade only to what the profile lists
"""

import re
from collections.abc import Iterable

from mitmproxy import http

from proxy_addons.addons.admission import mismatch
from proxy_addons.engine.hops import Hop, hop_of
from proxy_addons.engine.refusals import not_http
from proxy_addons.policy.targets import Target, TargetParseError, parse_target
from proxy_addons.policy.verdicts import Failure, Rule, Verdict, refuse

_FRAMING = frozenset({b"host", b"content-length", b"transfer-encoding"})
_CONTROL = re.compile(rb"[\r\n\0]")


class Integrity:
    """Checks 1 to 7, in this order, after the admission ladder."""

    def http_connect(self, flow: http.HTTPFlow) -> None:
        """A CONNECT whose Host names another place is answered inside the tunnel, where a client can read it."""
        hop = hop_of(flow)
        tunnel = hop.session.tunnel
        if hop.refused or tunnel is None or hop.target is None:
            return
        for value in _values(flow.request.headers.fields, b"host"):
            if not _same_authority(value, tunnel.target):
                tunnel.refusal = mismatch("the Host field", tunnel.target)

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        """The first check that fails is the refusal."""
        hop = hop_of(flow)
        if hop.refused or hop.target is None:
            return
        verdict = _check(hop, hop.target, flow.request)
        if verdict is not None:
            hop.refuse(verdict)


def nominated_fields(fields: Iterable[tuple[bytes, bytes]]) -> frozenset[bytes]:
    """The field names that Connection fields nominate as hop-by-hop (RFC 9110, 7.6.1), lower case."""
    return frozenset(
        token.strip().lower()
        for name, value in fields
        if name.lower() == b"connection"
        for token in value.split(b",")
        if token.strip()
    )


def nominates_framing(nominated: frozenset[bytes]) -> bool:
    """Removing such a field would re-frame the message."""
    return any(name in _FRAMING or name.startswith(b"content-") for name in nominated)


def transfer_coding_is_plain(fields: Iterable[tuple[bytes, bytes]]) -> bool:
    """Transfer-Encoding is absent or exactly `chunked` (N12)."""
    values = [value.strip().lower() for name, value in fields if name.lower() == b"transfer-encoding"]
    return not values or values == [b"chunked"]


def _check(hop: Hop, target: Target, request: http.Request) -> Verdict | None:
    fields = request.headers.fields
    if _CONTROL.search(b" ".join([part for pair in fields for part in pair])):
        return not_http("control characters in a header field")
    hosts = _values(fields, b"host")
    if len(hosts) > 1:
        return mismatch("more than one Host field", target)
    if request.data.http_version == b"HTTP/1.1" and not hosts:
        return not_http("no Host field")
    verdict = _check_names(hop, target, request, hosts)
    if verdict is not None:
        return verdict
    if not transfer_coding_is_plain(fields):
        return not_http("unsupported transfer coding")
    if nominates_framing(nominated_fields(fields)):
        return not_http("Connection nominates a field that frames the message")
    return _check_upgrade(hop, fields)


def _check_names(hop: Hop, target: Target, request: http.Request, hosts: list[bytes]) -> Verdict | None:
    session = hop.session
    if session.tunnel is not None and session.tls_in_tunnel:
        server_name = session.client.sni
        if not server_name:
            return refuse(Rule.NO_SNI, "the TLS handshake named no server", failure=Failure.SOFT)
        if not _same_name(server_name, session.tunnel.target):
            return mismatch("the TLS server name", session.tunnel.target)
    authority = request.data.authority
    for value in (*hosts, authority) if authority else hosts:
        if not _same_authority(value, target):
            return mismatch("the Host field", target)
    return None


def _check_upgrade(hop: Hop, fields: Iterable[tuple[bytes, bytes]]) -> Verdict | None:
    wanted = _values(fields, b"upgrade")
    if not wanted:
        return None
    protocols = [token.strip().lower().decode("latin-1") for value in wanted for token in value.split(b",")]
    if protocols == ["websocket"] and "websocket" in hop.profile.upgrades:
        return None
    return refuse(Rule.UPGRADE, "upgrade not allowed", failure=Failure.SOFT)


def _values(fields: Iterable[tuple[bytes, bytes]], wanted: bytes) -> list[bytes]:
    return [value for name, value in fields if len(name) == len(wanted) and name.lower() == wanted]


def _same_authority(value: bytes, target: Target) -> bool:
    """Whether a Host or authority value is the target's name and port, however it is spelled."""
    text = value.decode("utf-8", "surrogateescape").strip()
    if text == target.authority:
        return True
    if not text or any(c in text for c in "/?#\\"):
        return False
    try:
        named = parse_target(f"{target.scheme}://{text}/")
    except TargetParseError:
        return False
    if named.has_credentials or "@" in text:
        return False
    return named.dns_name == target.dns_name and named.port == target.port


def _same_name(server_name: str, target: Target) -> bool:
    try:
        named = parse_target(f"https://{server_name}/")
    except TargetParseError:
        return False
    return named.dns_name == target.dns_name
