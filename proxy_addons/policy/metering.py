"""The byte meter: decompressed bytes of one body, counted as they stream (SPEC 1.8, 2.1 rows 4 and 5).

Gateway and daemon meter with this one class, so that they agree on what is over the cap.

Laws:

1. Exactly `cap` bytes pass; one more is OverCapError, and the consumer then holds exactly `cap` bytes.
2. Pieces flow through the layers one at a time; nothing is collected.
3. What goes into a layer is bounded too, else a bomb that unpacks to empty members is never over the cap.
4. Once failed, always failed: the decoders are freed, and each further call raises the same kind of error.

When the byte that crosses the cap and bytes that do not decode lie less than a piece apart, either error may
come first: a library that meets both in one call reports the break and drops the output before it.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from proxy_addons.policy.codings import MAX_LAYERS, PIECE, BodyError, BrokenBodyError, Coding, OverCapError
from proxy_addons.policy.decoders import Decoder, make_decoder

_HEAVY: Final = frozenset({Coding.BR, Coding.ZSTD})
# Bytes of input a layer may take: twice the cap and a little. Coded data is longer than what it decodes to by
# headers alone; a layer that takes more is fed padding.
_INPUT_FACTOR: Final = 2
_INPUT_SLACK: Final = 65_536


class BodyMeter:
    """Meters one body: `feed` or `count` each chunk, then `finish`; `close` when the body is given up.

    `windows` is how many br and zstd windows, megabytes each, are held until the end, and `heavy` that there are
    any; other layers hold 40 KiB.
    """

    __slots__ = (
        "_cap",
        "_failure",
        "_fast",
        "_finished",
        "_layers",
        "_reading",
        "decoded_bytes",
        "heavy",
        "windows",
        "wire_bytes",
    )

    def __init__(self, codings: tuple[Coding, ...], cap: int) -> None:
        """`codings` in the order applied, as parse_content_encoding returns them; `cap` in decoded bytes."""
        if len(codings) > MAX_LAYERS:
            raise ValueError(f"at most {MAX_LAYERS} codings, not {len(codings)}")
        if cap < 0:
            raise ValueError(f"the cap must not be negative: {cap}")
        self.wire_bytes = 0
        self.decoded_bytes = 0
        self.windows: Final = sum(coding in _HEAVY for coding in codings)
        self.heavy: Final = self.windows > 0
        self._cap: Final = cap
        budget = _INPUT_FACTOR * cap + _INPUT_SLACK
        self._layers = tuple(_Layer(make_decoder(coding), budget) for coding in reversed(codings))
        self._fast = not codings  # nothing to decode, not ended, no chunk half read
        self._reading = False
        self._finished = False
        self._failure: BodyError | None = None

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Count a chunk off the wire and yield what it decodes to, in pieces of at most PIECE bytes.

        Read the pieces to their end: decoding happens as they are read. Raises OverCapError after the last
        byte that fits, BrokenBodyError; RuntimeError if the chunk before was not read to its end.
        """
        self._check_open()
        size = len(chunk)
        self.wire_bytes += size
        if self._fast and size <= PIECE and self.decoded_bytes + size <= self._cap:
            self.decoded_bytes += size
            return iter((chunk,) if chunk else ())
        self._reading = True
        self._fast = False
        return self._read(chunk)

    def count(self, chunk: bytes) -> None:
        """Like feed, with the pieces dropped."""
        if self._fast:
            size = len(chunk)
            self.wire_bytes += size
            self.decoded_bytes += size
            if self.decoded_bytes > self._cap:
                self.decoded_bytes = self._cap
                self._fail(self._over_cap())
            return
        for _ in self.feed(chunk):
            pass

    def finish(self) -> None:
        """The body has ended. Raises BrokenBodyError unless each layer has; no bytes are a whole body."""
        if self._finished:
            return
        self._check_open()
        failure = self._finish_layers()
        if failure is not None:
            self._fail(failure)
        self._finished = True
        self._end()

    def close(self) -> None:
        """Free the windows now. A body closed before finish counts as broken."""
        if self._failure is None and not self._finished:
            self._failure = BrokenBodyError("the body was given up before its end")
        self._end()

    def _read(self, chunk: bytes) -> Iterator[bytes]:
        failure: BodyError | None = None
        try:
            yield from self._deliver(chunk)
        except BodyError as error:
            failure = _copy(error)
        self._reading = False
        if failure is not None:
            self._fail(failure)
        self._fast = not self._layers and self._failure is None

    def _deliver(self, chunk: bytes) -> Iterator[bytes]:
        pieces: Iterable[bytes] = _split(chunk)
        for layer in self._layers:
            pieces = layer.decode(pieces)
        for piece in pieces:
            room = self._cap - self.decoded_bytes
            if len(piece) > room:
                self.decoded_bytes = self._cap
                if room:
                    yield piece[:room]
                raise self._over_cap()
            self.decoded_bytes += len(piece)
            yield piece

    def _finish_layers(self) -> BodyError | None:
        try:
            for layer in self._layers:
                layer.decoder.finish()
        except BrokenBodyError as error:
            return _copy(error)
        return None

    def _check_open(self) -> None:
        if self._failure is not None:
            self._fail(self._failure)
        if self._finished:
            self._fail(BrokenBodyError("bytes after the end of the body"))
        if self._reading:
            raise RuntimeError("the pieces of the chunk before were not read to their end")

    def _fail(self, failure: BodyError) -> None:
        self._failure = failure
        self._end()
        raise _copy(failure)

    def _end(self) -> None:
        self._layers = ()
        self._fast = False

    def _over_cap(self) -> OverCapError:
        return OverCapError(f"the decoded body exceeds {self._cap} bytes")


def _copy(error: BodyError) -> BodyError:
    """The same error without its traceback: kept, that would keep frames, and they the windows."""
    return type(error)(str(error))


class _Layer:
    """One decoder and what it may still take."""

    __slots__ = ("_budget", "decoder")

    def __init__(self, decoder: Decoder, budget: int) -> None:
        self.decoder: Final = decoder
        self._budget = budget

    def decode(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            self._budget -= len(piece)
            if self._budget < 0:
                raise BrokenBodyError("the body takes more coded bytes than a body under the cap can need")
            yield from self.decoder.feed(piece)


def _split(chunk: bytes) -> Iterator[bytes]:
    if len(chunk) <= PIECE:
        if chunk:
            yield chunk
        return
    for at in range(0, len(chunk), PIECE):
        yield chunk[at : at + PIECE]
