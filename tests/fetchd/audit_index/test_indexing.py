"""How the index follows the log: as it grows, rotates, is tidied up or tampered with, and as processes die."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetchd.audit_index.entries import Entry, read_entry
from fetchd.audit_index.indexer import take_in
from fetchd.audit_index.interface import Filter, IndexUnavailableError, TooMuchError
from fetchd.audit_index.keeper import INDEX_FILE, keeping_index
from fetchd.audit_index.lines import load_places
from fetchd.audit_index.reading import SqliteAuditIndex
from fetchd.audit_index.tail import list_log
from fetchd.audit_index.writing import IndexWriter
from proxy_addons.audit import AuditLog
from proxy_addons.audit.files import series_path
from proxy_addons.audit.reader import parse_log_line
from tests.fetchd.audit_index.kit import KEYS, Clock, fill, hop, reading, write_log
from tests.kit.corpora import REPOSITORY
from tests.kit.processes import find_descendants, read_command
from tests.kit.sync import PATIENCE

type Rows = list[tuple[str, int, str, str, str]]


async def rows(path: Path, wanted: Filter | None = None) -> Rows:
    with reading(path) as index:
        found = await index.find(wanted or Filter(), limit=1_000)
    return sorted((row.chain, row.seq, row.kind, row.verdict, row.fetch_id) for row in found)


async def fresh(folder: Path) -> Rows:
    """What an index made at one go has; the counts of the one that grew add up to the same."""
    (folder / "fresh.db").unlink(missing_ok=True)
    fill(folder / "audit", folder / "fresh.db")
    with reading(folder / "fresh.db") as one, reading(folder / "index.db") as other:
        assert list(await one.tally(Filter(), 60_000_000)) == list(await other.tally(Filter(), 60_000_000))
        assert (await one.status()).rows == (await other.status()).rows
    return await rows(folder / "fresh.db")


async def test_it_grows_with_the_log_line_by_line(tmp_path: Path) -> None:
    """Byte by byte in uneven pieces: an unfinished line is left for later, a close line finds its row."""
    write_log(tmp_path / "whole")
    (tmp_path / "audit").mkdir()
    writer = IndexWriter.open(tmp_path / "index.db")
    for source in sorted((tmp_path / "whole").glob("*.jsonl")):
        data = source.read_bytes()
        for end in [*range(0, len(data), 1_711), len(data)]:
            (tmp_path / "audit" / source.name).write_bytes(data[:end])
            take_in(writer, tmp_path / "audit")
    writer.close()

    assert await rows(tmp_path / "index.db") == await fresh(tmp_path)


async def test_files_that_were_moved_away_leave_it_and_come_back(tmp_path: Path) -> None:
    log = AuditLog.open(tmp_path / "audit", "gateway-0", KEYS, clock=Clock(), rotate_bytes=20_000)
    for number in range(60):
        hop(log, fetch_id=f"f{number}")
    log.close()
    files = sorted((tmp_path / "audit").glob("*.jsonl"))
    assert len(files) > 2
    writer = IndexWriter.open(tmp_path / "index.db")
    take_in(writer, tmp_path / "audit")
    before = await rows(tmp_path / "index.db")

    files[0].rename(tmp_path / "aside")
    take_in(writer, tmp_path / "audit", marks=False)
    without = await rows(tmp_path / "index.db")
    # The close line behind the cut stands alone in a fresh index: its hop went with the file.
    assert without == [row for row in before if row in without] and len(without) < len(before)

    (tmp_path / "aside").rename(files[0])
    take_in(writer, tmp_path / "audit")
    writer.close()
    assert len(await rows(tmp_path / "index.db")) >= len(before)


async def test_a_file_that_is_another_one_under_the_same_name_is_taken_in_anew(tmp_path: Path) -> None:
    write_log(tmp_path / "audit")
    writer = IndexWriter.open(tmp_path / "index.db")
    take_in(writer, tmp_path / "audit")
    for path in (tmp_path / "audit").glob("gateway-0-*"):
        path.unlink()
    (tmp_path / "audit" / "gateway-0.head").unlink()
    log = AuditLog.open(tmp_path / "audit", "gateway-0", KEYS, clock=Clock())
    hop(log, fetch_id="new")
    log.close()
    take_in(writer, tmp_path / "audit")
    writer.close()

    assert await rows(tmp_path / "index.db") == await fresh(tmp_path)
    assert len(await rows(tmp_path / "index.db", Filter(fetch_id="new"))) == 1


@pytest.mark.parametrize("spoil", ["bytes", "another program", "another version", "a cut file", "empty"])
async def test_what_cannot_be_used_is_made_again(tmp_path: Path, spoil: str) -> None:
    write_log(tmp_path / "audit")
    path = tmp_path / "index.db"
    fill(tmp_path / "audit", path)
    if spoil == "bytes":
        path.write_bytes(b"x" * 8_192)
    elif spoil == "a cut file":
        os.truncate(path, 4_096)
    elif spoil == "empty":
        os.truncate(path, 0)
    else:
        db = sqlite3.connect(path)
        db.execute(f"PRAGMA {'application_id' if spoil == 'another program' else 'user_version'} = 77")
        db.commit()
        db.close()
    done = run_indexer(tmp_path)
    if done.returncode:  # damage that shows only on the way: the next start finds a clean table
        done = run_indexer(tmp_path)

    assert (done.returncode, done.stderr) == (0, "")
    fill(tmp_path / "audit", path)  # the process ended with its input, after a batch
    assert await rows(path) == await fresh(tmp_path)
    assert path.stat().st_mode & 0o777 == 0o600


def run_indexer(folder: Path) -> subprocess.CompletedProcess[str]:
    """One round of the process: its input ends at once."""
    words = json.dumps({"log": str(folder / "audit"), "index": str(folder / "index.db")}) + "\n"
    return subprocess.run(
        [sys.executable, "-m", "fetchd.audit_index.indexer"],
        input=words, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=PATIENCE * 4,
    )  # fmt: skip


async def test_a_log_that_is_not_there_yet_is_no_error(tmp_path: Path) -> None:
    assert run_indexer(tmp_path).returncode == 0
    assert await rows(tmp_path / "index.db") == []


def test_an_index_that_cannot_be_written_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "index.db").mkdir()
    done = run_indexer(tmp_path)
    assert done.returncode == 1
    assert "index.db" in done.stderr and done.stderr.count("\n") == 1


async def test_the_keeper_starts_a_killed_process_again_and_nothing_is_lost(tmp_path: Path) -> None:
    write_log(tmp_path / "audit")
    async with kept(tmp_path) as index:
        (first,) = find_indexers()
        os.kill(first, signal.SIGKILL)
        log = AuditLog.open(tmp_path / "audit", "gateway-9", KEYS, clock=Clock())
        hop(log, fetch_id="later")
        log.close()
        await until(index, "later")
        (second,) = find_indexers()
    assert second != first and find_indexers() == []
    (tmp_path / INDEX_FILE).rename(tmp_path / "index.db")
    for suffix in ("-wal", "-shm"):
        (tmp_path / (INDEX_FILE + suffix)).unlink(missing_ok=True)
    assert await rows(tmp_path / "index.db") == await fresh(tmp_path)


@asynccontextmanager
async def kept(folder: Path) -> AsyncIterator[SqliteAuditIndex]:
    async with keeping_index(folder):
        index = SqliteAuditIndex(folder / INDEX_FILE)
        try:
            await until(index, "g1")
            yield index
        finally:
            index.close()


def find_indexers() -> list[int]:
    return [one for one in find_descendants(os.getpid()) if b"audit_index.indexer" in read_command(one)]


async def until(index: SqliteAuditIndex, fetch_id: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                if await index.find(Filter(fetch_id=fetch_id)):
                    return
            except IndexUnavailableError:
                pass  # it has not begun yet
            await asyncio.sleep(0.02)


async def test_a_question_that_takes_too_long_is_broken_off(tmp_path: Path) -> None:
    log = AuditLog.open(tmp_path / "audit", "gateway-0", KEYS, clock=Clock())
    for number in range(3_000):
        hop(log, fetch_id=f"f{number}", end=False, url=f"https://h{number}.example/")
    log.close()
    fill(tmp_path / "audit", tmp_path / "index.db")
    index = SqliteAuditIndex(tmp_path / "index.db", seconds=-1)
    with pytest.raises(TooMuchError):
        await index.top_hosts(Filter())
    index.close()
    with pytest.raises(IndexUnavailableError):
        await index.status()


async def test_an_index_that_is_replaced_while_it_is_read_is_opened_again(tmp_path: Path) -> None:
    (tmp_path / "audit").mkdir()
    path = tmp_path / "index.db"
    index = SqliteAuditIndex(path)
    with pytest.raises(IndexUnavailableError):
        await index.status()
    fill(tmp_path / "audit", path)
    assert (await index.status()).rows == 0
    path.unlink()
    write_log(tmp_path / "audit")
    fill(tmp_path / "audit", path)
    assert (await index.status()).rows > 0
    index.close()


async def test_whole_lines_are_read_from_the_log(tmp_path: Path) -> None:
    write_log(tmp_path / "audit")
    fill(tmp_path / "audit", tmp_path / "index.db")
    with reading(tmp_path / "index.db") as index:
        places = await index.places("g2")
    lines = load_places(tmp_path / "audit", places)

    assert [line.text("kind") for line in lines] == ["decision", "close"]
    assert lines[1].text("rule") == "byte-cap"
    series_path(tmp_path / "audit", "gateway-0", 1).unlink()
    assert load_places(tmp_path / "audit", places) == []
    assert ("gateway-0", 1) not in list_log(tmp_path / "audit")


@given(st.binary())
def test_any_line_is_a_row_or_none(raw: bytes) -> None:
    found = read_entry(parse_log_line("x", raw), 7)
    assert isinstance(found, Entry)  # no bytes at random are a close line or a checkpoint
    assert found.kind == "unreadable"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
members = st.sampled_from(
    "kind seq time agent url final_url fetch_id verdict outcome rule failure status bytes decoded_bytes ms host"
    " decision event detail hop method tool would_refuse".split()
)


kinds = st.sampled_from(["decision", "close", "fetch", "event", "search", ""])


@given(st.dictionaries(members, json_values), kinds)
def test_any_members_can_be_stored(line: dict[str, object], kind: str) -> None:
    raw = json.dumps({**line, **({"kind": kind} if kind else {})}).encode()
    found = read_entry(parse_log_line("x", raw), 7)
    if found is None:
        return
    entry = found if isinstance(found, Entry) else found.alone
    db = sqlite3.connect(":memory:")
    values = [getattr(entry, name) for name in entry.__slots__]
    db.execute(f"SELECT {', '.join('?' * len(values))}", values)
    db.close()
