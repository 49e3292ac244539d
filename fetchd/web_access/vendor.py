"""One vendor over the provider channel: a request out, an answer in, whole or as it streams, within a bound.

What the vendor says of its own failure is repeated in messages, cut and escaped. A credential that it sends back is
masked in all that it sends, before anything is made of that.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from fetchd.channel import Channel, ChannelRequest, Secret
from fetchd.channel.interface import ChannelAnswer
from fetchd.errors import ChannelError
from proxy_addons.policy.config_forms import Json
from proxy_addons.policy.vendors.dialects import Dialect, Vendor

from .dialects import shape_of
from .errors import AnswerError, RefusalError, UnreachableError, VendorError
from .preparing import WebFilter
from .reading import Object, as_object, raise_refusal, read_json, read_object
from .sse import EventReader
from .values import Completion, Conversation, Event, ServerToolCall, Told

MAX_ANSWER_BYTES: Final = 32 << 20
"""A fetched PDF comes as base64 inside the answer."""
MAX_ERROR_BYTES: Final = 64 << 10
MAX_FACTS: Final = 10_000
"""Citations, rows or uses of tools in one answer: far above any that is real."""
AT_ONCE: Final = 256 << 10
"""Bytes that are parsed beside the event loop from: a fetched document comes in one event."""
MASK: Final = "[key]"

type OnTold = Callable[[Told], None]


class CompletionVendor(Protocol):
    """Who completes."""

    @property
    def name(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def dialect(self) -> Dialect: ...

    async def complete(
        self, web: WebFilter, conversation: Conversation, pending: Mapping[str, str], on_told: OnTold
    ) -> Completion:
        """One completion. on_told: told of each tool as it is used, where the vendor says so on the way, and of the
        counters, which are then known of an answer that breaks off too.

        Raises VendorError. It has no deadline of its own.
        """
        ...


@dataclass(frozen=True, slots=True)
class VendorClient:
    """A vendor's model, asked in a dialect. base: what the paths of the API are written after."""

    name: str
    model: str
    dialect: Dialect
    base: str
    channel: Channel = field(repr=False)
    secret: Secret = field(repr=False)

    async def complete(
        self, web: WebFilter, conversation: Conversation, pending: Mapping[str, str], on_told: OnTold
    ) -> Completion:
        """See CompletionVendor."""
        try:
            return await self._complete(web, conversation, pending, on_told)
        except ChannelError as error:
            failure: VendorError = UnreachableError(f"could not be reached: {error}")
        except RefusalError as error:
            secret = self.secret.reveal()
            failure = RefusalError(
                str(error).replace(secret, MASK), error.code.replace(secret, MASK), error.status
            )
        raise failure

    async def _complete(
        self, web: WebFilter, conversation: Conversation, pending: Mapping[str, str], on_told: OnTold
    ) -> Completion:
        shape = shape_of(self.dialect)
        rendered = shape.render(self.dialect, web, conversation, shape.streams)
        anthropic = self.dialect.vendor is Vendor.ANTHROPIC
        request = ChannelRequest(
            "POST",
            self.base + rendered.path,
            (
                ("Content-Type", "application/json"),
                ("Accept", "text/event-stream" if shape.streams else "application/json"),
                *rendered.fields,
            ),
            rendered.body,
            secret_field=("x-api-key", "") if anthropic else ("Authorization", "Bearer "),
            secret=self.secret,
        )
        async with self.channel.send(request) as answer:
            if not 200 <= answer.status < 300:
                await self._raise_status(answer)
            if _media_type(answer) == "text/event-stream":
                found = await self._read_stream(answer.chunks, on_told)
            else:
                body = await _read_whole(answer.chunks, MAX_ANSWER_BYTES)
                found = await asyncio.to_thread(read_object, body)
        on_told(shape.read_usage(found))  # before it is read: an error inside a 200 has counters, too
        parsed = await asyncio.to_thread(lambda: shape.parse(self._mask(found), self.name, pending))
        if max(len(parsed.citations), len(parsed.rows), len(parsed.calls)) > MAX_FACTS:
            raise AnswerError(f"the answer has more than {MAX_FACTS} citations, rows or uses of tools")
        return parsed

    async def _read_stream(self, chunks: AsyncIterator[bytes], on_told: OnTold) -> Object:
        reader, assembler = EventReader(), shape_of(self.dialect).assembler(self.name)
        size = uses = 0
        async for chunk in chunks:
            size += len(chunk)
            if size > MAX_ANSWER_BYTES:
                raise AnswerError(f"the answer is over {MAX_ANSWER_BYTES} bytes")
            for event in reader.feed(chunk):
                masked = Event(event.name, event.data.replace(self.secret.reveal(), MASK))
                if len(masked.data) < AT_ONCE:
                    told = assembler.feed(masked)
                else:
                    told = await asyncio.to_thread(assembler.feed, masked)
                uses += sum(isinstance(one, ServerToolCall) for one in told)
                if uses > MAX_FACTS:
                    raise AnswerError(f"the answer has more than {MAX_FACTS} uses of tools")
                for one in told:
                    on_told(one)
        return await asyncio.to_thread(assembler.finish)

    async def _raise_status(self, answer: ChannelAnswer) -> None:
        """The vendor's own words for a status, where they can be read. Raises RefusalError, ChannelError."""
        try:
            body = await _read_whole(answer.chunks, MAX_ERROR_BYTES)
            found = self._mask(as_object(read_json(body)) or {})
        except AnswerError:
            found = {}
        raise_refusal(found.get("error"), answer.status)

    def _mask(self, found: Object) -> Object:
        """Before anything is made or cut of it: a vendor may repeat a wrong key in its complaint, and more."""
        try:
            return {name: mask_json(value, self.secret.reveal()) for name, value in found.items()}
        except RecursionError:
            raise AnswerError("the answer's JSON is nested too deeply") from None


def mask_json(value: Json, secret: str) -> Json:
    """A JSON value without the secret in any of its texts."""
    if isinstance(value, str):
        return value.replace(secret, MASK)
    if isinstance(value, Mapping):
        return {name.replace(secret, MASK): mask_json(one, secret) for name, one in value.items()}
    if isinstance(value, list):
        return [mask_json(one, secret) for one in value]
    return value


async def _read_whole(chunks: AsyncIterator[bytes], most: int) -> bytes:
    body = bytearray()
    async for chunk in chunks:
        body += chunk
        if len(body) > most:
            raise AnswerError(f"the answer is over {most} bytes")
    return bytes(body)


def _media_type(answer: ChannelAnswer) -> str:
    value = next((value for name, value in answer.fields if name == "content-type"), "")
    return value.partition(";")[0].strip().lower()
