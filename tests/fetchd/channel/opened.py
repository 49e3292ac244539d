"""A channel to an origin of the tests, which is `localhost` over TLS."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fetchd.channel import ChannelRequest
from fetchd.channel.client import HttpChannel, make_roots
from tests.kit.pki import Pki
from tests.kit.sync import PATIENCE

KEY = "canary-0123456789"


@asynccontextmanager
async def open_channel(pki: Pki, port: int, host: str = "localhost") -> AsyncIterator[HttpChannel]:
    async with HttpChannel(f"https://{host}:{port}", make_roots([str(pki.ca_path)])) as channel:
        yield channel


def ask(origin_port: int, path: str = "/", host: str = "localhost", **more: object) -> ChannelRequest:
    return ChannelRequest("GET", f"https://{host}:{origin_port}{path}", **more)  # type: ignore[arg-type]


async def read(channel: HttpChannel, request: ChannelRequest) -> bytes:
    async with channel.send(request) as answer:
        return b"".join([chunk async for chunk in answer.chunks])


async def until_unfit(channel: HttpChannel) -> None:
    """Until the client has seen that its idle connections are of no use any more."""
    async with asyncio.timeout(PATIENCE):
        while channel._connections.usable:  # noqa: ASYNC110 - nobody is told
            await asyncio.sleep(0.001)
