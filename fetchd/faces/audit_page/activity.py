"""The first page: filters, charts over time, top hosts, and the rows.

GET /?filters     see `questions`; 400 for what is none, 503 while the index cannot be read
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import Response

from fetchd.audit_index.interface import SLOT, STOPPED, Filter, IndexUnavailableError, Name, Row, Tally
from proxy_addons.policy.verdicts import Rule

from .charts import VERDICT_CLASSES, chart_rules, chart_verdicts, choose_step
from .parts import PageParts
from .questions import RANGES, ROWS, Question, QuestionError, describe, parse_question, render_cursor
from .views import Views

DAY: Final = 1440 * SLOT
TOP_HOSTS: Final = 10
LISTED: Final = 200
"""Names offered in a form; any other may be typed."""
MOST_RECEIPTS: Final = 200


@dataclass(frozen=True, slots=True)
class Shown:
    """A row, and what its cells say. kind: class of its verdict. receipt: whether a page was kept with one."""

    row: Row
    kind: str
    link: str
    receipt: bool


class Activity:
    """The route."""

    def __init__(self, parts: PageParts, views: Views) -> None:
        self._parts: Final = parts
        self._views: Final = views

    async def show(self, request: Request) -> Response:
        """The page, whole."""
        try:
            question = parse_question(request.scope["query_string"], self._parts.now())
        except QuestionError as error:
            return await self._views.error(request, 400, str(error))
        self._parts.verifier.refresh()
        try:
            values = await self._answer(question)
        except IndexUnavailableError as error:
            problem = self._parts.index_problem()
            return await self._views.error(request, 503, f"{error}{f' ({problem})' if problem else ''}")
        return await self._views.page(request, "activity.html", **values)

    async def _answer(self, question: Question) -> Mapping[str, Any]:
        index, wanted = self._parts.index, question.filter
        # First the revision: what changes while the rest is read is told again.
        status = await index.status()
        rows, hosts = await asyncio.gather(
            index.find(wanted, before=question.before, limit=question.rows + 1),
            index.top_hosts(wanted, TOP_HOSTS),
        )
        listed = (Name.AGENT, Name.RULE, Name.KIND, Name.VERDICT)
        agents, rules, kinds, verdicts = [await index.names(what, LISTED) for what in listed]
        more, rows = len(rows) > question.rows, rows[: question.rows]
        since, until, tallies = await self._tally(wanted)
        step = choose_step(since, until)
        return {
            "question": question,
            "described": list(describe(question)),
            "rows": await self._decorate(rows),
            "older": question.link(before=render_cursor(rows[-1].cursor)) if more else None,
            "verdict_chart": chart_verdicts(tallies, since, until, step),
            "rule_chart": chart_rules(tallies, since, until, step),
            "hosts": hosts,
            "index": status,
            "names": {
                "agent": agents,
                "rule": sorted({*rules, *(rule.value for rule in Rule)}),
                "kind": kinds,
                "verdict": [STOPPED, *sorted({*verdicts} | {name for name in VERDICT_CLASSES if name})],
            },
            "ranges": RANGES,
            "row_counts": ROWS,
            "problem": self._parts.index_problem(),
            "verification": self._parts.verifier.last,
            "verifying": self._parts.verifier.running,
        }

    async def _tally(self, wanted: Filter) -> tuple[int, int, Sequence[Tally]]:
        """The time that charts show, and the counts in it."""
        index = self._parts.index
        until = wanted.until if wanted.until is not None else int(self._parts.now().timestamp() * 1_000_000)
        since = wanted.since
        if since is None:
            days = await index.tally(wanted, DAY)
            # A day of the year 1, as a line without a time may have it, would make one bar of everything.
            since = next((one.start for one in days if one.start > 0), until - DAY)
        since = min(since, until - 1)
        return since, until, await index.tally(wanted, choose_step(since, until))

    async def _decorate(self, rows: Sequence[Row]) -> list[Shown]:
        kept = {}
        for row in rows[:MOST_RECEIPTS]:
            if row.kind == "fetch" and row.method == "page_read" and row.fetch_id:
                read = await self._parts.find_read(row.fetch_id)
                kept[row.fetch_id] = read is not None and read.receipt is not None
        return [
            Shown(row, VERDICT_CLASSES.get(row.verdict, "none"), link_row(row), kept.get(row.fetch_id, False))
            for row in rows
        ]


def link_row(row: Row) -> str:
    """Where everything about a row is."""
    if row.fetch_id:
        return f"/fetch/{quote(row.fetch_id, safe='')}"
    return f"/line?{urlencode({'chain': row.chain, 'seq': row.seq})}"
