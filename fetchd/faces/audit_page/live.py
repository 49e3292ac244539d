"""Tells open pages that there are newer rows.

    GET /live     server-sent events: `change` with the index's revision, at most one a second; nothing of any row;
                  `signed-out` when the session has ended

One look at the index a second serves all pages, and none is made while none is open.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from fetchd.audit_index.interface import AuditIndex, IndexUnavailableError
from fetchd.faces.operator_access.access import Access, Signed

from .parts import PageParts
from .views import FIELDS, Views

LOOK_SECONDS: Final = 1.0
MOST_PAGES: Final = 32
BEAT: Final = 15
"""Looks between two signs of life: who is gone is noticed, and proxies keep the stream open."""
RETRY_SECONDS: Final = 10


class Pulse:
    """The index's revision, looked at while anybody waits."""

    def __init__(self, index: AuditIndex, seconds: float = LOOK_SECONDS) -> None:
        self._index: Final = index
        self._seconds: Final = seconds
        self._task: asyncio.Task[None] | None = None
        self._beat = asyncio.Event()
        self.waiting = 0
        self.revision: int | None = None

    async def follow(self) -> AsyncIterator[int | None]:
        """The revision as it is, then after each look, changed or not."""
        self.waiting += 1
        try:
            if self._task is None:
                self._task = asyncio.create_task(self._look(), name="live")
            while True:
                beat = self._beat
                await beat.wait()
                yield self.revision
        finally:
            self.waiting -= 1
            if not self.waiting and self._task is not None:
                self._task.cancel()
                self._task = None

    async def _look(self) -> None:
        while True:
            try:
                self.revision = (await self._index.status()).revision
            except IndexUnavailableError:
                self.revision = None
            beat, self._beat = self._beat, asyncio.Event()
            beat.set()
            await asyncio.sleep(self._seconds)


class Live:
    """The route."""

    def __init__(self, parts: PageParts, views: Views, access: Access, pulse: Pulse) -> None:
        self._parts: Final = parts
        self._views: Final = views
        self._access: Final = access
        self._pulse: Final = pulse

    async def stream(self, request: Request) -> Response:
        """Until the page is gone, or its session."""
        if request.method == "HEAD":
            return Response(status_code=200, headers=FIELDS, media_type="text/event-stream")
        if self._pulse.waiting >= MOST_PAGES:
            answer = await self._views.error(request, 503, "too many pages are open; close some")
            answer.headers["Retry-After"] = str(RETRY_SECONDS)
            return answer
        return StreamingResponse(self._events(request), 200, FIELDS, "text/event-stream")

    async def _events(self, request: Request) -> AsyncIterator[bytes]:
        yield f"retry: {RETRY_SECONDS * 1000}\n\n".encode()
        told: int | None = None
        beats = 0
        async for revision in self._pulse.follow():
            beats += 1
            if beats % BEAT == 0:
                if not isinstance(await self._access.identify(request.scope, use=False), Signed):
                    yield b"event: signed-out\ndata: \n\n"
                    return
                yield b": beat\n\n"
            if revision is not None and revision != told:
                told = revision
                yield f"event: change\ndata: {revision}\n\n".encode()
