"""Runs in the store: what is written is what is read, after a restart, a crash, and on bad days of the disk."""

from __future__ import annotations

import asyncio
import logging
import shutil
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path

import pytest

from fetchd.errors import StoreUnavailableError
from fetchd.store.records import SqliteRecords
from fetchd.store.runs import RunRecords, StoredCitation, StoredToolCall
from fetchd.store.schema import MIGRATIONS
from fetchd.web_access.declaration import WebAccess
from fetchd.web_access.recording import CarefulLog
from fetchd.web_access.run_values import ProviderCall, RunOutcome, RunStatus, StepResult
from fetchd.web_access.values import Citation, ServerToolCall, Stop, Usage
from tests.fetchd.web_access.kit import SPEC

OLD = Path(__file__).with_name("fixtures") / "records-v1.db"
WEB = WebAccess.search().max_uses(3).allow("docs.rs")
RUN = replace(SPEC, web=WEB)
CALL = ProviderCall(
    1, "anthropic", "model", "anthropic", "2026-08-25T08:00:00.000Z", 12.5, Usage(100, 20, 1), "end_turn"
)
SILENT = replace(CALL, usage=Usage(), stop_reason=None, code="unreachable")
FULL = Citation("https://docs.rs/1", "A page", "quoted", outside_declaration=True)
BARE = Citation("https://docs.rs/2")
OK, BROKE = (
    ServerToolCall.ok("anthropic", "web_search"),
    ServerToolCall.failed("anthropic", "web_fetch", "url_too_long"),
)
STEP = StepResult(1, Stop.END, (SILENT, CALL), (FULL, BARE), (OK, BROKE), dropped_rows=2)
DONE = RunOutcome("run1", RunStatus.DONE, "text", "anthropic", "model", (STEP,))


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[RunRecords]:
    records = await RunRecords.open(path)
    try:
        yield records
    finally:
        await records.close()


async def write(records: RunRecords, run_id: str = "run1", agent: str = "bot") -> None:
    spec = replace(RUN, run_id=run_id, agent=agent)
    await records.begin(spec, "anthropic", "model")
    await records.add_step(spec, STEP)
    await records.end(replace(DONE, run_id=run_id))


async def test_a_run_is_read_back_by_another_process_s_connection(tmp_path: Path) -> None:
    async with opened(tmp_path / "fetchd.db") as records:
        await write(records)
    async with opened(tmp_path / "fetchd.db") as records:
        (run,) = await records.list_runs()
        assert (run.id, run.agent, run.parent, run.status, run.provider) == (
            "run1", "bot", None, "done", "anthropic",
        )  # fmt: skip
        assert run.declaration == (
            '{"search": true, "fetch": false, "max_uses": 3, "allowed_domains": ["docs.rs"], "blocked_domains": []}'
        )
        assert await records.citations("run1") == [StoredCitation(1, FULL), StoredCitation(1, BARE)]
        assert await records.server_tool_calls("run1") == [StoredToolCall(1, OK), StoredToolCall(1, BROKE)]
        assert await records.provider_calls("run1") == [SILENT, CALL]
        totals = await records.totals("run1")
        assert (totals.steps, totals.calls, totals.usage) == (1, 2, Usage(100, 20, 1))


async def test_of_each_agent_the_last_runs_are_kept_whole_and_no_row_of_the_others(tmp_path: Path) -> None:
    path = tmp_path / "fetchd.db"
    records = await RunRecords.open(path, max_runs=2)
    try:
        await write(records, "other", agent="crawler")
        for run_id in ("run1", "run2", "run3"):
            await write(records, run_id)
        assert [run.id for run in await records.list_runs()] == ["run3", "run2", "other"]
        assert not await records.citations("run1") and not await records.provider_calls("run1")
        assert (await records.totals("run2")).calls == 2
    finally:
        await records.close()
    with closing(sqlite3.connect(path)) as db:
        for table in ("steps", "provider_calls", "citations", "server_tool_calls"):
            assert {run for (run,) in db.execute(f"SELECT run FROM {table}")} == {"run2", "run3", "other"}  # noqa: S608


async def test_nothing_reported_stays_nothing(tmp_path: Path) -> None:
    path = tmp_path / "fetchd.db"
    async with opened(path) as records:
        await records.begin(RUN, "anthropic", "model")
        await records.add_step(RUN, StepResult(1, None, (SILENT,)))
        assert (await records.totals("run1")).usage == Usage()
        assert (await records.provider_calls("run1"))[0].usage == Usage()
    with closing(sqlite3.connect(path)) as db:
        row = db.execute(
            "SELECT input_tokens, output_tokens, server_tool_requests FROM provider_calls"
        ).fetchone()
    assert row == (None, None, None)


async def test_a_citation_is_one_row_for_each_run_step_and_url(tmp_path: Path) -> None:
    async with opened(tmp_path / "fetchd.db") as records:
        await records.begin(RUN, "anthropic", "model")
        await records.add_step(RUN, replace(STEP, citations=(FULL, replace(FULL, cited_text="again"), BARE)))
        await records.add_step(RUN, replace(STEP, step=2, citations=(FULL,)))
        found = await records.citations("run1")
    assert found == [StoredCitation(1, FULL), StoredCitation(1, BARE), StoredCitation(2, FULL)]


