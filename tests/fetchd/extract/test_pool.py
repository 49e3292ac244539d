"""The extractor: away from the event loop, bounded in waiting time."""

from __future__ import annotations

import threading

import pytest

from fetchd.core.header import Extraction
from fetchd.extract import pool
from fetchd.extract.pool import ThreadExtractor
from fetchd.extract.rendering import Rendering


async def test_it_renders_in_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[str] = []

    def render(html: str, url: str, *, raw: bool) -> Rendering:
        threads.append(threading.current_thread().name)
        return Rendering(f"{html} {url} {raw}", Extraction.READABILITY)

    monkeypatch.setattr(pool, "render_page", render)
    with ThreadExtractor(threads=1) as extractor:
        rendering = await extractor.render("h", "u", raw=True)

    assert rendering == Rendering("h u True", Extraction.READABILITY)
    assert threads[0].startswith("extract")


async def test_a_page_that_hangs_costs_its_article_only(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()

    def render(html: str, url: str, *, raw: bool) -> Rendering:
        release.wait(10)
        raise AssertionError("nobody waits for this")

    monkeypatch.setattr(pool, "render_page", render)
    with ThreadExtractor(threads=1, seconds=0.01) as extractor:
        first = await extractor.render("<p>one", "u", raw=False)
        second = await extractor.render("<p>two", "u", raw=False)
        release.set()

    assert (first.text, second.text) == ("one", "two")
    assert first.extraction is Extraction.RAW_HTML
