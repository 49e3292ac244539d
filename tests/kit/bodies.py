"""Content codings and bombs as bytes."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from enum import StrEnum

import brotli
from backports import zstd


class Coding(StrEnum):
    GZIP = "gzip"
    DEFLATE = "deflate"
    RAW_DEFLATE = "raw-deflate"
    BR = "br"
    ZSTD = "zstd"

    @property
    def token(self) -> str:
        """What Content-Encoding says; both deflate forms are called deflate (RFC 9110 8.4.1.2)."""
        return "deflate" if self is Coding.RAW_DEFLATE else self.value


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


ENCODERS: dict[Coding, Callable[[bytes], bytes]] = {
    Coding.GZIP: gzip.compress,
    Coding.DEFLATE: zlib.compress,
    Coding.RAW_DEFLATE: raw_deflate,
    Coding.BR: lambda data: brotli.compress(data, quality=5),
    Coding.ZSTD: zstd.compress,
}


def encode_body(data: bytes, *codings: Coding) -> bytes:
    """`data` after each coding in turn (the order Content-Encoding lists them)."""
    for coding in codings:
        data = ENCODERS[coding](data)
    return data


def content_encoding(*codings: Coding) -> str:
    return ", ".join(coding.token for coding in codings)


def _zeros(size: int) -> Iterator[bytes]:
    chunk = bytes(1 << 20)
    for _ in range(size // len(chunk)):
        yield chunk
    yield bytes(size % len(chunk))


def bomb(coding: Coding, inflated: int) -> bytes:
    """`inflated` zero bytes under one coding, made in bounded memory."""
    match coding:
        case Coding.GZIP | Coding.DEFLATE | Coding.RAW_DEFLATE:
            wbits = {Coding.GZIP: 31, Coding.DEFLATE: 15, Coding.RAW_DEFLATE: -15}[coding]
            packer = zlib.compressobj(6, zlib.DEFLATED, wbits)
            return b"".join(packer.compress(chunk) for chunk in _zeros(inflated)) + packer.flush()
        case Coding.BR:
            brotli_packer = brotli.Compressor(quality=1)
            body = b"".join(brotli_packer.process(chunk) for chunk in _zeros(inflated))
            return body + brotli_packer.finish()
        case Coding.ZSTD:
            zstd_packer = zstd.ZstdCompressor()
            return b"".join(zstd_packer.compress(chunk) for chunk in _zeros(inflated)) + zstd_packer.flush()
