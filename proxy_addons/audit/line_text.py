"""The members of a line as JSON text: printable ASCII, so safe in any terminal.

`render_members` is the encoder's way. The others make, piece by piece and to the letter, what the encoder makes; the
two lines of each hop are put together from them, which takes a third of what the encoder takes for them.
"""

import math
from collections.abc import Mapping
from json import JSONEncoder
from json.encoder import encode_basestring_ascii

from proxy_addons.audit.redaction import MAX_TEXT, clip_text

type Json = bool | int | float | str | list[Json] | dict[str, Json] | None

_encoder = JSONEncoder(ensure_ascii=True, allow_nan=False, check_circular=False, separators=(",", ":"))


def render_value(value: Json) -> str:
    """One value."""
    return _encoder.encode(value)


def render_members(members: Mapping[str, Json]) -> str:
    """The members of a JSON object without its braces, printable ASCII only, in the mapping's order."""
    return escape_delete(_encoder.encode(members)[1:-1])


def escape_delete(text: str) -> str:
    """json leaves DEL as it is; in an encoded text it can only stand inside a string."""
    return text.replace("\x7f", "\\u007f")


def clipped(text: str | None) -> str:
    """What the encoder makes of `clip_optional(text)`."""
    return quoted(clip_text(text) if text is not None and len(text) > MAX_TEXT else text)


def quoted(text: str | None) -> str:
    """What the encoder makes of a text that needs no cut."""
    return "null" if text is None else encode_basestring_ascii(text)


def number(value: int | None) -> str:
    """What the encoder makes of it."""
    return "null" if value is None else int.__repr__(value)


def milliseconds(value: float | None) -> str:
    """What the encoder makes of `round_ms(value)`."""
    return "null" if value is None or not math.isfinite(value) else repr(round(value, 3))
