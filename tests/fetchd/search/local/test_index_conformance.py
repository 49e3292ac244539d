"""What every index of pages does, the one in a file and the one in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fetchd.errors import StoreUnavailableError
from fetchd.search.local.fake import MemoryIndex
from fetchd.search.local.index_file import IndexFile
from fetchd.search.local.interface import PageIndex
from fetchd.store.text_values import Marks, PackedText, TextChanges, TextPage
from tests.fetchd.search.local.kit import START, ask


@pytest.fixture(params=["file", "memory"])
async def index(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[PageIndex]:
    made: PageIndex = (
        MemoryIndex() if request.param == "memory" else await IndexFile.open(tmp_path / "agent-a.db")
    )
    yield made
    await made.close()


def page(number: int, text: str, **facts: object) -> TextPage:
    kept = {
        "url": f"https://h{number}.example/",
        "read_at": START,
        "dated_at": None,
        "language": None,
        "title": "",
    }
    kept |= facts
    content = PackedText.of(str(kept.pop("title")), text)
    return TextPage(number=number, agent="alice", content=content, **kept)  # type: ignore[arg-type]


async def fill(index: PageIndex, *pages: TextPage, removed: tuple[int, ...] = ()) -> None:
    before = (await index.state()).marks
    last = max((one.number for one in pages), default=before.page)
    marks = Marks(last, (before.removal or 0) + len(removed))
    assert await index.apply(before, TextChanges("epoch", marks, pages, removed))


async def test_pages_with_every_word_come_before_those_with_some(index: PageIndex) -> None:
    await fill(index, page(1, "red"), page(2, "red green blue"), page(3, "red green"), page(4, "yellow"))

    assert (await index.search(ask("red green blue")))[0] == 2
    assert sorted(await index.search(ask("red green blue"))) == [1, 2, 3]
    assert await index.search(ask("absent")) == await index.search(ask("absent nowhere")) == []
    assert await index.search(ask("!!!")) == []


async def test_the_limit_is_of_pages_that_pass_the_filters(index: PageIndex) -> None:
    await fill(index, *(page(number, f"same words {number}") for number in range(1, 30)))

    def last(host: str) -> bool:
        return host == "h29.example"

    assert await index.search(ask("same words", limit=1, keeps_host=last)) == [29]
    assert len(await index.search(ask("same words", limit=7))) == 7


async def test_a_phrase_is_wanted_in_its_order(index: PageIndex) -> None:
    await fill(index, page(1, "the proxy, in reverse"), page(2, "a reverse proxy"), page(3, "tls"))

    assert await index.search(ask('"reverse proxy" tls')) == [2]


async def test_dates_and_languages(index: PageIndex) -> None:
    await fill(
        index,
        page(1, "word a"),
        page(2, "word b", dated_at=START - 5),
        page(3, "word c", language="de"),
        page(4, "word d", language="en"),
    )

    assert sorted(await index.search(ask("word", since=START))) == [1, 3, 4]
    assert sorted(await index.search(ask("word", since=START - 5))) == [1, 2, 3, 4]
    assert sorted(await index.search(ask("word", language="en"))) == [1, 2, 4]


async def test_pages_of_one_document_are_one_result_the_newest(index: PageIndex) -> None:
    await fill(
        index, page(1, "copied", title="T"), page(2, "copied", title="T"), page(3, "copied", title="U")
    )

    assert sorted(await index.search(ask("copied"))) == [2, 3]
    assert await index.search(ask("copied", keeps_host=lambda host: host == "h1.example")) == [1]

    await fill(index, removed=(2,))
    assert sorted(await index.search(ask("copied"))) == [1, 3]


async def test_a_page_that_went_is_not_found(index: PageIndex) -> None:
    await fill(index, page(1, "alpha"), page(2, "beta"))
    await fill(index, page(3, "alpha again"), removed=(1,))

    assert await index.search(ask("alpha")) == [3]
    state = await index.state()
    assert (state.pages, state.marks, state.epoch) == (2, Marks(3, 1), "epoch")
    await fill(index, removed=(1, 99))  # once more, and one that never was here
    assert (await index.state()).pages == 2


async def test_a_step_from_elsewhere_is_not_taken(index: PageIndex) -> None:
    await fill(index, page(1, "alpha"))
    step = TextChanges("epoch", Marks(2, 0), (page(2, "beta"),))

    assert not await index.apply(Marks(), step)
    assert not await index.apply((await index.state()).marks, TextChanges("other", Marks(2, 0)))
    assert await index.search(ask("beta")) == []


async def test_after_closing_nothing_is_found(index: PageIndex) -> None:
    await index.close()
    with pytest.raises(StoreUnavailableError):
        await index.search(ask("a"))
