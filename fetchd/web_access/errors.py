"""What goes wrong with provider-executed web access.

WebAccessError
├── DeclarationError     what was declared cannot be carried or makes no sense; nothing was sent
└── VendorError          the vendor, or the way to it, failed
    ├── UnreachableError it could not be reached, or its answer broke off
    ├── AnswerError      its answer is not one: malformed, too large, or it ends in the middle
    └── RefusalError     it answered with an error of its own
"""

import re
from typing import Final

from fetchd.errors import FetchdError

MAX_FOREIGN: Final = 500
"""Characters of another party's words in a message of ours."""

_UNPRINTABLE: Final = re.compile(
    r"[^\x20-\x7e\xa1-\U0010ffff]|[\ud800-\udfff\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]"
)


class WebAccessError(FetchdError):
    """Root; raised only through its subclasses. The text is one line."""


class DeclarationError(WebAccessError):
    """The text names what, and the way out, and that no request was sent."""


class VendorError(WebAccessError):
    """Raised only through its subclasses."""


class UnreachableError(VendorError):
    """The text says in our own words how."""


class AnswerError(VendorError):
    """The text says in our own words what was expected."""


class RefusalError(VendorError):
    """code: the vendor's own word for it, "" where it has none. status: of HTTP, None inside a 200."""

    def __init__(self, text: str, code: str = "", status: int | None = None) -> None:
        super().__init__(text)
        self.code = code
        self.status = status


def show_foreign(text: str, most: int = MAX_FOREIGN) -> str:
    """Words of another party as they may stand in a message: one line, cut, nothing that moves a cursor."""
    shown = _UNPRINTABLE.sub(lambda found: f"\\u{{{ord(found[0]):04x}}}", text[:most])
    return shown if len(text) <= most else f"{shown}…"
