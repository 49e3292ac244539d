"""The operator's listener with its pages, on loopback, and a browser of a few lines."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from fetchd.faces.audit_page.routes import make_pages
from fetchd.faces.operator import make_operator_app
from fetchd.faces.operator_access.access import Access
from fetchd.health import Readiness
from fetchd.serving import listen_on, serving
from proxy_addons.policy.agents import digest_token
from tests.kit.sync import PATIENCE

TOKEN = "fetchd-operator.0123456789abcdef0123456789abcdef"
CONTROL = "c" * 64
HTML = {"Accept": "text/html"}


class Clock:
    """Seconds that pass only when told."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Site:
    """tokens: what signs in; may be changed."""

    origin: str
    access: Access
    clock: Clock
    tokens: set[str] = field(default_factory=set)
    port: int = 0

    @asynccontextmanager
    async def browser(self, **options: Any) -> AsyncIterator[Browser]:
        async with httpx.AsyncClient(
            base_url=self.origin, headers=HTML, timeout=PATIENCE, trust_env=False, **options
        ) as client:
            yield Browser(client)


@dataclass
class Browser:
    """Keeps cookies, sends forms as they were shown, follows nothing."""

    client: httpx.AsyncClient

    async def get(self, path: str, **options: Any) -> httpx.Response:
        return await self.client.get(path, **options)

    async def open_form(self, path: str = "/sign-in") -> dict[str, str]:
        """The hidden fields of the form at `path`."""
        return hidden_fields((await self.get(path)).text)

    async def send(self, path: str, fields: dict[str, str], **options: Any) -> httpx.Response:
        return await self.client.post(path, data=fields, **options)

    async def sign_in(self, token: str = TOKEN, path: str = "/sign-in") -> httpx.Response:
        form = await self.open_form(path)
        return await self.send("/sign-in", {**form, "token": token} if "code" not in form else form)


def hidden_fields(page: str) -> dict[str, str]:
    return dict(re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', page))


@asynccontextmanager
async def open_site(
    make: Callable[[Access], Any] = lambda access: make_pages(access, CONTROL),
) -> AsyncIterator[Site]:
    """Served until the context ends."""

    async def check_ready() -> Readiness:
        return Readiness()

    clock = Clock()
    tokens = {digest_token(TOKEN)}
    listening = listen_on("operator", "127.0.0.1", 0)
    port = listening.getsockname()[1]
    access = Access(lambda: frozenset(tokens), port=port, secure=False, clock=clock)
    app = make_operator_app(check_ready, access=access, control_secret=CONTROL, pages=make(access))
    async with serving(app, listening):
        yield Site(f"http://127.0.0.1:{port}", access, clock, tokens, port)
