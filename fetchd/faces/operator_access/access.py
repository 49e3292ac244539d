"""Whether a request is the operator's.

1 an Authorization field: Bearer and the token, else refused, whatever cookie comes with it
2 the cookie of a session
3 neither: nobody

What changes anything with a cookie has to send back the session's form token (`has_csrf`); a token in a header needs
none, as no browser sends one by itself.
"""

import asyncio
import hmac
import logging
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from starlette.types import Scope

from fetchd.running.run_state import SecretError
from proxy_addons.policy.agents import digest_token

from .attempts import Attempts
from .links import Links
from .sessions import LIFE_SECONDS, Session, Sessions

MAX_TOKEN: Final = 512

NO_TOKEN: Final = "there is no token yet; make one: fetchd operator token, or a link: fetchd operator link"  # noqa: S105 (a sentence)
UNKNOWN: Final = "the token is not known here; it may have been replaced"
SPENT: Final = "the link was used, or is too old; make another: fetchd operator link"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Denied:
    """Not signed in, and why. wait: seconds before another try."""

    reason: str
    wait: int = 0


@dataclass(frozen=True, slots=True)
class Signed:
    """The operator. session: None for whoever sends the token with each request."""

    session: Session | None = None

    @property
    def csrf(self) -> str:
        """For the forms of a page."""
        return self.session.csrf if self.session is not None else ""


class Access:
    """Everything that lets the operator in. load_tokens: digests that count now; blocks; may raise SecretError and
    OSError. port: ours, part of the cookies' names, since browsers send cookies to every port of a machine."""

    def __init__(
        self,
        load_tokens: Callable[[], frozenset[str]],
        *,
        port: int,
        secure: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._load: Final = load_tokens
        self._secure: Final = secure
        prefix = "__Host-" if secure else ""
        self._session_cookie: Final = f"{prefix}fetchd-{port}"
        self._form_cookie: Final = f"{prefix}fetchd-form-{port}"
        self._form_key: Final = secrets.token_bytes(32)
        self._sessions: Final = Sessions(clock)
        self._attempts: Final = Attempts(clock)
        self.links: Final = Links(clock)

    async def identify(self, scope: Scope, *, use: bool = True) -> Signed | Denied:
        """Whose request it is."""
        stated = [value for name, value in scope["headers"] if name == b"authorization"]
        if stated:
            scheme, _, token = stated[0].decode("latin-1").partition(" ")
            if len(stated) > 1 or scheme.lower() != "bearer":
                return Denied("send one Authorization field: Bearer and the operator's token")
            denied = await self._check(address_of(scope), lambda known: _is_known(token.strip(), known))
            return denied or Signed()
        identifier = read_cookies(scope).get(self._session_cookie)
        if identifier is None:
            return Denied("sign in first")
        session = self._sessions.find(identifier, await self._tokens(), use=use)
        return Signed(session) if session is not None else Denied("the session has ended; sign in again")

    async def sign_in(self, scope: Scope, token: str, code: str) -> str | Denied:
        """The cookie of a new session, for a token or the code of a link."""
        if code and self.links.take(code):
            # 256 bits of ours: an address that others made wait still signs in by a link.
            denied = None
        elif code:
            denied = await self._check(address_of(scope), lambda _: False, SPENT)
        else:
            denied = await self._check(address_of(scope), lambda known: _is_known(token.strip(), known))
        if denied is not None:
            return denied
        identifier = self._sessions.begin(await self._tokens())
        return self._cookie(self._session_cookie, identifier, int(LIFE_SECONDS))

    def sign_out(self, scope: Scope) -> str:
        """The cookie that takes its place."""
        identifier = read_cookies(scope).get(self._session_cookie)
        if identifier is not None:
            self._sessions.end(identifier)
        return self._cookie(self._session_cookie, "", 0)

    def open_form(self, scope: Scope) -> tuple[str, str | None]:
        """For the form of somebody who has no session: what it has to send back, and a cookie to go with it if there
        is none yet. It keeps other sites from signing a browser in (login CSRF)."""
        seed = read_cookies(scope).get(self._form_cookie)
        if seed is not None and len(seed) == _SEED_CHARACTERS:
            return self._mark(seed), None
        seed = secrets.token_urlsafe(24)
        return self._mark(seed), self._cookie(self._form_cookie, seed, 3_600)

    def is_form(self, scope: Scope, sent: str) -> bool:
        """Whether a form without a session is one of ours, opened in this browser."""
        seed = read_cookies(scope).get(self._form_cookie)
        return seed is not None and hmac.compare_digest(self._mark(seed).encode(), _encode(sent))

    async def _check(
        self, address: str, holds: Callable[[frozenset[str]], bool], reason: str = UNKNOWN
    ) -> Denied | None:
        wait = self._attempts.wait(address)
        if wait:
            return Denied("too many failures; wait a minute", wait)
        known = await self._tokens()
        if holds(known):
            return None
        self._attempts.fail(address)
        return Denied(reason if known or reason is SPENT else NO_TOKEN)

    async def _tokens(self) -> frozenset[str]:
        try:
            return await asyncio.to_thread(self._load)
        except (SecretError, OSError) as error:
            _log.error("the operator's token cannot be read, so none counts: %s", error)
            return frozenset()

    def _mark(self, seed: str) -> str:
        return hmac.new(self._form_key, _encode(seed), sha256).hexdigest()

    def _cookie(self, name: str, value: str, seconds: int) -> str:
        secure = "; Secure" if self._secure else ""
        return f"{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"


_SEED_CHARACTERS: Final = 32
"""24 bytes in base64url."""


def has_csrf(signed: Signed, sent: str) -> bool:
    """Whether a form of somebody signed in is one that this session was given."""
    return signed.session is None or hmac.compare_digest(signed.session.csrf.encode(), _encode(sent))


def address_of(scope: Scope) -> str:
    """Where a request came from."""
    return str(scope["client"][0]) if scope.get("client") else ""


def read_cookies(scope: Scope) -> dict[str, str]:
    """The cookies of a request, all of them: other servers of this machine may have left many, and ours stands behind
    theirs; the server bounds the fields. Of two of one name the last counts."""
    text = "; ".join(value.decode("latin-1") for name, value in scope["headers"] if name == b"cookie")
    found: dict[str, str] = {}
    for part in text.split(";"):
        name, mark, value = part.strip().partition("=")
        if mark:
            found[name] = value
    return found


def _is_known(token: str, known: frozenset[str]) -> bool:
    if not token or len(token) > MAX_TOKEN:
        return False
    digest = digest_token(token).encode()
    # Each is looked at, however the ones before compared.
    return sum([hmac.compare_digest(digest, one.encode()) for one in known]) > 0


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
