"""The rows of a question as a file: streamed, bounded, newest first.

    GET /export.csv?filters     GET /export.json?filters     the filters of the page; `before` goes on behind a cursor

A spreadsheet takes a cell that begins with = + - @ for a formula; such a cell gets an apostrophe before it (OWASP,
CSV injection). What cannot be seen is written as an escape. JSON has the texts as they are.
"""

import csv
import io
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict
from typing import Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from fetchd.audit_index.interface import AuditIndex, IndexUnavailableError, Row

from .display import show_machine_time
from .parts import PageParts
from .questions import Question, QuestionError, parse_question, render_cursor
from .safe_text import show_plain
from .views import FIELDS, Views

MOST_ROWS: Final = 100_000
PAGE: Final = 1_000
COLUMNS: Final = (
    "time", "chain", "seq", "kind", "agent", "host", "verdict", "rule", "method", "target", "status", "bytes", "ms",
    "fetch_id",
)  # fmt: skip
_FORMULA: Final = ("=", "+", "-", "@", "＝", "＋", "－", "＠", "'")  # noqa: RUF001 (spreadsheets take wide ones too)


class Export:
    """The routes. most: rows of one file."""

    def __init__(self, parts: PageParts, views: Views, most: int = MOST_ROWS) -> None:
        self._parts: Final = parts
        self._views: Final = views
        self._most: Final = most

    async def csv(self, request: Request) -> Response:
        """RFC 4180."""
        return await self._send(request, "csv")

    async def json(self, request: Request) -> Response:
        """One object: rows, and `next`, what `before` has to say for those that follow; null when there are none."""
        return await self._send(request, "json")

    async def _send(self, request: Request, form: str) -> Response:
        try:
            question = parse_question(request.scope["query_string"], self._parts.now())
            # Read before the answer begins, so that what goes wrong at once has a status of its own.
            first = await self._parts.index.find(question.filter, before=question.before, limit=PAGE)
        except QuestionError as error:
            return await self._views.error(request, 400, str(error))
        except IndexUnavailableError as error:
            return await self._views.error(request, 503, str(error))
        rows = read_pages(self._parts.index, question, first, self._most)
        body, media_type = (
            (render_csv(rows), "text/csv; charset=utf-8; header=present")
            if form == "csv"
            else (render_json(rows), "application/json")
        )
        name = f"fetchd-audit-{self._parts.now():%Y%m%dT%H%M%SZ}.{form}"
        fields = {
            **FIELDS,
            "Content-Disposition": f'attachment; filename="{name}"',
            "Fetchd-Most-Rows": str(self._most),
        }
        return StreamingResponse(body, 200, fields, media_type)


async def read_pages(
    index: AuditIndex, question: Question, first: Sequence[Row], most: int
) -> AsyncIterator[tuple[Sequence[Row], bool]]:
    """Page by page; with each, whether rows may follow that are left out. Raises IndexUnavailableError: a file that
    is cut there must not look whole."""
    rows, left = first, most
    while True:
        taken = rows[:left]
        left -= len(taken)
        more = len(rows) == PAGE or len(taken) < len(rows)
        yield taken, more and left <= 0
        if not more or left <= 0:
            return
        rows = await index.find(question.filter, before=rows[-1].cursor, limit=PAGE)


async def render_csv(pages: AsyncIterator[tuple[Sequence[Row], bool]]) -> AsyncIterator[bytes]:
    """The header, then a record a row."""
    yield (",".join(COLUMNS) + "\r\n").encode()
    async for rows, _ in pages:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\r\n")
        for row in rows:
            writer.writerow([_cell(value) for value in _values(row).values()])
        yield text.getvalue().encode("utf-8", "replace")


async def render_json(pages: AsyncIterator[tuple[Sequence[Row], bool]]) -> AsyncIterator[bytes]:
    """`{"rows": [...], "next": ...}`, a row a line."""
    yield b'{"rows":['
    mark = "\n"
    last = None
    cut = False
    async for rows, may_follow in pages:
        cut = may_follow
        for row in rows:
            yield (mark + json.dumps(_values(row))).encode()
            mark, last = ",\n", row
    following = render_cursor(last.cursor) if last is not None and cut else None
    yield f'\n],"next":{json.dumps(following)}}}\n'.encode()


def _values(row: Row) -> dict[str, object]:
    words = {**asdict(row), "time": show_machine_time(row.time)}
    return {name: words[name] for name in COLUMNS}


def _cell(value: object) -> object:
    if not isinstance(value, str):
        return value
    text = show_plain(value)
    return f"'{text}" if text.lstrip().startswith(_FORMULA) else text
