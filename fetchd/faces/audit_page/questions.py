"""A query string as a question to the index, and back.

    ?agent=bot&host=*.example.com&verdict=refused&rule=host&kind=hop&fetch=019a&range=24h&rows=50&before=TIME.NUMBER
    ?since=2026-01-31T12:00&until=2026-02-01T00:00        UTC; in place of range

Whatever is not known here is an error and is not passed over: an export with a filter misspelt would hold everything.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Final
from urllib.parse import parse_qsl, urlencode

from fetchd.audit_index.interface import Cursor, Filter
from proxy_addons.policy.config_forms import nearest

from .display import show_verdict

SECOND: Final = 1_000_000
RANGES: Final[Mapping[str, tuple[str, int | None]]] = MappingProxyType(
    {
        "1h": ("last hour", 3_600),
        "24h": ("last 24 hours", 86_400),
        "7d": ("last 7 days", 7 * 86_400),
        "30d": ("last 30 days", 30 * 86_400),
        "all": ("all of the log", None),
    }
)
"""Name in the query, name on the page, seconds."""
DEFAULT_RANGE: Final = "24h"
ROWS: Final = (25, 50, 100, 200)
DEFAULT_ROWS: Final = 50
WORDS: Final = ("agent", "host", "verdict", "rule", "kind", "fetch")
"""Keys that a filter takes as they are; `fetch` is an id or the beginning of one."""
KEYS: Final = (*WORDS, "since", "until", "range", "rows", "before")
MAX_WORD: Final = 255
MAX_QUERY: Final = 4_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICRO: Final = timedelta(microseconds=1)
_CURSOR: Final = re.compile(r"(-?[0-9]{1,18})\.([0-9]{1,18})")
_TIME: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?)?Z?"
)


class QuestionError(ValueError):
    """The query string cannot be used; the text says what to write."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a page shows. words: what was written, by key, without `before`. live: whether newer rows belong here."""

    filter: Filter
    words: Mapping[str, str]
    before: Cursor | None = None
    rows: int = DEFAULT_ROWS

    @property
    def live(self) -> bool:
        return self.before is None and "until" not in self.words

    @property
    def range(self) -> str:
        """Which of RANGES; "" where since or until say it."""
        if "since" in self.words or "until" in self.words:
            return ""
        return self.words.get("range", DEFAULT_RANGE)

    def link(self, path: str = "/", **changes: object) -> str:
        """The same question at `path` with other words; None leaves one out."""
        words = {**self.words, **changes}
        kept = {key: str(value) for key, value in words.items() if value not in (None, "")}
        return f"{path}?{urlencode(kept)}" if kept else path


def parse_question(query: bytes, now: datetime) -> Question:
    """Raises QuestionError, nothing else."""
    words = _read_words(query)
    since, until = _read_time(words, "since"), _read_time(words, "until")
    name = words.get("range", DEFAULT_RANGE)
    if name not in RANGES:
        raise QuestionError(f"range: write one of {', '.join(RANGES)}")
    if since is not None or until is not None:
        words.pop("range", None)  # a form always sends one
    seconds = RANGES[name][1]
    if since is None and until is None and seconds is not None:
        since = (now - _EPOCH) // _MICRO - seconds * SECOND
    if since is not None and until is not None and since >= until:
        raise QuestionError("until: write a time after since")
    wanted = Filter(
        **{("fetch_id" if key == "fetch" else key): words.get(key, "") for key in WORDS},
        since=since,
        until=until,
    )
    before = _read_cursor(words.pop("before", ""))
    return Question(wanted, words, before, _read_rows(words.get("rows", "")))


def render_cursor(cursor: Cursor) -> str:
    """As `before` has it."""
    return f"{cursor.time}.{cursor.number}"


def _read_words(query: bytes) -> dict[str, str]:
    if len(query) > MAX_QUERY:
        raise QuestionError(f"the query is longer than {MAX_QUERY} characters")
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=50)
    except ValueError:
        raise QuestionError("write the query percent-encoded, in UTF-8") from None
    words: dict[str, str] = {}
    for key, value in pairs:
        if key not in KEYS:
            raise QuestionError(f"{key[:50]}: no such filter; {nearest(key[:50], KEYS)}")
        if key in words:
            raise QuestionError(f"{key}: write it once")
        value = value.strip()
        if len(value) > MAX_WORD:
            raise QuestionError(f"{key}: write at most {MAX_WORD} characters")
        words[key] = value.lower() if key == "host" else value
    return {key: value for key, value in words.items() if value}


def _read_time(words: Mapping[str, str], key: str) -> int | None:
    text = words.get(key)
    if text is None:
        return None
    try:
        if _TIME.fullmatch(text) is None:
            raise ValueError
        moment = datetime.fromisoformat(text.removesuffix("Z")).replace(tzinfo=UTC)
    except ValueError:
        raise QuestionError(f"{key}: write a time in UTC, such as 2026-01-31T12:00") from None
    return (moment - _EPOCH) // _MICRO


def _read_cursor(text: str) -> Cursor | None:
    if not text:
        return None
    found = _CURSOR.fullmatch(text)
    if found is None:
        raise QuestionError("before: use the address of a link that a page shows")
    return Cursor(int(found[1]), int(found[2]))


def _read_rows(text: str) -> int:
    if not text:
        return DEFAULT_ROWS
    if text not in map(str, ROWS):
        raise QuestionError(f"rows: write one of {', '.join(map(str, ROWS))}")
    return int(text)


def describe(question: Question) -> Iterable[str]:
    """The filters in force, as words for people."""
    for key in WORDS:
        if key in question.words:
            word = question.words[key]
            yield f"{key} {show_verdict(word) if key == 'verdict' else word}"
    if question.range:
        yield RANGES[question.range][0]
    else:
        yield " ".join(f"{key} {question.words[key]}" for key in ("since", "until") if key in question.words)
