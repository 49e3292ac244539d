"""Runs of completions: what was declared, asked, charged and cited, readable after the process that ran it is gone.

A step is one transaction, so that a crash leaves whole steps. Neither prompt nor answer is kept: a digest stands for
the prompt. NULL is "not reported" and comes back as None. Of each agent the last MAX_RUNS are kept.
"""

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Self

from fetchd.web_access.run_values import ProviderCall, RunOutcome, RunSpec, StepResult
from fetchd.web_access.values import Citation, ServerToolCall, Usage

from .database import BUSY_MS, Database
from .schema import MIGRATIONS

MAX_RUNS: Final = 10_000
"""Of one agent; a run takes some KiB, mostly of what it cites. The audit log has a line of every one."""
REMOVED_AT_ONCE: Final = 100
"""Runs beyond that which go when one begins, so that nobody waits long where there are many."""

type Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run as kept. ended_at, status: None while it runs, and where its process ended first. declaration: JSON."""

    number: int
    id: str
    agent: str
    parent: str | None
    began_at: str
    ended_at: str | None
    status: str | None
    spent: str | None
    provider: str
    model: str
    declaration: str
    prompt_sha256: str


@dataclass(frozen=True, slots=True)
class RunTotals:
    """What a run took: sums of what was reported, None where nothing was."""

    steps: int
    calls: int
    usage: Usage


@dataclass(frozen=True, slots=True)
class StoredCitation:
    """A citation and the step it was made at."""

    step: int
    citation: Citation


@dataclass(frozen=True, slots=True)
class StoredToolCall:
    """A vendor's use of a web tool, and the step it was made at."""

    step: int
    call: ServerToolCall


_RUN_COLUMNS: Final = (
    "number, id, agent, parent, began_at, ended_at, status, spent, provider, model, declaration,"
    " prompt_sha256"
)
_ADD_RUN: Final = """
INSERT INTO runs (id, agent, parent, began_at, provider, model, declaration, prompt_sha256)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
_ADD_CALL: Final = """
INSERT INTO provider_calls (run, step, provider, model, dialect, at, ms, stop_reason, code,
                            input_tokens, output_tokens, server_tool_requests)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_ADD_CITATION: Final = """
INSERT INTO citations (run, step, url, title, cited_text, outside_declaration) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (run, step, url) DO NOTHING
"""
_ADD_TOOL_CALL: Final = (
    "INSERT INTO server_tool_calls (run, step, provider, tool, error) VALUES (?, ?, ?, ?, ?)"
)
_BEYOND: Final = "SELECT id FROM runs WHERE agent = ? ORDER BY number DESC LIMIT ? OFFSET ?"
_REMOVALS: Final = (
    "DELETE FROM steps WHERE run = ?",
    "DELETE FROM provider_calls WHERE run = ?",
    "DELETE FROM citations WHERE run = ?",
    "DELETE FROM server_tool_calls WHERE run = ?",
    "DELETE FROM runs WHERE id = ?",
)
_TOTALS: Final = """
SELECT (SELECT count(*) FROM steps WHERE run = ?1), count(*), sum(input_tokens), sum(output_tokens),
       sum(server_tool_requests)
FROM provider_calls WHERE run = ?1
"""


