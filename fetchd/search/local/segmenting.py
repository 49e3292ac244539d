"""Text as it is indexed and asked for: letters folded, and words set apart where a script does not.

SQLite's tokenizer takes a run of letters for a word, and knows the letters of Unicode 6.1. So case and diacritics are
folded here; and since Chinese, Japanese, Korean, Thai and their like write many words in a run, each of their
characters is made a word of its own, by a ZERO WIDTH SPACE before and after. Pure; the same in documents and in
queries. None of it is shown to anyone.
"""

import re
import unicodedata
from typing import Final

from fetchd.core.normal_forms import normalize_text

SEPARATOR: Final = "\u200b"
FORM: Final = f"2-{unicodedata.unidata_version}"
"""Changes when the same text would be segmented otherwise: an index of another form is made anew."""
MAX_CHARS: Final = 400_000
"""Of a composed text: twice what is kept of a page. One character can stand for a phrase of eighteen (U+FDFA)."""

_SCRIPTS: Final = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x3005, 0x3007),  # iteration mark, closing mark, zero
    (0x3041, 0x30FF),  # Hiragana, Katakana
    (0x3105, 0x312F),  # Bopomofo
    (0x31F0, 0x31FF),  # Katakana extensions
    (0x3400, 0x4DBF),  # Han
    (0x4E00, 0x9FFF),
    (0xAC00, 0xD7A3),  # Hangul
    (0xF900, 0xFAFF),
    (0x20000, 0x3FFFF),
)


def _make_class(wanted: bool) -> str:
    """A class of the marks (wanted) or of all else in the small scripts above, as a regular expression writes it."""
    found = []
    for first, last in _SCRIPTS:
        if last - first > 0x200:
            if not wanted:
                found.append(f"{chr(first)}-{chr(last)}")
            continue
        for code in range(first, last + 1):
            character = chr(code)
            category = unicodedata.category(character)
            if category[0] == "M" if wanted else category[0] in "LN":
                found.append(character)
    return "".join(found)


_MARKS: Final = _make_class(wanted=True)
UNIT: Final = re.compile(f"[{_make_class(wanted=False)}][{_MARKS}]*")
"""One character of a script that sets no words apart, with its marks."""
RUN: Final = re.compile(f"(?:{UNIT.pattern}){{1,}}")
_UNREADABLE: Final = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\u200b]")
_DIACRITICS: Final = re.compile("[\u0300-\u036f]+")


def compose_text(text: str) -> str:
    """`text` without what is no character, full-width forms and ligatures as their letters (NFKC)."""
    text = _UNREADABLE.sub(" ", text)
    return normalize_text("NFKC", text)[:MAX_CHARS]


def segment_text(text: str) -> str:
    """`text` as the index takes it in: composed, case and diacritics folded, runs taken apart."""
    composed = compose_text(text)
    if composed.isascii():
        return composed
    bare = _DIACRITICS.sub("", unicodedata.normalize("NFD", composed.casefold()))
    return UNIT.sub(f"{SEPARATOR}\\g<0>{SEPARATOR}", unicodedata.normalize("NFC", bare))


def split_run(run: str) -> list[str]:
    """The characters of a run, each with its marks."""
    return UNIT.findall(run)


def is_searchable(text: str) -> bool:
    """Whether the tokenizer finds any word in it."""
    return any(unicodedata.category(character)[0] in "LN" for character in text)
