"""The scripted channel: answers written by a test, by URL. Ships beside the real one."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from fetchd.errors import ChannelError

from .fields import render_fields
from .interface import ChannelAnswer, ChannelRequest


@dataclass(frozen=True, slots=True)
class ScriptedReply:
    """What the provider answers to a URL.

    unreachable: no answer comes. broken: the body breaks off after `chunks`. hangs: "head" never answers, "body"
    never ends after `chunks`.
    """

    status: int = 200
    fields: Sequence[tuple[str, str]] = ()
    chunks: Sequence[bytes] = ()
    unreachable: bool = False
    broken: bool = False
    hangs: str = ""


@dataclass(slots=True)
class FakeChannel:
    """Answers by `replies`, where a sequence is used up one request after the other; its keys are the host list.

    The other fields are for asserting on.
    """

    replies: Mapping[str, ScriptedReply | Sequence[ScriptedReply]]
    sent: list[ChannelRequest] = field(default_factory=list)
    open_answers: int = 0
    hanging: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def send(self, request: ChannelRequest) -> AsyncIterator[ChannelAnswer]:
        """See Channel."""
        if request.url not in self.replies:
            raise ChannelError("scripted: another host")
        render_fields(request, "scripted")  # what the real one refuses
        reply = self._take(request.url)
        self.sent.append(request)
        if reply.unreachable:
            raise ChannelError("scripted: unreachable")
        self.open_answers += 1
        try:
            if reply.hangs == "head":
                await self._hang()
            if reply.status in (301, 302, 303, 307, 308):
                raise ChannelError("scripted: redirected")
            fields = tuple((name.lower(), value) for name, value in reply.fields)
            yield ChannelAnswer(reply.status, fields, self._chunks(reply))
        finally:
            self.open_answers -= 1

    def _take(self, url: str) -> ScriptedReply:
        found = self.replies[url]
        if isinstance(found, ScriptedReply):
            return found
        return found[min(len([one for one in self.sent if one.url == url]), len(found) - 1)]

    async def _chunks(self, reply: ScriptedReply) -> AsyncIterator[bytes]:
        for chunk in reply.chunks:
            yield chunk
        if reply.hangs == "body":
            await self._hang()
        if reply.broken:
            raise ChannelError("scripted: broke off")

    async def _hang(self) -> None:
        self.hanging.set()
        await asyncio.Event().wait()
