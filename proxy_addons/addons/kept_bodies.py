"""Room for request bodies that are kept until they are whole: bounded for each, each agent and a whole worker."""

from collections import Counter
from collections.abc import Callable

from mitmproxy import connection

from proxy_addons.engine.hops import Hop
from proxy_addons.policy.limits import MIB
from proxy_addons.policy.verdicts import ALLOWED, Failure, Rule, Verdict, refuse

KEPT_BYTES = 32 * MIB
"""Of one body, on the wire and decoded: what Anthropic takes at the most."""
ALL_KEPT_BYTES = 128 * MIB
"""Of all bodies that a worker keeps until their vendors answer; one agent's have half of it. Measured: a body of
32 MiB takes 150 at its worst, while it is parsed, encrypted and sent.
"""

NO_ROOM = refuse(
    Rule.BUDGET, "too many bodies are being read at this moment; try again", failure=Failure.SOFT
)._replace(retry_after=1)


class KeptBodies:
    """The rooms of one worker."""

    def __init__(self) -> None:
        self._kept: Counter[str] = Counter()
        self._rooms: dict[connection.Client, set[Room]] = {}

    @property
    def bytes(self) -> int:
        """Of all bodies, at this moment."""
        return self._kept.total()

    def open_room(self, hop: Hop, limit: int, over: Callable[[], Verdict]) -> "Room":
        """For the body of `hop`, which is at most `limit` bytes; else refused as `over` says."""
        room = Room(self, hop, limit, over)
        self._rooms.setdefault(hop.session.client, set()).add(room)
        return room

    def forget(self, client: connection.Client) -> None:
        """Whatever a client's bodies have; it is gone."""
        for room in list(self._rooms.get(client, ())):
            room.release()

    def take(self, agent: str, size: int) -> bool:
        """Room for so many bytes more of an agent's."""
        if self.bytes + size > ALL_KEPT_BYTES or self._kept[agent] + size > ALL_KEPT_BYTES // 2:
            return False
        self._kept[agent] += size
        return True

    def give_back(self, room: "Room", hop: Hop, size: int) -> None:
        """Its bytes are not kept any more."""
        self._kept[hop.agent] -= size
        if not self._kept[hop.agent]:
            del self._kept[hop.agent]
        of_client = self._rooms.get(hop.session.client, set())
        of_client.discard(room)
        if not of_client:
            self._rooms.pop(hop.session.client, None)


class Room:
    """For one body. Implements `hops.KeptBody`."""

    def __init__(self, owner: KeptBodies, hop: Hop, limit: int, over: Callable[[], Verdict]) -> None:
        self._owner, self._hop, self._limit, self._over = owner, hop, limit, over
        self._size = 0
        self._released = False

    def take(self, size: int) -> Verdict:
        """So many bytes more are here; refused: there is no room for them."""
        if self._size + size > self._limit:
            return self._over()
        if self._released or not self._owner.take(self._hop.agent, size):
            return NO_ROOM
        self._size += size
        return ALLOWED

    def release(self) -> None:
        """The body is not needed any more. Counts once; never raises."""
        if not self._released:
            self._released = True
            self._owner.give_back(self, self._hop, self._size)
