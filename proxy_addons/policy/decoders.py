"""Streaming decoders of the content codings, in bounded memory (SPEC 1.8).

Laws of every decoder here:

1. A piece it yields is never larger than PIECE; between calls it holds its window and a few hundred bytes.
2. The same bytes give the same result however they are cut into chunks.
3. What it cannot decode is BrokenBodyError and nothing else.
4. Work is bounded by input and output: an input is taken in slices, the members of a stream are counted.

What a decoder holds while its stream is open, and frees at the end of the stream:

| coding  | window                                                                            |
|---------|-----------------------------------------------------------------------------------|
| gzip    | 32 KiB (RFC 1951) and 7 KiB of state                                              |
| deflate | the same                                                                          |
| br      | up to 16 MiB (lgwin 24, RFC 7932 9.1), 4 MiB at the usual lgwin 22; it grows with |
|         | the output. Large-window brotli is no HTTP coding and is refused                  |
| zstd    | up to 8 MiB (RFC 9659); a frame that asks for more is refused                     |

Bytes after the end of a stream:

| coding  | what follows the end                                                              |
|---------|-----------------------------------------------------------------------------------|
| gzip    | after any NUL padding, `1f 8b` starts a further member (RFC 1952 2.2); anything   |
|         | else is ignored, as gzip(1), curl and browsers do                                 |
| deflate | ignored, as browsers do                                                           |
| br      | broken, as in curl: the library loses the last output when junk follows it in the |
|         | same call, so ignoring junk would make the result hang on the chunking            |
| zstd    | a further frame, or a skippable one (RFC 8878 3.1); anything else is broken       |
"""

import sys
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping
from types import MappingProxyType
from typing import Final, Protocol

import brotli

from proxy_addons.policy.codings import MAX_MEMBERS, PIECE, ZSTD_WINDOW_LOG_MAX, BrokenBodyError, Coding

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_SLICE: Final = 16_384  # bytes of input a call; the libraries copy what they did not consume, on every call
_PROBE_MAX: Final = 512  # bytes; longer than any deflate block header, so output or an error comes before
# brotli looks at its limit only after a block, and blocks grow: 32,752 bytes, then 98,272 in all.
_BROTLI_LIMIT: Final = 32_700
_GZIP_MAGIC: Final = b"\x1f\x8b"
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_ZSTD_OPTIONS: Final = {int(zstd.DecompressionParameter.window_log_max): ZSTD_WINDOW_LOG_MAX}

type _Bytes = bytes | memoryview


class Decoder(Protocol):
    """One coding of one body. After an error, or after finish, it is not fed again."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield what `data` decodes to, in non-empty pieces of at most PIECE bytes; read it to its end.

        Raises BrokenBodyError.
        """

    def finish(self) -> None:
        """The body has ended. Raises BrokenBodyError if the stream has not; no bytes at all are complete."""


def make_decoder(coding: Coding) -> Decoder:
    """A fresh decoder of one body."""
    return _DECODERS[coding]()


class _Inflater(Protocol):
    """The part of zlib.decompressobj() used here; its class has no public name before Python 3.14."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    @property
    def unconsumed_tail(self) -> bytes: ...
    def decompress(self, data: _Bytes, max_length: int, /) -> bytes: ...


class _GzipDecoder:
    """RFC 1952: any number of members, their data joined."""

    def __init__(self) -> None:
        self._member: _Inflater | None = None
        self._members = 0
        self._held = b""  # between members: a lone 1f that may start the next one
        self._ignoring = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        for part in _slices(data):
            while part:
                if self._member is None:
                    part = self._open_member(part)
                    if self._member is None:
                        break
                part = yield from _inflate(self._member, part, Coding.GZIP)
                if self._member.eof:
                    self._member = None

    def finish(self) -> None:
        if self._member is not None:
            raise _truncated(Coding.GZIP)

    def _open_member(self, part: _Bytes) -> _Bytes:
        """Start the member that `part` begins with, if it does; return the bytes to decode."""
        if self._ignoring:
            return b""
        if self._members:  # the first one is zlib's to judge: a plain body must break, not vanish
            part = (self._held + bytes(part)).lstrip(b"\0")
            self._held = part if part == _GZIP_MAGIC[:1] else b""
            if self._held or not part:
                return b""
            if not part.startswith(_GZIP_MAGIC):
                self._ignoring = True
                return b""
        self._members = _count_member(self._members, Coding.GZIP)
        self._member = zlib.decompressobj(zlib.MAX_WBITS + 16)
        return part


class _DeflateDecoder:
    """RFC 9110 8.4.1.2: the zlib format (RFC 1950), or the bare deflate data (RFC 1951) that some send.

    The zlib header is two bytes, and bytes that pass for one may still be bare data. So until the zlib
    reading has given its first output, the input goes in byte by byte and is kept; if that reading fails
    before, the same bytes are read as bare data.
    """

    def __init__(self) -> None:
        self._inflater: _Inflater | None = None
        self._zlib_form: _Inflater | None = None  # the reading on trial
        self._head = b""
        self._ended = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        for part in _slices(data):
            if self._ended:
                return
            if self._inflater is None:
                first, part = self._choose_form(part)
                if first:
                    yield first
                if self._inflater is None:
                    continue
            yield from _inflate(self._inflater, part, Coding.DEFLATE)
            if self._inflater.eof:
                self._inflater = None
                self._ended = True

    def finish(self) -> None:
        if self._inflater is not None or self._head:
            raise _truncated(Coding.DEFLATE)

    def _choose_form(self, part: _Bytes) -> tuple[bytes, _Bytes]:
        """Take bytes until the form is known. Returns the trial's output and the bytes still to decode."""
        for at in range(len(part)):
            byte = bytes(part[at : at + 1])
            self._head += byte
            try:
                output = self._try_zlib_form(byte)
            except zlib.error:
                self._inflater = zlib.decompressobj(-zlib.MAX_WBITS)
                head, self._head = self._head, b""
                return b"", head + part[at + 1 :]
            trial = self._zlib_form
            if trial is not None and (output or trial.eof or len(self._head) == _PROBE_MAX):
                self._inflater, self._zlib_form, self._head = trial, None, b""
                return output, part[at + 1 :]
        return b"", b""

    def _try_zlib_form(self, byte: bytes) -> bytes:
        if self._zlib_form is None:
            self._zlib_form = zlib.decompressobj(zlib.MAX_WBITS)
        return self._zlib_form.decompress(byte, PIECE)


