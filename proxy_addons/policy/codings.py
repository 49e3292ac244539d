"""Content codings: the Content-Encoding field, the limits of decoding, and its errors (SPEC 1.8, 2.1 row 5).

Grammar (RFC 9110 8.4): a comma-separated list in the order the sender applied the codings, over any number of
field lines, any letter case, empty elements ignored. `gzip, br` = gzipped first, brotli on the outside.
Read: `gzip`, `x-gzip`, `deflate`, `br`, `zstd`, `identity` (dropped). Refused: any other name, a third layer.

Errors:

    BodyError
    ├── UnsupportedCodingError   the field names what cannot be decoded; no body byte was looked at
    ├── BrokenBodyError          the body is malformed or breaks off, or asks for too much memory or work
    └── OverCapError             the decoded bytes crossed the cap
"""

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

MAX_LAYERS: Final = 2  # SPEC 1.8; real origins use one, a proxy in front may add a second
ZSTD_WINDOW_LOG_MAX: Final = 23  # 8 MiB, what RFC 9659 lets an HTTP sender use
PIECE: Final = 65_536  # bytes; the most that is handed on at once
MAX_MEMBERS: Final = 16_384  # a member costs about 1 µs (gzip) or 10 µs (zstd) even when it holds nothing

_SHOWN_TOKEN: Final = re.compile(
    r"[a-z0-9!#$%&'*+.^_`|~-]{1,32}"
)  # RFC 9110 5.6.2, of a length fit for a log


class Coding(StrEnum):
    """A content coding that can be decoded in bounded memory."""

    GZIP = "gzip"
    DEFLATE = "deflate"
    BR = "br"
    ZSTD = "zstd"


class BodyError(Exception):
    """A body that is not passed on. The three kinds below are all there is."""


class UnsupportedCodingError(BodyError):
    """Content-Encoding names an unknown coding, or more than MAX_LAYERS. `why` is safe to log."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why: Final = why


class BrokenBodyError(BodyError):
    """A coded body that is malformed or truncated, or asks for more memory or work than allowed."""


class OverCapError(BodyError):
    """The decoded bytes crossed the cap; the consumer has been given exactly the bytes up to it."""


_NAMES: Final[Mapping[str, Coding | None]] = MappingProxyType(
    {
        "gzip": Coding.GZIP,
        "x-gzip": Coding.GZIP,  # RFC 9110 8.4.1.3
        "deflate": Coding.DEFLATE,
        "br": Coding.BR,
        "zstd": Coding.ZSTD,
        "identity": None,  # RFC 9110 12.5.3: says nothing was applied
    }
)


def parse_content_encoding(values: Iterable[str | bytes]) -> tuple[Coding, ...]:
    """Read the values of all Content-Encoding lines, in their order.

    Returns the codings in the order they were applied (decode from the last), without identity.
    Raises UnsupportedCodingError.
    """
    codings: list[Coding] = []
    for value in values:
        text = value.decode("latin-1") if isinstance(value, bytes) else value
        for element in text.split(","):
            name = element.strip(" \t").lower()
            if not name:
                continue
            if name not in _NAMES:
                shown = f": {name}" if _SHOWN_TOKEN.fullmatch(name) else ""
                raise UnsupportedCodingError(f"unknown content coding{shown}")
            coding = _NAMES[name]
            if coding is not None:
                codings.append(coding)
    if len(codings) > MAX_LAYERS:
        raise UnsupportedCodingError(f"{len(codings)} content codings, at most {MAX_LAYERS} are decoded")
    return tuple(codings)
