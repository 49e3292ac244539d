"""Bytes to text by the WHATWG Encoding Standard: a label names an encoding, an encoding decodes anything.

Laws of this file
- Only the 228 labels of the standard name an encoding; what else Python's codecs know does not exist.
- Decoding never raises: malformed bytes become U+FFFD.
- A byte order mark chooses nothing. One of the chosen encoding, at the start, is dropped.

How near to the standard: exact, but for two Big5 pairs (0xA241, 0xA242) that keep Python's meaning, and for bodies
that are mostly malformed (`multibyte.MAX_MENDED`). Labels of the encoding `replacement` are unknown to us.
"""

import codecs
from collections.abc import Mapping
from types import MappingProxyType

from .multibyte import LEGACY, decode_iso_2022_jp, decode_legacy, decode_utf_16
from .whatwg_labels import LABELS
from .whatwg_single_byte import UPPER_HALVES

UTF_8 = "UTF-8"

_ASCII = "".join(map(chr, range(128)))
_CHARMAPS: Mapping[str, str] = MappingProxyType(
    {
        **{name: _ASCII + upper for name, upper in UPPER_HALVES.items()},
        "x-user-defined": _ASCII + "".join(chr(0xF780 + at) for at in range(128)),
    }
)

_MARKS: Mapping[str, bytes] = MappingProxyType(
    {"UTF-8": codecs.BOM_UTF8, "UTF-16LE": codecs.BOM_UTF16_LE, "UTF-16BE": codecs.BOM_UTF16_BE}
)

_UNKNOWN = frozenset({"replacement"})
_WHITESPACE = "\t\n\f\r "


def parse_label(label: str) -> str | None:
    """The encoding a charset label names (Encoding Standard, "get an encoding"); None: it is unknown."""
    name = LABELS.get(label.strip(_WHITESPACE).translate(_LOWER))
    return None if name in _UNKNOWN else name


_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}
"""ASCII only: the Kelvin sign is no k."""


def decode_text(body: bytes | bytearray, encoding: str, *, cut: bool = False) -> str:
    """`body` as text. encoding: a name that `parse_label` returned.

    cut: the body goes on beyond its last byte, so the start of a character there is left out, not replaced.
    """
    mark = _MARKS.get(encoding)
    data = memoryview(body)[len(mark) :] if mark is not None and body.startswith(mark) else memoryview(body)
    charmap = _CHARMAPS.get(encoding)
    if charmap is not None:
        return codecs.charmap_decode(data, "replace", charmap)[0]
    if encoding in LEGACY:
        return decode_legacy(bytes(data), encoding, cut=cut)
    match encoding:
        case "GBK":  # the standard decodes it as gb18030
            return decode_legacy(bytes(data), "gb18030", cut=cut)
        case "ISO-2022-JP":
            return decode_iso_2022_jp(bytes(data), cut=cut)
        case "UTF-16LE" | "UTF-16BE":
            return decode_utf_16(bytes(data), f"utf-16-{encoding[-2:].lower()}", cut=cut)
        case _:
            return codecs.getincrementaldecoder("utf-8")("replace").decode(bytes(data), final=not cut)
