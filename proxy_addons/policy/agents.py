"""Who is asking (SPEC 7): agents, and how a request is known to be one's.

    1 a token    2 the agent of the listener    3 the agent of the source range    4 anonymous, where that is allowed

The first that applies decides. A token that is nobody's is refused and never passed over: what follows is for
requests that name nobody. Decided anew for each request; what is under way is ended by `engine.revoking`.
"""

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from types import MappingProxyType

from netaddr import AddrFormatError, IPAddress, IPNetwork

from .limits import Profile
from .verdicts import Rule, Verdict, refuse

AGENT_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")
LOCAL_AGENT = "local"
"""Whoever uses the machine's own command line, and whoever comes to the tools without a name."""
UNKNOWN_AGENT = "unknown"
"""What the log calls one who could not be told."""
RESERVED_AGENTS = frozenset({LOCAL_AGENT, UNKNOWN_AGENT})

MAX_CREDENTIAL = 1024
"""Bytes of a Proxy-Authorization or Authorization field; a longer one is nobody's. A token has some 60."""

TOKEN_NEEDED = refuse(
    Rule.IDENTITY, "this gateway serves known agents only; send a token: Basic NAME:TOKEN, or Bearer TOKEN"
)
TOKEN_UNKNOWN = refuse(Rule.IDENTITY, "the token is not known here; it may have been revoked or replaced")


@dataclass(frozen=True, slots=True)
class Agent:
    """One agent. token_sha256: hex digest of its token, None without one. sources: ranges it alone uses."""

    name: str
    profile: str
    token_sha256: str | None = field(default=None, repr=False)
    sources: tuple[IPNetwork, ...] = ()


@dataclass(frozen=True, slots=True)
class Credential:
    """What a request says of who it is: a digest of the token, and the name beside it in Basic. Never the token."""

    token_sha256: str = field(repr=False)
    name: str | None = None


UNREADABLE = Credential("")
"""A field that holds no token: nobody's."""


@dataclass(frozen=True, slots=True)
class Entrance:
    """What a listener says of whoever comes in: `agent` if it is one's own, else `name` for those without one."""

    name: str
    profile: Profile
    agent: str = ""
    anonymous: bool = True


@dataclass(frozen=True, slots=True)
class Identity:
    """On whose account a request runs, and the profile that judges it."""

    agent: str
    profile: Profile


def digest_token(token: str) -> str:
    """What is kept of a token. It holds 256 random bits, so a plain digest cannot be searched."""
    return sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def parse_credential(value: bytes) -> Credential:
    """A Proxy-Authorization or Authorization value: Bearer (RFC 6750, 2.1) or Basic (RFC 7617); else UNREADABLE."""
    if len(value) > MAX_CREDENTIAL:
        return UNREADABLE
    scheme, _, rest = value.decode("latin-1").strip().partition(" ")
    rest = rest.strip()
    if scheme.lower() == "bearer" and rest:
        return Credential(digest_token(rest))
    if scheme.lower() != "basic":
        return UNREADABLE
    try:
        text = base64.b64decode(rest, validate=True).decode("ascii")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return UNREADABLE
    name, colon, token = text.partition(":")
    return Credential(digest_token(token), name) if colon and token else UNREADABLE


class Roster:
    """All agents, found by token and by source. Names, tokens and ranges are unique (`policy.config` sees to it)."""

    def __init__(self, agents: Iterable[Agent], profiles: Mapping[str, Profile]) -> None:
        self._identities = {one.name: Identity(one.name, profiles[one.profile]) for one in agents}
        self._tokens = {one.token_sha256: one.name for one in agents if one.token_sha256 is not None}
        ranges = [(network, one.name) for one in agents for network in one.sources]
        self._ranges = sorted(ranges, key=lambda row: -row[0].prefixlen)
        """The narrowest first."""

    @property
    def identities(self) -> Mapping[str, Identity]:
        """Each agent with its profile, by name."""
        return MappingProxyType(self._identities)

    def identify(self, entrance: Entrance, source: str, credential: Credential | None) -> Identity | Verdict:
        """Whose request it is that came in at `entrance` from the address `source`, or the refusal."""
        if credential is not None:
            name = self._tokens.get(credential.token_sha256)
            if name is None or credential.name not in (None, name):
                return TOKEN_UNKNOWN
            return self._identities[name]
        if entrance.agent:
            return self._identities.get(entrance.agent, TOKEN_NEEDED)
        name = self._find_by_source(source) if self._ranges else None
        if name is not None:
            return self._identities[name]
        return Identity(entrance.name, entrance.profile) if entrance.anonymous else TOKEN_NEEDED

    def _find_by_source(self, source: str) -> str | None:
        # The system writes a link-local peer with its interface: fe80::1%eth0.
        try:
            address = IPAddress(source.partition("%")[0])
        except (AddrFormatError, ValueError):
            return None
        if address.version == 6 and address.is_ipv4_mapped():
            address = address.ipv4()
        return next((name for network, name in self._ranges if address in network), None)
