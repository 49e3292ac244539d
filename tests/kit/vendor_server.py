"""A vendor of completions on loopback: answers one reply after the other, whole or streamed as it was asked.

    with VendorServer() as vendor:
        vendor.replies = [answers.message(answers.text("Hello."))]
        ... endpoint = vendor.endpoint ...
        assert vendor.asked[0].body["model"] == "model"

A reply is an answer of `vendor_answers`, `(status, answer)` for another status than 200, or a route of its own.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.kit import vendor_answers as answers
from tests.kit.exchange import Exchange, Route
from tests.kit.origin import Origin

JSON = ("content-type", "application/json")
EVENTS = ("content-type", "text/event-stream; charset=utf-8")
STREAMS: dict[str, Callable[[Any], Any]] = {
    "/v1/messages": answers.message_events,
    "/v1/responses": answers.response_events,
    "/v1/chat/completions": answers.chat_events,
    "/api/v1/chat/completions": answers.chat_events,
}

type Reply = answers.Object | tuple[int, answers.Object] | Route


@dataclass(frozen=True)
class VendorRequest:
    """What a vendor was asked."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


class VendorServer(Origin):
    """One vendor; the last reply is given again and again."""

    def __init__(self, *, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> None:
        super().__init__(host, tls=tls)
        self.replies: Sequence[Reply] = [{}]
        self.asked: list[VendorRequest] = []
        self.route("*", self._answer)

    @property
    def endpoint(self) -> str:
        return f"{'https' if self._tls else 'http'}://{self.host}:{self.port}"

    async def _answer(self, exchange: Exchange) -> None:
        request = exchange.request
        asked = json.loads(request.body)
        headers = {name.lower(): value for name, value in request.headers}
        self.asked.append(VendorRequest(request.path, headers, asked))
        reply = self.replies[min(len(self.asked), len(self.replies)) - 1]
        if isinstance(reply, tuple):
            status, answer = reply
            await exchange.respond(status, [JSON], answers.whole(answer))
        elif callable(reply):
            await reply(exchange)
        elif asked.get("stream"):
            events = STREAMS[request.path](reply)
            await exchange.respond(200, [EVENTS], answers.stream(events))
        else:
            await exchange.respond(200, [JSON], answers.whole(reply))
