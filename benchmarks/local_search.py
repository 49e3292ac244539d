"""The local search index: pages a second that it takes in, and milliseconds a search, over pages made of the corpora.

`python -m benchmarks --part search`. Pages are put together of paragraphs of real articles, each with a word of its
own, lengths as in the corpora. Searches are words of pages that are there, in a row or from anywhere in the page, one
to ten of them; each goes the whole way of the provider, to rows with titles and pieces of text.
"""

import asyncio
import random
import re
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.extract.corpora import load_article_extraction, load_wcxb
from fetchd.core.caller import Caller
from fetchd.extract.rendering import render_page
from fetchd.search.interface import SearchAnswer, SearchArguments
from fetchd.search.local.composition import open_local_index
from fetchd.search.local.indexes import Scope
from fetchd.store.text_values import ReadText
from proxy_addons.policy.config_search import SearchConfig
from proxy_addons.policy.limits import DEFAULT_PROFILE

PAGES = 10_000
SEARCHES = 400
SEARCH_BOUND_MS = 50.0
"""The 95th of a hundred searches, on a machine of this class."""
NO_SEARCH = "search: not measured, the corpora are missing; set FETCHD_CORPORA"
AGENT = "bench"
_WORD = re.compile(r"\w+")
_BATCH = 16


@dataclass(frozen=True, slots=True)
class SearchRow:
    """One run. enter_s: pages into the store; index_s: of the store into the index. Times of searches in ms;
    cpu_p95_ms: of this process, which a busy machine hardly changes. fresh_ms: from a page entered to the end of a
    search that finds it, median."""

    pages: int
    characters: int
    enter_s: float
    index_s: float
    p50_ms: float
    p95_ms: float
    most_ms: float
    cpu_p95_ms: float
    fresh_ms: float
    store_bytes: int
    index_bytes: int

    @property
    def rate(self) -> float:
        """Pages a second, into store and index."""
        return self.pages / (self.enter_s + self.index_s)


def measure_search(
    say: Callable[[str], object],
    pages: int = PAGES,
    searches: int = SEARCHES,
    sources: int | None = None,
) -> SearchRow:
    """In a temporary directory. sources: so many articles; all by default."""
    articles = [*load_wcxb(), *load_article_extraction()][:sources]
    say(f"{len(articles)} articles extracted, {pages} pages made of them")
    texts = [render_page(article.html, "https://bench.example/").text for article in articles]
    made = list(make_pages([text for text in texts if len(text) > 200], pages))
    with tempfile.TemporaryDirectory() as directory:
        return asyncio.run(_measure(Path(directory), made, searches))


def make_pages(texts: Sequence[str], count: int, seed: int = 1) -> Iterator[ReadText]:
    """Pages of paragraphs of `texts`."""
    dice = random.Random(seed)
    paragraphs = [[part for part in text.split("\n\n") if part.strip()] for text in texts]
    for number in range(count):
        wanted, first = len(dice.choice(texts)), dice.randrange(len(texts))
        from_which = [first, *(dice.randrange(len(texts)) for _ in range(3))]
        parts = [f"Page word{number:05d} {dice.getrandbits(40):x}"]
        while sum(map(len, parts)) < min(wanted, 60_000):
            parts.append(dice.choice(paragraphs[dice.choice(from_which)]))
        now = time.time_ns()
        yield ReadText(
            agent=AGENT, url=f"https://h{number % 500}.example/{number}", asked_at=now, read_at=now,
            title=f"{parts[1][:60]} {number}", text="\n\n".join(parts), language="en",
        )  # fmt: skip


def make_queries(pages: Sequence[ReadText], count: int, seed: int = 2) -> Iterator[str]:
    """Words of these pages."""
    dice = random.Random(seed)
    for _ in range(count):
        words = _WORD.findall(dice.choice(pages).text)
        size = dice.choice((1, 2, 3, 4, 6, 10))
        start = dice.randrange(max(1, len(words) - size))
        yield " ".join(
            words[start : start + size] if dice.random() < 0.5 else (dice.choice(words) for _ in range(size))
        )


async def _measure(directory: Path, pages: Sequence[ReadText], searches: int) -> SearchRow:
    caller = Caller(AGENT, DEFAULT_PROFILE)
    async with open_local_index(directory, SearchConfig) as index:
        started = time.perf_counter()
        for start in range(0, len(pages), _BATCH):
            await index.texts.add(pages[start : start + _BATCH])
        entered = time.perf_counter()
        await index.indexes.follow(AGENT)
        indexed = time.perf_counter()
        spent = [
            await _search(index.provider.search, query, caller) for query in make_queries(pages, searches)
        ]
        fresh = []
        for page in make_pages([page.text for page in pages[:50]], 20, seed=3):
            begun = time.perf_counter()
            await index.texts.add([page])
            await _search(index.provider.search, page.text.split()[2], caller)
            fresh.append(time.perf_counter() - begun)
        size = index.indexes.path_of(Scope(AGENT)).stat().st_size
    times = sorted(wall for wall, _ in spent)
    cpu = sorted(used for _, used in spent)
    return SearchRow(
        pages=len(pages),
        characters=sum(len(page.text) for page in pages),
        enter_s=entered - started,
        index_s=indexed - entered,
        p50_ms=statistics.median(times) * 1000,
        p95_ms=times[int(len(times) * 0.95)] * 1000,
        most_ms=times[-1] * 1000,
        cpu_p95_ms=cpu[int(len(cpu) * 0.95)] * 1000,
        fresh_ms=statistics.median(fresh) * 1000,
        store_bytes=(directory / "fetchd.db").stat().st_size,
        index_bytes=size,
    )


async def _search(search: Callable[..., object], query: str, caller: Caller) -> tuple[float, float]:
    """Seconds on the clock, and of this process on a processor."""
    begun, used = time.perf_counter(), time.process_time()
    answer = await search(SearchArguments(query), caller)  # type: ignore[misc]
    seconds = time.perf_counter() - begun, time.process_time() - used
    if not isinstance(answer, SearchAnswer) or not answer.rows:
        raise RuntimeError(f"nothing was found: {answer}")
    return seconds
