"""The legacy multi-byte encodings of the WHATWG Encoding Standard (sections 10 to 14), on top of Python's codecs.

Python's C codecs decode well-formed text; what they do otherwise than the standard is mended in three places:

- an error handler each, called where a codec gives up: it knows pairs that the codec lacks, and how many bytes the
  standard gives up with a U+FFFD (a byte that could be ASCII is always read again);
- a few characters that a codec names differently, exchanged after decoding;
- ISO-2022-JP, whose states Python's codec treats too differently, is read here run by run.

A codec and an exchange of characters hold the interpreter until they return, so a body is taken in pieces: between
them the other threads have their turn.

Mending costs a microsecond or two a time, so a body gets `MAX_MENDED` of them. A body with more is no text; its rest
is left to Python's codec, and differs from the standard in how many U+FFFD it gets.
"""

import codecs
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from .whatwg_big5 import MISSING_PAIRS

MAX_MENDED: Final = 100_000
"""Errors and lacking characters mended in one body: a quarter of a second at the most."""

PIECE_BYTES: Final = 1 << 14
"""Decoded at once: some 5 ms at the most."""

_REPLACEMENT: Final = "\ufffd"
_Handled = tuple[str, int]


@dataclass(frozen=True, slots=True)
class _Legacy:
    """How one encoding is decoded: Python's codec, our error handler, characters to exchange, bytes to exchange."""

    codec: str
    on_error: Callable[[bytes, int], _Handled]
    characters: Mapping[int, str]
    octets: tuple[bytes, bytes] = (b"", b"")


def _pair_error(data: bytes, start: int) -> _Handled:
    """The rule all of them share: a lead that is followed by ASCII gives up alone, else the pair does."""
    if data[start] == 0x80 or data[start] == 0xFF or start + 1 >= len(data):
        return _REPLACEMENT, start + 1
    return _REPLACEMENT, start + (1 if data[start + 1] < 0x80 else 2)


def _shift_jis_error(data: bytes, start: int) -> _Handled:
    if data[start] == 0xA0 or data[start] >= 0xFD:
        return _REPLACEMENT, start + 1
    return _pair_error(data, start)


def _big5_error(data: bytes, start: int) -> _Handled:
    character = MISSING_PAIRS.get(bytes(data[start : start + 2]))
    return (character, start + 2) if character is not None else _pair_error(data, start)


def _euc_jp_error(data: bytes, start: int) -> _Handled:
    lead, rest = data[start], data[start + 1 : start + 3]
    if lead == 0x8F and rest[:1] and 0xA1 <= rest[0] <= 0xFE:
        if len(rest) < 2:
            return _REPLACEMENT, start + 2
        return _REPLACEMENT, start + (2 if rest[1] < 0x80 else 3)
    if 0xA1 <= lead <= 0xFE and rest[:1] and 0xA1 <= rest[0] <= 0xFE:
        return _jis0208((lead - 0xA1) * 94 + rest[0] - 0xA1) or _REPLACEMENT, start + 2
    if not (lead in (0x8E, 0x8F) or 0xA1 <= lead <= 0xFE):
        return _REPLACEMENT, start + 1
    return _pair_error(data, start)


def _gb18030_error(data: bytes, start: int) -> _Handled:
    lead, rest = data[start], data[start + 1 : start + 4]
    if lead == 0x80:
        return "\u20ac", start + 1
    if lead != 0xFF and rest[:1] and 0x30 <= rest[0] <= 0x39:
        if len(rest) > 1 and not 0x81 <= rest[1] <= 0xFE:
            return _REPLACEMENT, start + 1
        if len(rest) > 2 and not 0x30 <= rest[2] <= 0x39:
            return _REPLACEMENT, start + 1
        return _REPLACEMENT, min(start + 4, len(data))  # no such character, or the end within one
    return _pair_error(data, start)


def _jis0208(pointer: int) -> str | None:
    """The character of a JIS X 0208 pointer, NEC and IBM rows included: Shift_JIS holds the same index."""
    lead, trail = divmod(pointer, 188)
    pair = (lead + (0x81 if lead < 0x1F else 0xC1), trail + (0x40 if trail < 0x3F else 0x41))
    if max(pair) > 0xFF:
        return None
    try:
        character = bytes(pair).decode("cp932")
    except UnicodeDecodeError:
        return None
    return None if "\ue000" <= character <= "\uf8ff" else character


