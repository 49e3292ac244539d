"""Whose hop this is (SPEC 7): a token's agent, the listener's, the source range's; or what the daemon says.

    Proxy-Authorization: Basic NAME:TOKEN, or Bearer TOKEN      an agent; on a CONNECT, for all that comes inside
    Proxy-Authorization: Fetchd-Daemon {secret}                 the daemon, which names agent, profile, fetch and hop
                                                                in Fetchd-* fields; from anyone else those are dropped

What names nobody known is 407. Judged per request, by the rules in force; `engine.revoking` ends what is under way.
"""

import asyncio
import hmac

from mitmproxy import http

from proxy_addons.engine.hops import Hop, hop_of
from proxy_addons.policy.agents import UNKNOWN_AGENT, UNREADABLE, Credential, parse_credential
from proxy_addons.policy.rulebook import CurrentRules
from proxy_addons.policy.verdicts import Rule, Verdict, refuse
from proxy_addons.policy.wire import DAEMON_SCHEME, parse_daemon_fields

_SCHEME = DAEMON_SCHEME.lower().encode() + b" "
_AUTHORIZATION = b"proxy-authorization"
_NOT_THE_DAEMON = refuse(Rule.IDENTITY, "unknown agent")

Fields = tuple[tuple[bytes, bytes], ...]


class Identity:
    """Sets agent and profile of a hop; of the daemon's hops fetch id and number too."""

    def __init__(self, rules: CurrentRules, daemon_secret: str) -> None:
        self._rules = rules
        self._secret = daemon_secret.encode("ascii")

    def http_connect(self, flow: http.HTTPFlow) -> None:
        """A tunnel is somebody's from its CONNECT on."""
        hop, fields = hop_of(flow), flow.request.headers.fields
        stated = _authorizations(fields)
        if len(stated) == 1 and _is_daemon(stated[0]):
            # Nothing inside needs it: each of the daemon's requests says so itself.
            if not self._is_secret(stated[0][len(_SCHEME) :].strip()):
                hop.refuse(_NOT_THE_DAEMON)
            return
        self._take_agent(hop, stated)

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        """Judged per request, never once a connection."""
        hop, fields = hop_of(flow), flow.request.headers.fields
        stated = _authorizations(fields)
        if len(stated) == 1 and _is_daemon(stated[0]):
            self._take_daemon(hop, stated[0][len(_SCHEME) :].strip(), fields)
        else:
            self._take_agent(hop, stated)

    def _take_agent(self, hop: Hop, stated: list[bytes]) -> None:
        session = hop.session
        if session.tunnel is not None:
            # Inside, the field is meant for the origin, which never gets it; whose tunnel it is was said before.
            hop.credential = session.tunnel.credential
        elif stated:
            hop.credential = _read(stated)
        source = session.client.peername[0]
        found = self._rules.now.roster.identify(session.entry.entrance, source, hop.credential)
        if isinstance(found, Verdict):
            hop.agent = UNKNOWN_AGENT
            hop.refuse(found)
            return
        hop.agent = found.agent
        if hop.profile is not found.profile:
            hop.profile = found.profile
            hop.deadline = asyncio.get_running_loop().time() + found.profile.total_timeout

    def _is_secret(self, secret: bytes) -> bool:
        return hmac.compare_digest(secret, self._secret)

    def _take_daemon(self, hop: Hop, secret: bytes, fields: Fields) -> None:
        if not self._is_secret(secret):
            hop.refuse(_NOT_THE_DAEMON)
            return
        said = parse_daemon_fields(fields)
        profile = (
            self._rules.now.find_profile(said.agent, said.profile, said.allow) if said is not None else None
        )
        if said is None or profile is None:
            hop.refuse(_NOT_THE_DAEMON)
            return
        hop.from_daemon = True
        hop.agent, hop.profile = said.agent, profile
        hop.fetch_id, hop.number = said.fetch_id, said.hop
        hop.deadline = asyncio.get_running_loop().time() + profile.total_timeout


def _authorizations(fields: Fields) -> list[bytes]:
    return [
        value for name, value in fields if len(name) == len(_AUTHORIZATION) and name.lower() == _AUTHORIZATION
    ]


def _is_daemon(value: bytes) -> bool:
    return value[: len(_SCHEME)].lower() == _SCHEME


def _read(stated: list[bytes]) -> Credential:
    """Two statements are none: which of them counts would be a guess."""
    return parse_credential(stated[0]) if len(stated) == 1 else UNREADABLE
