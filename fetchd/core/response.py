"""What the head of an origin's answer permits (SPEC 2.1), judged before any body byte is read.

1 status · 2 content type declared · 3 content type readable · 4 declared length · 5 content coding

The cap as counted and the rest of row 5 (the body breaks off, or does not decode) follow in `fetchd.hops`,
row 6 (charset, after the download) in `fetchd.fetch`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from proxy_addons.policy.codings import Coding, UnsupportedCodingError, parse_content_encoding
from proxy_addons.policy.content_types import ContentClass, has_non_ascii, parse_content_type
from proxy_addons.policy.verdicts import Rule

from .failures import Message, ToolFailure, fail

Fields = Sequence[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class BodyPlan:
    """How the body is to be read: what becomes of the text, the declared charset, the codings to undo."""

    content_class: ContentClass
    charset: str | None
    codings: tuple[Coding, ...]

    @property
    def cut_at_cap(self) -> bool:
        """Flat text is cut at the cap; HTML, JSON and XML are whole or refused."""
        return self.content_class is ContentClass.FLAT


def judge_head(url: str, status: int, fields: Fields, byte_cap: int) -> BodyPlan | ToolFailure:
    """Rows 1 to 5 in their order. url: the final URL in its display form."""
    if not 200 <= status <= 299:
        return fail(Message.STATUS, url=url, status=status)
    types = field_values(fields, b"content-type")
    if not types or has_non_ascii(types[0]):
        return fail(Message.NO_TYPE, url=url)
    content_type = parse_content_type(types[0])
    if content_type is None or content_type.content_class is ContentClass.REFUSED:
        return fail(Message.BAD_TYPE, url=url, content_type=types[0].decode("ascii"))
    if content_type.content_class is not ContentClass.FLAT and declared_length(fields) > byte_cap:
        return over_cap(url, byte_cap)
    try:
        codings = parse_content_encoding(field_values(fields, b"content-encoding"))
    except UnsupportedCodingError:
        return fail(Message.BODY, url=url)
    return BodyPlan(content_type.content_class, content_type.charset, codings)


def over_cap(url: str, byte_cap: int) -> ToolFailure:
    """Row 4."""
    return fail(Message.SIZE, Rule.BYTE_CAP, url=url, limit=byte_cap)


def field_values(fields: Fields, name: bytes) -> list[bytes]:
    """The values of every line of a field, in order. name: lower case."""
    return [value for field, value in fields if field.lower() == name]


def declared_length(fields: Fields) -> int:
    """Content-Length, -1 when none is declared. Malformed ones the HTTP client has refused."""
    values = field_values(fields, b"content-length")
    return int(values[0]) if values and values[0].isdigit() and len(values[0]) <= 20 else -1
