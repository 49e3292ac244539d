"""Whose a client connection is, for the bound on them (`engine.places`): known from its first request on."""

from mitmproxy import http

from proxy_addons.engine.hops import Hop, hop_of
from proxy_addons.engine.places import Places
from proxy_addons.policy.rulebook import CurrentRules

DAEMON = "the daemon"
"""It asks for many agents on few connections, and opens as many as it has calls."""


class ClientPlaces:
    """Counts a connection for its agent; one that is a place too many for its agent is closed."""

    def __init__(self, rules: CurrentRules, places: Places) -> None:
        self._rules, self._places = rules, places

    def http_connect(self, flow: http.HTTPFlow) -> None:
        """A tunnel is somebody's from its CONNECT on."""
        self._name(hop_of(flow))

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        """Requests on one connection may be of several agents: it is the last one's."""
        self._name(hop_of(flow))

    def _name(self, hop: Hop) -> None:
        session = hop.session
        place = session.place
        if place is None or place.holder == hop.agent or hop.refused:
            return
        if hop.from_daemon:
            self._places.rename(place, DAEMON)
        elif hop.agent in self._rules.now.roster.identities and not self._places.rename(place, hop.agent):
            session.recorder.event(
                session, "too-many-connections", f"{hop.agent} holds three quarters of all"
            )
            session.control.abort("its agent holds too many connections")
