"""Content types: what an answer's Content-Type says, and what may be done with such a body (SPEC 2.1).

The parse is "parse a MIME type" of WHATWG MIME Sniffing, section 4.4, run over the field's octets:

    b"Text/HTML; Charset=GBK"      → text/html, charset GBK, HTML
    b"application/ld+json"         → application/ld+json, no charset, STRUCTURED
    b'text/csv;charset="a";charset=b'  → text/csv, charset a (the first of a name counts), FLAT
    b"text", b"text/", b"a b/c"    → None
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class ContentClass(StrEnum):
    """How a body of a type is treated."""

    HTML = "html"
    STRUCTURED = "structured"
    """JSON and XML: returned verbatim, refused as a whole above the cap."""
    FLAT = "flat"
    """Other text: returned verbatim, cut at the cap."""
    REFUSED = "refused"


CONTENT_CLASSES: Final[tuple[tuple[str, ContentClass], ...]] = (
    ("text/html", ContentClass.HTML),
    ("application/xhtml+xml", ContentClass.HTML),
    ("application/json", ContentClass.STRUCTURED),
    ("application/xml", ContentClass.STRUCTURED),
    ("application/*+json", ContentClass.STRUCTURED),
    ("application/*+xml", ContentClass.STRUCTURED),
    ("text/json", ContentClass.STRUCTURED),
    ("text/xml", ContentClass.STRUCTURED),
    ("text/*+json", ContentClass.STRUCTURED),
    ("text/*+xml", ContentClass.STRUCTURED),
    ("text/*", ContentClass.FLAT),
)
"""SPEC 2.1. The first row that covers an essence decides; `*` stands for any characters. No row: REFUSED."""


@dataclass(frozen=True, slots=True)
class MimeType:
    """A MIME type: essence and parameter names in lower case, values as declared, each name once."""

    essence: str
    parameters: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        """Serialized (MIME Sniffing, 4.5)."""
        return self.essence + "".join(f";{name}={_quote(value)}" for name, value in self.parameters)


@dataclass(frozen=True, slots=True)
class ContentType:
    """`charset` is the parameter's value as declared, None where there is none; a label may be unknown."""

    essence: str
    charset: str | None
    content_class: ContentClass


_WHITESPACE: Final = "\t\n\r "  # HTTP whitespace, MIME Sniffing 3
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile(r"[\t -~\x80-\xff]*")  # HTTP quoted-string token code points
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)(\\?)"?', re.DOTALL)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


def parse_content_type(value: bytes) -> ContentType | None:
    """Read a Content-Type value and classify it; None when it is no MIME type.

    Of several Content-Type lines the caller passes the first (SPEC 2.1): nothing is combined here.
    """
    parsed = parse_mime_type(value)
    if parsed is None:
        return None
    charset = next((text for name, text in parsed.parameters if name == "charset"), None)
    return ContentType(parsed.essence, charset, classify_content(parsed.essence))


def has_non_ascii(value: bytes) -> bool:
    """Whether a Content-Type value holds a non-ASCII byte; it then counts as not declared (SPEC 2.1)."""
    return not value.isascii()


def classify_content(essence: str) -> ContentClass:
    """The class of `type/subtype` in lower case."""
    for pattern, content_class in CONTENT_CLASSES:
        head, star, tail = pattern.partition("*")
        if essence == pattern if not star else essence.startswith(head) and essence.endswith(tail):
            return content_class
    return ContentClass.REFUSED


def parse_mime_type(value: bytes) -> MimeType | None:
    """The whole type with its parameters; None where the standard says failure."""
    text = value.decode("latin-1").strip(_WHITESPACE)
    essence, _, rest = text.partition(";")
    kind, slash, subtype = essence.partition("/")
    subtype = subtype.rstrip(_WHITESPACE)
    if not (slash and _TOKEN.fullmatch(kind) and _TOKEN.fullmatch(subtype)):
        return None
    parameters: dict[str, str] = {}
    for name, declared in _read_parameters(rest):
        if name not in parameters and _TOKEN.fullmatch(name) and _VALUE.fullmatch(declared):
            parameters[name] = declared
    return MimeType(f"{kind}/{subtype}".lower(), tuple(parameters.items()))


def _read_parameters(text: str) -> Iterator[tuple[str, str]]:
    """Names in lower case and unquoted values, in order, valid or not; a part without `=` is passed over."""
    position = 0
    while position < len(text):
        end = _find(text, ";", position)
        equals = text.find("=", position, end)
        if equals < 0:
            position = end + 1
            continue
        name = text[position:equals].lstrip(_WHITESPACE).lower()
        quoted = _QUOTED.match(text, equals + 1)
        if quoted is not None:
            # An open quote runs to the end, where a lone backslash is kept; what follows a close is ignored.
            yield name, _ESCAPED.sub(r"\1", quoted[1]) + quoted[2]
            position = _find(text, ";", quoted.end()) + 1
            continue
        value = text[equals + 1 : end].rstrip(_WHITESPACE)
        if value:
            yield name, value
        position = end + 1


def _find(text: str, mark: str, start: int) -> int:
    found = text.find(mark, start)
    return len(text) if found < 0 else found


def _quote(value: str) -> str:
    if _TOKEN.fullmatch(value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
