"""Whose call it is (SPEC 7): the same tokens as at the gateway, judged for each request before it is looked at.

    Authorization: Bearer TOKEN, or Basic NAME:TOKEN     an agent, and its profile
    none                                                 by source address, else the local user where that is allowed

Calls and event streams of one who is that agent no more (revoked, another token) end with the reload: 401 where no
answer has begun, else the connection is closed. What they began is dropped as when their client goes.

Open to all: what says nothing of any agent (`OPEN_PATHS`). Whatever else a client says of its name is not read.
One agent has at most half of the listener's places under way at once: event streams, answers it does not read and
bodies that it does not send would else keep all others out.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fetchd.core.caller import Caller
from fetchd.running import client_places
from proxy_addons.policy.agents import UNREADABLE, Credential, Identity, parse_credential
from proxy_addons.policy.rulebook import CurrentRules
from proxy_addons.policy.verdicts import Rule, Verdict
from proxy_addons.policy.wire import PROBLEM_URI

OPEN_PATHS: Final = frozenset({"/", "/healthz", "/openapi.json", "/docs"})
CALLER: Final = "fetchd.caller"
"""Key of an ASGI scope: the Caller."""
CHALLENGE: Final = 'Bearer realm="fetchd"'
SHARE: Final = 2
"""An agent has at most one in so many of the listener's places."""
RETRY_SECONDS: Final = 5


class ToolIdentity:
    """ASGI middleware: what passes has a Caller in its scope."""

    def __init__(self, app: ASGIApp, rules: CurrentRules) -> None:
        self._app: Final = app
        self._rules: Final = rules
        self._under_way: Final[Counter[str]] = Counter()
        self._requests: Final[set[_Request]] = set()
        rules.watch(self._look_again)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        who = (scope["client"][0] if scope["client"] else "", read_credential(scope))
        found = self._identify(*who)
        if isinstance(found, Verdict):
            await _refuse(send, render_identity_problem(found.message), _CHALLENGED)
            return
        if self._under_way[found.agent] >= client_places.count_places() // SHARE:
            await _refuse(send, _TOO_MANY, (b"retry-after", b"%d" % RETRY_SECONDS))
            return
        self._under_way[found.agent] += 1
        request = _Request(who, found.agent, receive, send)
        self._requests.add(request)
        try:
            await self._app(
                {**scope, CALLER: Caller(found.agent, found.profile)}, request.receive, request.send
            )
            if request.is_unanswered:
                await _refuse(send, render_identity_problem(_MEANWHILE), _CHALLENGED)
        finally:
            self._requests.discard(request)
            self._under_way[found.agent] -= 1
            if not self._under_way[found.agent]:
                del self._under_way[found.agent]

    def _identify(self, source: str, credential: Credential | None) -> Identity | Verdict:
        rulebook = self._rules.now
        return rulebook.roster.identify(rulebook.tools, source, credential)

    def _look_again(self) -> None:
        """Other rules are in force: who is under way and would not be let in as the same agent?"""
        for request in self._requests:
            found = self._identify(*request.who)
            if isinstance(found, Verdict) or found.agent != request.agent:
                request.end()


class _Request:
    """One request under way: its two ends, until it is nobody's. who: source and credential."""

    def __init__(self, who: tuple[str, Credential | None], agent: str, receive: Receive, send: Send) -> None:
        self.who, self.agent = who, agent
        self._receive, self._send = receive, send
        self._ended = asyncio.get_running_loop().create_future()
        self._answered = False

    @property
    def is_unanswered(self) -> bool:
        """Whether it was ended before its answer began."""
        return self._ended.done() and not self._answered

    def end(self) -> None:
        """To the application its client has gone; to the client nothing more is said."""
        if not self._ended.done():
            self._ended.set_result(None)

    async def receive(self) -> Message:
        """What the client says next, or that it has gone."""
        if not self._ended.done():
            message = asyncio.ensure_future(self._receive())
            try:
                await asyncio.wait({message, self._ended}, return_when=asyncio.FIRST_COMPLETED)
                if not self._ended.done():
                    return message.result()
            finally:
                message.cancel()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Pass it on."""
        if self._ended.done():
            return
        self._answered = True
        await self._send(message)


def read_credential(scope: Scope) -> Credential | None:
    """What a request says of who it is; two statements are none that counts."""
    stated = [value for name, value in scope["headers"] if name == b"authorization"]
    if not stated:
        return None
    return parse_credential(stated[0]) if len(stated) == 1 else UNREADABLE


def render_identity_problem(detail: str) -> Mapping[str, object]:
    """The problem document (RFC 9457) of a caller that is nobody known."""
    return MappingProxyType(
        {
            "type": f"{PROBLEM_URI}{Rule.IDENTITY}",
            "title": "Unknown agent",
            "status": 401,
            "detail": detail,
            "rule": Rule.IDENTITY.value,
        }
    )


_CHALLENGED: Final = (b"www-authenticate", CHALLENGE.encode())
_MEANWHILE: Final = (
    "whoever asked this is not known here any more: revoked, or known by something else, meanwhile"
)
_TOO_MANY: Final = MappingProxyType(
    {
        "type": "about:blank",
        "title": "Service Unavailable",
        "status": 503,
        "detail": "too many requests of this agent at once; end one, or try again in a few seconds",
    }
)


async def _refuse(send: Send, document: Mapping[str, object], field: tuple[bytes, bytes]) -> None:
    body = json.dumps(dict(document)).encode()
    fields = [
        (b"content-type", b"application/problem+json"),
        (b"content-length", b"%d" % len(body)),
        field,
    ]
    await send({"type": "http.response.start", "status": document["status"], "headers": fields})
    await send({"type": "http.response.body", "body": body})
