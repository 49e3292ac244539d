"""Indexes that follow the store: one agent's pages for it alone, evictions, damage, other processes."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

import fetchd.search.local.indexes as indexes_module
from fetchd.errors import StoreUnavailableError
from fetchd.offered_pages import FetchedPage
from fetchd.search.interface import SearchArguments, SearchFailure
from fetchd.search.local.fake import DAMAGED, MemoryIndex
from fetchd.search.local.indexes import MAX_OPEN, PageIndexes, Scope, discard_file
from fetchd.store.page_texts import PAGES_A_BATCH, PageTexts
from fetchd.store.pages import HOLD_NS
from proxy_addons.policy.config_search import SearchConfig
from tests.fetchd.search.local.kit import ask, caller, open_index, read_text, search, urls
from tests.fetchd.store.kit import START, Clock, keep, open_files, page_read
from tests.kit.sync import PATIENCE


async def test_a_page_is_found_by_its_own_agent_alone(tmp_path: Path) -> None:
    async with open_index(tmp_path) as index:
        await index.texts.add([read_text("common secret"), read_text("common", 2, agent="bob")])

        assert await urls(index, "common") == ["https://a.example/1?id=1"]
        assert await urls(index, "secret", "bob") == []
        assert await urls(index, "common", "bob") == ["https://a.example/2?id=2"]
        assert await urls(index, "common", "carol") == []


async def test_what_one_agent_reads_changes_nothing_in_another_ones_index(tmp_path: Path) -> None:
    """Neither order nor the file: statistics of words would tell what others have read."""
    async with open_index(tmp_path) as index:
        await index.texts.add([read_text(f"zebra {'horse ' * n}", n) for n in range(1, 9)])
        before = await urls(index, "zebra horse")
        state, path = await index.indexes.state(Scope("alice")), index.indexes.path_of(Scope("alice"))
        with closing(sqlite3.connect(path)) as db:
            rows = db.execute("SELECT * FROM texts_data").fetchall()

        await index.texts.add([read_text(f"horse {n}", n, agent="bob") for n in range(200)])

        assert await urls(index, "zebra horse") == before
        assert (await index.indexes.state(Scope("alice"))).pages == state.pages
        with closing(sqlite3.connect(path)) as db:
            assert db.execute("SELECT * FROM texts_data").fetchall() == rows


async def test_a_shared_index_has_everybodys_pages_with_queries_for_the_reader_alone(tmp_path: Path) -> None:
    async with open_index(tmp_path, config=SearchConfig(share=True)) as index:
        await index.texts.add([read_text("common a"), read_text("common b", 2, agent="bob")])

        assert sorted(await urls(index, "common")) == ["https://a.example/1?id=1", "https://a.example/2"]
        assert sorted(await urls(index, "common", "bob")) == [
            "https://a.example/1",
            "https://a.example/2?id=2",
        ]


async def test_sharing_can_be_switched(tmp_path: Path) -> None:
    shared = False
    texts = await PageTexts.open(tmp_path / "fetchd.db")
    indexes = PageIndexes(texts, tmp_path, share=lambda: shared)
    await texts.add([read_text("word"), read_text("word", 2, agent="bob")])

    async def count() -> int:
        return len(await indexes.search("alice", ask("word", limit=9)))

    assert await count() == 1
    shared = True
    assert await count() == 1  # one document
    assert [page.agent for page in await indexes.search("alice", ask("word"))] == ["bob"]
    shared = False
    assert [page.agent for page in await indexes.search("alice", ask("word"))] == ["alice"]
    await indexes.close()
    await texts.close()


async def test_a_page_read_again_is_found_by_its_new_text_only(tmp_path: Path) -> None:
    async with open_index(tmp_path) as index:
        await index.texts.add([read_text("former")])
        assert len(await urls(index, "former")) == 1
        await index.texts.add([read_text("latter", read_at=1 << 62)])

        assert await urls(index, "former") == []
        assert len(await urls(index, "latter")) == 1


async def test_a_page_whose_body_another_process_drops_is_not_found(tmp_path: Path) -> None:
    async with open_index(tmp_path) as index, open_files(tmp_path) as store:
        blob = await keep(store, b"page")
        await store.seal(page_read(1, b"page"))
        await index.texts.add([read_text("of a body", blob=blob.digest), read_text("of none", 2)])
        assert len(await urls(index, "of")) == 2

        async with open_files(tmp_path, clock=Clock(START + HOLD_NS)) as other:
            assert await other.collect(0) == ()  # a receipt needs it
            assert len(await urls(index, "body")) == 1
            assert await other.collect(0, drop_receipted=True) == (blob,)

        assert await urls(index, "body") == []
        assert len(await urls(index, "none")) == 1
        await index.texts.add([read_text("of a body", 3, blob=blob.digest)])  # it comes too late
        assert await urls(index, "body") == []


async def test_one_who_leaves_while_another_process_has_the_lock_keeps_nobody_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that waited for the lock has it in the end, and nobody to hand it to."""
    waiting, take_lock = threading.Event(), indexes_module._take_lock

    def tell(path: Path) -> int:
        waiting.set()
        return take_lock(path)

    async with open_index(tmp_path) as index:
        await index.texts.add([read_text("word")])
        path = index.indexes.path_of(Scope("alice"))
        held = take_lock(path)
        monkeypatch.setattr(indexes_module, "_take_lock", tell)
        leaving = asyncio.create_task(index.indexes.state(Scope("alice")))
        await asyncio.to_thread(waiting.wait, PATIENCE)
        leaving.cancel()
        await asyncio.wait([leaving])
        os.close(held)

        assert len(await asyncio.wait_for(urls(index, "word"), PATIENCE)) == 1


