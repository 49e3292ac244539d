"""A real server in place of the gateway, speaking the same script as the fake transport."""

from __future__ import annotations

from collections.abc import Mapping

from fetchd.transport.fake import POLICY, ScriptedAnswer
from proxy_addons.policy.wire import HopContext, render_allowed_fields, render_refusal
from tests.kit.exchange import Exchange, Route
from tests.kit.origin import Origin
from tests.kit.replies import end_chunked, send_chunk, start_chunked
from tests.kit.sync import Gate

SECRET = "the-daemons-secret"


class ScriptedGateway:
    """Answers absolute-form requests by `answers`, keyed by URL. Hanging answers wait for `gate`."""

    def __init__(self, answers: Mapping[str, ScriptedAnswer]) -> None:
        self.origin = Origin()
        self.gate = Gate()
        self._answers = answers
        self.origin.route("*", self._answer)

    async def _answer(self, exchange: Exchange) -> None:
        answer = self._answers.get(exchange.request.target, ScriptedAnswer(unreachable=True))
        await render_route(answer, self.gate)(exchange)

    def __enter__(self) -> ScriptedGateway:
        self.origin.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.gate.open()
        self.origin.stop()


def render_route(answer: ScriptedAnswer, gate: Gate) -> Route:
    """The script as a route; chunks are sent as chunks."""

    async def route(exchange: Exchange) -> None:
        if answer.hangs == "head":
            await gate.wait()
        if answer.unreachable:
            await exchange.close()
            return
        (fetch_id,) = exchange.request.values("fetchd-id")
        context = HopContext(fetch_id, 0, POLICY)
        if answer.refusal is not None:
            refused = render_refusal(answer.refusal, context)
            await exchange.start(refused.status, [(n.decode(), v.decode()) for n, v in refused.fields])
            await exchange.data(refused.body)
            await exchange.end()
            return
        verdict = () if answer.stranger else render_allowed_fields(context)
        fields = [
            (name.decode("latin-1"), value.decode("latin-1")) for name, value in (*answer.fields, *verdict)
        ]
        await start_chunked(exchange, fields, answer.status)
        for chunk in answer.chunks:
            await send_chunk(exchange, chunk)
        if answer.hangs == "body":
            await gate.wait()
        if answer.broken:
            await exchange.close()
        else:
            await end_chunked(exchange)

    return route
