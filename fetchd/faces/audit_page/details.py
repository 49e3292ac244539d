"""Everything about one fetch, or about one line.

GET /fetch/ID             or a run: hops as a timeline and written out, other lines, receipt, what would allow it
GET /line?chain=&seq=     a line as it stands in the log
"""

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from fetchd.audit_index.entries import identity_of
from fetchd.audit_index.interface import IndexUnavailableError
from fetchd.audit_index.lines import load_places
from fetchd.errors import StoreError
from fetchd.explaining.why import explain
from fetchd.faces.why_text import describe_asked, describe_ending
from fetchd.store import StoredRead
from proxy_addons.audit.kinds import LineKind
from proxy_addons.audit.reader import LogLine
from proxy_addons.audit.story import Story, tell_story

from .charts import VERDICT_CLASSES
from .parts import PageParts
from .timeline import draw_timeline, tell_hop
from .views import Views

MAX_LINES: Final = 200
"""Lines of one fetch that a page writes out; ours have a dozen."""
_HOP_KINDS: Final = ("decision", "close")
_UNWANTED: Final = frozenset({"prev", "hash"})


class Details:
    """The routes."""

    def __init__(self, parts: PageParts, views: Views) -> None:
        self._parts: Final = parts
        self._views: Final = views

    async def show_fetch(self, request: Request) -> Response:
        """One fetch."""
        fetch_id = request.path_params["fetch_id"]
        try:
            places = await self._parts.index.places(fetch_id, MAX_LINES)
            lines = await asyncio.to_thread(load_places, self._parts.log, places)
        except IndexUnavailableError as error:
            return await self._views.error(request, 503, str(error))
        except OSError as error:
            return await self._views.error(request, 503, f"the log cannot be read: {error.strerror}")
        lines = [line for line in lines if identity_of(line) == fetch_id]
        if not lines:
            return await self._views.error(request, 404, f"no fetch or run {fetch_id} in the log")
        values = await asyncio.to_thread(self._tell, fetch_id, lines)
        read, problem = await self._find_read(fetch_id)
        return await self._views.page(
            request,
            "fetch.html",
            fetch_id=fetch_id,
            cut=len(places) >= MAX_LINES,
            read=read,
            receipt=json.dumps(json.loads(read.receipt), indent=2) if read and read.receipt else None,
            read_problem=problem,
            **values,
        )

    async def show_line(self, request: Request) -> Response:
        """One row that has no fetch."""
        chain, seq = request.query_params.get("chain", ""), request.query_params.get("seq", "")
        if not (seq.isascii() and seq.isdigit() and len(seq) <= 18) or len(chain) > 128:
            return await self._views.error(request, 400, "write chain and seq of a line")
        try:
            places = await self._parts.index.line_places(chain, int(seq))
            lines = await asyncio.to_thread(load_places, self._parts.log, places)
        except IndexUnavailableError as error:
            return await self._views.error(request, 503, str(error))
        except OSError as error:
            return await self._views.error(request, 503, f"the log cannot be read: {error.strerror}")
        if not lines:
            return await self._views.error(request, 404, f"no line {seq} of chain {chain} in the index")
        tables = [_table(line) for line in lines[:MAX_LINES]]
        return await self._views.page(request, "line.html", chain=chain, seq=seq, lines=tables)

    def _tell(self, fetch_id: str, lines: list[LogLine]) -> Mapping[str, Any]:
        story = tell_story(fetch_id, lines)
        explanation = explain(story, self._parts.config())
        run = _is_run(lines)
        return {
            "ending": _describe_run(lines) if run else describe_ending(story),
            "kind": VERDICT_CLASSES.get((lines[-1].text("outcome") or "") if run else story.outcome, "none"),
            "why": _why(story),
            "asked": "" if run else describe_asked(story),
            "what": "Run" if run else "Fetch",
            "steps": [_step(line) for line in lines] if run else [],
            "first": story.first,
            "explanation": explanation,
            "timeline": draw_timeline(story),
            "hops": [tell_hop(hop) for hop in story.hops],
            "others": [_table(line) for line in lines if line.text("kind") not in _HOP_KINDS],
            "raw": [line.raw[:20_000].decode("latin-1") for line in lines],
        }

    async def _find_read(self, fetch_id: str) -> tuple[StoredRead | None, str]:
        try:
            return await self._parts.find_read(fetch_id), ""
        except StoreError as error:
            return None, str(error)


def _why(story: Story) -> str:
    """The message of what stopped it, or would have."""
    hop = story.stopped or (story.hops[-1] if story.hops else None)
    said = (hop.last.text("detail"), hop.first.text("detail")) if hop is not None else ()
    last = story.fetch or (story.searches[-1] if story.searches else None)
    return next((text for text in (*said, last.text("detail") if last is not None else None) if text), "")


def _step(line: LogLine) -> Mapping[str, Any]:
    """A line of a run, as a row of the table of its steps; step 0 has the sums."""
    number, tools = line.number("step"), line.members.get("tools")
    counts = {
        name: None if (value := line.number(name)) is None else int(value)
        for name in ("citations", "outside", "input_tokens", "output_tokens")
    }
    outcome = line.text("outcome") or ""
    return {
        **counts,
        "name": "in all" if number == 0 else "?" if number is None else str(int(number)),
        "outcome": outcome,
        "kind": VERDICT_CLASSES.get(outcome, "none"),
        "model": " ".join(text for name in ("provider", "model") if (text := line.text(name))),
        "stop": ", ".join(text for name in ("stop", "failure") if (text := line.text(name))),
        "tools": ", ".join(map(str, tools[:20])) if isinstance(tools, list) else "",
        "ms": line.number("ms"),
    }


def _is_run(lines: list[LogLine]) -> bool:
    return all(line.text("kind") == LineKind.ASK for line in lines)


def _describe_run(lines: list[LogLine]) -> str:
    """How a run of completions ended; its last line, of step 0, has the sums."""
    last = lines[-1]
    if last.number("step") != 0:
        return "its end is not in the log: it is under way, or was broken off"
    return ", ".join(part for part in (last.text("stop"), last.text("failure")) if part) or "ended"


def _table(line: LogLine) -> Mapping[str, Any]:
    """A line of any kind: its members in order, as text."""
    members = [
        (name[:128], value if isinstance(value, str) else json.dumps(value)[:4_000])
        for name, value in line.members.items()
        if name not in _UNWANTED and value is not None
    ]
    kind = line.text("kind") or "unreadable"
    return {"kind": kind, "members": members or [("line", line.raw[:4_000].decode("latin-1"))]}