LEGACY: Mapping[str, _Legacy] = MappingProxyType(
    {
        # cp932 has the vendor characters of NEC and IBM; it gives four bytes a private meaning of its own.
        "Shift_JIS": _Legacy("cp932", _shift_jis_error, dict.fromkeys(range(0xF8F0, 0xF8F4), _REPLACEMENT)),
        "EUC-JP": _Legacy(
            "euc_jp",
            _euc_jp_error,
            {0x301C: "\uff5e", 0x2016: "\u2225", 0x2212: "\uff0d", 0xA2: "\uffe0", 0xA3: "\uffe1", 0xAC: "\uffe2"},
            (b"\x8f\xa2\xb7", b"\xa1\xc1"),  # the one character that the codec turns into an ASCII tilde
        ),
        "EUC-KR": _Legacy("cp949", _pair_error, {}),
        "Big5": _Legacy(
            "big5hkscs",
            _big5_error,
            # 0xA241 and 0xA242 cannot be told from two other pairs once decoded, and keep Python's meaning.
            {
                0x2022: "\u2027", 0xFF64: "\ufe51", 0x203E: "\xaf", 0x223C: "\uff5e", 0x2641: "\u2295",
                0x2609: "\u2299", 0xA5: "\uffe5", 0xA2: "\uffe0", 0xA3: "\uffe1",
            },
        ),
        # The standard decodes GBK and gb18030 alike, by the index of 2022.
        "gb18030": _Legacy(
            "gb18030",
            _gb18030_error,
            {
                0xE5E5: "\u3000", 0xE78D: "\ufe10", 0xE78E: "\ufe12", 0xE78F: "\ufe11", 0xE790: "\ufe13",
                0xE791: "\ufe14", 0xE792: "\ufe15", 0xE793: "\ufe16", 0xE794: "\ufe17", 0xE795: "\ufe18",
                0xE796: "\ufe19", 0xE7C7: "\u1e3f", 0x1E3F: "\ue7c7", 0xE81E: "\u9fb4", 0xE826: "\u9fb5",
                0xE82B: "\u9fb6", 0xE82C: "\u9fb7", 0xE832: "\u9fb8", 0xE843: "\u9fb9", 0xE854: "\u9fba",
                0xE864: "\u9fbb",
            },
        ),
    }
)  # fmt: skip


class _Mended(threading.local):
    """How often the handlers were called for the body that this thread decodes: codecs keep no state of ours."""

    count = 0


_MENDED = _Mended()


def _register(name: str, legacy: _Legacy) -> None:
    def handle(error: UnicodeError) -> _Handled:
        if not isinstance(error, UnicodeDecodeError):
            raise error
        _MENDED.count += 1
        return legacy.on_error(error.object, error.start)

    codecs.register_error(f"fetchd.{name}", handle)


for _name, _legacy in LEGACY.items():
    _register(_name, _legacy)


def decode_legacy(data: bytes, encoding: str, *, cut: bool) -> str:
    """`data` in one of `LEGACY`. cut: the body goes on, so the start of a character at its end is left out."""
    return "".join(decode_pieces(data, encoding, cut=cut))


def decode_pieces(data: bytes, encoding: str, *, cut: bool) -> Iterator[str]:
    """The same piece by piece, each of at most `PIECE_BYTES` bytes and what the one before left over."""
    characters = LEGACY[encoding].characters
    for piece in _decode_pieces(data, encoding, cut=cut):
        yield piece.translate(characters) if characters else piece


def _decode_pieces(data: bytes, encoding: str, *, cut: bool) -> Iterator[str]:
    legacy = LEGACY[encoding]
    theirs, ours = legacy.octets
    if theirs:
        data = data.replace(theirs, ours)
    make_decoder = codecs.getincrementaldecoder(legacy.codec)
    errors, _MENDED.count = f"fetchd.{encoding}", 0
    decoder = make_decoder(errors)
    for at in range(0, len(data), PIECE_BYTES):
        yield decoder.decode(data[at : at + PIECE_BYTES])
        if _MENDED.count > MAX_MENDED and errors != "replace":
            errors, left = "replace", decoder.getstate()
            decoder = make_decoder(errors)
            decoder.setstate(left)
    # What is left at the end starts a character. The codecs would drop what their handler wants read again.
    while not cut and (left_over := decoder.getstate()[0]):
        replacement, at = legacy.on_error(left_over, 0)
        decoder = make_decoder(errors)
        yield replacement
        yield decoder.decode(left_over[at:])


