"""One vendor over the provider channel: a request out, an answer in, whole or as it streams, within a bound.

What the vendor says of its own failure is repeated in messages, cut and escaped; a credential that it repeats is
masked first.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from fetchd.channel import Channel, ChannelRequest, Secret
from fetchd.channel.interface import ChannelAnswer
from fetchd.errors import ChannelError
from proxy_addons.policy.vendors.dialects import Dialect, Vendor

from .dialects import shape_of
from .errors import AnswerError, RefusalError, UnreachableError, VendorError
from .preparing import WebFilter
from .reading import Object, as_object, raise_refusal, read_json, read_object
from .sse import EventReader
from .values import Completion, Conversation, ServerToolCall

MAX_ANSWER_BYTES: Final = 32 << 20
"""A fetched PDF comes as base64 inside the answer."""
MAX_ERROR_BYTES: Final = 64 << 10
MASK: Final = "[key]"

type OnCall = Callable[[ServerToolCall], None]


class CompletionVendor(Protocol):
    """Who completes."""

    @property
    def name(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def dialect(self) -> Dialect: ...

    async def complete(
        self, web: WebFilter, conversation: Conversation, pending: Mapping[str, str], on_call: OnCall
    ) -> Completion:
        """One completion. on_call: told of each tool as it is used, where the vendor says so on the way.

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
        self, web: WebFilter, conversation: Conversation, pending: Mapping[str, str], on_call: OnCall
    ) -> Completion:
        """See CompletionVendor."""
        try:
            return await self._complete(web, conversation, pending, on_call)
        except ChannelError as error:
            failure: VendorError = UnreachableError(f"could not be reached: {error}")
        except RefusalError as error:
            # The vendor may repeat a wrong key in its complaint.
            masked = str(error).replace(self.secret.reveal(), MASK)
            failure = RefusalError(masked, error.code.replace(self.secret.reveal(), MASK), error.status)
        raise failure

    async def _complete(
        self, web: WebFilter, conversation: Conversation, pending: Mapping[str, str], on_call: OnCall
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
                await _raise_status(answer)
            if _media_type(answer) == "text/event-stream":
                found = await self._read_stream(answer.chunks, on_call)
            else:
                found = read_object(await _read_whole(answer.chunks, MAX_ANSWER_BYTES))
        return shape.parse(found, self.name, pending)

    async def _read_stream(self, chunks: AsyncIterator[bytes], on_call: OnCall) -> Object:
        reader, assembler = EventReader(), shape_of(self.dialect).assembler(self.name)
        size = 0
        async for chunk in chunks:
            size += len(chunk)
            if size > MAX_ANSWER_BYTES:
                raise AnswerError(f"the answer is over {MAX_ANSWER_BYTES} bytes")
            for event in reader.feed(chunk):
                for call in assembler.feed(event):
                    on_call(call)
        return assembler.finish()


async def _read_whole(chunks: AsyncIterator[bytes], most: int) -> bytes:
    body = bytearray()
    async for chunk in chunks:
        body += chunk
        if len(body) > most:
            raise AnswerError(f"the answer is over {most} bytes")
    return bytes(body)


async def _raise_status(answer: ChannelAnswer) -> None:
    """The vendor's own words for a status, where they can be read. Raises RefusalError, ChannelError."""
    try:
        body = await _read_whole(answer.chunks, MAX_ERROR_BYTES)
        found = as_object(read_json(body)) or {}
    except AnswerError:
        found = {}
    raise_refusal(found.get("error"), answer.status)


def _media_type(answer: ChannelAnswer) -> str:
    value = next((value for name, value in answer.fields if name == "content-type"), "")
    return value.partition(";")[0].strip().lower()
