"""What a scraper reads: the library's own parsers find every value again, in both formats."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from fetchd.metrics.exposition import render_exposition
from proxy_addons.policy.metrics import HOP_SECONDS, METRICS, Kind
from proxy_addons.policy.tallies import Report

REPORT: Report = {
    "fetchd_hops_total": [[["allowed", "", "research"], 3], [["refused", "host", "research"], 2]],
    "fetchd_hops_open": [[[], 4]],
    "fetchd_hop_seconds": [[["dns"], [1, 2, *[0] * 13, 1], 71.5]],
    "fetchd_build_info": [[["0.1", "3.13"], 1]],
}
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def samples(text: str, parse: Any) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (one.name, tuple(sorted(one.labels.items()))): one.value
        for family in parse(text)
        for one in family.samples
    }


@pytest.mark.parametrize(
    ("accept", "begins", "parse"),
    [
        pytest.param("", "text/plain; version=0.0.4", parse_text, id="nothing said"),
        pytest.param("text/plain", "text/plain; version=0.0.4", parse_text, id="text"),
        pytest.param(
            OPENMETRICS, "application/openmetrics-text; version=1.0.0", parse_openmetrics, id="OpenMetrics"
        ),
        pytest.param("x" * 9999, "text/plain", parse_text, id="nonsense"),
    ],
)
def test_a_scraper_gets_the_format_that_it_accepts(accept: str, begins: str, parse: Any) -> None:
    content_type, body = render_exposition(REPORT, accept)
    assert content_type.startswith(begins)
    found = samples(body.decode(), parse)
    refused = (("profile", "research"), ("rule", "host"), ("verdict", "refused"))
    assert found["fetchd_hops_total", refused] == 2
    assert found["fetchd_hops_open", ()] == 4
    assert found["fetchd_hop_seconds_bucket", (("le", "0.0025"), ("phase", "dns"))] == 3
    assert found["fetchd_hop_seconds_bucket", (("le", "+Inf"), ("phase", "dns"))] == 4
    assert found["fetchd_hop_seconds_count", (("phase", "dns"),)] == 4
    assert found["fetchd_hop_seconds_sum", (("phase", "dns"),)] == 71.5


def test_a_metric_without_rows_is_announced_and_one_that_nobody_has_is_not() -> None:
    _, body = render_exposition({"fetchd_searches_total": []}, "")
    assert b"# TYPE fetchd_searches_total counter\n" in body
    assert b"fetchd_hops" not in body


@given(st.text(max_size=30), st.floats(0, 1e15))
def test_any_text_as_a_label_is_read_back(label: str, value: float) -> None:
    report: Report = {"fetchd_request_bytes_total": [[[label.replace("\r", "")], value]]}
    _, body = render_exposition(report, "")
    (((_, labels), found),) = samples(body.decode(), parse_text).items()
    assert dict(labels) == {"profile": label.replace("\r", "")}
    assert found == pytest.approx(value)


def test_every_metric_can_be_told() -> None:
    report: Report = {}
    for name, metric in METRICS.items():
        labels = ["x"] * len(metric.labels)
        report[name] = [
            [labels, [1] * (len(metric.buckets) + 1), 1.0] if metric.kind is Kind.HISTOGRAM else [labels, 1]
        ]
    _, body = render_exposition(report, OPENMETRICS)
    assert len(list(parse_openmetrics(body.decode()))) == len(METRICS)
    assert f"{HOP_SECONDS.name}_count" in body.decode()
