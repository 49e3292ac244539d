"""The same numbers to an OpenTelemetry collector, over OTLP/HTTP. The one file that knows OpenTelemetry.

Its SDK's data model and encoder write the message; the channel sends it, which speaks to the configured endpoint
and to nothing else: no redirect is followed, no proxy and no `OTEL_*` variable of the environment is read.
"""

import asyncio
import logging
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.metrics.export import Metric as OtlpMetric
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from fetchd.channel.client import HttpChannel, make_roots
from fetchd.channel.interface import Channel, ChannelRequest
from fetchd.errors import ChannelError
from proxy_addons.policy.config_values import MetricsConfig
from proxy_addons.policy.metrics import METRICS, Kind, Metric
from proxy_addons.policy.tallies import Report, Row

from .collecting import Collecting

METRICS_PATH: Final = "/v1/metrics"
SEND_SECONDS: Final = 10.0
"""For one message; a collector that takes longer gets the next."""
MAX_ANSWER_BYTES: Final = 64 << 10
"""A collector has nothing to say but how many points it did not take."""
LAST_SECONDS: Final = 2.0
"""For the last one, while fetchd is being stopped."""
_UNITS: Final = {"seconds": "s", "bytes": "By"}
_CUMULATIVE: Final = AggregationTemporality.CUMULATIVE

_log = logging.getLogger(__name__)


def render_message(report: Report, started: int, now: int, instance: str) -> bytes:
    """An ExportMetricsServiceRequest. started, now: nanoseconds since 1970. instance: which installation this is."""
    found = [_convert(METRICS[name], rows, started, now) for name, rows in report.items() if name in METRICS]
    scope = ScopeMetrics(InstrumentationScope("fetchd", _version()), found, "")
    # Not Resource.create: that reads the environment.
    resource = Resource(
        {"service.name": "fetchd", "service.version": _version(), "service.instance.id": instance}
    )
    message = encode_metrics(MetricsData([ResourceMetrics(resource, [scope], "")]))
    for one in message.resource_metrics[0].scope_metrics[0].metrics:
        for point in one.histogram.data_points:  # the least and the largest are not known
            point.ClearField("min")
            point.ClearField("max")
    body: bytes = message.SerializeToString()
    return body


def _convert(metric: Metric, rows: Iterable[Row], started: int, now: int) -> OtlpMetric:
    name = metric.name.removesuffix("_total")
    unit = next((unit for word, unit in _UNITS.items() if name.endswith(word)), "1")
    data: Sum | Gauge | Histogram
    if metric.kind is Kind.HISTOGRAM:
        points = [
            HistogramDataPoint(
                dict(zip(metric.labels, labels, strict=True)),
                started, now, sum(counts), total, counts, metric.buckets, float("-inf"), float("inf"),
            )
            for labels, counts, total in rows
        ]  # fmt: skip
        data = Histogram(points, _CUMULATIVE)
    else:
        numbers = [
            NumberDataPoint(dict(zip(metric.labels, labels, strict=True)), started, now, value)
            for labels, value in rows
        ]
        data = Sum(numbers, _CUMULATIVE, True) if metric.kind is Kind.COUNTER else Gauge(numbers)
    return OtlpMetric(metric.name, metric.help, unit, data)


def _version() -> str:
    try:
        return version("fetchd")
    except PackageNotFoundError:  # a source tree that is not installed
        return "unknown"


class Exporter:
    """Sends a message every so often. clock: nanoseconds since 1970."""

    def __init__(
        self,
        collecting: Collecting,
        channel: Channel,
        endpoint: str,
        instance: str,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._collecting: Final = collecting
        self._channel: Final = channel
        self._url: Final = f"{endpoint}{METRICS_PATH}"
        self._instance: Final = instance
        self._clock: Final = clock
        self._started: Final = clock()
        self._failure: str | None = None

    async def run(self, seconds: float) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(seconds)
            await self.send(SEND_SECONDS)

    async def send(self, seconds: float) -> None:
        """One message. Never fails: what cannot be sent now is part of the next."""
        try:
            async with asyncio.timeout(seconds):
                failure = await self._send()
        except TimeoutError:
            failure = f"no answer within {seconds:.0f} s"
        except ChannelError as error:
            failure = str(error)
        if failure is not None and failure != self._failure:
            _log.warning("numbers could not be sent to the OTLP collector: %s", failure)
        elif failure is None and self._failure is not None:
            _log.warning("numbers are sent to the OTLP collector again")
        self._failure = failure

    async def _send(self) -> str | None:
        report, _ = await self._collecting.collect()
        body = await asyncio.to_thread(render_message, report, self._started, self._clock(), self._instance)
        fields = (("Content-Type", "application/x-protobuf"),)
        async with self._channel.send(ChannelRequest("POST", self._url, fields, body)) as answer:
            read = 0
            async for chunk in answer.chunks:  # to its end, so that the connection can be used again
                read += len(chunk)
                if read > MAX_ANSWER_BYTES:
                    break
            return None if 200 <= answer.status < 300 else f"it answered {answer.status}"


@asynccontextmanager
async def exporting(
    config: MetricsConfig, collecting: Collecting, extra_ca: Sequence[str], instance: str
) -> AsyncIterator[None]:
    """Send for as long as the context lasts, and once more at its end; nothing without an endpoint.

    Raises ChannelError for roots that cannot be used.
    """
    if config.otlp_endpoint is None:
        yield
        return
    roots: ssl.SSLContext = await asyncio.to_thread(make_roots, extra_ca)
    async with HttpChannel(config.otlp_endpoint, roots, max_connections=1) as channel:
        exporter = Exporter(collecting, channel, config.otlp_endpoint, instance)
        task = asyncio.create_task(exporter.run(config.otlp_seconds), name="otlp")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])
            await exporter.send(LAST_SECONDS)
