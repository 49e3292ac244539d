"""Which pages citations are held to, and what is said on the way; what stands on them is for `test_quoting`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from fetchd.core.caller import Caller
from fetchd.faces.citation_check import Finding, check_citations
from fetchd.store.runs import StoredCitation
from fetchd.web_access.values import Citation
from proxy_addons.policy.limits import DEFAULT_PROFILE


async def test_each_page_is_read_once_and_named_before() -> None:
    told: list[tuple[int, str]] = []

    class Reader:
        async def call(self, arguments: dict[str, Any], *about: object) -> Any:
            assert told[-1][1] == arguments["url"]
            read.append(arguments["url"])
            return SimpleNamespace(failure=SimpleNamespace(text="gone"), packet=None)

    read: list[str] = []
    tools: Any = SimpleNamespace(page_reader=Reader())
    one, other, quiet = (f"https://docs.rs/{number}" for number in range(3))
    cited = [Citation(one, None, "a"), Citation(quiet), Citation(one, None, "b"), Citation(other, None, "c")]
    checked = await check_citations(
        [StoredCitation(1, citation) for citation in cited],
        tools,
        Caller("bot", DEFAULT_PROFILE),
        1,
        lambda number, url: told.append((number, url)),
    )
    assert (read, told) == ([one, other], [(1, one), (4, other)])
    assert [found.finding for found in checked] == [
        Finding.UNREADABLE, Finding.NOTHING_QUOTED, Finding.UNREADABLE, Finding.UNREADABLE,
    ]  # fmt: skip
