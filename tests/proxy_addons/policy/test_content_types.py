"""Content types: the MIME corpora of the web platform, and the classes of SPEC 2.1."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proxy_addons.policy.content_types import (
    CONTENT_CLASSES,
    ContentClass,
    ContentType,
    classify_content,
    has_non_ascii,
    parse_content_type,
    parse_mime_type,
)
from tests.kit.corpora import corpora

HTML, STRUCTURED, FLAT, REFUSED = (
    ContentClass.HTML,
    ContentClass.STRUCTURED,
    ContentClass.FLAT,
    ContentClass.REFUSED,
)

NO_OCTETS = {"x/x;test=\ufffd;x=x", "Ā/Ā"}
"""Cases with characters above U+00FF: a field value is octets and cannot hold them."""


def read_cases(name: str) -> list[dict[str, Any]]:
    return [
        case for case in json.loads(corpora("wpt-mime", name).read_text("utf-8")) if isinstance(case, dict)
    ]


class TestPlatformTests:
    @pytest.mark.parametrize(("name", "count"), [("mime-types.json", 74), ("generated-mime-types.json", 881)])
    def test_every_value_parses_as_the_platform_says(self, name: str, count: int) -> None:
        cases = read_cases(name)
        assert len(cases) == count
        wrong, unread = [], set()
        for case in cases:
            try:
                octets = case["input"].encode("latin-1")
            except UnicodeEncodeError:
                unread.add(case["input"])
                continue
            parsed = parse_mime_type(octets)
            if (parsed and str(parsed)) != case["output"]:
                wrong.append((case, str(parsed)))
            if parse_content_type(octets) is None and case["output"] is not None:
                wrong.append((case, "no content type"))
        assert wrong == []
        assert unread <= NO_OCTETS

    def test_the_charset_is_the_label_of_the_expected_encoding(self) -> None:
        groups = json.loads(corpora("encoding", "encodings.json").read_text("utf-8"))
        names = {
            label: encoding["name"]
            for group in groups
            for encoding in group["encodings"]
            for label in encoding["labels"]
        }
        cases = [case for case in read_cases("mime-types.json") if "encoding" in case and case["output"]]
        assert len(cases) >= 40
        for case in cases:
            content_type = parse_content_type(case["input"].encode("latin-1"))
            assert content_type is not None
            label = (content_type.charset or "").strip("\t\n\f\r ").lower()
            assert names.get(label) == case["encoding"], case

    def test_of_several_lines_the_first_counts(self) -> None:
        """content-types.json combines lines (the last valid wins); SPEC 2.1 takes the first, valid or not."""
        cases = read_cases("content-types.json")
        assert len(cases) == 16
        agreeing = {
            tuple(case["input"])
            for case in cases
            if str(parse_mime_type(case["input"][0].encode())) == case["mimeType"]
        }
        assert agreeing == {
            ("text/plain", ""),
            ("text/plain;charset=gbk", "text/plain"),
            ("text/plain", "*/*"),
            ("text/html", "*/*"),
            ("text/plain", "*/*;charset=gbk"),
            ("text/html", "*/*;charset=gbk"),
            ('text/html;"', "text/plain"),
        }
        # Where a value stands alone on its line it reads as it does for the platform.
        single = {
            b"text/html;charset=gbk": "text/html;charset=gbk",
            b'text/html;x=",text/plain': 'text/html;x=",text/plain"',
            b'text/html;"': "text/html",
            b"*/*": "*/*",
            b"": "None",
            # One line with a comma is one value, and no MIME type: it is refused, never split.
            b"text/html, text/plain": "None",
            b"text/plain;charset=gbk, text/html": 'text/plain;charset="gbk, text/html"',
        }
        assert {value: str(parse_mime_type(value)) for value in single} == single

    def test_groups_of_types(self) -> None:
        """mime-groups.json against our classes.

        Where they differ by design: application/xhtml+xml is XML there and HTML here; types that are XML or
        JSON outside application/ and text/ (image/svg+xml, x/x+json) are refused; scripts of text/ are text.
        """
        cases = read_cases("mime-groups.json")
        assert len(cases) == 146
        for case in cases:
            content_type = parse_content_type(case["input"].encode())
            assert content_type is not None
            kind = content_type.essence.partition("/")[0]
            groups, got = set(case["groups"]), content_type.content_class
            if content_type.essence in ("text/html", "application/xhtml+xml"):
                expected = HTML
            elif groups & {"XML", "JSON"} and kind in ("application", "text"):
                expected = STRUCTURED
            elif kind == "text":
                expected = FLAT
            else:
                expected = REFUSED
            assert got is expected, case


CLASSES = [
    ("text/html", HTML, "HTML"),
    ("application/xhtml+xml", HTML, "XHTML is HTML, whatever its suffix"),
    ("application/json", STRUCTURED, "JSON"),
    ("application/xml", STRUCTURED, "XML"),
    ("application/ld+json", STRUCTURED, "a JSON suffix"),
    ("application/problem+json", STRUCTURED, "another JSON suffix"),
    ("application/atom+xml", STRUCTURED, "an XML suffix"),
    ("application/rss+xml", STRUCTURED, "another XML suffix"),
    ("application/a+b+json", STRUCTURED, "the last suffix counts"),
    ("application/+json", STRUCTURED, "nothing in front of the suffix"),
    ("text/json", STRUCTURED, "JSON as text"),
    ("text/xml", STRUCTURED, "XML as text"),
    ("text/x+json", STRUCTURED, "a JSON suffix as text"),
    ("text/vnd.x+xml", STRUCTURED, "an XML suffix as text"),
    ("text/plain", FLAT, "plain text"),
    ("text/markdown", FLAT, "markdown"),
    ("text/csv", FLAT, "tables"),
    ("text/css", FLAT, "style sheets"),
    ("text/javascript", FLAT, "scripts under text"),
    ("text/event-stream", FLAT, "events"),
    ("text/x-json", FLAT, "json that is no suffix"),
    ("text/xmlish", FLAT, "a longer subtype than xml"),
    ("text/json+zip", FLAT, "a suffix that is not the last"),
    ("text/htmlx", FLAT, "a longer subtype than html"),
    ("text/*", FLAT, "a star is a token like any other"),
    ("application/pdf", REFUSED, "PDF"),
    ("application/octet-stream", REFUSED, "octets"),
    ("application/javascript", REFUSED, "scripts under application"),
    ("application/x-json", REFUSED, "json that is no suffix, under application"),
    ("application/jsonl", REFUSED, "a longer subtype than json"),
    ("application/xml-dtd", REFUSED, "a longer subtype than xml"),
    ("application/html", REFUSED, "html under application"),
    ("application/zip", REFUSED, "archives"),
    ("application/x-www-form-urlencoded", REFUSED, "forms"),
    ("image/svg+xml", REFUSED, "an XML suffix of an image"),
    ("image/png", REFUSED, "an image"),
    ("model/x+json", REFUSED, "a JSON suffix of a model"),
    ("multipart/mixed", REFUSED, "parts"),
    ("texts/plain", REFUSED, "a longer type than text"),
    ("*/*", REFUSED, "stars"),
    ("unknown/unknown", REFUSED, "unknown"),
]


@pytest.mark.parametrize(
    ("essence", "expected"), [pytest.param(*row[:2], id=f"{row[2]}: {row[0]}") for row in CLASSES]
)
def test_classes(essence: str, expected: ContentClass) -> None:
    assert classify_content(essence) is expected
    assert parse_content_type(essence.upper().encode() + b" ; a=b") == ContentType(essence, None, expected)


def test_every_row_of_the_table_is_used() -> None:
    """A row behind one that covers it would be dead; the examples above reach each of them."""
    deciding = set()
    for essence, expected, _ in CLASSES:
        if expected is not REFUSED:
            deciding.add(next(row for row in CONTENT_CLASSES if covers(row[0], essence)))
    assert deciding == set(CONTENT_CLASSES)


def covers(pattern: str, essence: str) -> bool:
    head, star, tail = pattern.partition("*")
    return essence.startswith(head) and essence.endswith(tail) if star else essence == pattern


CHARSETS: list[tuple[bytes, str | None, str]] = [
    (b"text/plain", None, "none"),
    (b"text/plain;charset=UTF-8", "UTF-8", "as declared, letter case kept"),
    (b"text/plain; Charset=utf-8", "utf-8", "its name in any letter case"),
    (b'text/plain;charset="utf-8"', "utf-8", "quoted"),
    (b'text/plain;charset="ut\\f-8"', "utf-8", "quoted with an escape"),
    (b'text/plain;charset="utf-8', "utf-8", "an open quote"),
    (b'text/plain;charset="utf-8\\', "utf-8\\", "an open quote and a lone backslash"),
    (b'text/plain;charset=" utf-8 "', " utf-8 ", "spaces within quotes are part of it"),
    (b"text/plain;charset= utf-8 ;x=y", " utf-8", "a space in front is part of it, one behind is not"),
    (b'text/plain;charset=""', "", "quoted and empty"),
    (b"text/plain;charset=", None, "empty is none"),
    (b"text/plain;charset=;charset=b", "b", "empty, then another"),
    (b"text/plain;charset=a;charset=b", "a", "the first of two"),
    (b"text/plain;charset =utf-8", None, "a space before the equals sign is part of the name"),
    (b"text/plain;;;charset=utf-8", "utf-8", "empty parts"),
    (b"text/plain;x;charset=utf-8", "utf-8", "a part without a value"),
    (b'text/plain;x=";charset=a";charset=b', "b", "one within the quotes of another is none"),
    (b"text/plain;charset='utf-8'", "'utf-8'", "single quotes are no quotes"),
    (b"text/plain;charset=utf-8, text/html", "utf-8, text/html", "a second value joined by a comma"),
    (b"text/plain;charset=a\x00b", None, "a control character spoils it"),
    (b"text/plain;charset=a\x00b;charset=c", "c", "and the next one counts"),
]


@pytest.mark.parametrize(("value", "charset"), [pytest.param(*row[:2], id=row[2]) for row in CHARSETS])
def test_charsets(value: bytes, charset: str | None) -> None:
    assert parse_content_type(value) == ContentType("text/plain", charset, FLAT)


@pytest.mark.parametrize(
    "value",
    [
        b"", b" ", b"/", b"text", b"text/", b"/plain", b";charset=utf-8", b"text;plain", b"text plain",
        b"text /plain", b"text/ plain", b"text/pl ain", b"text/html, text/plain", b"te\x00xt/plain",
        b"text/pl\xe4in", b"text/plain/x", b'"text/plain"', b"text/(plain)",
    ],
    ids=repr,
)  # fmt: skip
def test_no_mime_type(value: bytes) -> None:
    assert parse_content_type(value) is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"text/plain", False),
        (b"", False),
        (b"\x7f", False),
        (b"\x80", True),
        (b"text/plain;x=\xc3\xa4", True),
    ],
    ids=["ASCII", "empty", "the last ASCII octet", "the first other one", "within a parameter"],
)
def test_has_non_ascii(value: bytes, expected: bool) -> None:
    assert has_non_ascii(value) is expected


VALUES = st.one_of(
    st.binary(max_size=60),
    st.lists(
        st.sampled_from(
            [b"text", b"/", b"html", b";", b"charset", b"=", b'"', b"\\", b" ", b"\t", b"x", b",", b"\xe9"]
        ),
        max_size=16,
    ).map(b"".join),
    st.lists(st.sampled_from([b";", b"a", b"=", b'"', b"\\", b" ", b"charset=x"]), max_size=16).map(
        lambda parts: b"text/plain" + b"".join(parts)
    ),
)


@given(VALUES)
@example(b'text/plain;charset="\\')
@example(b'text/plain;a="b"c=d;e=f')
def test_any_value_is_a_type_that_reads_back_or_none(value: bytes) -> None:
    parsed = parse_mime_type(value)
    content_type = parse_content_type(value)
    if parsed is None or content_type is None:
        assert (parsed, content_type) == (None, None)
        return
    assert parse_mime_type(str(parsed).encode("latin-1")) == parsed
    assert parsed.essence == parsed.essence.lower()
    assert content_type.charset == dict(parsed.parameters).get("charset")
    assert content_type.content_class is classify_content(parsed.essence)
