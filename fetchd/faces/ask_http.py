"""`POST /v1/ask`: a run of completions on the operator's key, for agents whose profile lists the tool `ask`.

    200   one JSON object; or, where the request accepts `text/event-stream`, events as things happen:
          step, tool, step_ended, note, and at the end result (that same object) or failed (that problem document)
    400   the request, or a declaration that cannot be carried: nothing was sent · 502 the vendor failed

What the operator's [web] declares is the most that can be asked for, its budgets the most that can be spent, and the
host rules of the caller's profile hold. No caller brings a key, a model or an endpoint. A client that goes away
ends its run.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from fetchd.core.caller import Caller
from fetchd.core.failures import FailureKind
from fetchd.turns import Turns
from fetchd.web_access.asking import Asker
from fetchd.web_access.errors import WebAccessError
from fetchd.web_access.requests import parse_ask
from fetchd.web_access.run_values import RunEvent, RunOutcome
from proxy_addons.policy.limits import ASK

from .ask_results import render_ask_problem, render_event, render_outcome
from .calls import RETRY_SECONDS, BusyError, ToolNotAllowedError, require_tool
from .http_parts import (
    PROBLEM_TYPE,
    json_response,
    problem_document,
    problem_response,
    read_bounded,
    too_large,
    until_disconnect,
)
from .openapi_ask import ASK_PATH, EVENT_STREAM
from .tool_identity import CALLER

KEEP_ALIVE_SECONDS: Final = 15.0
"""A comment so often, so that nothing between takes a long search for a dead connection."""

type Emit = Callable[[RunEvent], None]


def make_ask_route(asker: Asker | None, turns: Turns) -> Route:
    """The route. asker: None where nobody can be asked. turns: runs and calls of tools share their places."""

    async def endpoint(request: Request) -> Response:
        caller: Caller = request.scope[CALLER]
        try:
            require_tool(ASK, caller)
            if asker is None:
                raise ToolNotAllowedError(ASK, caller.profile.name)
            body = await read_bounded(request)
            if body is None:
                return too_large()
            prepared = await asyncio.to_thread(asker.prepare, parse_ask(body), caller)
        except ToolNotAllowedError as error:
            return problem_response(403, str(error), rule=None)
        except WebAccessError as error:
            return _failed(render_ask_problem(FailureKind.INVALID_ARGUMENTS, str(error), None))
        except ClientDisconnect:
            return Response(status_code=499)

        async def run(emit: Emit) -> RunOutcome:
            async with turns.turn(caller.agent):
                return await asker.run(prepared, emit)

        if _wants_events(request):
            return _EventResponse(_stream(run), media_type=EVENT_STREAM)
        try:
            return _answer(await until_disconnect(request, run(lambda _event: None)))
        except BusyError as error:
            return problem_response(503, str(error), {"Retry-After": str(RETRY_SECONDS)})
        except ClientDisconnect:
            return Response(status_code=499)  # nobody reads it

    return Route(ASK_PATH, endpoint, methods=["POST"])


def _answer(outcome: RunOutcome) -> Response:
    name, document = render_outcome(outcome)
    return _failed(document) if name == "failed" else json_response(document)


def _failed(document: dict[str, object]) -> Response:
    return json_response(document, int(str(document["status"])), PROBLEM_TYPE)


def _wants_events(request: Request) -> bool:
    accepted = ",".join(request.headers.getlist("accept"))
    return any(one.partition(";")[0].strip().lower() == EVENT_STREAM for one in accepted.split(","))


async def _stream(run: Callable[[Emit], Awaitable[RunOutcome]]) -> AsyncGenerator[bytes]:
    """The events of a run, and its end. Whoever stops reading ends the run."""
    events: asyncio.Queue[RunEvent | None] = asyncio.Queue()  # as long as one answer has tools to tell of
    task = asyncio.ensure_future(run(events.put_nowait))
    task.add_done_callback(lambda _: events.put_nowait(None))
    try:
        while True:
            try:
                event = await asyncio.wait_for(events.get(), KEEP_ALIVE_SECONDS)
            except TimeoutError:
                yield b": still at it\n\n"
                continue
            if event is None:
                break
            yield _render(*render_event(event))
        try:
            yield _render(*render_outcome(task.result()))
        except BusyError as error:
            yield _render("failed", problem_document(503, str(error)))  # no vendor was asked
    finally:
        task.cancel()
        await asyncio.wait([task])


def _render(name: str, data: dict[str, object]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()


class _EventResponse(StreamingResponse):
    """Ends its events when it ends, however that is: else a client that has gone leaves its run to the collector."""

    def __init__(self, events: AsyncGenerator[bytes], media_type: str) -> None:
        super().__init__(events, headers={"Cache-Control": "no-store"}, media_type=media_type)
        self._events: Final = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with aclosing(self._events):
            await super().__call__(scope, receive, send)
