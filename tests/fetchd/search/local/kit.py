"""Pages for the index, stores of them, and searches, for the tests of the local provider."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fetchd.core.caller import Caller
from fetchd.search.interface import SearchAnswer, SearchArguments, SearchRow
from fetchd.search.local.composition import LocalIndex, open_local_index
from fetchd.search.local.interface import Ask
from fetchd.search.local.query import parse_query
from fetchd.store.text_values import ReadText
from proxy_addons.policy.config import parse_config
from proxy_addons.policy.config_search import SearchConfig

SECOND = 1_000_000_000
DAY = 86_400 * SECOND
START = 1_790_000_000 * SECOND
PROFILE = parse_config({}, source="test").profiles["default"]


def caller(agent: str = "alice") -> Caller:
    return Caller(agent, PROFILE)


def read_text(text: str = "words of a page", number: int = 1, **changes: Any) -> ReadText:
    facts: dict[str, Any] = {
        "agent": "alice",
        "url": f"https://a.example/{number}?id={number}",
        "asked_at": START + number,
        "read_at": START + number,
        "title": "",
        "text": text,
    }
    return ReadText(**(facts | changes))


def ask(query: str, **changes: Any) -> Ask:
    facts: dict[str, Any] = {"query": parse_query(query), "limit": 10}
    return Ask(**(facts | changes))


@asynccontextmanager
async def open_index(
    state: Path, *, config: SearchConfig | None = None, **options: Any
) -> AsyncIterator[LocalIndex]:
    settings = config or SearchConfig()
    async with open_local_index(state, lambda: settings, **options) as index:
        yield index


async def search(
    index: LocalIndex, query: str, agent: str = "alice", **arguments: Any
) -> tuple[SearchRow, ...]:
    answer = await index.provider.search(SearchArguments(query, **arguments), caller(agent))
    assert isinstance(answer, SearchAnswer), answer
    return answer.rows


async def urls(index: LocalIndex, query: str, agent: str = "alice", **arguments: Any) -> list[str]:
    return [row.url for row in await search(index, query, agent, **arguments)]
