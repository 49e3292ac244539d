"""Numbers to an OpenTelemetry collector: a real message over HTTP, decoded by the protocol's own package."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from fetchd.metrics.collecting import Collecting, GatewayNumbers
from fetchd.metrics.otlp import Exporter, exporting, render_message
from fetchd.settings import load_config
from proxy_addons.audit.health import AuditHealth
from proxy_addons.policy.config import ConfigError
from proxy_addons.policy.config_values import MetricsConfig
from proxy_addons.policy.metrics import METRICS, Kind
from proxy_addons.policy.tallies import Report
from tests.kit import replies
from tests.kit.origin import Origin
from tests.kit.pki import Pki

REPORT: Report = {
    "fetchd_hops_total": [[["refused", "host", "research"], 2]],
    "fetchd_hops_open": [[[], 4]],
    "fetchd_hop_seconds": [[["dns"], [1, 2, *[0] * 13, 1], 71.5]],
}


class Gateway:
    async def ask_numbers(self) -> GatewayNumbers | None:
        return GatewayNumbers(REPORT, 1, 1, 1)


def collecting() -> Collecting:
    return Collecting(Gateway(), dict, lambda: AuditHealth(True, 1, 1, 0, 0, 0.0, 0.0), "daemon")


def decode(body: bytes) -> tuple[dict[str, str], dict[str, Any]]:
    """What it says of who sent it, and its metrics by name."""
    message = ExportMetricsServiceRequest()
    message.ParseFromString(body)
    (resource,) = message.resource_metrics
    (scope,) = resource.scope_metrics
    said = {one.key: one.value.string_value for one in resource.resource.attributes}
    return said, {one.name: one for one in scope.metrics}


def attributes(point: Any) -> dict[str, str]:
    return {one.key: one.value.string_value for one in point.attributes}


def test_a_message_says_the_same_as_the_report() -> None:
    said, found = decode(render_message(REPORT, 10, 20, "host:3130"))
    assert (said["service.name"], said["service.instance.id"]) == ("fetchd", "host:3130")
    hops = found["fetchd_hops_total"].sum
    assert (hops.is_monotonic, hops.aggregation_temporality) == (True, 2)
    (point,) = hops.data_points
    assert attributes(point) == {"verdict": "refused", "rule": "host", "profile": "research"}
    assert (point.as_int or point.as_double, point.start_time_unix_nano, point.time_unix_nano) == (2, 10, 20)
    (gauge,) = found["fetchd_hops_open"].gauge.data_points
    assert gauge.as_int == 4
    (spread,) = found["fetchd_hop_seconds"].histogram.data_points
    assert (spread.count, spread.sum, list(spread.bucket_counts)) == (4, 71.5, [1, 2, *[0] * 13, 1])
    assert list(spread.explicit_bounds) == list(METRICS["fetchd_hop_seconds"].buckets)
    assert not spread.HasField("min") and not spread.HasField("max")
    assert found["fetchd_hop_seconds"].unit == "s"


def test_every_metric_can_be_sent() -> None:
    report: Report = {"not_ours": [[[], 1]]}
    for name, metric in METRICS.items():
        labels = ["x"] * len(metric.labels)
        counts = [1] * (len(metric.buckets) + 1)
        report[name] = [[labels, counts, 1.0] if metric.kind is Kind.HISTOGRAM else [labels, 1.5]]
    assert set(decode(render_message(report, 1, 2, "i"))[1]) == set(METRICS)


@pytest.fixture
async def collector() -> AsyncIterator[Origin]:
    with Origin() as origin:
        origin.route("/v1/metrics", replies.answer(200, b""))
        yield origin


async def test_messages_arrive_while_it_runs_and_once_more_at_the_end(
    collector: Origin, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-leak=1")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "leak=1")
    config = MetricsConfig(f"http://127.0.0.1:{collector.port}", 1)
    async with exporting(config, collecting(), (), "here"):
        await collector.wait_requests(2)
    first, *_, last = collector.requests
    assert (first.method, first.target) == ("POST", "/v1/metrics")
    assert first.values("content-type") == ["application/x-protobuf"]
    assert not {name.lower() for name, _ in first.headers} & {"x-leak", "authorization", "cookie"}
    said, found = decode(last.body)
    assert "leak" not in said and {"fetchd_hops_total", "fetchd_audit_lines_total"} <= set(found)
    assert len(collector.requests) >= 3
    assert collector.accepts <= 2  # one more where the end cut a message short


async def test_without_an_endpoint_nothing_is_sent(collector: Origin) -> None:
    async with exporting(MetricsConfig(), collecting(), (), "here"):
        await asyncio.sleep(0)
    assert collector.accepts == 0


async def test_a_base_path_stays_before_the_path_of_the_protocol(collector: Origin) -> None:
    collector.route("/base/v1/metrics", replies.answer(200, b""))
    async with exporting(
        MetricsConfig(f"http://127.0.0.1:{collector.port}/base", 60), collecting(), (), "here"
    ):
        pass
    assert [one.target for one in collector.requests] == ["/base/v1/metrics"]


async def test_a_collector_over_tls_is_verified(tmp_path_factory: pytest.TempPathFactory) -> None:
    pki = Pki(tmp_path_factory.mktemp("pki"))
    with Origin(tls=pki.server_context("localhost")) as origin:
        origin.route("/v1/metrics", replies.answer(200, b""))
        endpoint = f"https://localhost:{origin.port}"
        async with exporting(MetricsConfig(endpoint, 60), collecting(), (), "here"):
            pass
        assert origin.requests == []
        async with exporting(MetricsConfig(endpoint, 60), collecting(), (str(pki.ca_path),), "here"):
            pass
        assert len(origin.requests) == 1


async def test_a_collector_that_is_away_is_told_once_and_costs_nothing(
    collector: Origin, caplog: pytest.LogCaptureFixture
) -> None:
    from fetchd.channel.client import HttpChannel, make_roots

    endpoint = f"http://127.0.0.1:{collector.port}"
    elsewhere = Origin()
    elsewhere.start()
    collector.route("/v1/metrics", replies.redirect(f"http://127.0.0.1:{elsewhere.port}/v1/metrics"))
    with caplog.at_level(logging.WARNING):
        async with HttpChannel(endpoint, make_roots()) as channel:
            exporter = Exporter(collecting(), channel, endpoint, "here")
            await exporter.send(5)
            await exporter.send(5)
            collector.route("/v1/metrics", replies.answer(503, b"secret words"))
            await exporter.send(5)
            await exporter.send(5)
            collector.route("/v1/metrics", replies.answer(200, b""))
            await exporter.send(5)
    assert elsewhere.accepts == 0
    elsewhere.stop()
    said = [record.getMessage() for record in caplog.records if record.name == "fetchd.metrics.otlp"]
    assert [one.rpartition(": ")[2] for one in said] == [
        "redirected (302); write the endpoint it leads to",
        "it answered 503",
        "numbers are sent to the OTLP collector again",
    ]


async def test_a_collector_that_says_nothing_holds_nobody_up(collector: Origin) -> None:
    from fetchd.channel.client import HttpChannel, make_roots
    from tests.kit.sync import Gate

    collector.route("/v1/metrics", replies.silent(Gate()))
    endpoint = f"http://127.0.0.1:{collector.port}"
    async with HttpChannel(endpoint, make_roots()) as channel:
        await Exporter(collecting(), channel, endpoint, "here").send(0.05)
    assert len(collector.requests) == 1


def test_without_the_packages_the_configuration_says_how_to_get_them(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path_factory.mktemp("c") / "c.toml"
    path.write_text('[metrics]\notlp_endpoint = "http://127.0.0.1:4318"\n')
    assert load_config(path, {}).config.metrics == MetricsConfig("http://127.0.0.1:4318", 60)
    monkeypatch.setattr("fetchd.settings.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r'pip install "fetchd\[otlp\]"'):
        load_config(path, {})


@pytest.mark.parametrize(
    "endpoint", ["http://collector.example:4318", "grpc://127.0.0.1", "http://u:p@127.0.0.1", "x"]
)
def test_plain_http_goes_to_this_machine_alone(endpoint: str) -> None:
    from proxy_addons.policy.config import parse_config

    with pytest.raises(ConfigError, match=r"metrics\.otlp_endpoint"):
        parse_config({"metrics": {"otlp_endpoint": endpoint}}, source="x")
