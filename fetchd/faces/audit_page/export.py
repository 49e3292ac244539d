"""The rows of a question as a file: streamed, bounded, newest first.

    GET /export.csv?filters     GET /export.json?filters     the filters of the page; `before` goes on behind a cursor

A spreadsheet takes a cell that begins with = + - @ for a formula; such a cell gets an apostrophe before it (OWASP,
CSV injection). So does what follows a semicolon: where the comma is the decimal mark, spreadsheets end a cell there.
What cannot be seen is written as an escape. JSON has the texts as they are. Rows are written out in a thread: a
thousand take milliseconds, which the calls of agents would wait for.
"""

import asyncio
import csv
import io
import json
import re
from collections.abc import AsyncIterator, Sequence
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
    "fetch_id", "detail",
)  # fmt: skip
_MARKS: Final = "=+\\-@＝＋－＠"  # noqa: RUF001 (spreadsheets take wide ones too)
_FORMULA: Final = re.compile(rf"(\A(?=\s*['{_MARKS}])|;[\s\"']*(?=[{_MARKS}]))")


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
        yield await asyncio.to_thread(_records, rows)


async def render_json(pages: AsyncIterator[tuple[Sequence[Row], bool]]) -> AsyncIterator[bytes]:
    """`{"rows": [...], "next": ...}`, a row a line."""
    yield b'{"rows":['
    last = None
    cut = False
    async for rows, may_follow in pages:
        cut = may_follow
        if rows:
            yield await asyncio.to_thread(_objects, rows, "\n" if last is None else ",\n")
            last = rows[-1]
    following = render_cursor(last.cursor) if last is not None and cut else None
    yield f'\n],"next":{json.dumps(following)}}}\n'.encode()


def _records(rows: Sequence[Row]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerows([_cell(value) for value in _values(row)] for row in rows)
    return text.getvalue().encode("utf-8", "replace")


def _objects(rows: Sequence[Row], mark: str) -> bytes:
    texts = (json.dumps(dict(zip(COLUMNS, _values(row), strict=True))) for row in rows)
    return (mark + ",\n".join(texts)).encode()


def _values(row: Row) -> list[object]:
    return [show_machine_time(row.time), *(getattr(row, name) for name in COLUMNS[1:])]


def _cell(value: object) -> object:
    if not isinstance(value, str):
        return value
    return _FORMULA.sub(r"\1'", show_plain(value))
