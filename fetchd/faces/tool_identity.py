"""Whose call it is (SPEC 7): the same tokens as at the gateway, judged for each request before it is looked at.

    Authorization: Bearer TOKEN, or Basic NAME:TOKEN     an agent, and its profile
    none                                                 by source address, else the local user where that is allowed

Open to all: what says nothing of any agent (`OPEN_PATHS`). Whatever else a client says of its name is not read.
One agent has at most half of the listener's places under way at once: event streams, answers it does not read and
bodies that it does not send would else keep all others out.
"""

import json
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from fetchd.core.caller import Caller
from fetchd.running import client_places
from proxy_addons.policy.agents import UNREADABLE, Credential, parse_credential
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

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        rulebook = self._rules.now
        source = scope["client"][0] if scope["client"] else ""
        found = rulebook.roster.identify(rulebook.tools, source, read_credential(scope))
        if isinstance(found, Verdict):
            challenge = (b"www-authenticate", CHALLENGE.encode())
            await _refuse(send, render_identity_problem(found.message), challenge)
            return
        if self._under_way[found.agent] >= client_places.count_places() // SHARE:
            await _refuse(send, _TOO_MANY, (b"retry-after", b"%d" % RETRY_SECONDS))
            return
        self._under_way[found.agent] += 1
        try:
            await self._app({**scope, CALLER: Caller(found.agent, found.profile)}, receive, send)
        finally:
            self._under_way[found.agent] -= 1
            if not self._under_way[found.agent]:
                del self._under_way[found.agent]


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
