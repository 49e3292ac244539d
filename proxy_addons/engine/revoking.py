"""What is under way when the rules change, and is nobody's any more (SPEC 7): ended at once.

    a request        refused where it stands: its client reads why, or, once a body has begun, sees it break off
    a WebSocket      cut on both sides
    a tunnel         cut, an idle one too

Whoever the new rules would not let in as the agent they were: revoked, with a token that was replaced, from a source
range that is another's, or without a name where none may come in without one. An agent that was moved to another
profile is the same agent; what it has under way ends under the rules it began with.
"""

from collections.abc import Iterable
from typing import Final

from proxy_addons.engine.hops import Hop, Session
from proxy_addons.policy.agents import Credential, Identity
from proxy_addons.policy.rulebook import Rulebook
from proxy_addons.policy.verdicts import Rule, refuse

REVOKED: Final = refuse(
    Rule.IDENTITY, "the agent this was under way for was revoked, or is known by something else by now"
)
EVENT: Final = "revoked"
"""Of a tunnel's end in the audit log."""


def end_revoked(sessions: Iterable[Session], before: Rulebook, after: Rulebook) -> None:
    """End what `before` let in and `after` does not."""
    change = _Change(before, after)
    for session in sessions:
        for view in session.http_layers:
            for one in view.under_way():
                if change.ends_hop(one.hop):
                    one.stop(REVOKED)
        tunnel = session.tunnel
        if tunnel is not None and change.ends(session, tunnel.credential):
            session.control.end(EVENT, REVOKED.message)


class _Change:
    """Two versions of the rules. Each answer is looked up once: a search through source ranges takes its time."""

    def __init__(self, before: Rulebook, after: Rulebook) -> None:
        self._before, self._after = before, after
        self._found: dict[tuple[int, str, Credential | None], bool] = {}

    def ends_hop(self, hop: Hop) -> bool:
        """Whether a hop is nobody's any more; of a hop of the daemon, whether its agent is one no more."""
        if hop.from_daemon:
            return (
                hop.agent in self._before.roster.identities and hop.agent not in self._after.roster.identities
            )
        return self.ends(hop.session, hop.credential)

    def ends(self, session: Session, credential: Credential | None) -> bool:
        """Whether who says this of themselves at this connection is not who they were."""
        key = (session.entry.index, session.client.peername[0], credential)
        if key not in self._found:
            was, now = _identify(self._before, *key), _identify(self._after, *key)
            self._found[key] = was is not None and was != now
        return self._found[key]


def _identify(rules: Rulebook, entrance: int, source: str, credential: Credential | None) -> str | None:
    found = rules.roster.identify(rules.entrances[entrance], source, credential)
    return found.agent if isinstance(found, Identity) else None
