"""The legacy multi-byte encodings against the standard's whole tables, and their bounds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetchd.core.charset import decode_text
from fetchd.core.multibyte import LEGACY, MAX_MENDED, PIECE_BYTES, decode_legacy, decode_pieces
from tests.kit.corpora import corpora

# File of the corpus, encoding, lines that differ from the standard's reference.
TABLES = [
    ("big5", "Big5", 2),  # 0xA241 and 0xA242: U+2215 and U+FE68 there, U+FF0F and U+FF3C here
    ("euc_kr", "EUC-KR", 0),
    ("gb18030", "gb18030", 0),
    ("gb18030", "GBK", 0),
    ("iso_2022_jp", "ISO-2022-JP", 0),
    ("jis0208", "EUC-JP", 0),
    ("jis0212", "EUC-JP", 0),
    ("shift_jis", "Shift_JIS", 0),
]


@pytest.mark.parametrize(("name", "encoding", "differing"), TABLES)
def test_every_pair_of_the_index_means_what_the_standard_says(
    name: str, encoding: str, differing: int
) -> None:
    data = corpora("encoding", "decode", f"{name}_in.txt").read_bytes()
    reference = corpora("encoding", "decode", f"{name}_in_ref.txt").read_bytes().decode("utf-8")

    ours, theirs = decode_text(data, encoding).split("\n"), reference.split("\n")

    assert len(ours) == len(theirs)
    assert sum(mine != other for mine, other in zip(ours, theirs, strict=True)) == differing


@pytest.mark.parametrize(
    ("encoding", "data", "text"),
    [
        pytest.param("gb18030", b"\x80", "€", id="0x80 is the euro sign"),
        pytest.param(
            "gb18030", b"\x81\x35\xf4\x37\xa8\xbc", "\ue7c7\u1e3f", id="the pair that changed places"
        ),
        pytest.param(
            "gb18030", b"\x9a\x33\x00", "\ufffd3\x00", id="of four bytes that fail, three are read again"
        ),
        pytest.param("gb18030", b"\x9a\x33\x81", "\ufffd", id="what the end cuts short is one mark"),
        pytest.param("EUC-KR", b"\xb0<p>", "\ufffd<p>", id="a lead never swallows a tag's bracket"),
        pytest.param("Shift_JIS", b"\x81<\xa0\xfd", "\ufffd<\ufffd\ufffd", id="bytes that lead nothing"),
        pytest.param("EUC-JP", b"\x8f\xa2\xb7\xad\xa1", "～①", id="a tilde that is none, and NEC row 13"),
        pytest.param("EUC-JP", b"\x8f\xa2<", "\ufffd<", id="three bytes broken at the third"),
        pytest.param("Big5", b"\x87\x7a\xa3\xe1", "㡵€", id="pairs that Python lacks"),
        pytest.param("Big5", b"\x88\x62", "\u00ca\u0304", id="a pair that means two characters"),
        pytest.param("ISO-2022-JP", b"\x1b$B\x30\x21\x1b(Ba", "亜a", id="two states"),
        pytest.param("ISO-2022-JP", b"\x1b(J\\~", "¥‾", id="the Roman signs"),
        pytest.param("ISO-2022-JP", b"\x1b(B\x1b(Ba", "\ufffda", id="two escapes in a row are seen"),
    ],
)
def test_the_rules_of_each_encoding(encoding: str, data: bytes, text: str) -> None:
    assert decode_text(data, encoding) == text


@pytest.mark.parametrize("encoding", [*LEGACY, "ISO-2022-JP"])
def test_garbage_beyond_the_bound_is_still_decoded(encoding: str) -> None:
    """Its rest goes to Python's codec: marks in place of mending, and text where there is text again."""
    data = b"\xff\xa0" * (MAX_MENDED + 10) + b" plain"

    text = decode_text(data, encoding)

    assert text.endswith(" plain")
    assert text.count("\ufffd") >= MAX_MENDED


@given(st.sampled_from([*LEGACY, "GBK", "ISO-2022-JP", "UTF-16LE"]), st.binary(max_size=40))
def test_a_cut_body_is_a_prefix_of_the_whole(encoding: str, data: bytes) -> None:
    """Only the start of a character at the end may be missing."""
    whole, cut = decode_text(data, encoding), decode_text(data, encoding, cut=True)

    assert whole.startswith(cut)


@pytest.mark.parametrize("encoding", LEGACY)
@pytest.mark.parametrize(
    "character",
    [
        pytest.param(b"\xa4\xa2", id="letters"),
        pytest.param(b"\xff", id="garbage"),
        pytest.param(b"\xa1\x20", id="broken pairs"),
        pytest.param(b"a", id="ASCII"),
    ],
)
def test_no_more_of_a_large_body_is_decoded_at_once_than_a_piece(encoding: str, character: bytes) -> None:
    """Whatever works on it in one go keeps every other thread waiting."""
    data = character * (4 * PIECE_BYTES // len(character))

    pieces = list(decode_pieces(data, encoding, cut=False))

    assert max(map(len, pieces)) <= PIECE_BYTES
    assert "".join(pieces) == decode_legacy(data, encoding, cut=False)
