"""The labels of the WHATWG Encoding Standard, section 4.2: 40 encodings, 228 labels.

Facts of the standard (https://encoding.spec.whatwg.org/encodings.json, commit a985b62a); copyright WHATWG,
used under its BSD 3-clause licence for source code. A label that is not here names no encoding.
"""

from collections.abc import Mapping
from types import MappingProxyType

ENCODINGS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "UTF-8": tuple("unicode-1-1-utf-8 unicode11utf8 unicode20utf8 utf-8 utf8 x-unicode20utf8".split()),
        "IBM866": tuple("866 cp866 csibm866 ibm866".split()),
        "ISO-8859-2": tuple(
            (
                "csisolatin2 iso-8859-2 iso-ir-101 iso8859-2 iso88592 iso_8859-2 iso_8859-2:1987 l2 latin2"
            ).split()
        ),
        "ISO-8859-3": tuple(
            (
                "csisolatin3 iso-8859-3 iso-ir-109 iso8859-3 iso88593 iso_8859-3 iso_8859-3:1988 l3 latin3"
            ).split()
        ),
        "ISO-8859-4": tuple(
            (
                "csisolatin4 iso-8859-4 iso-ir-110 iso8859-4 iso88594 iso_8859-4 iso_8859-4:1988 l4 latin4"
            ).split()
        ),
        "ISO-8859-5": tuple(
            (
                "csisolatincyrillic cyrillic iso-8859-5 iso-ir-144 iso8859-5 iso88595 iso_8859-5 "
                "iso_8859-5:1988"
            ).split()
        ),
        "ISO-8859-6": tuple(
            (
                "arabic asmo-708 csiso88596e csiso88596i csisolatinarabic ecma-114 iso-8859-6 "
                "iso-8859-6-e iso-8859-6-i iso-ir-127 iso8859-6 iso88596 iso_8859-6 iso_8859-6:1987"
            ).split()
        ),
        "ISO-8859-7": tuple(
            (
                "csisolatingreek ecma-118 elot_928 greek greek8 iso-8859-7 iso-ir-126 iso8859-7 iso88597 "
                "iso_8859-7 iso_8859-7:1987 sun_eu_greek"
            ).split()
        ),
        "ISO-8859-8": tuple(
            (
                "csiso88598e csisolatinhebrew hebrew iso-8859-8 iso-8859-8-e iso-ir-138 iso8859-8 "
                "iso88598 iso_8859-8 iso_8859-8:1988 visual"
            ).split()
        ),
        "ISO-8859-8-I": tuple("csiso88598i iso-8859-8-i logical".split()),
        "ISO-8859-10": tuple("csisolatin6 iso-8859-10 iso-ir-157 iso8859-10 iso885910 l6 latin6".split()),
        "ISO-8859-13": tuple("iso-8859-13 iso8859-13 iso885913".split()),
        "ISO-8859-14": tuple("iso-8859-14 iso8859-14 iso885914".split()),
        "ISO-8859-15": tuple("csisolatin9 iso-8859-15 iso8859-15 iso885915 iso_8859-15 l9".split()),
        "ISO-8859-16": tuple("iso-8859-16".split()),
        "KOI8-R": tuple("cskoi8r koi koi8 koi8-r koi8_r".split()),
        "KOI8-U": tuple("koi8-ru koi8-u".split()),
        "macintosh": tuple("csmacintosh mac macintosh x-mac-roman".split()),
        "windows-874": tuple("dos-874 iso-8859-11 iso8859-11 iso885911 tis-620 windows-874".split()),
        "windows-1250": tuple("cp1250 windows-1250 x-cp1250".split()),
        "windows-1251": tuple("cp1251 windows-1251 x-cp1251".split()),
        "windows-1252": tuple(
            (
                "ansi_x3.4-1968 ascii cp1252 cp819 csisolatin1 ibm819 iso-8859-1 iso-ir-100 iso8859-1 "
                "iso88591 iso_8859-1 iso_8859-1:1987 l1 latin1 us-ascii windows-1252 x-cp1252"
            ).split()
        ),
        "windows-1253": tuple("cp1253 windows-1253 x-cp1253".split()),
        "windows-1254": tuple(
            (
                "cp1254 csisolatin5 iso-8859-9 iso-ir-148 iso8859-9 iso88599 iso_8859-9 iso_8859-9:1989 "
                "l5 latin5 windows-1254 x-cp1254"
            ).split()
        ),
        "windows-1255": tuple("cp1255 windows-1255 x-cp1255".split()),
        "windows-1256": tuple("cp1256 windows-1256 x-cp1256".split()),
        "windows-1257": tuple("cp1257 windows-1257 x-cp1257".split()),
        "windows-1258": tuple("cp1258 windows-1258 x-cp1258".split()),
        "x-mac-cyrillic": tuple("x-mac-cyrillic x-mac-ukrainian".split()),
        "GBK": tuple(
            "chinese csgb2312 csiso58gb231280 gb2312 gb_2312 gb_2312-80 gbk iso-ir-58 x-gbk".split()
        ),
        "gb18030": tuple("gb18030".split()),
        "Big5": tuple("big5 big5-hkscs cn-big5 csbig5 x-x-big5".split()),
        "EUC-JP": tuple("cseucpkdfmtjapanese euc-jp x-euc-jp".split()),
        "ISO-2022-JP": tuple("csiso2022jp iso-2022-jp".split()),
        "Shift_JIS": tuple("csshiftjis ms932 ms_kanji shift-jis shift_jis sjis windows-31j x-sjis".split()),
        "EUC-KR": tuple(
            (
                "cseuckr csksc56011987 euc-kr iso-ir-149 korean ks_c_5601-1987 ks_c_5601-1989 ksc5601 "
                "ksc_5601 windows-949"
            ).split()
        ),
        "replacement": tuple(
            "csiso2022kr hz-gb-2312 iso-2022-cn iso-2022-cn-ext iso-2022-kr replacement".split()
        ),
        "UTF-16BE": tuple("unicodefffe utf-16be".split()),
        "UTF-16LE": tuple("csunicode iso-10646-ucs-2 ucs-2 unicode unicodefeff utf-16 utf-16le".split()),
        "x-user-defined": tuple("x-user-defined".split()),
    }
)
"""Encoding name to its labels, lower case."""

LABELS: Mapping[str, str] = MappingProxyType(
    {label: name for name, row in ENCODINGS.items() for label in row}
)
"""Label to encoding name."""
