"""How many MCP sessions an agent has open, so that one cannot take all that there may be.

The SDK says when a session begins (the answer that names it) and not when it ends. It has ended when its client
deletes it, when it answers 404, or when no request of it was under way for the idle time; that is counted here.
"""

import time
from collections import Counter
from collections.abc import Callable
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

SESSION_FIELD: Final = b"mcp-session-id"


class _Session:
    """agent: whose it is. busy: requests under way. seen: when the last one ended."""

    __slots__ = ("agent", "busy", "seen")

    def __init__(self, agent: str, now: float) -> None:
        self.agent, self.busy, self.seen = agent, 0, now


class SessionShares:
    """Counts sessions by agent around an application that opens them."""

    def __init__(self, most: int, idle_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._most: Final = most
        self._idle: Final = idle_seconds
        self._clock: Final = clock
        self._sessions: Final[dict[str, _Session]] = {}
        self._opening: Final[Counter[str]] = Counter()

    def is_full(self, agent: str) -> bool:
        """Whether the agent has as many sessions as it may."""
        if self._count(agent) < self._most:
            return False
        until = self._clock() - self._idle
        for name in [name for name, one in self._sessions.items() if not one.busy and one.seen < until]:
            del self._sessions[name]
        return self._count(agent) >= self._most

    async def run(self, app: ASGIApp, agent: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and note what its answer says of its session."""
        stated = next(
            (value.decode("latin-1") for name, value in scope["headers"] if name == SESSION_FIELD), None
        )
        session = self._sessions.get(stated) if stated is not None else None
        if session is not None and session.agent != agent:
            session = None  # it is answered 404, and keeps nothing of another's alive
        self._opening[agent] += stated is None
        if session is not None:
            session.busy += 1

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._note(scope["method"], stated, agent, message)
            await send(message)

        try:
            await app(scope, receive, noted)
        finally:
            self._opening[agent] -= stated is None
            if not self._opening[agent]:
                del self._opening[agent]
            if session is not None:
                session.busy -= 1
                session.seen = self._clock()

    def _note(self, method: str, stated: str | None, agent: str, message: Message) -> None:
        status = message["status"]
        if stated is not None:
            session = self._sessions.get(stated)
            ended = status == 404 or (method == "DELETE" and status < 300)
            if ended and session is not None and session.agent == agent:
                del self._sessions[stated]
            return
        named = next((value for name, value in message["headers"] if name.lower() == SESSION_FIELD), None)
        if status < 400 and named is not None:
            self._sessions[named.decode("latin-1")] = _Session(agent, self._clock())

    def _count(self, agent: str) -> int:
        return self._opening[agent] + sum(one.agent == agent for one in self._sessions.values())