async def test_what_went_between_index_and_store_is_not_shown(tmp_path: Path) -> None:
    """The last word is the store's: an index that is behind names pages that are gone or another's."""
    texts = await PageTexts.open(tmp_path / "fetchd.db")
    memory = MemoryIndex()

    async def open_memory(_path: Path) -> MemoryIndex:
        return memory

    indexes = PageIndexes(texts, tmp_path, open_index=open_memory)
    await texts.add(
        [read_text("word one"), read_text("word two", 2), read_text("word three", 3, agent="bob")]
    )
    assert len(await indexes.search("alice", ask("word"))) == 2

    memory.pages |= {
        page.number: page for page in (await texts.changes(None, memory.kept.marks.__class__())).added
    }
    assert {page.agent for page in await indexes.search("alice", ask("word"))} == {"alice"}
    await indexes.close()
    await texts.close()


@pytest.mark.parametrize("fresh", [False, True], ids=["while it is open", "when it is opened"])
@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda data: b"\xa5" * len(data), id="all of it"),
        pytest.param(lambda data: data[:4096] + b"\xa5" * (len(data) - 4096), id="all but the first page"),
        pytest.param(lambda data: data[: len(data) // 2], id="cut in half"),
        pytest.param(lambda data: b"", id="empty"),
        pytest.param(lambda data: data.replace(b"epoch", b"EPOCH"), id="its schema"),
    ],
)
async def test_a_damaged_index_is_made_anew_and_the_search_answered(
    tmp_path: Path, damage: object, fresh: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def check(index: object) -> None:
        await index.texts.add([read_text("alpha 2", 2)])  # type: ignore[attr-defined]
        assert len(await urls(index, "alpha")) == 2  # type: ignore[arg-type]

    async with open_index(tmp_path) as index:
        await index.texts.add([read_text("alpha")])
        await urls(index, "alpha")
        path = index.indexes.path_of(Scope("alice"))
        if not fresh:
            with closing(sqlite3.connect(path, autocommit=True)) as db:
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            path.write_bytes(damage(path.read_bytes()))  # type: ignore[operator]
            path.with_name(path.name + "-wal").write_bytes(b"")
            await check(index)
    if fresh:
        path.write_bytes(damage(path.read_bytes()))  # type: ignore[operator]
        async with open_index(tmp_path) as index:
            await check(index)
    async with open_index(tmp_path) as index:
        assert len(await urls(index, "alpha")) == 2


async def test_an_index_that_is_taken_away_while_in_use_is_made_anew(tmp_path: Path) -> None:
    async with open_index(tmp_path) as index:
        await index.texts.add([read_text("alpha")])
        assert len(await urls(index, "alpha")) == 1
        discard_file(index.indexes.path_of(Scope("alice")))

        assert len(await urls(index, "alpha")) == 1


async def test_a_failure_in_the_middle_of_following_is_mended(tmp_path: Path) -> None:
    texts = await PageTexts.open(tmp_path / "fetchd.db")
    made: list[MemoryIndex] = []

    async def open_memory(_path: Path) -> MemoryIndex:
        made.append(MemoryIndex(failures=[DAMAGED] if not made else []))
        return made[-1]

    indexes = PageIndexes(texts, tmp_path, open_index=open_memory)
    await texts.add([read_text("word")])

    assert len(await indexes.search("alice", ask("word"))) == 1
    assert len(made) == 2 and made[0].closed
    made[-1].failures += [StoreUnavailableError("full")]
    with pytest.raises(StoreUnavailableError, match="full"):
        await indexes.search("alice", ask("word"))
    assert len(await indexes.search("alice", ask("word"))) == 1
    await indexes.close()
    await texts.close()


async def test_a_place_that_cannot_be_written_fails_searches_and_no_reads(tmp_path: Path) -> None:
    (tmp_path / "index").write_text("in the way")
    async with open_index(tmp_path, serve=True) as index:
        assert index.feeder.offer(
            FetchedPage(agent="alice", url="https://a.example/", asked_at=1, text="alpha")
        )
        await index.feeder.drain(20)
        answer = await index.provider.search(SearchArguments("alpha"), caller())
        assert isinstance(answer, SearchFailure)
        (tmp_path / "index").unlink()

        assert len(await urls(index, "alpha")) == 1
        assert index.feeder.dropped == 0


async def test_an_index_without_room_works_again_when_there_is_some(tmp_path: Path) -> None:
    async with open_index(tmp_path) as index:
        await index.texts.add([read_text("alpha")])
        assert len(await urls(index, "alpha")) == 1
        follower = index.indexes._follower(Scope("alice"))
        database = follower._index._database  # type: ignore[union-attr]

        async def allow(pages: int) -> None:
            await database._in_thread(
                lambda: database._connection.execute(f"PRAGMA max_page_count = {pages}")
            )

        await allow(1)
        await index.texts.add([read_text(f"alpha {'word' * 2000} {n}", n) for n in range(2, 40)])
        answer = await index.provider.search(SearchArguments("alpha"), caller())
        assert isinstance(answer, SearchFailure), "it says so, and leaves nothing out in silence"
        await allow(100_000)

        assert len(await urls(index, "alpha", count=20)) == 20


async def test_an_index_is_made_of_many_batches_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "fetchd.search.local.indexes")
    async with open_index(tmp_path) as index:
        count = 16 * PAGES_A_BATCH + 50
        await index.texts.add([read_text(f"alpha n{n}", n) for n in range(count)])

        assert (await index.indexes.rebuild(Scope("alice"))).pages == count
        assert await urls(index, "n777") == ["https://a.example/777?id=777"]
    assert "search index agent-alice.db: " in caplog.text


