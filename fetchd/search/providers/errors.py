"""The body of an error answer as one line that can be shown (SPEC 4).

2,000 bytes at the most, cut at a character boundary; then \\n \\r \\t and other control characters escaped

b""                 → (empty body)
b"no\\x1b[2J\\n"      → no\\u{001b}[2J\\n
bytes that are no UTF-8 → U+FFFD in their places
"""

import codecs
import re
from typing import Final

from fetchd.core.failures import FailureKind
from fetchd.search.interface import SearchFailure

MAX_ERROR_BYTES: Final = 2_000

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_NAMED: Final = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def render_error(status: int, body: bytes) -> SearchFailure:
    """The failure of a status that is not 2xx. body: all of it, or more than its first 2,000 bytes."""
    return SearchFailure(FailureKind.BACKEND, f"backend returned {status}: {render_body(body)}")


def unreadable_error(status: int) -> SearchFailure:
    """The same, when the body did not come."""
    return SearchFailure(
        FailureKind.BACKEND, f"backend returned {status}, and its error body could not be read"
    )


def render_body(body: bytes) -> str:
    """The body as it is quoted."""
    if not body:
        return "(empty body)"
    # Left open at a cut, the decoder keeps back the bytes of a character that the cut parted.
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    return escape(decoder.decode(body[:MAX_ERROR_BYTES], final=len(body) <= MAX_ERROR_BYTES))


def escape(text: str) -> str:
    """Text of another party on one line."""
    return _CONTROL.sub(lambda found: _NAMED.get(found[0]) or f"\\u{{{ord(found[0]):04x}}}", text)
