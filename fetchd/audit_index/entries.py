"""A line of the log as what the index keeps of it. Pure; never raises, whatever a line holds.

Kinds that are not known here are kept too, by the members that most kinds share. Texts are cut and made storable, so
that a line which only tampering can leave is a row like any other.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from proxy_addons.audit.kinds import LineKind
from proxy_addons.audit.reader import LogLine
from proxy_addons.audit.rows import join_row
from proxy_addons.policy.targets import TargetParseError, parse_target
from proxy_addons.policy.verdicts import Outcome

from .interface import HOP, OPEN, WOULD_REFUSE

MAX_WORD: Final = 128
"""Characters of an agent, a rule, a kind; ours are far shorter."""
MAX_TARGET: Final = 2_100
MAX_HOST: Final = 255
MAX_DETAIL: Final = 500
"""Characters of the message of a refusal; the log has it whole."""
_MOST: Final = 2**63 - 1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICRO: Final = timedelta(microseconds=1)
_FIRST: Final = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICRO
_LAST: Final = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICRO


@dataclass(slots=True)
class Entry:
    """What a first line says of its row; `end` adds what the close line says."""

    chain: str
    seq: int
    time: int
    kind: str
    agent: str
    host: str
    verdict: str
    rule: str
    method: str
    target: str
    status: int | None
    bytes: int | None
    ms: float | None
    fetch_id: str
    detail: str = ""

    def end(self, ending: "Ending") -> None:
        """The hop has ended."""
        self.verdict, self.rule = final_verdict(self.rule, ending)
        self.status, self.bytes, self.ms = ending.status, ending.bytes, ending.ms
        self.detail = ending.alone.detail or self.detail


@dataclass(frozen=True, slots=True)
class Ending:
    """What a close line says. decision: seq of the first line. alone: the row, where that line is not known."""

    chain: str
    decision: int
    verdict: str
    rule: str
    status: int | None
    bytes: int | None
    ms: float | None
    alone: Entry


def read_entry(line: LogLine, fallback_time: int) -> Entry | Ending | None:
    """None for checkpoints, which are no rows. fallback_time: of a line that has none."""
    kind = line.text("kind")
    if kind == LineKind.CHECKPOINT:
        return None
    row = join_row(line, None)
    is_hop = kind in (LineKind.DECISION, LineKind.CLOSE)
    rule = row.rule
    verdict = row.verdict
    if kind == LineKind.DECISION and verdict == Outcome.ALLOWED:
        verdict = OPEN
    elif kind == LineKind.EVENT:
        rule = ""
    number = line.number("status")
    entry = Entry(
        line.chain,
        clamp(row.seq) or 0,
        read_time(line.time, fallback_time),
        HOP if is_hop else word(row.kind),
        word(row.agent),
        host_of(line, row.target),
        word(verdict),
        word(rule),
        word(row.method),
        storable(row.target or _subject(line))[:MAX_TARGET],
        clamp(number),
        clamp(row.bytes),
        row.ms,
        identity_of(line),
        "" if kind == LineKind.EVENT else storable((line.text("detail") or "")[:MAX_DETAIL]),
    )
    if kind != LineKind.CLOSE:
        return entry
    decision = clamp(line.number("decision")) or 0
    return Ending(
        entry.chain, decision, entry.verdict, entry.rule, entry.status, entry.bytes, entry.ms, entry
    )


def identity_of(line: LogLine) -> str:
    """What a line belongs to: a fetch, or a run of completions."""
    return word(line.text("fetch_id") or line.text("run_id") or "")


_SUBJECTS: Final = ("query", "query_digest", "model", "provider", "vendor", "detail")


def _subject(line: LogLine) -> str:
    """What a line without a URL is about, whatever its kind."""
    return next((text for name in _SUBJECTS if (text := line.text(name))), "")


def final_verdict(rule: str, ending: Ending) -> tuple[str, str]:
    """Verdict and rule of a hop that has ended. rule: what its decision line said, if only as a would-be."""
    if ending.verdict == Outcome.ALLOWED and rule:
        return WOULD_REFUSE, rule
    return ending.verdict, ending.rule


def read_time(text: str, fallback: int) -> int:
    """RFC 3339 to microseconds; what is none is taken for the time of the line before."""
    try:
        moment = datetime.fromisoformat(text)
        # A zone may lead out of the years that can be shown.
        return max(_FIRST, min(_LAST, (moment - _EPOCH) // _MICRO))
    except (ValueError, TypeError, OverflowError):  # not a time, no zone, the year 0
        return fallback


def word(text: str) -> str:
    """A short text."""
    return storable(text[:MAX_WORD])


def storable(text: str) -> str:
    """SQLite takes UTF-8; JSON can say surrogates that stand alone."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def clamp(number: float | None) -> int | None:
    """A whole number that SQLite can hold."""
    return None if number is None else max(-_MOST, min(_MOST, int(number)))


class _Hosts:
    """Hosts of the last URLs: most lines repeat one."""

    def __init__(self, parse: Callable[[str], str], size: int) -> None:
        self._parse: Final = parse
        self._size: Final = size
        self._known: Final[OrderedDict[str, str]] = OrderedDict()

    def find(self, url: str) -> str:
        found = self._known.get(url)
        if found is None:
            found = self._known[url] = self._parse(url)
            if len(self._known) > self._size:
                self._known.popitem(last=False)
        return found


def parse_host(url: str) -> str:
    """The host of a URL as logged; "" for what is none."""
    try:
        return storable(parse_target(url).host[:MAX_HOST])
    except TargetParseError:
        return ""


_HOSTS: Final = _Hosts(parse_host, 4_096)


def host_of(line: LogLine, target: str) -> str:
    """The host that a line is about: its own member, else that of its URL."""
    named = line.text("host")
    if named is not None:
        return storable(named[:MAX_HOST]).lower()
    return _HOSTS.find(target) if "://" in target else ""
