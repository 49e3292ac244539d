"""Decompressed bytes of an answer, counted as they stream down (SPEC 1.8).

An agent's own client gets nothing of the chunk that crosses the cap; the daemon gets it whole and then the reset, so
that it can meter in the same way and tell "over the cap" from "broken". A br or zstd decoder holds megabytes, so few
work at a time (`decoder_slots`) and the rest wait within the hop's time limit; those of gzip and deflate hold 40 KiB
and never wait.
"""

import asyncio
from collections.abc import Awaitable, Callable

from mitmproxy import connection, http

from proxy_addons.addons.decoder_slots import DecoderSlots
from proxy_addons.engine.hops import Hop, hop_of
from proxy_addons.engine.refusals import RefusedBody, time_is_up, upstream_failed
from proxy_addons.policy.codings import (
    BrokenBodyError,
    OverCapError,
    UnsupportedCodingError,
    parse_content_encoding,
)
from proxy_addons.policy.content_types import ContentClass, parse_content_type
from proxy_addons.policy.metering import BodyMeter
from proxy_addons.policy.verdicts import Failure, Rule, Verdict, refuse


class ByteCap:
    """Sets the meter as the answer's stream callable."""

    def __init__(self, slots: DecoderSlots) -> None:
        self._slots = slots
        self._holders: dict[Hop, int] = {}

    def responseheaders(self, flow: http.HTTPFlow) -> Awaitable[None] | None:
        """Judge the declared length and the codings before any body byte."""
        hop, response = hop_of(flow), flow.response
        if hop.refused or response is None:
            return None
        fields = response.headers.fields
        try:
            codings = parse_content_encoding(v for n, v in fields if n.lower() == b"content-encoding")
        except UnsupportedCodingError:
            if not hop.from_daemon:
                hop.refuse(upstream_failed(hop))
                return None
            # The daemon judges status and type first, then finds the body unreadable by itself.
            response.stream = _cutter(hop)
            return None
        if _declares_too_much(hop, flow):
            hop.refuse(over_cap(hop))
            return None
        hop.meter = BodyMeter(codings, hop.profile.byte_cap)
        response.stream = _counter(hop, hop.meter)
        windows = hop.meter.windows if flow.request.method != "HEAD" else 0
        return self._take_windows(hop, windows) if windows else None

    async def _take_windows(self, hop: Hop, windows: int) -> None:
        try:
            async with asyncio.timeout_at(hop.deadline):
                await self._slots.take(windows)
        except TimeoutError:
            hop.refuse(time_is_up(hop))
            return
        self._holders[hop] = windows
        if hop.session.client.timestamp_end is not None:
            self._free(hop)  # the client went meanwhile: nothing will tell of this hop's end

    def client_disconnected(self, client: connection.Client) -> None:
        """A connection that was dropped in the middle tells of no ends."""
        for hop in [hop for hop in self._holders if hop.session.client is client]:
            self._free(hop)

    def response(self, flow: http.HTTPFlow) -> None:
        """The body is complete."""
        self._free(hop_of(flow))

    def error(self, flow: http.HTTPFlow) -> None:
        """The body, or the exchange before it, broke off."""
        self._free(hop_of(flow))

    def _free(self, hop: Hop) -> None:
        if hop.meter is not None:
            hop.meter.close()
        self._slots.give_back(self._holders.pop(hop, 0))


def over_cap(hop: Hop) -> Verdict:
    """SPEC 2.1, row 4."""
    message = f"response from {hop.display} exceeds the {hop.profile.byte_cap}-byte size cap"
    return refuse(Rule.BYTE_CAP, message, failure=Failure.SOFT)


def _declares_too_much(hop: Hop, flow: http.HTTPFlow) -> bool:
    """A declared length above the cap, where that alone refuses (SPEC 1.8): every class but flat text.

    The daemon says first what else is wrong with an answer (status, type), so only what it would read to the end
    is refused here on its requests.
    """
    response = flow.response
    assert response is not None
    if flow.request.method == "HEAD" or response.status_code in (204, 304):
        return False
    declared = response.headers.get("content-length", "")
    if not (declared.isascii() and declared.isdigit()) or int(declared[:20]) <= hop.profile.byte_cap:
        return False
    types = [value for name, value in response.headers.fields if name.lower() == b"content-type"]
    parsed = parse_content_type(types[0]) if types else None
    content_class = parsed.content_class if parsed is not None else ContentClass.REFUSED
    if not hop.from_daemon:
        return content_class is not ContentClass.FLAT
    return 200 <= response.status_code < 300 and content_class in (ContentClass.HTML, ContentClass.STRUCTURED)


def _counter(hop: Hop, meter: BodyMeter) -> Callable[[bytes], bytes]:
    reader = hop.call.reader if hop.call is not None else None

    def count(chunk: bytes) -> bytes:
        try:
            if chunk and reader is not None:
                for piece in meter.feed(chunk):
                    reader.feed(piece)
            elif chunk:
                meter.count(chunk)
            else:
                meter.finish()
        except OverCapError:
            hop.refuse(over_cap(hop))
            if hop.from_daemon:
                return chunk  # the stream resets after it
            raise RefusedBody from None
        except BrokenBodyError:
            hop.refuse(upstream_failed(hop))
            if hop.from_daemon:
                return chunk
            raise RefusedBody from None
        return chunk

    return count


def _cutter(hop: Hop) -> Callable[[bytes], bytes]:
    def cut(chunk: bytes) -> bytes:
        hop.refuse(upstream_failed(hop))
        raise RefusedBody

    return cut


__all__ = ["ByteCap", "over_cap"]
