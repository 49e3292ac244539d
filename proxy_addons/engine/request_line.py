"""The request line of HTTP/1 (RFC 9112, 3): one strict reading, before mitmproxy's own URL parser sees anything.

GET https://host/path HTTP/1.1     absolute-form    the target is parsed by `policy.targets`
CONNECT host:443 HTTP/1.1          authority-form   the port is required (RFC 9110, 9.3.6)
GET /path HTTP/1.1                 origin-form      only inside a tunnel
OPTIONS * HTTP/1.1                 asterisk-form    never
"""

import re
from dataclasses import dataclass
from enum import Enum

from proxy_addons.policy.targets import Target, TargetParseError, parse_target

_LINE = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]{1,32}) ([^\x00-\x20\x7f]+) (HTTP/1\.[01])")
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:/?#@\\\s]+):([0-9]{1,5})")


class TargetForm(Enum):
    """The four forms of a request target (RFC 9112, 3.2)."""

    ABSOLUTE = "absolute"
    AUTHORITY = "authority"
    ORIGIN = "origin"
    ASTERISK = "asterisk"


@dataclass(frozen=True, slots=True)
class RequestLine:
    """A well-formed request line. `target` is set where absolute- or authority-form parsed."""

    method: str
    raw_target: str
    version: str
    form: TargetForm
    target: Target | None


def parse_request_line(line: bytes) -> RequestLine | None:
    """One request line; None when it is not HTTP/1.0 or HTTP/1.1."""
    match = _LINE.fullmatch(line)
    if match is None:
        return None
    method, version = match[1].decode("ascii"), match[3].decode("ascii")
    raw = match[2].decode("utf-8", "surrogateescape")
    if method.upper() == "CONNECT" != method:
        return None  # mitmproxy would take it for the method it is not
    if method == "CONNECT":
        return RequestLine(method, raw, version, TargetForm.AUTHORITY, parse_connect_target(raw))
    if raw.startswith("/"):
        return RequestLine(method, raw, version, TargetForm.ORIGIN, None)
    if raw == "*":
        return RequestLine(method, raw, version, TargetForm.ASTERISK, None)
    try:
        target: Target | None = parse_target(raw)
    except TargetParseError:
        target = None
    return RequestLine(method, raw, version, TargetForm.ABSOLUTE, target)


def parse_connect_target(raw: str) -> Target | None:
    """The name and port of a CONNECT as an https target; None when it is not exactly host:port.

    The parsed port is always written: `https://a:443/` and `https://a:80/` differ only there.
    """
    match = _AUTHORITY.fullmatch(raw)
    if match is None:
        return None
    try:
        target = parse_target(f"https://{raw}/")
    except TargetParseError:
        return None
    return None if target.has_credentials or target.path != "/" or target.query else target
