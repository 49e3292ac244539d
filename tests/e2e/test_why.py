"""`fetchd why` beside a running gateway: the id a client was given tells the story, and its remedy is true."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from tests.e2e.conftest import Installed
from tests.e2e.test_clients import curl
from tests.kit import replies
from tests.kit.installed import run_fetchd
from tests.kit.toml import write_toml


def why(installed: Installed, *arguments: str) -> dict[str, Any]:
    done = installed.up.run("why", "--json", "--config", str(installed.stage.config), *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_the_id_of_a_refusal_leads_to_its_story_and_its_remedy_lets_the_url_pass(
    installed: Installed, tmp_path: Path
) -> None:
    url = installed.stage.url("/", "denied.example")
    fetch_id = curl(installed, url).header("fetchd-id")
    assert fetch_id is not None
    document = why(installed, fetch_id)

    assert (document["rule"], document["profile"], document["profile_now"]) == ("host", "test", "same")
    assert document["hops"][0]["decision"]["detail"] == "host not allowed: denied.example"
    config = tomllib.loads(installed.stage.config.read_text("utf-8"))
    config["profiles"]["test"] |= tomllib.loads("\n".join(document["remedy"]["toml"]))["profiles"]["test"]
    changed = write_toml(tmp_path / "changed.toml", config)
    before = run_fetchd("check", url, "--config", str(installed.stage.config), folder=tmp_path)
    after = run_fetchd("check", url, "--config", str(changed), folder=tmp_path)
    assert (before.returncode, after.returncode) == (1, 0)


def test_a_fetch_of_the_daemon_is_told_with_all_its_hops(installed: Installed) -> None:
    stage = installed.stage
    stage.origin.route("/why-start", replies.redirect("/why-end"))
    stage.origin.route("/why-end", replies.text("there"))
    reply = installed.web_fetch(stage.url("/why-start"))
    document = why(installed, reply.document["fetch_id"])

    assert document["outcome"] == "success" and document["remedy"] is None
    closes = [hop["close"] for hop in document["hops"]]
    assert [close["status"] for close in closes] == [302, 200]
    assert document["fetch"]["final_url"] == stage.url("/why-end")


def test_the_newest_refused_one_is_named_by_nothing(installed: Installed) -> None:
    reply = installed.web_fetch("ftp://a.example/")
    story = installed.up.run("why", "--last-refused", "--config", str(installed.stage.config)).stdout

    assert story.startswith(f"{reply.document['fetch_id']}: refused by rule scheme\n")
    assert "No profile can allow it: ftp is not spoken here" in story
