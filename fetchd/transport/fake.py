"""The scripted transport: answers written by a test, by URL. Ships beside the real one."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from fetchd.errors import BrokenAnswerError, NoAnswerError
from proxy_addons.policy.verdicts import Verdict
from proxy_addons.policy.wire import HopContext, render_allowed_fields, render_refusal

from .interface import HopAnswer, HopRequest

POLICY = "default@fake"


@dataclass(frozen=True, slots=True)
class ScriptedAnswer:
    """What the gateway answers to a URL.

    refusal: the gateway refuses the hop; status, fields and chunks are then its own. unreachable: no answer
    comes. broken: the body breaks off after `chunks`. hangs: "head" never answers, "body" never ends after
    `chunks`. stranger: the answer carries no verdict, as from a server that is not the gateway.
    """

    status: int = 200
    fields: Sequence[tuple[bytes, bytes]] = ()
    chunks: Sequence[bytes] = ()
    refusal: Verdict | None = None
    unreachable: bool = False
    broken: bool = False
    hangs: str = ""
    stranger: bool = False


@dataclass(slots=True)
class FakeTransport:
    """Answers by `answers`; what is not in there is unreachable. The other fields are for asserting on."""

    answers: Mapping[str, ScriptedAnswer]
    sent: list[HopRequest] = field(default_factory=list)
    open_answers: int = 0
    chunks_read: int = 0
    hanging: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def send(self, request: HopRequest) -> AsyncIterator[HopAnswer]:
        """See Transport."""
        self.sent.append(request)
        answer = self.answers.get(request.target.href, ScriptedAnswer(unreachable=True))
        if answer.unreachable:
            raise NoAnswerError("scripted: unreachable")
        self.open_answers += 1
        try:
            if answer.hangs == "head":
                await self._hang()
            yield self._render(answer, request)
        finally:
            self.open_answers -= 1

    def _render(self, answer: ScriptedAnswer, request: HopRequest) -> HopAnswer:
        identity = request.identity
        context = HopContext(identity.fetch_id, identity.hop, POLICY, request.target.display)
        if answer.refusal is not None:
            refused = render_refusal(answer.refusal, context)
            whole = ScriptedAnswer(chunks=(refused.body,))
            return HopAnswer(refused.status, refused.fields, self._chunks(whole))
        verdict = () if answer.stranger else render_allowed_fields(context)
        return HopAnswer(answer.status, (*answer.fields, *verdict), self._chunks(answer))

    async def _chunks(self, answer: ScriptedAnswer) -> AsyncIterator[bytes]:
        for chunk in answer.chunks:
            self.chunks_read += 1
            yield chunk
        if answer.hangs == "body":
            await self._hang()
        if answer.broken:
            raise BrokenAnswerError("scripted: broke off")

    async def _hang(self) -> None:
        self.hanging.set()
        await asyncio.Event().wait()