async def test_an_index_of_another_store_is_made_anew(tmp_path: Path) -> None:
    """As when a copy of the database is put back, or removed."""
    async with open_index(tmp_path / "one") as index:
        await index.texts.add([read_text("alpha", n) for n in range(3)])
        assert len(await urls(index, "alpha")) == 1
    for path in (tmp_path / "one").glob("fetchd.db*"):
        path.unlink()

    async with open_index(tmp_path / "one") as index:
        assert await urls(index, "alpha") == []
        await index.texts.add([read_text("beta")])
        assert len(await urls(index, "beta")) == 1


async def test_two_processes_follow_one_store(tmp_path: Path) -> None:
    async with open_index(tmp_path) as one, open_index(tmp_path) as other:
        for number in range(1, 40):
            await (one if number % 2 else other).texts.add([read_text(f"alpha {number}", number)])
            await asyncio.gather(urls(one, "alpha"), urls(other, "alpha"))
        assert len(await urls(one, "alpha", count=20)) == len(await urls(other, "alpha", count=20)) == 20
        assert (await one.indexes.state(Scope("alice"))).pages == 39


async def test_one_makes_anew_what_another_has_open(tmp_path: Path) -> None:
    async with open_index(tmp_path) as one, open_index(tmp_path) as other:
        await one.texts.add([read_text("alpha")])
        assert len(await urls(one, "alpha")) == len(await urls(other, "alpha")) == 1
        await one.indexes.rebuild(Scope("alice"))
        await other.texts.add([read_text("alpha two", 2)])
        assert len(await urls(other, "alpha")) == len(await urls(one, "alpha")) == 2


async def test_only_so_many_index_files_are_open(tmp_path: Path) -> None:
    async with open_index(tmp_path) as index:
        agents = [f"agent{n}" for n in range(MAX_OPEN + 8)]
        await index.texts.add([read_text("word", agent=agent) for agent in agents])
        for agent in agents * 2:
            assert len(await urls(index, "word", agent)) == 1
        assert len(index.indexes._open) == MAX_OPEN


async def test_indexes_that_nobody_asks_follow_by_themselves(tmp_path: Path) -> None:
    async with open_index(tmp_path) as index:
        await index.texts.add([read_text("alpha")])
        assert len(await urls(index, "alpha")) == 1
        await index.texts.clear()
    async with open_index(tmp_path, serve=True) as index:
        async with asyncio.timeout(20):
            while (
                await index.indexes.state(Scope("alice"))
            ).pages:  # each turn goes through the index's thread
                pass


async def test_searches_side_by_side_while_pages_come(tmp_path: Path) -> None:
    async with open_index(tmp_path) as index:

        async def read(start: int) -> None:
            for number in range(start, start + 20):
                await index.texts.add([read_text(f"alpha {number}", number)])

        async def look() -> None:
            for _ in range(20):
                await search(index, "alpha")

        await asyncio.gather(*(read(100 * n) for n in range(3)), *(look() for _ in range(3)))
        assert (await index.indexes.state(Scope("alice"))).pages > 0
        await index.indexes.follow("alice")
        assert (await index.indexes.state(Scope("alice"))).pages == 60


@pytest.mark.parametrize(
    ("name", "scope"),
    [
        ("agent-a.db", Scope("a")),
        ("agent-shared.db", Scope("shared")),
        ("shared.db", Scope(None)),
        ("lock", None),
        ("agent-a.db-wal", None),
    ],
)
def test_which_file_is_whose(name: str, scope: Scope | None) -> None:
    assert Scope.of_file(name) == scope
    assert scope is None or scope.file_name == name
