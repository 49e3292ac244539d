"""Pages on their way to the index: bounded, never in a read's way, whole when everything stops."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fetchd.core.charset import UTF_8
from fetchd.core.read_arguments import ExtractMode
from fetchd.core.read_packet import JsonText, dump_json
from fetchd.errors import StoreUnavailableError
from fetchd.extract.slices import SliceError, SlicePlan
from fetchd.offered_pages import MAX_TEXT, FetchedPage, KeptPage, cut_extracted
from fetchd.search.local import feeding
from fetchd.search.local.feeding import FOLLOW_PAGES, QUEUED_CHARS, QUEUED_PAGES, PageFeeder
from fetchd.store.page_texts import PageTexts
from fetchd.store.text_values import Marks, TextPage
from proxy_addons.policy.config_search import SearchConfig
from proxy_addons.policy.content_types import ContentClass
from tests.fetchd.search.local.kit import START, open_index, urls
from tests.fetchd.store.kit import keep, open_files

HTML = "<html lang=en><title>The title</title><body>body"


def fetched(number: int = 1, text: str = "some words", html: str = "", agent: str = "alice") -> FetchedPage:
    return FetchedPage(agent=agent, url=f"https://a.example/{number}", asked_at=START, text=text, html=html)


class Slicer:
    """Gives `found` once for each call, or raises it."""

    def __init__(self, found: object) -> None:
        self.found, self.calls = found, 0

    async def slice(self, path: Path, size: int, plan: SlicePlan) -> object:
        self.calls += 1
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


async def pages(texts: PageTexts) -> list[TextPage]:
    return list((await texts.changes(None, Marks())).added)


async def test_a_page_that_was_offered_is_found(tmp_path: Path) -> None:
    async with open_index(tmp_path, serve=True) as index:
        assert index.feeder.offer(fetched(html=HTML))
        await index.feeder.drain(20)

        assert await urls(index, "words") == await urls(index, "title") == ["https://a.example/1"]
        (page,) = await pages(index.texts)
        assert (page.content.title, page.language) == ("The title", "en")


async def test_indexes_take_in_pages_once_none_comes_any_more(tmp_path: Path) -> None:
    """Of each agent that has read one; what one index cannot, another still does."""
    texts = await PageTexts.open(tmp_path / "fetchd.db")
    followed: list[str] = []
    all_followed = asyncio.Event()

    async def follow(agent: str) -> None:
        followed.append(agent)
        if len(followed) == 2:
            all_followed.set()
        raise StoreUnavailableError("full")

    feeder = PageFeeder(texts, follow=follow)
    running = asyncio.create_task(feeder.run())
    for number in range(4):
        feeder.offer(fetched(number, agent="alice" if number % 2 else "bob"))
    await asyncio.wait_for(all_followed.wait(), 20)

    assert sorted(followed) == ["alice", "bob"]
    running.cancel()
    await asyncio.wait([running])
    await texts.close()


async def test_many_pages_are_taken_in_between(tmp_path: Path) -> None:
    texts = await PageTexts.open(tmp_path / "fetchd.db")
    taken: list[int] = []

    async def follow(_agent: str) -> None:
        taken.append((await texts.usage())[0].pages)

    feeder = PageFeeder(texts, follow=follow)
    for number in range(FOLLOW_PAGES + 20):
        feeder.offer(fetched(number))
    running = asyncio.create_task(feeder.run())
    await feeder.drain(20)

    assert taken[0] == FOLLOW_PAGES
    running.cancel()
    await asyncio.wait([running])
    await texts.close()


async def test_what_was_offered_last_is_entered_before_everything_stops(tmp_path: Path) -> None:
    async with open_index(tmp_path) as index:
        for number in range(40):
            index.feeder.offer(fetched(number, f"number {number}"))
    async with open_index(tmp_path) as index:
        assert len(await pages(index.texts)) == 40


async def test_a_full_queue_drops_and_counts_and_takes_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    texts = await PageTexts.open(tmp_path / "fetchd.db")
    feeder = PageFeeder(texts)
    taken = [feeder.offer(fetched(n)) for n in range(QUEUED_PAGES + 5)]
    assert taken == [True] * QUEUED_PAGES + [False] * 5
    assert feeder.dropped == 5
    assert caplog.text.count("were not indexed") == 1, "said once a minute"

    running = asyncio.create_task(feeder.run())
    await feeder.drain(20)
    assert (await texts.usage())[0].pages == QUEUED_PAGES
    assert feeder.offer(fetched())
    running.cancel()
    await asyncio.wait([running])
    await texts.close()


async def test_the_queue_is_bounded_in_characters_too(tmp_path: Path) -> None:
    texts = await PageTexts.open(tmp_path / "fetchd.db")
    feeder = PageFeeder(texts)
    large = "x" * MAX_TEXT
    count = sum(feeder.offer(fetched(n, large)) for n in range(QUEUED_PAGES))

    assert count == QUEUED_CHARS // MAX_TEXT
    assert feeder.offer(fetched(0, "small"))
    await texts.close()


async def test_nothing_is_taken_while_the_index_is_switched_off(tmp_path: Path) -> None:
    async with open_index(tmp_path, config=SearchConfig(index=False)) as index:
        assert not index.feeder.offer(fetched())
        await index.feeder.drain(20)
        assert await pages(index.texts) == []
        assert index.feeder.dropped == 0


async def test_a_store_that_fails_costs_those_pages_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_index(tmp_path) as index:
        failures: list[Exception] = [StoreUnavailableError("the disk is full"), ValueError("ours")]
        add = index.texts.add

        async def fail(reads: object) -> int:
            if failures:
                raise failures.pop()
            return await add(reads)  # type: ignore[arg-type]

        monkeypatch.setattr(index.texts, "add", fail)
        for number in range(3):
            index.feeder.offer(fetched(number))
            await index.feeder.drain(20)

        assert index.feeder.dropped == 2
        assert [page.url for page in await pages(index.texts)] == ["https://a.example/2"]
        assert index.feeder._held == 0


# ---- pages of page_read


PLAN = SlicePlan(ExtractMode.TEXT, "https://a.example/1", ContentClass.HTML, "text/html", UTF_8)


@pytest.mark.parametrize(
    ("text", "sliced", "found"),
    [
        pytest.param("its text", None, "its text", id="the read has made the text"),
        pytest.param(None, "made now", "made now", id="the read was for something else"),
        pytest.param(None, SliceError("no"), None, id="no text can be made of it"),
        pytest.param(None, JsonText(b'"x"'), None, id="too large to be taken apart for this alone"),
    ],
)
async def test_a_kept_page(tmp_path: Path, text: str | None, sliced: object, found: str | None) -> None:
    slicer = Slicer(sliced)
    async with open_files(tmp_path) as store, open_index(tmp_path, slicer=slicer) as index:
        blob = await keep(store, HTML.encode())
        page = KeptPage(
            agent="alice", url="https://a.example/1", asked_at=START, blob=blob.digest, size=blob.bytes,
            path=store.locate(blob.digest), plan=PLAN, text=text,
        )  # fmt: skip
        index.feeder.offer(page)
        await index.feeder.drain(20)
        kept = await pages(index.texts)

        assert [one.content.unpack() for one in kept] == ([found] if found is not None else [])
        assert [one.content.title for one in kept] == (["The title"] if found is not None else [])
        assert slicer.calls == (text is None)

        if text is None and found is not None:
            index.feeder.offer(page)  # read again, unchanged: nothing is taken apart again
            await index.feeder.drain(20)
            (again,) = await pages(index.texts)
            assert again.number > kept[0].number and again.content == kept[0].content
            assert slicer.calls == 1


async def test_a_page_that_we_cannot_read_keeps_out_none_beside_it(tmp_path: Path) -> None:
    """They are entered together, and may be of different agents."""
    async with open_files(tmp_path) as store, open_index(tmp_path, slicer=Slicer(ArithmeticError())) as index:
        blob = await keep(store, b"x")
        unreadable = KeptPage(
            agent="bob", url="https://a.example/2", asked_at=START, blob=blob.digest, size=1,
            path=store.locate(blob.digest), plan=PLAN,
        )  # fmt: skip
        for page in (fetched(1), unreadable, fetched(3)):
            index.feeder.offer(page)
        await index.feeder.drain(20)

        assert [page.url for page in await pages(index.texts)] == [
            "https://a.example/1",
            "https://a.example/3",
        ]
        assert index.feeder.dropped == 1


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"plan": None}, id="of a type without text"),
        pytest.param({"size": feeding.MAX_SLICED_BYTES + 1}, id="large"),
    ],
)
async def test_what_is_not_taken_apart(tmp_path: Path, change: dict[str, object]) -> None:
    slicer = Slicer("text")
    async with open_files(tmp_path) as store, open_index(tmp_path, slicer=slicer) as index:
        blob = await keep(store, b"x")
        facts = {
            "agent": "alice", "url": "https://a.example/1", "asked_at": START, "blob": blob.digest, "size": 1,
            "path": store.locate(blob.digest), "plan": PLAN,
        } | change  # fmt: skip
        index.feeder.offer(KeptPage(**facts))  # type: ignore[arg-type]
        await index.feeder.drain(20)
        assert await pages(index.texts) == [] and slicer.calls == 0


@pytest.mark.parametrize(
    ("extracted", "text"),
    [
        pytest.param("text", "text", id="a text"),
        pytest.param("x" * (MAX_TEXT + 1), "x" * MAX_TEXT, id="a long text"),
        pytest.param({"title": "x"}, None, id="metadata"),
        pytest.param(None, None, id="unchanged"),
        pytest.param(JsonText(dump_json('a "b" \\ \n é')), 'a "b" \\ \n é', id="as JSON"),
        pytest.param(JsonText(dump_json(["x"])), None, id="another slice as JSON"),
        pytest.param(JsonText(b'"a\nb"'), None, id="no JSON"),
    ],
)
def test_the_beginning_of_a_slice(extracted: object, text: str | None) -> None:
    assert cut_extracted(extracted) == text


@pytest.mark.parametrize("unit", ["\\", '"', "\n", "é", "\U0001f600", "\u0001", "ab\\"])
@pytest.mark.parametrize("shift", range(7))
def test_a_large_slice_is_cut_between_characters(unit: str, shift: int) -> None:
    text = "x" * shift + unit * (MAX_TEXT + 1)

    cut = cut_extracted(JsonText(dump_json(text)))

    assert cut is not None
    assert text.startswith(cut)
    assert len(cut) > MAX_TEXT // 2
