"""Places for client connections in one worker: how many there are, who holds them, who makes room for whom.

A place is a descriptor, and what its client's requests need besides. There are as many as the process's descriptor
limit allows, MAX_PLACES at the most. When all are held, the longest idle client of the agent that holds most makes
room; one agent's idle connections cannot keep others out. Nor can its busy ones: three quarters are for one agent at
the most. A client whose agent is not known is counted by its address.
"""

import resource
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Protocol

MAX_PLACES = 1024
"""Each costs about 100 KiB with its TLS."""
LEAST_PLACES = 8
KEPT_DESCRIPTORS = 64
"""For files, listeners and the log (about 30), and for connections that are being closed."""
DESCRIPTORS_A_PLACE = 3
"""The client's own; two look-ups, which are over when one or two connections to the origin are tried."""


class Occupant(Protocol):
    """A client connection, as it is asked to make room."""

    def idle_since(self) -> float | None:
        """When it was heard last, by the event loop's clock; None while a request or a WebSocket is under way."""

    def owes(self) -> bool:
        """Whether the client has yet to take what was written for it."""

    def evict(self) -> None:
        """Close it now."""


class Place:
    """One held place. `occupant` is None until the connection is set up."""

    __slots__ = ("holder", "leaving", "occupant")

    def __init__(self, holder: str) -> None:
        self.holder = holder
        self.occupant: Occupant | None = None
        self.leaving = False


class Places:
    """All places of a worker. `limit` is asked each time: a process's descriptor limit can be changed."""

    def __init__(self, limit: Callable[[], int]) -> None:
        self._limit = limit
        self.taken = 0
        """Since the start."""
        self._held: set[Place] = set()
        self._leaving: set[Place] = set()
        self._by_holder: Counter[str] = Counter()
        self._waiting: list[Callable[[], None]] = []

    def __len__(self) -> int:
        return len(self._held)

    def is_full(self) -> bool:
        """Whether nobody may come in before somebody has left."""
        return len(self._held) >= self._limit()

    def make_share(self, holder: str, sparing: Place | None = None) -> bool:
        """Whether `holder` may hold one more place, others of it leaving for that if it holds its share."""
        limit = self._limit()
        over = self._by_holder[holder] + 1 - (limit - limit // 4)
        return over <= 0 or self._evict(over, holder, sparing) == over

    def take(self, holder: str) -> Place:
        """A place for a client of `holder`."""
        place = Place(holder)
        self.taken += 1
        self._held.add(place)
        self._by_holder[holder] += 1
        return place

    def leave(self, place: Place) -> None:
        """The client is gone, its descriptor closed."""
        self._held.remove(place)
        if place.leaving:
            self._leaving.remove(place)
        else:
            self._forget(place)
        waiting, self._waiting = self._waiting, []
        for resume in waiting:
            resume()

    def rename(self, place: Place, holder: str) -> bool:
        """The client turned out to be of `holder`; False when its share is spent and nobody of it is idle."""
        if place.holder == holder or place.leaving:
            return True
        self._forget(place)
        place.holder = holder
        fits = self.make_share(holder, sparing=place)
        self._by_holder[holder] += 1
        return fits

    def make_room(self, number: int = 0) -> bool:
        """Have idle clients leave; whether any does or is about to.

        They leave a moment later (`when_left`). `number`: how many at the least; as many as are too many leave, and
        a sixty-fourth, since to find one costs as much as to find some.
        """
        if self._leaving:
            return True
        held = len(self._held)
        return self._evict(max(number, 1, held // 64, held + 1 - self._limit())) > 0

    def _evict(self, number: int, holder: str | None = None, sparing: Place | None = None) -> int:
        """How many of at most `number` idle clients, of `holder` alone if one is named, were told to leave."""
        asked = (place for place in self._held if place is not sparing and holder in (None, place.holder))
        going = choose_leaving(asked, number)
        for place in going:
            place.leaving = True
            self._leaving.add(place)
            self._forget(place)
            assert place.occupant is not None
            place.occupant.evict()
        return len(going)

    def when_left(self, resume: Callable[[], None]) -> None:
        """Call `resume` once the next client has left."""
        self._waiting.append(resume)

    def _forget(self, place: Place) -> None:
        """Those who are about to leave count as gone when it is asked who holds most."""
        if self._by_holder[place.holder] > 1:
            self._by_holder[place.holder] -= 1
        else:
            del self._by_holder[place.holder]


def choose_leaving(places: Iterable[Place], number: int) -> list[Place]:
    """At most `number` idle clients: each time of the holder that holds most, the one that is idle for longest.

    Those who have yet to take the end of an answer come last among their holder's.
    """
    held: Counter[str] = Counter()
    idle: dict[str, list[tuple[bool, float, int, Place]]] = {}
    for order, place in enumerate(places):
        if place.leaving:
            continue
        held[place.holder] += 1
        since = place.occupant.idle_since() if place.occupant is not None else None
        if place.occupant is not None and since is not None:
            idle.setdefault(place.holder, []).append((place.occupant.owes(), since, order, place))
    for candidates in idle.values():
        candidates.sort(key=lambda one: one[:3], reverse=True)
    chosen: list[Place] = []
    while idle and len(chosen) < number:
        most = max(idle, key=lambda holder: (held[holder], -idle[holder][-1][1]))
        chosen.append(idle[most].pop()[3])
        held[most] -= 1
        if not idle[most]:
            del idle[most]
    return chosen


def count_places() -> int:
    """As many as the descriptor limit of this process allows now."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return MAX_PLACES
    return min(MAX_PLACES, max(LEAST_PLACES, (soft - KEPT_DESCRIPTORS) // DESCRIPTORS_A_PLACE))


def raise_descriptor_limit() -> None:
    """Take of the hard limit what MAX_PLACES need; nothing here uses select(2), for which 1024 is the usual limit."""
    needed = KEPT_DESCRIPTORS + DESCRIPTORS_A_PLACE * MAX_PLACES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    wanted = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
