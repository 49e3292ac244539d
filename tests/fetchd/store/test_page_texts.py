"""Texts kept for searching: replaced, bounded, gone with their blobs, and what an index is told of it."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetchd.store.page_texts import PageTexts, TextLimits
from fetchd.store.text_values import MAX_CHARS, MAX_TITLE, Marks, PackedText, ReadText, TextUsage
from tests.fetchd.search.local.kit import START, read_text
from tests.fetchd.store.kit import Clock, blob_of, keep, open_files, page_read


@asynccontextmanager
async def open_texts(state: Path, **limits: int) -> AsyncIterator[PageTexts]:
    texts = await PageTexts.open(state / "fetchd.db", TextLimits(**limits))
    try:
        yield texts
    finally:
        await texts.close()


async def kept(texts: PageTexts, agent: str | None = None) -> dict[str, str]:
    """URL → text, of all there is."""
    found: dict[str, str] = {}
    marks = Marks()
    while (changes := await texts.changes(agent, marks)).added:
        found |= {page.url: page.content.unpack() for page in changes.added}
        marks = changes.marks
    return found


def rows(state: Path, table: str) -> int:
    with closing(sqlite3.connect(state / "fetchd.db")) as db:
        return int(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])  # noqa: S608 - names of the test


@given(title=st.text(), text=st.text())
def test_any_text_is_packed_and_comes_back(title: str, text: str) -> None:
    packed = PackedText.of(title, text)

    assert packed.unpack() == text.encode("utf-8", "replace").decode("utf-8")[:MAX_CHARS]
    assert PackedText.of(title, text).digest == packed.digest


def test_texts_and_titles_are_bounded() -> None:
    packed = PackedText.of("t" * 1000, "\U0001f600" * (MAX_CHARS + 5))

    assert len(packed.title) == MAX_TITLE
    assert len(packed.unpack()) == MAX_CHARS


@pytest.mark.parametrize(
    "change", [{"title": "other"}, {"packed": b"x"}, {"packed": PackedText.of("", "other").packed}]
)
def test_a_text_that_is_not_what_it_was_is_an_error(change: dict[str, Any]) -> None:
    packed = PackedText.of("title", "text")
    facts = {"digest": packed.digest, "title": packed.title, "packed": packed.packed} | change

    with pytest.raises(ValueError, match="a kept text is damaged"):
        PackedText(**facts).unpack()


def test_title_and_text_do_not_run_together() -> None:
    assert PackedText.of("a", "b").digest != PackedText.of("ab", "").digest


async def test_a_url_read_again_is_replaced_for_its_agent_alone(tmp_path: Path) -> None:
    async with open_texts(tmp_path) as texts:
        assert await texts.add([read_text("one"), read_text("of bob", agent="bob")]) == 2
        assert await texts.add([read_text("two", read_at=START + 9)]) == 1
        assert await texts.add([read_text("late", read_at=START + 5)]) == 0

        assert await kept(texts, "alice") == {"https://a.example/1?id=1": "two"}
        assert await kept(texts, "bob") == {"https://a.example/1?id=1": "of bob"}
    assert rows(tmp_path, "page_texts") == 2


async def test_a_text_is_kept_once_for_all_who_have_it(tmp_path: Path) -> None:
    async with open_texts(tmp_path) as texts:
        await texts.add([read_text("same"), read_text("same", 2), read_text("same", agent="bob")])
        assert rows(tmp_path, "page_texts") == 1
        await texts.clear("alice")
        assert rows(tmp_path, "page_texts") == 1
        assert await kept(texts) == {"https://a.example/1?id=1": "same"}
        assert await texts.clear() == 1
    assert rows(tmp_path, "page_texts") == rows(tmp_path, "page_usage") == 0


async def test_an_unchanged_page_keeps_its_text_under_a_new_number(tmp_path: Path) -> None:
    async with open_files(tmp_path) as store, open_texts(tmp_path) as texts:
        blob = await keep(store, b"page")
        await texts.add([read_text("text", blob=blob.digest, language="en", dated_at=5)])
        before = (await texts.changes(None, Marks())).added[0]
        later = START + 50

        assert await texts.renew("alice", before.url, blob.digest, later)
        assert not await texts.renew("bob", before.url, blob.digest, later)
        assert not await texts.renew("alice", before.url, blob_of(b"other").digest, later)

        changes = await texts.changes(None, Marks(before.number, 0))
        (page,) = changes.added
        assert changes.removed == (before.number,)
        assert (page.read_at, page.language, page.dated_at) == (later, "en", 5)
        assert page.content == before.content


@pytest.mark.parametrize("together", [True, False])
async def test_least_recently_used_go_beyond_the_number_of_pages(tmp_path: Path, together: bool) -> None:
    async with open_texts(tmp_path, pages=3) as texts:
        await texts.add([read_text(f"{n}", n) for n in (1, 2, 3)])
        numbers = [page.number for page in (await texts.changes(None, Marks())).added]
        await texts.use(numbers[:1], START + 1000)
        new = [read_text(f"{n}", n) for n in (4, 5)]
        for batch in [new] if together else [[one] for one in new]:
            await texts.add(batch)

        assert sorted((await kept(texts)).values()) == ["1", "4", "5"]


async def test_bytes_of_one_agent_and_of_all_are_bounded(tmp_path: Path) -> None:
    size = PackedText.of("", "x" * 50 + "0").bytes
    async with open_texts(tmp_path, bytes=3 * size + 2, total_bytes=5 * size + 4) as texts:
        await texts.add([read_text("x" * 50 + str(n), n) for n in range(9)])
        assert sorted(text[-1] for text in (await kept(texts)).values()) == ["6", "7", "8"]
        await texts.add([read_text("x" * 50 + "a", agent="bob")])
        assert len(await kept(texts, "alice")) == 3
        await texts.add(
            [read_text("x" * 50 + "b", agent="carol"), read_text("x" * 50 + "c", 2, agent="carol")]
        )
        usage = await texts.usage()
        assert sum(one.bytes for one in usage) <= 5 * size + 4
        assert "bob" in {one.agent for one in usage}, "who has least loses nothing"


async def test_a_text_that_deflates_to_nothing_counts_all_the_same(tmp_path: Path) -> None:
    async with open_texts(tmp_path, bytes=120_000) as texts:
        await texts.add([read_text("a " * 99_990 + str(n), n) for n in range(4)])  # 50 KB of index each

        assert sorted(text[-1] for text in (await kept(texts)).values()) == ["2", "3"]


async def test_usage_by_agent(tmp_path: Path) -> None:
    async with open_texts(tmp_path) as texts:
        await texts.add([read_text("a"), read_text("a", agent="bob"), read_text("b", 2, agent="bob")])
        size = PackedText.of("", "a").bytes

        assert await texts.usage() == [TextUsage("alice", 1, size), TextUsage("bob", 2, 2 * size)]


async def test_of_a_forgotten_agent_nothing_is_kept_or_taken_that_was_asked_for_before(
    tmp_path: Path,
) -> None:
    async with open_texts(tmp_path) as texts:
        await texts.add([read_text("of the first"), read_text("of bob", agent="bob")])

        assert await texts.forget("alice", START + 100) == 1
        assert await texts.add([read_text("was on its way", asked_at=START + 100, read_at=START + 500)]) == 0
        assert await kept(texts, "alice") == {}
        assert await texts.add([read_text("of the second", asked_at=START + 101)]) == 1
        assert await texts.forget("alice", START) == 1  # an older order lowers no floor
        assert await texts.add([read_text("late", asked_at=START + 50)]) == 0
        assert len(await kept(texts, "bob")) == 1


# ---- with blobs


async def test_pages_go_with_their_blob_whoever_drops_it(tmp_path: Path) -> None:
    async with open_files(tmp_path) as store, open_texts(tmp_path) as texts:
        blob, other = await keep(store, b"page"), await keep(store, b"other")
        reads = [
            read_text("a", blob=blob.digest),
            read_text("b", 2, agent="bob", blob=blob.digest),
            read_text("c", 3, blob=other.digest),
            read_text("d", 4),
        ]
        assert await texts.add(reads) == 4
        await store.seal(page_read(1, b"other"))
        async with open_files(tmp_path, clock=Clock(1 << 62)) as collector:
            assert await collector.collect(0) == (blob,)
            assert sorted((await kept(texts)).values()) == ["c", "d"]
            assert await texts.add(reads[:2]) == 0, "too late"
            assert await collector.collect(0, drop_receipted=True) == (other,)
        assert sorted((await kept(texts)).values()) == ["d"]


async def test_pages_go_whose_file_was_found_missing(tmp_path: Path) -> None:
    async with open_files(tmp_path, clock=Clock(1 << 62)) as store, open_texts(tmp_path) as texts:
        blob = await keep(store, b"page")
        await texts.add([read_text("a", blob=blob.digest)])
        store.blobs.remove(blob.digest)
        store._clock.now = (1 << 62) + (1 << 60)  # type: ignore[attr-defined]
        await store.start()

        assert await kept(texts) == {}


# ---- what an index is told


async def test_changes_come_in_batches_and_end_where_the_store_is(tmp_path: Path) -> None:
    async with open_texts(tmp_path) as texts:
        await texts.add([read_text(f"{n}", n, agent="ab"[n % 2]) for n in range(300)])
        marks, seen, batches = Marks(), 0, 0
        while True:
            changes = await texts.changes("a", marks)
            seen, batches, marks = seen + len(changes.added), batches + 1, changes.marks
            if not changes.more:
                break
        assert (seen, batches) == (150, 3)
        assert await texts.changes("a", marks, changes.epoch) == type(changes)(changes.epoch, marks)

        await texts.clear("b")
        changes = await texts.changes("a", marks)
        assert (changes.added, changes.removed) == ((), ())
        assert len((await texts.changes("b", Marks(300, 0))).removed) == 150


@pytest.mark.parametrize(
    ("marks", "epoch"),
    [
        pytest.param(Marks(2, 0), None, id="pages it never had"),
        pytest.param(Marks(1, 9), None, id="removals it never had"),
        pytest.param(Marks(1, 0), "another", id="another database"),
    ],
)
async def test_marks_of_elsewhere_are_stale(tmp_path: Path, marks: Marks, epoch: str | None) -> None:
    async with open_texts(tmp_path) as texts:
        await texts.add([read_text("a")])
        assert not (await texts.changes("alice", Marks(1, 0))).stale
        assert (await texts.changes("alice", marks, epoch)).stale


async def test_removals_are_not_kept_for_ever(tmp_path: Path) -> None:
    async with open_texts(tmp_path) as texts:
        await texts.add([read_text("a")])
        await texts.clear()
        with closing(sqlite3.connect(tmp_path / "fetchd.db", autocommit=True)) as db:
            db.execute("INSERT INTO page_removals VALUES (100002, 0, '')")
        assert rows(tmp_path, "page_removals") == 1
        assert (await texts.changes("alice", Marks(1, 1))).stale
        assert not (await texts.changes("alice", Marks(1, 100_002))).stale
        assert not (await texts.changes("alice", Marks())).stale


async def test_found_pages_are_an_agents_own(tmp_path: Path) -> None:
    async with open_texts(tmp_path) as texts:
        await texts.add([read_text("a"), read_text("b", 2, agent="bob")])
        numbers = [page.number for page in (await texts.changes(None, Marks())).added]

        assert [page.agent for page in await texts.find([*numbers, 99], "alice")] == ["alice"]
        assert len(await texts.find(numbers, None)) == 2


def test_what_is_kept_of_a_page_is_in_no_repr() -> None:
    page = read_text("secret text", title="secret title", url="https://a.example/?secret")

    assert "secret" not in repr(page)
    assert "secret" not in repr(PackedText.of("secret", "secret"))
    assert isinstance(page, ReadText)
