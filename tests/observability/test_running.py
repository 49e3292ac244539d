"""/metrics and the health checks of a running installation, as Prometheus, a probe and an operator meet them."""

from __future__ import annotations

import http.client
import json
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from proxy_addons.policy.metrics import METRICS
from tests.e2e.conftest import Installed
from tests.e2e.stage import Stage, post_json
from tests.e2e.test_clients import curl
from tests.gateway.lines import wait_until
from tests.kit import replies
from tests.kit.installed import Up
from tests.kit.sync import PATIENCE
from tests.observability.test_files import promtool

SECRETS = ("very-secret-path", "very-secret-query", "a.example", "127.0.0.10")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    folder = tmp_path_factory.mktemp("observed")
    with Stage(folder) as stage:
        stage.origin.route("/article", replies.page("<p>" + "words " * 200))
        with Up(folder, "--config", str(stage.config)) as up:
            yield Installed(stage, up)


def get(installed: Installed, path: str) -> tuple[int, str, str]:
    """Status, content type, body."""
    connection = http.client.HTTPConnection(*installed.up.operator, timeout=PATIENCE)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.getheader("content-type") or "", answer.read().decode()
    finally:
        connection.close()


def scrape(installed: Installed) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    status, _, body = get(installed, "/metrics")
    assert status == 200
    return {
        (one.name, tuple(sorted(one.labels.items()))): one.value
        for family in text_string_to_metric_families(body)
        for one in family.samples
    }


def value(found: dict[Any, float], name: str, **labels: str) -> float:
    return found.get((name, tuple(sorted(labels.items()))), 0.0)


def readiness(installed: Installed) -> tuple[int, dict[str, Any]]:
    status, _, body = get(installed, "/readyz")
    return status, json.loads(body)


def test_one_endpoint_tells_of_the_gateway_and_of_the_tools(installed: Installed) -> None:
    before = scrape(installed)
    assert installed.web_fetch(installed.stage.url("/article")).document["failure"] is None
    assert curl(installed, installed.stage.url("/", "denied.example")).status == 403

    def counted(name: str, **labels: str) -> float:
        return value(found, name, **labels) - value(before, name, **labels)

    found = wait_until(
        lambda: scrape(installed),
        lambda now: value(now, "fetchd_hops_total", verdict="allowed", rule="", profile="test") >= 1,
        "the hop of the fetch",
    )
    assert counted("fetchd_tool_calls_total", tool="web_fetch", outcome="success") == 1
    assert counted("fetchd_extractions_total", method="readability") == 1
    assert counted("fetchd_tool_seconds_count", tool="web_fetch") == 1
    assert counted("fetchd_hops_total", verdict="refused", rule="host", profile="test") == 1
    assert value(found, "fetchd_gateway_answered") == 1
    assert value(found, "fetchd_ca_not_after_timestamp_seconds") > 1.7e9


def test_every_metric_is_there_and_promtool_has_nothing_to_say(installed: Installed) -> None:
    installed.web_fetch(installed.stage.url("/very-secret-path?very-secret-query=1"))
    _, content_type, body = get(installed, "/metrics")
    assert content_type.startswith("text/plain; version=0.0.4")
    announced = {line.split()[2] for line in body.splitlines() if line.startswith("# TYPE ")}
    assert announced == set(METRICS)
    assert promtool("check", "metrics", stdin=body) == ""
    assert [one for one in SECRETS if one in body] == []


def test_a_worker_that_hangs_is_not_ready_and_health_is_well(installed: Installed) -> None:
    assert readiness(installed)[0] == 200
    worker = installed.up.gateway_processes[1]
    os.kill(worker, signal.SIGSTOP)
    try:
        status, document = readiness(installed)
        assert (status, document["ready"]) == (503, False)
        assert document["checks"]["workers"] == {"ok": False, "detail": "0 of 1 answer"}
        assert get(installed, "/healthz")[0] == 200
        assert value(scrape(installed), "fetchd_workers_alive") == 0
    finally:
        os.kill(worker, signal.SIGCONT)
    wait_until(lambda: readiness(installed)[0], lambda status: status == 200, "ready again")


def test_a_supervisor_that_hangs_is_not_ready_and_its_counters_stand(installed: Installed) -> None:
    before = scrape(installed)
    supervisor = installed.up.gateway_processes[0]
    os.kill(supervisor, signal.SIGSTOP)
    try:
        status, document = readiness(installed)
        assert status == 503
        assert document["checks"]["workers"]["detail"] == "the gateway does not answer"
        found = scrape(installed)
        assert value(found, "fetchd_gateway_answered") == 0
        hops = [key for key in before if key[0] == "fetchd_hops_total"]
        assert hops and all(found[key] >= before[key] for key in hops)
    finally:
        os.kill(supervisor, signal.SIGCONT)
    wait_until(lambda: readiness(installed)[0], lambda status: status == 200, "ready again")


def test_a_search_is_a_call_of_a_tool_and_of_a_provider(installed: Installed) -> None:
    before = scrape(installed)
    for arguments in ({"query": "words"}, {"query": ""}):
        post_json(installed.up.tools, "/v1/tools/web_search", arguments)
    found = scrape(installed)

    def counted(name: str, **labels: str) -> float:
        return value(found, name, **labels) - value(before, name, **labels)

    assert counted("fetchd_searches_total", provider="local", outcome="success") == 1
    assert counted("fetchd_tool_calls_total", tool="web_search", outcome="success") == 1
    assert counted("fetchd_tool_calls_total", tool="web_search", outcome="hard") == 1
