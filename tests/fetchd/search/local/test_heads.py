"""What the head of a page says: title, language, date, from whichever element says it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetchd.search.local.heads import PageHead, read_date, read_language, scan_head

NOW = datetime(2026, 11, 30, tzinfo=UTC)


def day(year: int, month: int = 1, date: int = 1) -> datetime:
    return datetime(year, month, date, tzinfo=UTC)


@pytest.mark.parametrize(
    ("html", "head"),
    [
        pytest.param("<title>A &amp; B\n c</title>", PageHead("A & B c"), id="a title"),
        pytest.param("<TITLE lang=x>A</TITLE>", PageHead("A"), id="in capitals, with an attribute"),
        pytest.param("<title></title><meta property=og:title content='G'>", PageHead("G"), id="Open Graph"),
        pytest.param("<svg><title>", PageHead(), id="nothing in it"),
        pytest.param("<html lang=en-US>", PageHead("", "en"), id="a language"),
        pytest.param("<html class=a xml:lang='fr' lang='de'>", PageHead("", "de"), id="its own first"),
        pytest.param("<meta property='og:locale' content='pt_BR'>", PageHead("", "pt"), id="a locale"),
        pytest.param("<meta content='ja' http-equiv=Content-Language>", PageHead("", "ja"), id="in a meta element"),
        pytest.param("<html lang='klingon or so'>", PageHead(), id="no language"),
        pytest.param("<meta property='article:published_time' content='2024-05-01T10:00:00+02:00'>",
                     PageHead("", None, datetime(2024, 5, 1, 8, tzinfo=UTC)), id="a date"),
        pytest.param("<meta name=date content='2024-05-01'><meta itemprop=dateModified content=2025-06-01>",
                     PageHead("", None, day(2025, 6)), id="the newest of two"),
        pytest.param('<script type="application/ld+json">{"datePublished": "2023-02-03"}</script>',
                     PageHead("", None, day(2023, 2, 3)), id="JSON-LD"),
        pytest.param("<meta name=date content='2026-12-01'>", PageHead(), id="a date to come is not believed"),
        pytest.param("<meta name=date content='1970-01-01'>", PageHead(), id="nor is one before the web"),
        pytest.param("<meta name=date content='yesterday'>", PageHead(), id="no date"),
        pytest.param("<meta name=date content='9999-99-99'>", PageHead(), id="no day"),
        pytest.param("", PageHead(), id="nothing"),
    ],
)  # fmt: skip
def test_what_a_head_says(html: str, head: PageHead) -> None:
    assert scan_head(html, NOW) == head


@given(st.text())
def test_any_text_has_a_head(text: str) -> None:
    for html in (text, f"<html {text}><title>{text}</title><meta name=date content='{text}'><meta {text}>"):
        head = scan_head(html, NOW)
        assert head.dated is None or head.dated <= NOW
        assert "\n" not in head.title


@given(st.text(max_size=50))
def test_any_text_is_a_date_or_none_and_a_language_or_none(text: str) -> None:
    date, language = read_date(text), read_language(text)
    assert date is None or date.tzinfo is UTC
    assert language is None or language.isascii()


@pytest.mark.parametrize(
    "piece", ["<meta ", "<title", "<meta a=", '<meta a="', "<html ", '"datePublished":"', "<meta a = "]
)
def test_beginnings_by_the_thousand_take_linear_time(piece: str) -> None:
    scan_head(piece * 30_000, NOW)
