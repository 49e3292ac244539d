"""Browsers that signed in. A session ends when it was not used for a while, after a day's work at the latest, and
when the tokens that sign in change. Only digests of ids are held."""

import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

IDLE_SECONDS: Final = 3_600.0
"""OWASP's session management guide: 15 to 30 minutes for what moves money, longer where one only looks."""
LIFE_SECONDS: Final = 12 * 3_600.0
MAX_SESSIONS: Final = 64
MAX_ID: Final = 128
"""Characters of an id; a longer one is nobody's."""


@dataclass(slots=True)
class Session:
    """One browser. csrf: what its forms have to send back. tokens: digests that signed in when it began."""

    csrf: str = field(repr=False)
    tokens: frozenset[str] = field(repr=False)
    began: float
    used: float


class Sessions:
    """All of them; with MAX_SESSIONS, the longest unused makes room."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock: Final = clock
        self._found: Final[OrderedDict[bytes, Session]] = OrderedDict()

    def begin(self, tokens: frozenset[str]) -> str:
        """A new session; its id is for the cookie alone."""
        now = self._clock()
        identifier = secrets.token_urlsafe(32)
        self._found[_key(identifier)] = Session(secrets.token_urlsafe(32), tokens, now, now)
        if len(self._found) > MAX_SESSIONS:
            self._found.popitem(last=False)
        return identifier

    def find(self, identifier: str, tokens: frozenset[str], *, use: bool = True) -> Session | None:
        """The session of this id, if it still counts. use: a look that nobody asked for leaves it idle."""
        if len(identifier) > MAX_ID:
            return None
        key = _key(identifier)
        session = self._found.get(key)
        if session is None:
            return None
        now = self._clock()
        if (
            now - session.used >= IDLE_SECONDS
            or now - session.began >= LIFE_SECONDS
            or session.tokens != tokens
        ):
            del self._found[key]
            return None
        if use:
            session.used = now
            self._found.move_to_end(key)
        return session

    def end(self, identifier: str) -> None:
        """Signed out."""
        self._found.pop(_key(identifier), None)


def _key(identifier: str) -> bytes:
    return sha256(identifier.encode("utf-8", "surrogatepass")).digest()
