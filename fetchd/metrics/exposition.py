"""A report as Prometheus reads it; the library writes the text, in the format that the scraper accepts."""

from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from proxy_addons.policy.metrics import METRICS, Kind, Metric
from proxy_addons.policy.tallies import Report, Row

_TOTAL: Final = "_total"


def render_exposition(report: Report, accept: str) -> tuple[str, bytes]:
    """(Content-Type, body). accept: the scraper's Accept field."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Rows(report))
    encode, content_type = choose_encoder(accept)
    return content_type, encode(registry)


class _Rows(Collector):
    def __init__(self, report: Report) -> None:
        self._report = report

    def collect(self) -> Iterator[Family]:
        for name, metric in METRICS.items():
            if name in self._report:
                yield _family(metric, self._report[name])


def _family(metric: Metric, rows: Iterable[Row]) -> Family:
    match metric.kind:
        case Kind.COUNTER:
            counter = CounterMetricFamily(metric.name.removesuffix(_TOTAL), metric.help, labels=metric.labels)
            for labels, value in rows:
                counter.add_metric(labels, value)
            return counter
        case Kind.GAUGE:
            gauge = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
            for labels, value in rows:
                gauge.add_metric(labels, value)
            return gauge
        case Kind.HISTOGRAM:
            histogram = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
            bounds = [*(str(float(bound)) for bound in metric.buckets), "+Inf"]
            for labels, counts, total in rows:
                buckets = list(zip(bounds, accumulate(counts), strict=True))
                histogram.add_metric(labels, buckets=buckets, sum_value=total)
            return histogram
