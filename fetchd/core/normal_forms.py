"""Unicode normal forms of strangers' text, in time that grows with its length alone. Pure.

The marks on one letter are put into an order by insertion: 200,000 of them the wrong way round keep the interpreter
for minutes, in which no other thread of the process runs. No script has more than a few on a letter, so the first
MAX_MARKS of a run are kept (Unicode Standard Annex 15, Stream-Safe Text Format, has the same bound).
"""

import re
import unicodedata
from functools import cache
from typing import Final, Literal

MAX_MARKS: Final = 30


def normalize_text(form: Literal["NFC", "NFD", "NFKC", "NFKD"], text: str) -> str:
    """`text` in a normal form; of marks in a row the first MAX_MARKS."""
    if text.isascii():
        return text
    # Those beyond U+FFFF are rare, and a pattern with them takes many times as long.
    runs = _long_runs(astral=not _astral_marks().isdisjoint(text))
    return runs.sub(r"\1", unicodedata.normalize(form, runs.sub(r"\1", text)))


@cache
def _long_runs(*, astral: bool) -> re.Pattern[str]:
    marks = _marks(range(0x300, 0x10000)) | (_astral_marks() if astral else frozenset())
    mark = f"[{''.join(sorted(marks))}]"
    return re.compile(f"({mark}{mark}{{{MAX_MARKS - 1}}}){mark}+")  # so that letters are passed over fast


@cache
def _astral_marks() -> frozenset[str]:
    """The planes after the first two have ideographs and private use."""
    return _marks(range(0x10000, 0x20000))


def _marks(codes: range) -> frozenset[str]:
    """What goes on with the letter before once it is decomposed, as `\\uff9e` does, which is no mark by itself."""
    return frozenset(
        character
        for character in map(chr, codes)
        if unicodedata.combining(unicodedata.normalize("NFKD", character)[0])
    )