async def test_a_run_whose_process_ended_has_its_steps_and_no_end(tmp_path: Path) -> None:
    async with opened(tmp_path / "fetchd.db") as records:
        await records.begin(RUN, "anthropic", "model")
        await records.add_step(RUN, STEP)
    async with opened(tmp_path / "fetchd.db") as records:
        (run,) = await records.list_runs()
        assert (run.status, run.ended_at) == (None, None)
        assert len(await records.citations("run1")) == 2


async def test_an_older_file_opens_and_has_empty_lists(tmp_path: Path) -> None:
    path = tmp_path / "fetchd.db"
    shutil.copy(OLD, path)
    async with opened(path) as records:
        assert await records.list_runs() == []
        assert await records.find_run("run1") is None
        assert await records.citations("run1") == []
        assert await records.server_tool_calls("run1") == []
        assert await records.provider_calls("run1") == []
        totals = await records.totals("run1")
        assert (totals.steps, totals.usage) == (0, Usage())
        await write(records)
    reads = await SqliteRecords.open(path)
    assert len(await reads.list_reads()) == 2
    await reads.close()


async def test_a_file_of_the_step_before_gains_the_tables(tmp_path: Path) -> None:
    from fetchd.store.database import Database

    path = tmp_path / "fetchd.db"
    before = next(place for place, step in enumerate(MIGRATIONS) if "CREATE TABLE runs" in step)
    await (await Database.open(path, MIGRATIONS[:before])).close()
    async with opened(path) as records:
        await write(records)
        assert len(await records.list_runs()) == 1


async def test_two_runs_at_once_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "fetchd.db"
    async with opened(path) as one, opened(path) as two:
        await asyncio.gather(
            *(
                write(records, f"{name}{number}", name)
                for name, records in (("a", one), ("b", two))
                for number in range(20)
            )
        )
        assert len(await one.list_runs(limit=100)) == 40
        assert {run.agent for run in await one.list_runs(limit=100, agent="b")} == {"b"}
        for run in await two.list_runs(limit=100):
            assert len(await two.citations(run.id)) == 2
            assert len(await two.provider_calls(run.id)) == 2


async def test_the_newest_run_is_first_and_no_more_are_listed_than_asked_for(tmp_path: Path) -> None:
    async with opened(tmp_path / "fetchd.db") as records:
        for number in range(5):
            await write(records, f"run{number}")
        assert [run.id for run in await records.list_runs(limit=2)] == ["run4", "run3"]


# --------------------------------------------------------------------------------------------------- bad days


async def test_a_step_is_kept_whole_or_not_at_all(tmp_path: Path) -> None:
    async with opened(tmp_path / "fetchd.db") as records:
        await records.begin(RUN, "anthropic", "model")
        half = replace(STEP, tools=(replace(OK, tool=None),))  # type: ignore[arg-type]
        with pytest.raises(StoreUnavailableError):
            await records.add_step(RUN, half)
        assert (await records.totals("run1")).steps == 0
        assert await records.citations("run1") == []


@pytest.mark.parametrize("day", ["full", "read-only", "removed"])
async def test_a_row_that_cannot_be_written_is_logged_and_ends_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, day: str
) -> None:
    path = tmp_path / "fetchd.db"
    async with opened(path) as records:
        log = CarefulLog([records])
        await log.begin(RUN, "anthropic", "model")
        if day == "full":
            # As a full disk answers: no page more than there are.
            await records._database.read(lambda db: db.execute("PRAGMA max_page_count = 1"))
            big = replace(
                STEP, citations=tuple(Citation(f"https://docs.rs/{n}" + "x" * 500) for n in range(2000))
            )
        elif day == "read-only":
            await records._database.read(lambda db: db.execute("PRAGMA query_only = 1"))
            big = STEP
        else:
            path.unlink()
            big = STEP
        with caplog.at_level(logging.ERROR):
            await log.add_step(RUN, big)
            if day != "full":
                await log.end(DONE)
    said = {
        "full": "the disk is full",
        "read-only": "cannot be written",
        "removed": "replaced while in use",
    }[day]
    assert any(said in record.getMessage() for record in caplog.records)


async def test_no_place_for_a_file_is_an_error_of_the_store(tmp_path: Path) -> None:
    (tmp_path / "fetchd.db").mkdir()
    with pytest.raises(StoreUnavailableError):
        await RunRecords.open(tmp_path / "fetchd.db")


async def test_another_sink_has_what_one_could_not_take(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    async with opened(tmp_path / "one" / "fetchd.db") as gone, opened(tmp_path / "fetchd.db") as there:
        (tmp_path / "one" / "fetchd.db").unlink()
        log = CarefulLog([gone, there])
        await log.begin(RUN, "anthropic", "model")
        await log.add_step(RUN, STEP)
        await log.end(DONE)
        (run,) = await there.list_runs()
        assert run.status == "done"
