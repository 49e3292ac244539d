"""`fetchd search` over a scripted provider, as a process: `python -m tests.fetchd.faces.search_scripted`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fetchd.faces.fetch_cli import FetchSettings
from fetchd.faces.search_cli import search
from fetchd.search.fake import ScriptedProvider
from fetchd.search.interface import SearchAnswer, SearchRow
from fetchd.search.searching import WebSearch
from proxy_addons.audit import MemoryAuditLog

EVIL = "\x1b]0;owned\x07\x9b2J\r\n\u202etxt.exe [red]x[/red] :boom:"
ROWS = (
    SearchRow(
        "https://docs.rs/tokio",
        "Tokio — docs",
        "An asynchronous  runtime.",
        "2 days ago",
        "docs.rs",
        ("Fast.",),
    ),
    SearchRow(f"http://10.0.0.1/{EVIL}", EVIL, EVIL, EVIL, EVIL, (EVIL,)),
)


@asynccontextmanager
async def open_scripted(settings: FetchSettings) -> AsyncIterator[WebSearch]:
    provider = ScriptedProvider([SearchAnswer(ROWS, dropped=2)])
    yield WebSearch({"local": provider}, lambda: settings.loaded.config.search, MemoryAuditLog())


if __name__ == "__main__":
    search(obj=open_scripted)
