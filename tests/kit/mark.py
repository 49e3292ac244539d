"""What an origin was asked from some moment on: connections live on between tests, so counts start from a mark."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Self

from tests.kit.exchange import Request
from tests.kit.origin import Origin


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment in an origin's life. `seen`: the requests of each connection until then."""

    origin: Origin
    seen: tuple[int, ...] = ()

    @classmethod
    def now(cls, origin: Origin) -> Self:
        return cls(origin, tuple(len(connection.requests) for connection in origin.connections))

    @property
    def accepts(self) -> int:
        """Connections since."""
        return self.origin.accepts - len(self.seen)

    @property
    def requests(self) -> list[Request]:
        """Requests since, in order of connections."""
        seen = itertools.chain(self.seen, itertools.repeat(0))
        return [
            request
            for connection, before in zip(self.origin.connections, seen, strict=False)
            for request in connection.requests[before:]
        ]