class _BrotliDecoder:
    """RFC 7932: one stream."""

    def __init__(self) -> None:
        self._native = brotli.Decompressor()
        self._started = False
        self._ended = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        for part in _slices(data):
            if self._ended:
                raise BrokenBodyError("bytes after the end of the br body")
            self._started = True
            while True:
                try:
                    output: bytes = self._native.process(part, output_buffer_limit=_BROTLI_LIMIT)
                except brotli.error as error:
                    raise _malformed(Coding.BR, error) from error
                part = b""
                # The limit is soft. With it no block known crosses PIECE, but sizes are the library's own.
                for at in range(0, len(output), PIECE):
                    yield output[at : at + PIECE]
                if self._native.is_finished():
                    self._ended = True
                    self._native = None
                    break
                if not output and self._native.can_accept_more_data():
                    break

    def finish(self) -> None:
        if self._started and not self._ended:
            raise _truncated(Coding.BR)


class _ZstdDecoder:
    """RFC 8878: any number of frames, skippable ones among them, their data joined."""

    def __init__(self) -> None:
        self._frame: zstd.ZstdDecompressor | None = None
        self._frames = 0
        self._head = b""  # between frames: less than a magic number

    def feed(self, data: bytes) -> Iterator[bytes]:
        for part in _slices(data):
            while part:
                if self._frame is None:
                    part = self._open_frame(part)
                    if self._frame is None:
                        break
                part = yield from self._decompress(self._frame, part)
                if self._frame.eof:
                    self._frame = None

    def finish(self) -> None:
        if self._frame is not None or self._head:
            raise _truncated(Coding.ZSTD)

    def _open_frame(self, part: _Bytes) -> bytes:
        """Start a frame once its magic number is there; return the bytes to decode.

        Checked here because a libzstd built with the older formats need not hold their windows to the limit.
        """
        head = self._head + bytes(part)
        if len(head) < len(_ZSTD_MAGIC):
            self._head = head
            return b""
        self._head = b""
        skippable = head[0] & 0xF0 == 0x50 and head[1:4] == b"\x2a\x4d\x18"
        if not (skippable or head.startswith(_ZSTD_MAGIC)):
            raise BrokenBodyError("zstd body is malformed: not a frame")
        self._frames = _count_member(self._frames, Coding.ZSTD)
        self._frame = zstd.ZstdDecompressor(options=_ZSTD_OPTIONS)
        return head

    @staticmethod
    def _decompress(frame: zstd.ZstdDecompressor, part: _Bytes) -> Generator[bytes, None, bytes]:
        while True:
            try:
                output = frame.decompress(part, PIECE)
            except zstd.ZstdError as error:
                raise _malformed(Coding.ZSTD, error) from error
            if output:
                yield output
            if frame.eof:
                return frame.unused_data
            if frame.needs_input:
                return b""
            part = b""


_DECODERS: Final[Mapping[Coding, Callable[[], Decoder]]] = MappingProxyType(
    {
        Coding.GZIP: _GzipDecoder,
        Coding.DEFLATE: _DeflateDecoder,
        Coding.BR: _BrotliDecoder,
        Coding.ZSTD: _ZstdDecoder,
    }
)


def _inflate(inflater: _Inflater, data: _Bytes, coding: Coding) -> Generator[bytes, None, bytes]:
    """Decode `data` piece by piece; returns what follows the end of the stream."""
    while True:
        try:
            output = inflater.decompress(data, PIECE)
        except zlib.error as error:
            raise _malformed(coding, error) from error
        if output:
            yield output
        if inflater.eof:
            return inflater.unused_data
        data = inflater.unconsumed_tail
        # A full piece may leave output inside zlib although all input is taken: ask again with none.
        if not data and len(output) < PIECE:
            return b""


def _slices(data: bytes) -> Iterator[_Bytes]:
    if len(data) <= _SLICE:
        if data:
            yield data
        return
    view = memoryview(data)
    for at in range(0, len(view), _SLICE):
        yield view[at : at + _SLICE]


def _count_member(members: int, coding: Coding) -> int:
    if members == MAX_MEMBERS:
        raise BrokenBodyError(f"{coding} body has more than {MAX_MEMBERS} members")
    return members + 1


def _malformed(coding: Coding, error: Exception) -> BrokenBodyError:
    return BrokenBodyError(
        f"{coding} body is malformed: {error}"
    )  # the libraries' texts hold no bytes of the body


def _truncated(coding: Coding) -> BrokenBodyError:
    return BrokenBodyError(f"{coding} body breaks off")
