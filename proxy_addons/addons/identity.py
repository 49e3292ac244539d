"""Whose hop this is: the listener's agent and profile, or what the daemon says beside its secret (SPEC 7).

The daemon names agent, profile, fetch and hop in Fetchd-* fields; they are believed only beside
`Proxy-Authorization: Fetchd-Daemon {secret}`. From anyone else they are dropped, and a wrong secret is 407.
"""

import asyncio
import hmac
from collections.abc import Mapping

from mitmproxy import http

from proxy_addons.engine.hops import Hop, hop_of
from proxy_addons.policy.limits import Profile
from proxy_addons.policy.verdicts import Rule, refuse
from proxy_addons.policy.wire import DAEMON_SCHEME, parse_daemon_fields

_SCHEME = DAEMON_SCHEME.lower().encode() + b" "
_AUTHORIZATION = b"proxy-authorization"


class Identity:
    """Sets agent, profile, fetch id and hop number of the daemon's hops."""

    def __init__(self, profiles: Mapping[str, Profile], daemon_secret: str) -> None:
        self._profiles = profiles
        self._secret = daemon_secret.encode("ascii")

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        """Judged per request, never once a connection."""
        fields = flow.request.headers.fields
        for name, value in fields:
            if len(name) == len(_AUTHORIZATION) and name.lower() == _AUTHORIZATION:
                if value[: len(_SCHEME)].lower() == _SCHEME:
                    self._take_daemon(hop_of(flow), value[len(_SCHEME) :].strip(), fields)
                return

    def _take_daemon(self, hop: Hop, secret: bytes, fields: tuple[tuple[bytes, bytes], ...]) -> None:
        if not hmac.compare_digest(secret, self._secret):
            hop.refuse(refuse(Rule.IDENTITY, "unknown agent"))
            return
        said = parse_daemon_fields(fields)
        profile = self._profiles.get(said.profile) if said is not None else None
        if said is None or profile is None:
            hop.refuse(refuse(Rule.IDENTITY, "unknown agent"))
            return
        hop.from_daemon = True
        hop.agent, hop.profile = said.agent, profile
        hop.fetch_id, hop.number = said.fetch_id, said.hop
        hop.deadline = asyncio.get_running_loop().time() + profile.total_timeout
