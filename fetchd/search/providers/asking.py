"""One remote provider, asked over its channel: the one transport that all dialects share (SPEC 4).

    render ─► send ─► 2xx: at most 262,144 bytes, then its shape      else: at most 2,000 bytes, as one line
                └── busy, and says until when: waited for within the deadline, by every search of this provider

Laws of this file
- One deadline over all of it: connecting, waiting, asking again, reading. A pause that ends after it is not waited
  for: the caller is told at once why, and a fallback has the time.
- What fails before an answer is `request failed`, whatever it was; the log says what.
- Nothing that is handed out holds the credential, even where the provider sends it back.
"""

import asyncio
import logging
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from fetchd.channel import Channel, ChannelAnswer, ChannelRequest
from fetchd.core.caller import Caller
from fetchd.core.failures import FailureKind
from fetchd.errors import ChannelError
from fetchd.search.interface import (
    Argument,
    Capability,
    SearchAnswer,
    SearchArguments,
    SearchFailure,
)
from fetchd.search.way import FIELD, render_way

from .dialect import Dialect, Rejection, Settings, malformed
from .errors import MAX_ERROR_BYTES, render_error, unreadable_error
from .masking import mask, mask_body

DEADLINE_SECONDS: Final = 30.0
MAX_ANSWER_BYTES: Final = 262_144
"""Of a success, content codings undone; exactly so many are accepted."""
MAX_TRIES: Final = 3
MAX_WAIT_SECONDS: Final = 5.0
"""Waited for a busy provider at a time; one that asks for more gets no further try within this search."""
ERROR_BODY_SECONDS: Final = 5.0
"""For the body of an error, which is only to be quoted."""
MAX_HOLD_SECONDS: Final = 60.0
"""For so long at the most a busy provider is left alone, whatever it asks for."""

REQUEST_FAILED: Final = SearchFailure(FailureKind.TRANSPORT, "request failed")

_READ_OF_ERROR: Final = 4 * MAX_ERROR_BYTES
"""More than is shown: a key is masked before the cut, and an error that is JSON is read whole."""

_log = logging.getLogger(__name__)


class RemoteProvider:
    """A search provider over a channel of its own. For one event loop."""

    def __init__(
        self,
        dialect: Dialect,
        settings: Settings,
        channel: Channel,
        *,
        deadline: float = DEADLINE_SECONDS,
        max_wait: float = MAX_WAIT_SECONDS,
        error_body: float = ERROR_BODY_SECONDS,
    ) -> None:
        self._dialect: Final = dialect
        self._settings: Final = settings
        self._channel: Final = channel
        self._deadline: Final = deadline
        self._max_wait: Final = max_wait
        self._error_body: Final = error_body
        self._held: _Hold | None = None

    def __repr__(self) -> str:
        return f"<RemoteProvider {self._dialect.name} {self._settings.base}>"

    @property
    def name(self) -> str:
        """See SearchProvider."""
        return self._dialect.name

    @property
    def capabilities(self) -> Mapping[Argument, Capability]:
        """See SearchProvider."""
        return self._dialect.capabilities

    async def search(
        self, arguments: SearchArguments, caller: Caller, ends: float = math.inf
    ) -> SearchAnswer | SearchFailure:
        """See SearchProvider."""
        request = self._dialect.render(arguments, self._settings)
        if isinstance(request, SearchFailure):
            return request
        if self._dialect.passes_way and caller.way:
            request = replace(request, fields=(*request.fields, (FIELD, render_way(caller.way))))
        ends = min(ends, asyncio.get_running_loop().time() + self._deadline)
        failure: SearchFailure | None = None
        for _ in range(MAX_TRIES):
            held = await self._wait_until_free(ends)
            if held is not None:
                return failure or held
            outcome, busy = await self._ask(request, ends)
            if isinstance(outcome, SearchAnswer) or not busy:
                return outcome
            failure = outcome
        return failure or REQUEST_FAILED

    async def _wait_until_free(self, ends: float) -> SearchFailure | None:
        """Until the provider may be asked; a failure where that is too long to wait for."""
        if self._held is None:
            return None
        held, now = self._held, asyncio.get_running_loop().time()
        if held.until - now > self._max_wait or held.until >= ends:
            return held.describe(now)
        await asyncio.sleep(held.until - now)
        if self._held is held:
            self._held = None
        return None

    async def _ask(self, request: ChannelRequest, ends: float) -> tuple[SearchAnswer | SearchFailure, bool]:
        """The outcome of one request, and whether the provider asked for a pause, which is `held` then."""
        status: int | None = None
        try:
            async with asyncio.timeout_at(ends), self._channel.send(request) as answer:
                status = answer.status
                if not 200 <= status < 300:
                    async with asyncio.timeout(self._error_body):
                        body = await _read(answer, _READ_OF_ERROR)
                    return self._reject(answer, body)
                body = await _read(answer, MAX_ANSWER_BYTES + 1)
        except (ChannelError, TimeoutError) as error:
            _log.warning("search provider %s: %s", self.name, str(error) or "the deadline has passed")
            if status is None or 200 <= status < 300:
                return REQUEST_FAILED, False
            return unreadable_error(status), False
        if len(body) > MAX_ANSWER_BYTES:
            return malformed(f"body exceeds {MAX_ANSWER_BYTES} bytes"), False
        return mask(self._dialect.parse(body), self._settings.secret), False

    def _reject(self, answer: ChannelAnswer, body: bytes) -> tuple[SearchFailure, bool]:
        body = mask_body(body, self._settings.secret)
        rejection = Rejection(answer.status, answer.fields, body, time.time())
        explained = self._dialect.explain(rejection)
        shown = body if explained is None else explained.encode("utf-8", "replace")
        failure = mask(render_error(answer.status, shown), self._settings.secret)
        pause = self._dialect.wait(rejection)
        if pause is not None:
            until = asyncio.get_running_loop().time() + min(pause, MAX_HOLD_SECONDS)
            self._held = _Hold(until, answer.status)
        return failure, pause is not None


@dataclass(frozen=True, slots=True)
class _Hold:
    """A provider that is left alone until then, by the loop's clock, since it answered so."""

    until: float
    status: int

    def describe(self, now: float) -> SearchFailure:
        """What another search is told; nothing of an answer that was not its own."""
        seconds = max(1, math.ceil(self.until - now))
        message = f"backend returned {self.status}: it asked for a pause; try again in {seconds} s"
        return SearchFailure(FailureKind.BACKEND, message)


async def _read(answer: ChannelAnswer, most: int) -> bytes:
    """The body, or its first `most` bytes."""
    body = bytearray()
    async for chunk in answer.chunks:
        body += chunk[: most - len(body)]
        if len(body) >= most:
            break
    return bytes(body)
