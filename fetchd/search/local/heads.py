"""What the head of an HTML page says of it: title, language, date. Pure, in linear time.

Only looked at for the index, off the path of a read, so this is a scan of tags in the first part of the page, not a
parse: a page that hides its title from it is found by its text.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from html import unescape
from typing import Final

from fetchd.offered_pages import MAX_HEAD

from .snippets import clean_line

_MAX_META: Final = 300
_TITLE: Final = re.compile(r"<title(?:\s[^<>]{0,300})?>([^<]{0,1000})", re.IGNORECASE)
_HTML: Final = re.compile(r"<html\s([^<>]{0,2000})>", re.IGNORECASE)
_META: Final = re.compile(r"<meta\s([^<>]{1,4000})>", re.IGNORECASE)
_ATTRIBUTE: Final = re.compile(
    r"([a-z:-]{1,40})\s{0,8}=\s{0,8}(?:\"([^\"]{0,3000})\"|'([^']{0,3000})'|([^\s\"'=<>`]{1,300}))",
    re.IGNORECASE,
)
_STATED: Final = re.compile(r'"(datePublished|dateModified)"\s{0,8}:\s{0,8}"([^"\\]{4,40})"')
_LANGUAGE: Final = re.compile(r"\s{0,8}([A-Za-z]{2,3})(?:[-_][A-Za-z0-9]{1,8}){0,4}\s{0,8}")
_DATES: Final = frozenset(
    (
        "article:published_time", "article:modified_time", "og:updated_time", "datepublished", "datemodified",
        "date", "last-modified", "dc.date", "dcterms.date", "dcterms.modified", "dcterms.created", "pubdate",
    )
)  # fmt: skip
"""Names of meta elements, in lower case."""
_TITLES: Final = ("og:title", "twitter:title")
_LANGUAGES: Final = ("og:locale", "content-language")
_EARLIEST: Final = datetime(1990, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class PageHead:
    """title: "" when there is none. language: primary subtag in lower case. dated: the newest of its dates."""

    title: str = ""
    language: str | None = None
    dated: datetime | None = None


def scan_head(html: str, now: datetime) -> PageHead:
    """Of the first part of a page. Dates after `now` are not believed."""
    html = html[:MAX_HEAD]
    metas: dict[str, str] = {}
    dates = [text for _, text in _STATED.findall(html)]
    for found, _ in zip(_META.finditer(html), range(_MAX_META), strict=False):
        attributes = _read_attributes(found[1])
        name = next(
            (attributes[key] for key in ("property", "name", "itemprop", "http-equiv") if key in attributes),
            "",
        )
        name, content = name.strip().lower(), attributes.get("content", "")
        if name in _DATES:
            dates.append(content)
        elif name and name not in metas:
            metas[name] = content
    title = _TITLE.search(html)
    titles = [unescape(title[1]) if title else "", *(metas.get(name, "") for name in _TITLES)]
    start = _HTML.search(html)
    declared = _read_attributes(start[1]).get("lang", "") if start else ""
    languages = [declared, *(metas.get(name, "") for name in _LANGUAGES)]
    moments = [
        moment for text in dates[:_MAX_META] if (moment := read_date(text)) and _EARLIEST < moment <= now
    ]
    return PageHead(
        next((line for text in titles if (line := clean_line(text))), ""),
        next((tag for text in languages if (tag := read_language(text))), None),
        max(moments, default=None),
    )


def read_language(text: str) -> str | None:
    """The primary subtag of a language tag, in lower case; None for what is none."""
    found = _LANGUAGE.fullmatch(text)
    return found[1].lower() if found else None


def read_date(text: str) -> datetime | None:
    """A date as ISO 8601 writes it, without a zone in UTC; else None."""
    try:
        moment = datetime.fromisoformat(text.strip()[:40])
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def _read_attributes(text: str) -> dict[str, str]:
    """Names in lower case, the first of each."""
    found: dict[str, str] = {}
    for name, double, single, bare in _ATTRIBUTE.findall(text):
        found.setdefault(name.lower(), unescape(double or single or bare))
    return found
