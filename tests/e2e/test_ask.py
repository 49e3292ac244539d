"""A run over TLS to a vendor, its citations held to the pages by way of the running gateway."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Installed
from tests.kit import replies
from tests.kit import vendor_answers as answers
from tests.kit.toml import write_toml
from tests.kit.vendor_server import VendorServer

ARTICLE = (
    "<title>On quolls</title><h1>Quolls</h1>"
    + "<p>A quoll is a <b>small</b>\n marsupial, isn&rsquo;t it?</p>" * 20
)
ASIDE = "<nav>Seen by night only</nav>"
KEY = {"ANTHROPIC_API_KEY": "sk-ant-0123456789"}


@pytest.fixture
def config(installed: Installed, tmp_path: Path) -> Any:
    """What a command needs to ask a vendor on this machine, over TLS."""
    stage = installed.stage
    stage.origin.route("/quolls", replies.page(ASIDE + ARTICLE))
    stage.origin.route("/gone", replies.answer(404, b"no"))
    with VendorServer(tls=stage.pki.server_context("localhost")) as vendor:
        vendor.replies = [
            answers.message(
                answers.search_use(),
                answers.search_result(stage.url("/quolls")),
                answers.text(
                    "Quolls.",
                    answers.search_citation(
                        stage.url("/quolls"), "On quolls", "A quoll is a small marsupial, isn't it"
                    ),
                    answers.search_citation(stage.url("/quolls?again"), None, "seen by night…"),
                    answers.search_citation(stage.url("/quolls?other"), None, "A quoll is a large marsupial"),
                    answers.search_citation(stage.url("/gone"), None, "Anything"),
                    answers.search_citation(stage.url("/quolls", "denied.example"), None, "Anything"),
                    answers.search_citation("javascript:alert(1)", None, "Anything"),
                    answers.search_citation(stage.url("/quolls?quiet"), None, ""),
                ),
                searches=1,
            )
        ]
        endpoint = f"https://localhost:{vendor.port}"
        tables: dict[str, Any] = {
            "tls": {"extra_ca": [str(stage.pki.ca_path)]},
            "vendors": {"anthropic": {"endpoint": endpoint, "model": "model"}},
        }
        yield write_toml(tmp_path / "ask.toml", tables)


FINDINGS = [
    "found",
    "found",
    "not found",
    "could not read",
    "could not read",
    "could not read",
    "nothing quoted",
]


def test_citations_are_held_to_the_pages_with_receipts(installed: Installed, config: Path) -> None:
    up = installed.up
    asked = up.run("ask", "What is a quoll?", "--search", "--json", "--config", str(config), variables=KEY)
    assert asked.returncode == 0, asked.stderr
    run_id = json.loads(asked.stdout)["run_id"]

    plain = up.run("citations", run_id, "--json")
    assert plain.returncode == 0, plain.stderr
    assert all("finding" not in json.loads(line) for line in plain.stdout.splitlines())

    installed.stage.forget()
    checked = up.run("citations", run_id, "--verify", "--json", "--config", str(installed.stage.config))
    rows = [json.loads(line) for line in checked.stdout.splitlines()]
    assert [row["finding"] for row in rows] == FINDINGS, checked.stderr
    assert checked.returncode == 1
    assert all("nobody here has checked it" in row["claim"] for row in rows)
    for row in rows[:3]:
        assert row["content_digest"].startswith("sha256:")
        verified = up.run("receipt", "verify", row["receipt"])
        assert verified.returncode == 0, verified.stdout
    assert [row["receipt"] for row in rows[3:]] == [None] * 4
    assert all(row["why"] for row in rows[3:6])
    asked_for = [request.target for request in installed.stage.requests(installed.stage.origin)]
    assert "/quolls?quiet" not in asked_for


def test_a_vendor_with_a_certificate_of_nobody_known_is_not_asked(installed: Installed, config: Path) -> None:
    config.write_text(config.read_text().replace("extra_ca", "# extra_ca"))
    asked = installed.up.run("ask", "x", "--config", str(config), variables=KEY)
    assert asked.returncode == 2
    assert "could not be reached: the certificate was not accepted" in asked.stderr
