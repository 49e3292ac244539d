"""Which upstream connections a hop may share: those whose peer was judged as its own would be (SPEC 1.2)."""

from dataclasses import dataclass

from mitmproxy.connection import Connection
from mitmproxy.proxy.layers.http import GetHttpConnection

from proxy_addons.engine.hops import Hop, Origin


@dataclass(eq=False)
class GetJudgedConnection(GetHttpConnection):
    """Asks for an upstream connection whose peer was judged under `policy`, a version of a profile.

    On one client connection requests may be of several agents, and the rules may change between two of them: a
    connection that other rules allowed is not reused (SPEC 1.2).
    """

    policy: str = ""

    def connection_spec_matches(self, connection: Connection) -> bool:
        """As stock, and under the same rules."""
        return (
            type(connection) is Origin
            and connection.policy == self.policy
            and super().connection_spec_matches(connection)
        )


def peer_is_allowed(connection: Connection, hop: Hop) -> bool:
    """Whether the connection's peer is in the set that a look-up of this very hop allowed (the daemon's hops)."""
    return (
        hop.judged is not None
        and connection.peername is not None
        and connection.peername[0] in hop.judged.allowed
    )
