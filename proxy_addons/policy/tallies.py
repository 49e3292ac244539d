"""Values of metrics: counted in one process, told in JSON's terms, added up over processes.

    Tallies ── report ──► Report ── merge ──► Report of all workers, the dead ones' counters among them

Counting is on the way of every hop: a look into a dictionary and an addition. Nothing here locks; each `Tallies` is
counted by one thread, and a gauge is read when it is asked for.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from .metrics import METRICS, Kind, Metric

type Labels = tuple[str, ...]
type Row = list[Any]
"""[labels, value] of a counter or gauge; [labels, counts by bucket with the infinite one, sum] of a histogram."""
type Report = dict[str, list[Row]]
"""Rows by the name of their metric."""

MAX_ROWS: Final = 10_000
"""Of one metric: 256 profiles times all rules are 6,600. What comes after is counted as `other`."""
OTHER: Final = "other"
MAX_VALUE: Final = 1e300
"""Of a number that is told: sums of such stay numbers."""


class Counter:
    """One counter of `Tallies`."""

    __slots__ = ("_rows",)

    def __init__(self, rows: dict[Labels, float]) -> None:
        self._rows = rows

    def add(self, labels: Labels = (), amount: float = 1) -> None:
        """So much more."""
        try:
            self._rows[labels] += amount
        except KeyError:
            _begin(self._rows, labels, 0)
            self._rows[_bounded(self._rows, labels)] += amount


class Histogram:
    """One histogram of `Tallies`."""

    __slots__ = ("_buckets", "_rows")

    def __init__(self, rows: dict[Labels, list[float]], buckets: tuple[float, ...]) -> None:
        self._rows, self._buckets = rows, buckets

    def observe(self, labels: Labels, value: float) -> None:
        """One more value."""
        row = self._rows.get(labels)
        if row is None:
            empty: list[float] = [0] * (len(self._buckets) + 2)
            _begin(self._rows, labels, empty)
            row = self._rows[_bounded(self._rows, labels)]
        row[bisect_left(self._buckets, value)] += 1
        row[-1] += value


def _begin[T](rows: dict[Labels, T], labels: Labels, empty: T) -> None:
    if len(rows) >= MAX_ROWS:
        labels = (OTHER,) * len(labels)
    rows.setdefault(labels, empty)


def _bounded(rows: Mapping[Labels, object], labels: Labels) -> Labels:
    return labels if labels in rows else (OTHER,) * len(labels)


class Tallies:
    """The metrics of one process."""

    def __init__(self) -> None:
        self._counters: dict[str, dict[Labels, float]] = {}
        self._histograms: dict[str, dict[Labels, list[float]]] = {}
        self._gauges: dict[str, Callable[[], Iterable[tuple[Labels, float]]]] = {}

    def counter(self, metric: Metric) -> Counter:
        """One without labels says 0 from the start; one with labels begins with what is counted first."""
        rows = self._counters.setdefault(metric.name, {} if metric.labels else {(): 0})
        return Counter(rows)

    def histogram(self, metric: Metric) -> Histogram:
        """Told from its first value on."""
        return Histogram(self._histograms.setdefault(metric.name, {}), metric.buckets)

    def watch(self, metric: Metric, read: Callable[[], float], labels: Labels = ()) -> None:
        """A gauge, or a counter that somebody else keeps, with one value."""
        self._gauges[metric.name] = lambda: [(labels, read())]

    def report(self) -> Report:
        """All values now."""
        report: Report = {}
        for name, counters in self._counters.items():
            report[name] = [[list(labels), value] for labels, value in counters.items()]
        for name, spreads in self._histograms.items():
            report[name] = [[list(labels), row[:-1], row[-1]] for labels, row in spreads.items()]
        for name, read in self._gauges.items():
            report[name] = [[list(labels), value] for labels, value in read()]
        return report


def merge_reports(reports: Iterable[Report]) -> Report:
    """The sum of several. What is not one of our metrics, or not of its form, is left out."""
    sums: dict[str, dict[Labels, Row]] = {}
    for report in reports:
        for name, rows in report.items():
            metric = METRICS.get(name)
            if metric is None or not isinstance(rows, list):
                continue
            table = sums.setdefault(name, {})
            for row in rows:
                if _is_row(row, metric):
                    _add(table, row, metric)
    return {name: list(table.values()) for name, table in sums.items()}


def _is_row(row: Any, metric: Metric) -> bool:
    if not isinstance(row, list) or len(row) != (3 if metric.kind is Kind.HISTOGRAM else 2):
        return False
    labels, values = row[0], row[1:]
    if not isinstance(labels, list) or len(labels) != len(metric.labels):
        return False
    if metric.kind is Kind.HISTOGRAM:
        counts = values[0]
        if not isinstance(counts, list) or len(counts) != len(metric.buckets) + 1:
            return False
        values = [*counts, values[1]]
    return all(isinstance(one, str) for one in labels) and all(map(_is_number, values))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < MAX_VALUE


def _add(table: dict[Labels, Row], row: Row, metric: Metric) -> None:
    labels = tuple(row[0])
    known = table.get(labels)
    if known is None:
        table[labels] = [list(labels), *(list(part) if isinstance(part, list) else part for part in row[1:])]
    elif metric.kind is Kind.HISTOGRAM:
        known[1] = [one + other for one, other in zip(known[1], row[1], strict=True)]
        known[2] += row[2]
    else:
        known[1] += row[1]


def keep_counted(report: Report) -> Report:
    """What stays of a process that is gone: counters and histograms."""
    return {
        name: rows
        for name, rows in report.items()
        if name in METRICS and METRICS[name].kind is not Kind.GAUGE
    }
