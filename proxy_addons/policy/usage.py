"""What a run of an agent asked for, added up: the evidence that a profile is suggested from.

Mutable on purpose: it is filled line by line. It decides nothing, and every table of it is bounded.
"""

from dataclasses import dataclass, field
from typing import Final

from .targets import Target

MAX_PLACES: Final = 20_000
"""Different hosts and ports that are told apart; a profile can list half as many."""
_MAX_ADDRESSES: Final = 64
"""Of one host: those of a few DNS answers."""
_MAX_WORDS: Final = 64
"""Different methods, rules, tools: there are a dozen each, and who invents more is not followed."""

type Place = tuple[str, int]
"""A host in the form of host patterns, and a port."""


@dataclass(slots=True)
class Evidence:
    """How often something was seen, when, and one example. `would_refuse`: how often only reporting let it pass."""

    count: int = 0
    first: str = ""
    last: str = ""
    example: str = ""
    would_refuse: int = 0

    def take(self, time: str, example: str, *, would_refuse: bool = False) -> None:
        """Once more."""
        if not self.count:
            self.first, self.example = time, example
        self.count += 1
        self.last = time
        self.would_refuse += would_refuse


type Seen = dict[str, Evidence]


@dataclass(slots=True)
class Usage:
    """One run. What page reads did is told apart where their own limits hold in place of the profile's."""

    requests: Evidence = field(default_factory=Evidence)
    profiles: Seen = field(default_factory=dict)
    """By policy name, `research@0123456789ab`, in the order in which they were seen last."""
    places: dict[Place, Evidence] = field(default_factory=dict)
    redirects: dict[Place, Evidence] = field(default_factory=dict)
    """Where answers led, asked for or not."""
    schemes: Seen = field(default_factory=dict)
    methods: Seen = field(default_factory=dict)
    tools: Seen = field(default_factory=dict)
    web_tools: Seen = field(default_factory=dict)
    """By vendor: answers of models whose requests had web tools that the vendor runs."""
    refused: Seen = field(default_factory=dict)
    """By rule, whatever was refused before or after it was let through."""
    bodies: Evidence = field(default_factory=Evidence)
    """Requests with a body."""
    upgrades: Evidence = field(default_factory=Evidence)
    addresses: dict[Place, set[str]] = field(default_factory=dict)
    """What the names of `places` resolved to."""
    largest_body: int | None = None
    largest_answer: int | None = None
    longest_seconds: float | None = None
    ended: int = 0
    """Requests whose end is known, those of page reads among them."""
    unsized: int = 0
    """Ends that do not say how large the request's body was, as older logs have them."""
    reads: int = 0
    """Hops of page reads."""
    unreadable: int = 0
    """Requests that were let through and of which the log does not say where to."""
    overflow: int = 0
    """Requests to further places than are told apart."""
    busiest_minute: int = 0
    busiest_day_bytes: int = 0
    _minute: tuple[str, int] = ("", 0)
    _day: tuple[str, int] = ("", 0)

    @property
    def open(self) -> int:
        """Requests that were let through and of whose end nothing is known."""
        return max(0, self.requests.count - self.ended)

    def take_request(
        self, target: Target, method: str, time: str, *, would_refuse: bool, read: bool
    ) -> Place | None:
        """A request that was let through; its place, None where it is not told apart."""
        self.requests.take(time, target.display, would_refuse=would_refuse)
        self._count_minute(time[:16])
        self.reads += read
        if not read:
            note(self.schemes, target.scheme, time, target.display)
            note(self.methods, method, time, target.display)
        place = (target.dns_name, target.port or 0)
        if place not in self.places and len(self.places) >= MAX_PLACES:
            self.overflow += 1
            return None
        shown = f"{method} {target.display}"
        self.places.setdefault(place, Evidence()).take(time, shown, would_refuse=would_refuse)
        return place

    def take_addresses(self, place: Place, addresses: tuple[str, ...]) -> None:
        """What a look-up returned for it."""
        known = self.addresses.setdefault(place, set())
        for address in addresses[: _MAX_ADDRESSES - len(known)]:
            known.add(address)

    def take_redirect(self, target: Target, method: str, time: str, source: str, *, read: bool) -> None:
        """An answer that led on. A client that does not follow it gets it only where its target is allowed."""
        if not read:
            note(self.schemes, target.scheme, time, source)
            note(self.methods, method, time, source)
        place = (target.dns_name, target.port or 0)
        if place in self.redirects or len(self.redirects) < MAX_PLACES:
            self.redirects.setdefault(place, Evidence()).take(time, source)

    def take_end(
        self, time: str, *, body: int | None, answer: int | None, wire: int | None, seconds: float | None
    ) -> None:
        """The end of a request that no rule broke off. Page reads have no limit of the profile on their answers."""
        self._count_day(time[:10], (body or 0) + (wire or 0))
        self.largest_body = _most(self.largest_body, body)
        self.largest_answer = _most(self.largest_answer, answer)
        if seconds is not None:
            self.longest_seconds = max(self.longest_seconds or 0.0, seconds)

    def _count_minute(self, minute: str) -> None:
        number = self._minute[1] + 1 if self._minute[0] == minute else 1
        self._minute = (minute, number)
        self.busiest_minute = max(self.busiest_minute, number)

    def _count_day(self, day: str, size: int) -> None:
        total = self._day[1] + size if self._day[0] == day else size
        self._day = (day, total)
        self.busiest_day_bytes = max(self.busiest_day_bytes, total)


def note(seen: Seen, word: str, time: str, example: str) -> None:
    """`word` once more, unless there are too many to tell apart."""
    if word in seen or len(seen) < _MAX_WORDS:
        seen.setdefault(word, Evidence()).take(time, example)


def _most(one: int | None, other: int | None) -> int | None:
    return one if other is None else max(one or 0, other)
