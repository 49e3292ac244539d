"""The extractor: worker processes, bounded in time and memory; a bad page costs its own article and no other."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fetchd.core.header import Extraction
from fetchd.extract import pool
from fetchd.extract.pool import ProcessExtractor
from fetchd.extract.rendering import Rendering
from tests.fetchd.extract import hostile
from tests.kit.corpora import REPOSITORY

ARTICLE = "<h1>On gates</h1><p>" + "A gate in a wall is where the rules hold. " * 20 + "</p>"


@pytest.fixture
async def extractor(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ProcessExtractor]:
    """One worker, half a second and 64 MiB a page, and a rendering that misbehaves on demand."""
    monkeypatch.setattr(pool, "render_page", hostile.render_page)
    with ProcessExtractor(1, seconds=0.5, memory=64 << 20, pages=3) as one:
        yield one


async def test_a_page_is_rendered_in_another_process() -> None:
    with ProcessExtractor(1) as extractor:
        rendering = await extractor.render(ARTICLE, "https://a.example/", raw=False)

    assert rendering.extraction is Extraction.READABILITY
    assert "A gate in a wall" in rendering.text


async def test_arguments_reach_the_worker(extractor: ProcessExtractor) -> None:
    pid, raw = (await extractor.render("who", "u", raw=True)).text.split()

    assert (int(pid) != os.getpid(), raw) == (True, "True")


@pytest.mark.parametrize(
    "word",
    [
        pytest.param("hang", id="a page that hangs is given up after its time"),
        pytest.param("explode", id="a page that takes too much memory is given up"),
        pytest.param("die", id="a page that kills its worker is given up"),
    ],
)
async def test_a_bad_page_costs_its_article_only(extractor: ProcessExtractor, word: str) -> None:
    bad = await extractor.render(f"{word} <p>visible</p>", "u", raw=False)
    good = await extractor.render("who", "u", raw=False)

    assert bad == Rendering(f"{word}\nvisible", Extraction.RAW_HTML)
    assert good.extraction is Extraction.READABILITY


async def test_others_are_served_while_a_page_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "render_page", hostile.render_page)
    with ProcessExtractor(2, seconds=30) as extractor:
        hanging = asyncio.create_task(extractor.render("hang", "u", raw=False))
        good = [await extractor.render("who", "u", raw=False) for _ in range(5)]
        assert not hanging.done()
        hanging.cancel()

    assert {one.extraction for one in good} == {Extraction.READABILITY}


async def test_a_cancelled_call_frees_its_worker(extractor: ProcessExtractor) -> None:
    hanging = asyncio.create_task(extractor.render("hang", "u", raw=False))
    await asyncio.sleep(0)
    hanging.cancel()
    with pytest.raises(asyncio.CancelledError):
        await hanging

    assert (await extractor.render("who", "u", raw=False)).extraction is Extraction.READABILITY


async def test_workers_are_replaced_after_their_pages(extractor: ProcessExtractor) -> None:
    pids = [(await extractor.render("who", "u", raw=False)).text for _ in range(7)]

    assert len(set(pids)) == 3


async def test_no_process_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "render_page", hostile.render_page)
    with ProcessExtractor(1) as extractor:
        pid = int((await extractor.render("who", "u", raw=False)).text.split()[0])

    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


PROBE = """
import asyncio
from fetchd.extract.pool import ProcessExtractor
async def main():
    with ProcessExtractor(1) as extractor:
        print((await extractor.render("<p>plain", "https://a.example/", raw=True)).text)
if __name__ == "__main__":
    asyncio.run(main())
"""


def test_workers_import_nothing_from_the_working_directory(tmp_path: Path) -> None:
    """Whoever can write where a command is run must not choose its code."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "probe.py").write_text(PROBE)
    for name in ("json.py", "tempfile.py", "lxml.py"):
        (tmp_path / name).write_text("open('loaded', 'w').close()\n")

    done = subprocess.run(
        [sys.executable, str(elsewhere / "probe.py")],
        cwd=tmp_path, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )  # fmt: skip

    assert done.stdout == "plain\n"
    assert not (tmp_path / "loaded").exists()
