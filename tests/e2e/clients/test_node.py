"""node's fetch, with undici's agent that reads proxy variables (tests/e2e/node)."""

from __future__ import annotations

import json

from tests.e2e.clients.agent import Agent, Done, read_refusal
from tests.e2e.clients.stage import DENIED
from tests.e2e.clients.tools import require_node


def get(agent: Agent, url: str) -> Done:
    return agent.run(*require_node(), url)


def test_fetch_reads_pages_and_refusals(reader: Agent) -> None:
    status, headers, body = json.loads(get(reader, reader.stage.url("/node")).stdout)
    assert (status, headers["fetchd-verdict"], body) == (200, "allowed", "hello /node\n")

    status, headers, body = json.loads(get(reader, reader.stage.url("/", DENIED)).stdout)
    assert (status, headers["fetchd-verdict"], headers["fetchd-rule"]) == (403, "refused", "host")
    assert read_refusal(body)["detail"] == f"host not allowed: {DENIED}"


def test_a_refused_tunnel_is_an_error(reader: Agent) -> None:
    """Its cause differs between versions: the status, or that the request was cancelled."""
    done = get(reader, "https://a.example:8443/")

    assert (done.returncode, done.stdout) == (1, "")
    assert "TypeError: fetch failed" in done.stderr
