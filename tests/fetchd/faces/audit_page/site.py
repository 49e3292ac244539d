"""The operator's listener with its pages, on loopback, and a browser of a few lines."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from fetchd.audit_index.reading import SqliteAuditIndex
from fetchd.faces.audit_page.parts import PageParts
from fetchd.faces.audit_page.routes import make_pages
from fetchd.faces.audit_page.verifying import Verification, Verifier
from fetchd.faces.audit_page.views import Views
from fetchd.faces.operator import make_operator_app
from fetchd.faces.operator_access.access import Access
from fetchd.running.health import Readiness
from fetchd.running.serving import listen_on, serving
from fetchd.store import StoredRead
from proxy_addons.policy.agents import digest_token
from proxy_addons.policy.config import Config, parse_config
from tests.fetchd.audit_index.kit import fill
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


NOW = datetime(2026, 1, 1, 0, 10, tzinfo=UTC)
"""A while after the log of the tests was written."""


@dataclass
class Site:
    """tokens: what signs in; may be changed. folder: of the log (`audit`) and its index."""

    origin: str
    access: Access
    clock: Clock
    folder: Path
    verifications: list[Verification]
    tokens: set[str] = field(default_factory=set)
    port: int = 0
    now: datetime = NOW
    reads: dict[str, StoredRead] = field(default_factory=dict)
    config: Config = field(default_factory=lambda: parse_config({}, source="test"))
    index_problem: str | None = None

    @property
    def log(self) -> Path:
        return self.folder / "audit"

    def index(self) -> None:
        """Takes in what the log has by now."""
        fill(self.log, self.folder / "index.db")

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
async def open_site(folder: Path) -> AsyncIterator[Site]:
    """Served until the context ends, over the log of `folder`, which `Site.index` takes in."""

    async def check_ready() -> Readiness:
        return Readiness()

    async def find_read(fetch_id: str) -> StoredRead | None:
        return site.reads.get(fetch_id)

    async def verify() -> Verification:
        return site.verifications[-1]

    clock = Clock()
    tokens = {digest_token(TOKEN)}
    listening = listen_on("operator", "127.0.0.1", 0)
    port = listening.getsockname()[1]
    access = Access(lambda: frozenset(tokens), port=port, secure=False, clock=clock)
    whole = Verification(NOW, True, ({**CHAIN},))
    site = Site(f"http://127.0.0.1:{port}", access, clock, folder, [whole], tokens, port)
    index = SqliteAuditIndex(folder / "index.db")
    parts = PageParts(
        index=index,
        log=site.log,
        verifier=Verifier(verify, lambda: site.now),
        find_read=find_read,
        config=lambda: site.config,
        index_problem=lambda: site.index_problem,
        now=lambda: site.now,
    )
    app = make_operator_app(
        check_ready, access=access, control_secret=CONTROL, pages=make_pages(access, CONTROL, parts),
        show_error=Views().show_error,
    )  # fmt: skip
    site.log.mkdir(exist_ok=True)
    site.index()
    async with serving(app, listening):
        yield site
    index.close()


CHAIN = {
    "chain": "gateway-0", "ok": True, "files": 1, "lines": 12, "first_time": "2026-01-01T00:00:07.000000Z",
    "last_time": "2026-01-01T00:03:00.000000Z", "head": "12:" + "a" * 64, "unsigned": 0, "finding_count": 0,
    "findings": [],
}  # fmt: skip
