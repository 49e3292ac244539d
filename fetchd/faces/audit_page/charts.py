"""Counts as bars over time: pure, numbers in, rectangles out. Templates draw them, and write the same as a table.

A library would draw more kinds of charts; those for servers write style into their SVG, and those for browsers need
it from script, which our content policy forbids. A stacked bar is four numbers.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from fetchd.audit_index.interface import OPEN, SLOT, WOULD_REFUSE, Tally

MOST_BARS: Final = 60
STEPS: Final = tuple(
    minutes * SLOT for minutes in (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 2880, 10080, 43200)
)
"""Stretches of time that people count in."""
WIDTH: Final = 600
HEIGHT: Final = 100
"""Of the drawing, in its own units."""
MOST_RULES: Final = 6
OTHER: Final = "other rules"

VERDICT_CLASSES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "allowed": "good",
        "success": "good-two",
        OPEN: "open",
        WOULD_REFUSE: "would",
        "aborted": "gone",
        "soft": "soft",
        "hard": "hard",
        "refused": "bad",
        "": "none",
    }
)
"""The colour of each verdict by name of its class; also the order in which they are stacked, from below."""


@dataclass(frozen=True, slots=True)
class Part:
    """One piece of a bar. top, height: in the drawing's units."""

    name: str
    kind: str
    rows: int
    top: float
    height: float


@dataclass(frozen=True, slots=True)
class Bar:
    """What happened from `start` on, for a step."""

    start: int
    left: float
    width: float
    rows: int
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Series:
    """A name of the legend. kind: its class."""

    name: str
    kind: str
    rows: int


@dataclass(frozen=True, slots=True)
class Chart:
    """bars: every step between since and until, empty ones too. most: the highest bar. step: of a bar."""

    since: int
    until: int
    step: int
    most: int
    rows: int
    series: tuple[Series, ...]
    bars: tuple[Bar, ...]


def choose_step(since: int, until: int) -> int:
    """The shortest stretch that makes no more than MOST_BARS."""
    span = max(until - since, 1)
    fitting = (step for step in STEPS if span // step < MOST_BARS - 1)
    return next(fitting, -(-span // (MOST_BARS - 2) // STEPS[-1]) * STEPS[-1])


def chart_verdicts(tallies: Sequence[Tally], since: int, until: int, step: int) -> Chart:
    """Every row, by how it ended."""
    names = sorted({one.verdict for one in tallies}, key=_verdict_order)
    known = {name: VERDICT_CLASSES.get(name, "none") for name in names}
    return _chart(tallies, since, until, step, known, lambda one: one.verdict)


def chart_rules(tallies: Sequence[Tally], since: int, until: int, step: int) -> Chart:
    """Rows that a rule stopped or would have stopped; rare rules are one."""
    tallies = [one for one in tallies if one.rule]
    totals: Counter[str] = Counter()
    for one in tallies:
        totals[one.rule] += one.rows
    named = [rule for rule, _ in totals.most_common(MOST_RULES)]
    known = {rule: f"rule-{number}" for number, rule in enumerate(named)}
    if len(totals) > len(named):
        known[OTHER] = f"rule-{MOST_RULES}"
    return _chart(tallies, since, until, step, known, lambda one: one.rule if one.rule in known else OTHER)


def _verdict_order(name: str) -> tuple[int, str]:
    order = list(VERDICT_CLASSES)
    return (order.index(name) if name in order else len(order), name)


def _chart(
    tallies: Sequence[Tally],
    since: int,
    until: int,
    step: int,
    known: Mapping[str, str],
    name_of: Callable[[Tally], str],
) -> Chart:
    """known: names in the order they are stacked in, and their classes."""
    first = since // step * step
    count = max(1, min(-(-(until - first) // step), MOST_BARS * 2))
    found: dict[int, Counter[str]] = {}
    for one in tallies:
        found.setdefault((one.start - first) // step, Counter())[name_of(one)] += one.rows
    bars = {number: sums for number, sums in found.items() if 0 <= number < count}
    totals: Counter[str] = Counter()
    for sums in bars.values():
        totals.update(sums)
    most = max((sums.total() for sums in bars.values()), default=0)
    width = WIDTH / count
    drawn = tuple(
        Bar(
            first + number * step,
            round(number * width, 2),
            round(width * 0.86, 2),
            bars.get(number, Counter()).total(),
            _stack(bars.get(number, Counter()), known, most),
        )
        for number in range(count)
    )
    series = tuple(Series(name or "no verdict", kind, totals[name]) for name, kind in known.items())
    return Chart(first, first + count * step, step, most, totals.total(), series, drawn)


def _stack(sums: Counter[str], known: Mapping[str, str], most: int) -> tuple[Part, ...]:
    parts = []
    below = 0.0
    for name, kind in known.items():
        rows = sums[name]
        if rows:
            height = HEIGHT * rows / most
            below += height
            parts.append(Part(name or "no verdict", kind, rows, round(HEIGHT - below, 2), round(height, 2)))
    return tuple(parts)
