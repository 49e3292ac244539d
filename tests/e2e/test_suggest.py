"""A monitored run, the profile suggested from its log, and that in force: the run passes, nothing else does."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Installed
from tests.e2e.stage import Stage
from tests.e2e.test_clients import curl
from tests.gateway.lines import wait_until
from tests.kit import replies
from tests.kit.installed import Up, run_fetchd
from tests.kit.toml import write_toml

BODY = "a body of thirty-three bytes, all"


class MonitoredStage(Stage):
    """The usual stage; its first listener is agent `bot`'s, whose profile only reports."""

    def _document(self) -> dict[str, Any]:
        document = super()._document()
        document["gateway"]["listeners"] = [{"address": "127.0.0.1:0", "agent": "bot"}]
        document["agents.bot"] = {"profile": "watch"}
        document["profiles"]["watch"] = {
            **document["profiles"]["test"],
            "mode": "monitor",
            "schemes": ["https", "http"],
            "methods": ["GET", "POST"],
            "request_body": True,
            "request_cap": 1 << 20,
            "allow_hosts": ["a.example"],
            "byte_cap": 1 << 30,
        }
        return document


@pytest.fixture(scope="module")
def monitored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    folder = tmp_path_factory.mktemp("monitored")
    with MonitoredStage(folder) as stage:
        stage.origin.route("/start", replies.redirect(stage.url("/next", "b.example")))
        stage.origin.route("/next", replies.redirect(stage.url("/end", "c.example")))
        stage.origin.route("/away", replies.redirect(stage.url("/never", "www.a.example")))
        with Up(folder, "--config", str(stage.config)) as up:
            yield Installed(stage, up)


def asks(stage: Stage) -> list[list[str]]:
    """What the agent does, as arguments for curl."""
    return [
        ["-L", stage.url("/start")],
        [stage.url("/away")],  # a client that does not follow gets the redirect all the same
        ["-I", stage.url("/head", "b.example")],
        ["-d", BODY, stage.url("/form", "denied.example")],
        [stage.plain_url("/plain", "xn--bcher-kva.example")],
    ]


def run_agent(installed: Installed) -> list[tuple[int, Any]]:
    """The run: status, and the rule of a refusal, of each request."""
    answers = [curl(installed, *ask, listener=0) for ask in asks(installed.stage)]
    options = ("--agent", "bot", "--json", "--config", str(installed.stage.config))
    said = installed.up.run("fetch", *options, installed.stage.url("/tool"))
    assert json.loads(said.stdout)["failure"] is None
    return [(answer.status, answer.header("fetchd-rule")) for answer in answers]


def suggest(installed: Installed, *arguments: str) -> str:
    config = str(installed.stage.config)
    done = installed.up.run("audit", "suggest", "--agent", "bot", "--config", config, *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_suggested_profile_allows_the_same_run_and_refuses_every_other_host(
    monitored: Installed, tmp_path: Path
) -> None:
    stage, up = monitored.stage, monitored.up
    before = run_agent(monitored)
    assert before == [(200, None), (302, None), (200, None), (200, None), (200, None)]
    wait_until(lambda: up.audit("close", agent="bot"), lambda found: len(found) == 8, "the ends of the run")

    text = suggest(monitored)
    limits = tomllib.loads(text)["profiles"]["bot-learned"]
    tls, plain = stage.origin.port, stage.plain.port
    assert sorted(limits["allow_hosts"]) == sorted(
        [f"{name}.example:{tls}" for name in ("a", "b", "c", "denied", "www.a")]
        + [f"xn--bcher-kva.example:{plain}"]
    )
    assert (limits["methods"], limits["ports"]) == (["GET", "HEAD", "POST"], sorted([tls, plain]))
    assert (limits["request_cap"], limits["byte_cap"]) == (1024, 1 << 20)
    assert (limits["mode"], limits["tools"]) == ("enforce", ["web_fetch"])
    assert limits["deny_hosts"] == []

    written = stage.config.read_text("utf-8")
    stage.config.write_text(written.replace('"watch"', '"bot-learned"') + "\n" + text, "utf-8")
    check = run_fetchd("config", "check", str(stage.config), folder=tmp_path)
    assert check.returncode == 0, check.stderr
    reload = up.run("reload")
    assert reload.returncode == 0, reload.stderr
    assert run_agent(monitored) == before

    for arguments, rule in (
        ([stage.url("/", "xn--strae-oqa.example")], "host"),  # another host
        ([stage.plain_url("/", "a.example")], "host"),  # one of the run, at the other port
        (["-X", "DELETE", stage.url("/")], "method"),
        (["-d", "x" * 1025, stage.url("/form", "denied.example")], "request-cap"),
    ):
        answer = curl(monitored, *arguments, listener=0)
        assert answer.header("fetchd-rule") == rule, arguments


def test_the_lines_can_be_pasted_into_any_configuration(monitored: Installed, tmp_path: Path) -> None:
    text = suggest(monitored, "--profile-name", "other", "--profile", "watch")
    base = write_toml(tmp_path / "c.toml", {"profiles": {}})
    base.write_text(text, "utf-8")
    done = run_fetchd(
        "check", "--config", str(base), "--profile", "other", monitored.stage.url("/x"), folder=tmp_path
    )
    assert done.returncode == 0, done.stdout
