"""Tallies: what is counted is told, what several tell adds up, and nothing grows without bound."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy_addons.policy import metrics
from proxy_addons.policy.metrics import METRICS, Kind
from proxy_addons.policy.tallies import MAX_ROWS, Report, Tallies, keep_counted, merge_reports

LABELS = {"verdict", "rule", "profile", "phase", "reason", "outcome", "budget", "worker", "chain", "tool", "method",
          "provider", "version", "python", "status", "direction", "what"}  # fmt: skip
"""Labels whose values are known beforehand. No host, address, agent or URL is one."""


def test_every_metric_has_a_name_and_labels_as_they_should_be() -> None:
    for name, metric in METRICS.items():
        assert name.startswith("fetchd_") and metric.help.endswith(".")
        assert name.endswith("_total") == (metric.kind is Kind.COUNTER)
        assert set(metric.labels) <= LABELS
        assert bool(metric.buckets) == (metric.kind is Kind.HISTOGRAM)
        assert list(metric.buckets) == sorted(set(metric.buckets))
    assert len(METRICS) == sum(isinstance(one, metrics.Metric) for one in vars(metrics).values())


def test_counters_grow_and_those_without_labels_begin_at_0() -> None:
    tallies = Tallies()
    hops, restarts = tallies.counter(metrics.HOPS), tallies.counter(metrics.WORKER_RESTARTS)
    hops.add(("allowed", "", "p"))
    hops.add(("allowed", "", "p"), 2)
    report = tallies.report()
    assert report["fetchd_hops_total"] == [[["allowed", "", "p"], 3]]
    assert report["fetchd_worker_restarts_total"] == [[[], 0]]
    restarts.add()
    assert tallies.report()["fetchd_worker_restarts_total"] == [[[], 1]]


BOUNDS = metrics.PHASE_BUCKETS


@pytest.mark.parametrize(
    ("value", "bucket"),
    [(0.0, 0), (BOUNDS[0], 0), (BOUNDS[0] + 1e-9, 1), (BOUNDS[-1], len(BOUNDS) - 1), (1e9, len(BOUNDS))],
)
def test_a_value_falls_into_the_bucket_whose_bound_it_does_not_pass(value: float, bucket: int) -> None:
    tallies = Tallies()
    tallies.histogram(metrics.HOP_SECONDS).observe(("dns",), value)
    ((labels, counts, total),) = tallies.report()["fetchd_hop_seconds"]
    assert (labels, total, counts.index(1), sum(counts)) == (["dns"], value, bucket, 1)


def test_gauges_are_read_when_they_are_told() -> None:
    tallies, value = Tallies(), [1]
    tallies.watch(metrics.WORKER_MEMORY, lambda: value[0], ("gateway-0",))
    value[0] = 7
    assert tallies.report()["fetchd_worker_resident_bytes"] == [[["gateway-0"], 7]]


def test_rows_without_end_are_counted_as_other() -> None:
    tallies = Tallies()
    hops, seconds = tallies.counter(metrics.HOPS), tallies.histogram(metrics.TOOL_SECONDS)
    for number in range(MAX_ROWS + 5):
        hops.add(("refused", "host", f"p{number}"))
        seconds.observe((f"t{number}",), 1.0)
    report = tallies.report()
    assert len(report["fetchd_hops_total"]) == len(report["fetchd_tool_seconds"]) == MAX_ROWS + 1
    assert report["fetchd_hops_total"][-1] == [["other"] * 3, 5]
    assert (
        report["fetchd_tool_seconds"][-1][0] == ["other"] and sum(report["fetchd_tool_seconds"][-1][1]) == 5
    )


def test_what_a_dead_worker_had_counted_stays_and_its_gauges_go() -> None:
    report: Report = {
        "fetchd_hops_total": [[["allowed", "", "p"], 3]],
        "fetchd_hops_open": [[[], 2]],
        "fetchd_hop_seconds": [[["dns"], [1] * 16, 3.0]],
    }
    assert set(keep_counted(report)) == {"fetchd_hops_total", "fetchd_hop_seconds"}


def test_what_is_no_metric_or_has_other_labels_is_left_out() -> None:
    report: Report = {"evil_total": [[[], 1]], "fetchd_hops_total": [[["allowed"], 1]]}
    assert merge_reports([report]) == {"fetchd_hops_total": []}


COUNTS = st.integers(0, 1 << 40)
HOP_LABELS = st.tuples(st.sampled_from(["a", "b"]), st.sampled_from(["", "host"]), st.just("p"))
REPORTS = st.fixed_dictionaries(
    {},
    optional={
        "fetchd_hops_total": st.dictionaries(HOP_LABELS, COUNTS, max_size=4).map(
            lambda found: [[list(labels), number] for labels, number in found.items()]
        ),
        "fetchd_hop_seconds": st.lists(st.lists(COUNTS, min_size=16, max_size=16), max_size=1).map(
            lambda rows: [[["dns"], row, float(sum(row))] for row in rows]
        ),
        "fetchd_hops_open": COUNTS.map(lambda number: [[[], number]]),
    },
)


def total(report: Report) -> dict[tuple[str, ...], object]:
    return {(name, *row[0]): row[1:] for name, rows in report.items() for row in rows}


@given(st.lists(REPORTS, max_size=4))
def test_reports_add_up_in_any_order_and_are_not_changed(reports: list[Report]) -> None:
    before = json.dumps(reports)
    merged = merge_reports(reports)
    assert total(merged) == total(merge_reports(reversed(reports)))
    assert total(merge_reports([merge_reports(reports[:2]), merge_reports(reports[2:])])) == total(merged)
    assert json.dumps(reports) == before
    assert json.loads(json.dumps(merged)) == merged
    counted = sum(row[1] for one in reports for row in one.get("fetchd_hops_total", []))
    assert sum(row[1] for row in merged.get("fetchd_hops_total", [])) == counted


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=20,
)


@given(st.lists(st.dictionaries(st.sampled_from([*METRICS, "no_metric"]), JSON, max_size=4), max_size=3))
def test_whatever_a_process_says_is_a_sum_or_left_out(reports: list[Any]) -> None:
    merged = merge_reports(reports)
    for name, rows in merged.items():
        for row in rows:
            assert len(row[0]) == len(METRICS[name].labels)
