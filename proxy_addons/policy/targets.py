"""Text to `Target`: the one URL parse that feeds check, log, DNS, TLS and dial (WHATWG URL Standard).

The parser is ada, in two bindings. `can_ada` is the fast one and runs for every hop, but it carries an older
ada that reads some international names otherwise than the standard of today (`ẞ.example`, Arabic digits). So
whatever is not plain ASCII is first serialized by `ada_url`, which also resolves a Location against a base.
What they repair in silence (backslashes, tabs, odd digits, missing slashes) is repaired once, here; the
repaired form is what is judged and what is dialled.

    https://EXAMPLE.com:443/a?b#c    → https, example.com, 443, /a, ?b
    https://0x7f.1/                  → https, 127.0.0.1, 443 (is_ip_literal)
    /path, example.com, ""           → TargetParseError (no scheme: not absolute)
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple
from urllib.parse import unquote

import ada_url
import can_ada

_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443, "ftp": 21}
DEFAULT_PORTS: Mapping[str, int] = MappingProxyType(_PORTS)
"""The ports that WHATWG leaves out of a serialized URL (section 4.2, special schemes)."""

MAX_HOST: Final = 512
"""Characters of a host that is or stands for letters beyond ASCII: twice those of the longest DNS name, for marks set
apart from their letters. The parsers take time by the square of them, in which nothing else of the process runs.
"""

_IPV4 = re.compile(r"\d+\.\d+\.\d+\.\d+")
_PLAIN_AUTHORITY = re.compile(r"https?://[A-Za-z0-9.:-]+[/?#]")
_WIRE_QUERY = re.compile(r"[!-~]*")  # VCHAR: what a request target can carry as it stands (RFC 9112, 3.2)

_AUTHORITY = re.compile(
    r"[\x00-\x20]*(?:(?:https?|wss?|ftp|file):[/\\]*|[/\\]{2,})([^/\\?#]*)", re.IGNORECASE
)
"""What the parser takes for user, host and port of a special scheme, in a text without the characters it drops."""
_DROPPED = dict.fromkeys(map(ord, "\t\n\r"))


class TargetParseError(ValueError):
    """The text is not an absolute URL. Says nothing of the parser's reason: messages must not repeat it."""


class Target(NamedTuple):
    """A parsed absolute URL, without its fragment.

    A named tuple, for it is made for every hop and a frozen dataclass takes five times as long to make.

    host: as the WHATWG serializer writes it (ASCII; IPv6 in brackets; "" where the scheme has none).
    port: the effective port, written or the scheme's own; None where the scheme has none.
    path: serialized path, starting with "/" for http and https.
    query: "" (no query) or "?…" exactly as supplied where a request target can carry it, else serialized.
    href: the serialized URL with its query, without fragment.
    has_credentials: a non-empty user name or password is present.
    """

    scheme: str
    host: str
    port: int | None
    path: str
    query: str
    href: str
    has_credentials: bool

    @property
    def is_ip_literal(self) -> bool:
        """The host is an address in any notation; WHATWG has rewritten it in canonical form by now."""
        return self.host[:1] == "[" or (self.host[-1:].isdigit() and _IPV4.fullmatch(self.host) is not None)

    @property
    def address(self) -> str:
        """The host without brackets, for the message of rule ip-literal."""
        return self.host.strip("[]")

    @property
    def dns_name(self) -> str:
        """The host in the one canonical form of host rules: no trailing dot.

        A host that ends in an empty label (`example.com..`) is no DNS name and stays as it is: without one of
        its dots it would be the absolute form of a name that the rules have not seen.
        """
        return self.host if self.host.endswith("..") else self.host.removesuffix(".")

    @property
    def authority(self) -> str:
        """host[:port], the port only when it is not the scheme's own."""
        if self.port is None or _PORTS.get(self.scheme) == self.port:
            return self.host
        return f"{self.host}:{self.port}"

    @property
    def display(self) -> str:
        """What a message may show of the URL (SPEC 1.6): scheme, host, port, path."""
        if not self.host and not self.path.startswith("/"):
            return f"{self.scheme}:{self.path}"
        return f"{self.scheme}://{self.authority}{self.path}"

    @property
    def request_path(self) -> str:
        """Path and query as they go out in a request line."""
        return f"{self.path}{self.query}"


def parse_target(text: str) -> Target:
    """Parse `text`, exactly as supplied, as an absolute URL; raises TargetParseError."""
    if ":" not in text:  # no scheme, which is all that the parsers would say of it, in five times the time
        raise TargetParseError("invalid url")
    _check_host(text)
    try:
        url = can_ada.parse(text if _is_plain(text) else ada_url.URL(text).href)
    except ValueError:  # UnicodeEncodeError (lone surrogates) is one too
        raise TargetParseError("invalid url") from None
    href: str = url.href
    if "#" in href:
        href = href.partition("#")[0]
    scheme = url.protocol[:-1]
    port = url.port
    query = ""
    if "?" in href:
        query = _query_as_supplied(text, url.search or ("?" if href.endswith("?") else ""))
    # What Target(...) does, without a function in between.
    return tuple.__new__(
        Target,
        (
            scheme,
            url.hostname,
            int(port) if port else _PORTS.get(scheme),
            url.pathname,
            query,
            href,
            "@" in href
            and url.has_credentials()
            and (url.has_non_empty_username() or url.has_non_empty_password()),
        ),
    )


def resolve_reference(reference: str, base: Target) -> Target:
    """`reference` (a Location value) against `base`, as WHATWG "URL parser with base"; raises TargetParseError."""
    _check_host(reference)
    try:
        href: str = ada_url.URL(reference, base.href).href
    except ValueError:
        raise TargetParseError("invalid url") from None
    target = parse_target(href)
    if not target.query or "?" not in reference.partition("#")[0]:  # none, or the base's own
        return target
    return target._replace(query=_query_as_supplied(reference, target.query))


def _check_host(text: str) -> None:
    """Raises TargetParseError for an international host that is longer than any name can be written."""
    if len(text) <= MAX_HOST:
        return
    found = _AUTHORITY.match(text.translate(_DROPPED))
    if found is None:
        return
    host = unquote(found[1].rpartition("@")[2])
    if len(host) > MAX_HOST and not (host.isascii() and "xn--" not in host.lower()):
        raise TargetParseError("invalid url")


def _is_plain(text: str) -> bool:
    """Whether both bindings read `text` alike: http or https (paths of unknown schemes differ), no `%` that may
    hide other characters in the host, none of the ASCII characters (`^`, space) that an older ada leaves bare.
    """
    if not (text.isascii() and text.startswith(("https:", "http:"))) or "^" in text or " " in text:
        return False
    return "%" not in text or _PLAIN_AUTHORITY.match(text) is not None


def _query_as_supplied(text: str, serialized: str) -> str:
    """The query unchanged (SPEC 1.1) where it is legal on the wire; the serializer's form otherwise."""
    if not serialized or text.endswith(serialized):
        return serialized
    supplied = text.partition("#")[0].partition("?")[2]
    return f"?{supplied}" if _WIRE_QUERY.fullmatch(supplied) else serialized