# --- ISO-2022-JP -------------------------------------------------------------------------------------------------

_ASCII, _ROMAN, _KATAKANA, _JIS = "ascii", "roman", "katakana", "jis"
_ESCAPES: Final[Mapping[bytes, str]] = MappingProxyType(
    {b"\x1b(B": _ASCII, b"\x1b(J": _ROMAN, b"\x1b(I": _KATAKANA, b"\x1b$@": _JIS, b"\x1b$B": _JIS}
)
_RUNS: Final[Mapping[str, re.Pattern[bytes]]] = MappingProxyType(
    {
        _ASCII: re.compile(rb"[\x00-\x0d\x10-\x1a\x1c-\x7f]+"),
        _ROMAN: re.compile(rb"[\x00-\x0d\x10-\x1a\x1c-\x7f]+"),
        _KATAKANA: re.compile(rb"[\x21-\x5f]+"),
        _JIS: re.compile(rb"(?:[\x21-\x7e][\x21-\x7e])+"),
    }
)
_ROMAN_SIGNS = {0x5C: "\xa5", 0x7E: "\u203e"}
_HIGH = bytes((byte | 0x80) if 0x21 <= byte <= 0x7E else byte for byte in range(256))


def decode_iso_2022_jp(data: bytes, *, cut: bool) -> str:
    """`data` by section 13.2.1: runs of one state are decoded at once, all else byte by byte."""
    parts: list[str] = []
    at, end, state, just_switched, steps = 0, len(data), _ASCII, False, 0
    while at < end:
        steps += 1
        if steps > MAX_MENDED:
            parts.append(codecs.getincrementaldecoder("iso2022_jp")("replace").decode(data[at:], not cut))
            break
        run = _RUNS[state].match(data, at)
        if run is not None:
            parts.append(_decode_run(run[0], state))
            at, just_switched = run.end(), False
            continue
        if data[at] == 0x1B:
            following = _ESCAPES.get(data[at : at + 3])
            if following is not None:
                if just_switched:  # two escapes in a row hide nothing but one another: an error, to be seen
                    parts.append(_REPLACEMENT)
                at, state, just_switched = at + 3, following, True
                continue
            if cut and at + 3 > end and any(known.startswith(data[at:]) for known in _ESCAPES):
                break
        elif state is _JIS and 0x21 <= data[at] <= 0x7E:
            if at + 1 >= end:
                if not cut:
                    parts.append(_REPLACEMENT)
                break
            # A lead without its trail; an escape after it is read again, any other byte is spent.
            parts.append(_REPLACEMENT)
            at += 1 if data[at + 1] == 0x1B else 2
            just_switched = False
            continue
        parts.append(_REPLACEMENT)
        at, just_switched = at + 1, False
    return "".join(parts)


def _decode_run(run: bytes, state: str) -> str:
    if state is _ASCII:
        return run.decode("ascii")
    if state is _ROMAN:
        return run.decode("ascii").translate(_ROMAN_SIGNS)
    if state is _KATAKANA:
        return "".join(chr(0xFF61 + byte - 0x21) for byte in run)
    return decode_legacy(run.translate(_HIGH), "EUC-JP", cut=False)


# --- UTF-16 ------------------------------------------------------------------------------------------------------


def _utf_16_error(error: UnicodeError) -> _Handled:
    """Whatever is left over at the end, a byte, a surrogate or both, is one U+FFFD (section 14.2.1)."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    at_end = len(error.object) - error.start < 4
    return _REPLACEMENT, len(error.object) if at_end and "end of data" in error.reason else error.end


codecs.register_error("fetchd.UTF-16", _utf_16_error)


def decode_utf_16(data: bytes, codec: str, *, cut: bool) -> str:
    """`data` as UTF-16; codec: `utf-16-le` or `utf-16-be`."""
    return codecs.getincrementaldecoder(codec)("fetchd.UTF-16").decode(data, final=not cut)
