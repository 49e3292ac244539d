"""Dashboard, alert rules and documentation speak of metrics that there are, in words that Prometheus understands."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proxy_addons.policy.metrics import METRICS, Kind
from tests.kit.corpora import REPOSITORY
from tests.kit.tools import require_tool

DASHBOARD: dict[str, Any] = json.loads(
    (REPOSITORY / "config/grafana/fetchd-dashboard.json").read_text("utf-8")
)
ALERTS = REPOSITORY / "config/prometheus/alerts.yaml"
PAGE = (REPOSITORY / "docs/metrics.md").read_text("utf-8")

SERIES = {
    name: set(metric.labels) | {"instance", "job"}
    for metric in METRICS.values()
    for name in ([f"{metric.name}_{part}" for part in ("bucket", "sum", "count")]
                 if metric.kind is Kind.HISTOGRAM else [metric.name])
}  # fmt: skip
"""What a query may name, and the labels that it may ask of it; `le` beside those of buckets."""


def promtool(*arguments: str, stdin: str | None = None) -> str:
    done = subprocess.run(
        [require_tool("promtool"), *arguments], input=stdin, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def queries() -> Iterator[tuple[str, str]]:
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]


def assert_known(expression: str) -> None:
    named = set(re.findall(r"\bfetchd_\w+", expression))
    assert named and named <= set(SERIES), (named - set(SERIES), expression)
    labels = {label for one in named for label in SERIES[one]} | {"le"}
    asked = {
        part.strip() for group in re.findall(r"\bby \(([^)]*)\)", expression) for part in group.split(",")
    }
    asked |= set(re.findall(r"[{,]\s*(\w+)\s*=", expression))
    assert asked <= labels, (asked - labels, expression)


def test_each_query_of_the_dashboard_is_about_metrics_and_labels_that_there_are() -> None:
    assert len(list(queries())) > 40
    for _, expression in queries():
        assert_known(expression)


def test_the_dashboard_shows_every_metric() -> None:
    shown = " ".join(expression for _, expression in queries())
    missing = [name for name in METRICS if not re.search(rf"\b{name}(_bucket|_sum|_count)?\b", shown)]
    assert missing == []


def test_prometheus_understands_each_query(tmp_path: Path) -> None:
    shown = [query.replace("$__rate_interval", "5m").replace("$instance", ".*") for _, query in queries()]
    rules = [{"record": f"query:number_{number}", "expr": query} for number, query in enumerate(shown)]
    file = tmp_path / "queries.yaml"
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}), "utf-8")
    assert f"{len(rules)} rules found" in promtool("check", "rules", str(file))


def test_the_dashboard_is_one_that_grafana_can_draw() -> None:
    assert DASHBOARD["uid"] == "fetchd" and DASHBOARD["schemaVersion"] >= 36
    assert {one["name"] for one in DASHBOARD["templating"]["list"]} == {"datasource", "instance"}
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    covered: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        assert panel["title"] and place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & covered, panel["title"]
        covered |= cells
        if panel["type"] != "row":
            assert panel["targets"] and panel["datasource"]["uid"] == "${datasource}"
            assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


def test_prometheus_takes_the_alert_rules_and_the_scrape_configuration() -> None:
    assert "SUCCESS" in promtool("check", "rules", str(ALERTS))
    assert "SUCCESS" in promtool("check", "config", str(REPOSITORY / "config/prometheus/prometheus.yaml"))


def test_each_alert_is_about_metrics_that_there_are() -> None:
    text = ALERTS.read_text("utf-8")
    named = set(re.findall(r"\bfetchd_\w+", text))
    assert named and named <= set(SERIES), named - set(SERIES)


def test_each_alert_fires_when_it_should_and_not_otherwise() -> None:
    cases = REPOSITORY / "tests/observability/alerts_test.yaml"
    promtool("test", "rules", str(cases))
    written = set(re.findall(r"alert: (\w+)", ALERTS.read_text("utf-8")))
    text = cases.read_text("utf-8")
    assert {
        name for name in written if f'alertname="{name}"' in text and f"alertname: {name} " in text
    } == written


ROW = re.compile(r"\| `(fetchd_\w+)` \| (\w+) \| ([^|]*)\| (.*) \|")


def test_the_page_has_a_row_for_each_metric_as_it_is() -> None:
    found = [
        (name, kind, tuple(re.findall(r"`(\w+)`", labels)), text)
        for name, kind, labels, text in ROW.findall(PAGE)
    ]
    assert found == [(one.name, str(one.kind), one.labels, one.help) for one in METRICS.values()]


@pytest.mark.parametrize("check", ["listeners", "workers", "audit", "dns", "store"])
def test_the_page_names_each_check_of_readiness(check: str) -> None:
    assert f"| `{check}` |" in PAGE
