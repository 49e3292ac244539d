"""Citations held to the pages they name: each page is read through the gateway, with a receipt (SPEC 5).

A quote is looked for in the article of the page, then in all of its visible words. That it stands there now does
not say that it did when the vendor looked, nor that the answer follows from it.
"""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from fetchd.app import DaemonTools
from fetchd.core.caller import Caller
from fetchd.core.read_packet import JsonText
from fetchd.errors import StoreError
from fetchd.extract.plain_text import render_plain_text
from fetchd.store.runs import StoredCitation
from fetchd.web_access.quoting import read_words, split_quote, stands_in

MAX_SCANNED: Final = 8 << 20
"""Bytes of a body that are looked through whole."""


class Finding(StrEnum):
    """What came of a citation."""

    FOUND = "found"
    NOT_FOUND = "not found"
    UNREADABLE = "could not read"
    NOTHING_QUOTED = "nothing quoted"


@dataclass(frozen=True, slots=True)
class CheckedCitation:
    """receipt: the id of the read, whose receipt it is (`fetchd receipt show`). why: it could not be read."""

    stored: StoredCitation
    finding: Finding
    receipt: str | None = None
    digest: str | None = None
    why: str | None = None


@dataclass(frozen=True, slots=True)
class _Page:
    """A page that was read: its words, and what proves it; or why it was not."""

    words: tuple[str, ...] = ()
    receipt: str | None = None
    digest: str | None = None
    why: str | None = None


async def check_citations(
    citations: Sequence[StoredCitation],
    tools: DaemonTools,
    caller: Caller,
    ceiling: int,
    on_read: Callable[[int, str], None] = lambda number, url: None,
) -> list[CheckedCitation]:
    """All of them, in their order; a page that is cited more than once is read once. on_read: told of each page
    before it is read, by the number of its citation."""
    pages: dict[str, _Page] = {}
    checked = []
    for number, stored in enumerate(citations, 1):
        parts = split_quote(stored.citation.cited_text or "")
        if not parts:
            checked.append(CheckedCitation(stored, Finding.NOTHING_QUOTED))
            continue
        url = stored.citation.url
        if url not in pages:
            on_read(number, url)
            pages[url] = await _read(url, tools, caller, ceiling)
        page = pages[url]
        if page.why is not None:
            checked.append(CheckedCitation(stored, Finding.UNREADABLE, why=page.why))
            continue
        found = any(stands_in(parts, words) for words in page.words)
        finding = Finding.FOUND if found else Finding.NOT_FOUND
        checked.append(CheckedCitation(stored, finding, page.receipt, page.digest))
    return checked


async def _read(url: str, tools: DaemonTools, caller: Caller, ceiling: int) -> _Page:
    outcome = await tools.page_reader.call({"url": url, "extract": "text"}, caller, ceiling)
    if outcome.failure is not None or outcome.packet is None:
        return _Page(why=outcome.failure.text if outcome.failure is not None else "the read did not finish")
    packet: Any = outcome.packet
    result = packet["provider_operation"]["data"]["result"]
    extracted = result["extracted"]
    text = json.loads(extracted.data) if isinstance(extracted, JsonText) else extracted
    digest = str(result["content_digest"])
    words = await asyncio.to_thread(read_words, str(text))
    whole = await _scan(digest, tools)
    return _Page((words, whole), outcome.fetch_id if outcome.receipt is not None else None, digest)


async def _scan(digest: str, tools: DaemonTools) -> str:
    """The words of all that the page shows; those of its beginning, where it is very large."""
    body = bytearray()
    try:
        async with tools.store.open_blob(digest) as reader:
            async for piece in reader:
                body += piece[: MAX_SCANNED - len(body)]
    except StoreError:
        return ""  # the article was looked through, and the page may be gone by now
    return await asyncio.to_thread(lambda: read_words(render_plain_text(body.decode("utf-8", "replace"))))
