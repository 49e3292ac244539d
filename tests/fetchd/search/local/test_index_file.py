"""What the index in a file does beyond the interface: words as people write them, ranking, damage, forms."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fetchd.errors import DatabaseDamagedError, StoreUnavailableError
from fetchd.search.local.index_file import IndexFile, require_fts5
from tests.fetchd.search.local.kit import ask
from tests.fetchd.search.local.test_index_conformance import fill, page

TEXTS = {
    "configuring the reverse-proxy": ["configure", "proxies", "REVERSE", "reverse-proxy"],
    "crème brûlée à la carte": ["creme", "BRULEE", "brûlée"],
    "Straße und Größe": ["strasse", "GROSSE"],
    "Ёлка стоит": ["елка", "ЁЛКА"],
    "今日は東京の天気予報です": ["天気", "東京", "東京の天気予報", '"京の天"', "予報"],
    "中文维基百科": ["维基", "百科", "中文"],
    "한국어를 배우다": ["한국어", "한국", "배우다"],
    "ภาษาไทยง่ายมาก": ["ไทย", "ภาษา", "ง่าย"],
    "हिन्दी भाषा": ["हिन्दी", "भाषा"],
    "السلام عليكم": ["السلام"],
    "שלום עולם": ["שלום"],
    "tiếng Việt dễ": ["tieng", "việt"],
    "don't C++ foo_bar x86-64": ["don't", "foo_bar", "x86-64", "C++"],
    "ｆｕｌｌｗｉｄｔｈ": ["fullwidth"],
}


@pytest.mark.parametrize(
    ("text", "queries"), TEXTS.items(), ids=lambda value: value if isinstance(value, str) else ""
)
async def test_words_of_many_scripts_are_found(tmp_path: Path, text: str, queries: list[str]) -> None:
    index = await IndexFile.open(tmp_path / "agent-a.db")
    await fill(index, page(1, text), page(2, "unrelated words 全然違う 문장 อื่น"))
    for query in queries:
        assert (await index.search(ask(query)))[:1] == [1], query
    await index.close()


async def test_a_word_of_the_title_counts_more(tmp_path: Path) -> None:
    index = await IndexFile.open(tmp_path / "agent-a.db")
    await fill(
        index,
        page(1, "proxy proxy and some more words of it", title="Other"),
        page(2, "nothing of it in these many words", title="The proxy"),
        *(page(number, f"filler {number}") for number in range(3, 9)),
    )
    assert await index.search(ask("proxy")) == [2, 1]
    await index.close()


async def test_common_words_alone_make_no_result(tmp_path: Path) -> None:
    """A question in words that every page has finds the pages with its rare ones."""
    index = await IndexFile.open(tmp_path / "agent-a.db")
    await fill(index, *(page(number, f"how do you do number{number}") for number in range(1, 301)))

    assert await index.search(ask("how do you number7 frobnicate")) == [7]
    assert len(await index.search(ask("how do you do"))) == 10
    await index.close()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(texts=st.lists(st.text(max_size=200), min_size=1, max_size=4), query=st.text(max_size=400))
@example(texts=["\0", "\ud800", "\u200b"], query='"')
async def test_any_text_is_a_page_and_a_query_and_goes_without_a_trace(
    tmp_path: Path, texts: list[str], query: str
) -> None:
    index = await IndexFile.open(tmp_path / "agent-a.db")
    try:
        before = (await index.state()).marks.page
        pages = [page(before + n + 1, text, title=text[:20]) for n, text in enumerate(texts)]
        await fill(index, *pages)
        await index.search(ask(query))
        for text in texts:
            await index.search(ask(text))
        await fill(index, removed=tuple(one.number for one in pages))
        assert (await index.state()).pages == 0
    finally:
        await index.close()
    with closing(sqlite3.connect(tmp_path / "agent-a.db")) as db:
        db.execute("CREATE VIRTUAL TABLE temp.v USING fts5vocab('main', 'texts', 'row')")
        assert db.execute("SELECT term FROM temp.v").fetchall() == []
        assert db.execute("SELECT count(*) FROM docs").fetchone() == (0,)
        assert db.execute("SELECT count(*) FROM hosts").fetchone() == (0,)


async def test_an_index_of_another_form_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "agent-a.db"
    index = await IndexFile.open(path)
    await fill(index, page(1, "alpha"))
    await index.close()
    with closing(sqlite3.connect(path, autocommit=True)) as db:
        db.execute("UPDATE state SET form = '0-1.1.0'")

    with pytest.raises(DatabaseDamagedError, match="another form"):
        await IndexFile.open(path)


@pytest.mark.parametrize(
    "statement",
    ["DELETE FROM state", "DROP TABLE pages", "ALTER TABLE docs RENAME TO other", "DROP TABLE texts",
     "UPDATE docs SET text = x'00'", "UPDATE docs SET title = 'another'"],
)  # fmt: skip
async def test_a_file_that_does_not_hold_what_it_should_is_damaged(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "agent-a.db"
    index = await IndexFile.open(path)
    await fill(index, page(1, "alpha"))
    await index.close()
    with closing(sqlite3.connect(path, autocommit=True)) as db:
        db.execute(statement)

    async def use() -> None:
        damaged = await IndexFile.open(path)
        try:
            await damaged.search(ask("alpha", keeps_host=lambda _host: True))
            await fill(damaged, removed=(1,))
        finally:
            await damaged.close()

    with pytest.raises(DatabaseDamagedError):
        await use()


async def test_without_fts5_the_error_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Bare(sqlite3.Connection):
        def execute(self, *_: object) -> sqlite3.Cursor:
            raise sqlite3.OperationalError("no such module: fts5")

    connect = sqlite3.connect
    monkeypatch.setattr(
        "fetchd.search.local.index_file.sqlite3.connect", lambda path, **_: connect(path, factory=Bare)
    )
    require_fts5.cache_clear()
    try:
        with pytest.raises(
            StoreUnavailableError, match=r"without FTS5; use a Python .* search\.index = false"
        ):
            await IndexFile.open(tmp_path / "agent-a.db")
    finally:
        require_fts5.cache_clear()