class RunRecords:
    """The tables of runs in one file. Made by `open`. Every method may raise StoreUnavailableError."""

    def __init__(self, database: Database, max_runs: int = MAX_RUNS) -> None:
        self._database: Final = database
        self._max_runs: Final = max_runs

    @classmethod
    async def open(cls, path: Path, *, busy_ms: int = BUSY_MS, max_runs: int = MAX_RUNS) -> Self:
        """The records at `path`, made or migrated if need be."""
        return cls(await Database.open(path, MIGRATIONS, busy_ms=busy_ms), max_runs)

    async def close(self) -> None:
        await self._database.close()

    # ------------------------------------------------------------------------------------------- as it happens

    async def begin(self, spec: RunSpec, provider: str, model: str) -> None:
        """See RunSink. The oldest runs of the agent go where there are too many."""
        row = (
            spec.run_id,
            spec.agent,
            spec.parent,
            _timestamp(),
            provider,
            model,
            render_declaration(spec),
            sha256(spec.prompt.encode("utf-8", "surrogatepass")).hexdigest(),
        )

        def job(db: sqlite3.Connection) -> None:
            db.execute(_ADD_RUN, row)
            beyond = db.execute(_BEYOND, (spec.agent, REMOVED_AT_ONCE, self._max_runs)).fetchall()
            for statement in _REMOVALS:
                db.executemany(statement, beyond)

        await self._database.write(job)

    async def add_step(self, spec: RunSpec, step: StepResult) -> None:
        """See RunSink."""

        def job(db: sqlite3.Connection) -> None:
            key = (spec.run_id, step.step)
            stop = step.stop.value if step.stop is not None else None
            db.execute("INSERT INTO steps VALUES (?, ?, ?, ?)", (*key, stop, step.dropped_rows))
            db.executemany(_ADD_CALL, [(*key, *_call_row(one)) for one in step.calls])
            db.executemany(
                _ADD_CITATION,
                [
                    (*key, one.url, one.title, one.cited_text, one.outside_declaration)
                    for one in step.citations
                ],
            )
            db.executemany(_ADD_TOOL_CALL, [(*key, one.provider, one.tool, one.error) for one in step.tools])

        await self._database.write(job)

    async def end(self, outcome: RunOutcome) -> None:
        """See RunSink."""
        row = (_timestamp(), outcome.status.value, outcome.spent, outcome.run_id)
        statement = "UPDATE runs SET ended_at = ?, status = ?, spent = ? WHERE id = ?"
        await self._database.write(lambda db: db.execute(statement, row))

    # ----------------------------------------------------------------------------------------------- afterwards

    async def list_runs(self, *, limit: int = 20, agent: str | None = None) -> list[StoredRun]:
        """The last ones, the newest first. agent: only those of this one."""
        statement = (
            f"SELECT {_RUN_COLUMNS} FROM runs WHERE agent = ifnull(?, agent) ORDER BY number DESC LIMIT ?"  # noqa: S608
        )
        return [StoredRun(*row) for row in await self._rows(statement, agent, limit)]

    async def find_run(self, run_id: str) -> StoredRun | None:
        rows = await self._rows(f"SELECT {_RUN_COLUMNS} FROM runs WHERE id = ?", run_id)  # noqa: S608
        return StoredRun(*rows[0]) if rows else None

    async def totals(self, run_id: str) -> RunTotals:
        ((steps, calls, *usage),) = await self._rows(_TOTALS, run_id)
        return RunTotals(steps, calls, Usage(*usage))

    async def citations(self, run_id: str) -> list[StoredCitation]:
        """In the order of their steps; none of a run that is not known."""
        columns = "step, url, title, cited_text, outside_declaration"
        statement = f"SELECT {columns} FROM citations WHERE run = ? ORDER BY number"  # noqa: S608
        return [
            StoredCitation(step, Citation(url, title, quote, bool(outside)))
            for step, url, title, quote, outside in await self._rows(statement, run_id)
        ]

    async def server_tool_calls(self, run_id: str) -> list[StoredToolCall]:
        statement = "SELECT step, provider, tool, error FROM server_tool_calls WHERE run = ? ORDER BY number"
        return [
            StoredToolCall(step, ServerToolCall(*call)) for step, *call in await self._rows(statement, run_id)
        ]

    async def provider_calls(self, run_id: str) -> list[ProviderCall]:
        statement = (
            "SELECT step, provider, model, dialect, at, ms, stop_reason, code, input_tokens, output_tokens,"
            " server_tool_requests FROM provider_calls WHERE run = ? ORDER BY number"
        )
        return [_call_of(row) for row in await self._rows(statement, run_id)]

    async def _rows(self, statement: str, *parameters: object) -> Sequence[Row]:
        return await self._database.read(lambda db: db.execute(statement, parameters).fetchall())


def render_declaration(spec: RunSpec) -> str:
    """What was declared, as JSON."""
    web = spec.web
    return json.dumps(
        {
            "search": web.can_search,
            "fetch": web.can_fetch,
            "max_uses": web.cap,
            "allowed_domains": web.allowed_domains,
            "blocked_domains": web.blocked_domains,
        }
    )


def _call_row(call: ProviderCall) -> Row:
    usage = call.usage
    return (
        call.provider,
        call.model,
        call.dialect,
        call.at,
        call.ms,
        call.stop_reason,
        call.code,
        usage.input_tokens,
        usage.output_tokens,
        usage.server_tool_requests,
    )


def _call_of(row: Row) -> ProviderCall:
    step, provider, model, dialect, at, ms, stop_reason, code, *usage = row
    return ProviderCall(step, provider, model, dialect, at, ms, Usage(*usage), stop_reason, code)


def _timestamp() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
